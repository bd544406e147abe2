//! Uploads: the write of one object, from its first byte to its commit.
//!
//! Its public part: the builders of a [`Store`](crate::Store)'s uploads and copies, and the [`Writer`].

mod adaptive_part_size;
mod append;
mod builder;
mod commit;
mod copied;
mod copies;
mod copy;
mod direct;
mod exact;
mod faces;
mod file;
mod fill;
mod given;
mod given_up;
mod intake;
mod interrupted;
mod journal;
mod part_buffer;
mod plan;
mod settle;
mod spool_first;
mod state;
mod strategy;
mod streamed;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::engine::aborts::Unsettled;
pub use builder::{Producer, WriterBuilder};
pub(crate) use copied::{Copy, NoWay, Way};
pub use copy::CopyBuilder;
pub use exact::WrongSize;
pub use journal::{Claimed, Resumed};
pub(crate) use journal::{forget, ids};
pub(crate) use state::Upload;
pub use strategy::Strategy;
pub use writer::Writer;
