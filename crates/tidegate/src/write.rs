//! Writing: one object, from its first byte to its commit.

mod aborts;
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
mod held;
mod interrupted;
mod journal;
mod journaling;
mod narrowing;
mod plan;
mod relief;
mod settle;
mod spooling;
mod strategy;
mod streamed;
mod taking;
#[cfg(test)]
mod tests;
mod upload;
mod writer;

pub(crate) use aborts::Aborts;
pub use aborts::Unsettled;
pub use builder::WriterBuilder;
pub(crate) use copied::{Copy, NoWay, Way};
pub use exact::WrongSize;
pub use journal::Claimed;
pub(crate) use journal::{forget, ids};
pub(crate) use journaling::Journaling;
pub(crate) use relief::Relief;
pub(crate) use spooling::Spooling;
pub use strategy::Strategy;
pub(crate) use streamed::RING;
pub(crate) use upload::Upload;
pub use writer::Writer;
