//! Writing: one object, from its first byte to its commit.

mod aborts;
mod append;
mod builder;
mod commit;
mod copies;
mod deferred;
mod faces;
mod file;
mod fill;
mod held;
mod plan;
mod relief;
mod settle;
mod spooling;
mod strategy;
#[cfg(test)]
mod tests;
mod upload;
mod writer;

pub(crate) use aborts::Aborts;
pub use builder::WriterBuilder;
pub(crate) use file::RING;
pub(crate) use relief::Relief;
pub(crate) use spooling::Spooling;
pub use strategy::Strategy;
pub use writer::Writer;
