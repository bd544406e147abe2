//! Uploads: the write of one object, from its first byte to its commit.
//!
//! Its public part: the builders of a [`Store`](crate::Store)'s uploads and copies, and the [`Writer`].

mod adaptive_part_size;
mod builder;
mod commit;
mod copy;
mod driver;
mod exact;
mod faces;
mod fill;
mod given;
mod given_up;
mod intake;
mod interrupted;
mod journal;
mod part_buffer;
mod pending;
mod plan;
mod prepare;
mod publish;
mod session;
mod settle;
mod sink;
mod source;
mod spool_first;
mod strategy;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::engine::aborts::Unsettled;
pub use builder::{Producer, WriterBuilder};
pub(crate) use commit::{abandon, commit};
pub use copy::CopyBuilder;
pub use exact::WrongSize;
pub use journal::{ClaimedUpload, Resumed};
pub(crate) use journal::{forget, ids};
pub use pending::Pending;
pub use prepare::PrepareBuilder;
pub use strategy::Strategy;
pub use writer::Writer;
