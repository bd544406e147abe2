//! Writing: one object, from its first byte to its commit.

mod append;
mod builder;
mod commit;
mod copied;
mod copies;
mod deferred;
mod direct;
mod exact;
mod faces;
mod file;
mod fill;
mod given;
mod given_up;
mod held;
mod interrupted;
mod journal;
mod narrowing;
mod plan;
mod settle;
mod strategy;
mod streamed;
mod taking;
#[cfg(test)]
mod tests;
mod upload;
mod writer;

pub use builder::WriterBuilder;
pub(crate) use copied::{Copy, NoWay, Way};
pub use exact::WrongSize;
pub use journal::{Claimed, Resumed};
pub(crate) use journal::{forget, ids};
pub use strategy::Strategy;
pub(crate) use upload::Upload;
pub use writer::Writer;
