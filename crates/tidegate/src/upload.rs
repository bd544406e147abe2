//! Uploads: the write of one object, from its first byte to its commit.
//!
//! Its public part: the builders of a [`Store`](crate::Store)'s uploads and copies, and the [`Writer`].

mod adaptive_part_size;
mod builder;
mod commit;
mod copy;
mod described_write;
mod driver;
mod exact;
mod faces;
mod fill;
mod given;
mod given_up;
mod in_parts;
mod intake;
mod interrupted;
mod journal;
mod part_buffer;
mod pending;
mod persist;
mod plan;
mod points;
mod prepare;
mod publish;
mod resumable;
mod resume;
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
pub(crate) use commit::{abandon, abandon_unknown, check, commit, is_published};
pub use copy::CopyBuilder;
pub use exact::WrongSize;
pub(crate) use in_parts::takes_parts_in_any_order;
pub use in_parts::{PartReceipt, PartsUpload, PartsUploadBuilder};
pub use journal::{ClaimedUpload, Resumed};
pub(crate) use journal::{forget, ids};
pub use pending::{Pending, Unpublished};
pub use persist::PersistBuilder;
pub use prepare::PrepareBuilder;
pub use resumable::Resumable;
pub(crate) use resume::{abandon_resumable, forget_point, resume};
pub use strategy::Strategy;
pub use writer::Writer;
