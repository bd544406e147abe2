//! What every part of [Tidegate](https://docs.rs/tidegate) stands on: types, the memory budget and its payloads, and the
//! interface between the engine and a store.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

pub mod backend;
pub mod memory;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod types;
