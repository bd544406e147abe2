//! Writing: one object, from its first byte to its commit.

mod builder;
mod faces;
mod file;
mod fill;
mod plan;
mod strategy;
#[cfg(test)]
mod tests;
mod upload;
mod writer;

pub use builder::WriterBuilder;
pub(crate) use file::RING;
pub use strategy::Strategy;
pub use writer::Writer;
