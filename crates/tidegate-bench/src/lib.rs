//! Whole commands, measured side by side in one run.
//!
//! `tidegate-bench upload|shaped|small|download` ([`transfer`]) starts the embedded server as a process of its own, runs
//! each tool in turn as a person would run it (A B C A B C …), and takes from the kernel what each run cost: wall time,
//! CPU seconds and peak memory of exactly that process ([`measure`]), and from the server what it was asked
//! ([`embedded`]).
//! The tools are in [`tool`]; the peers that are libraries are small programs, in `peers/`.
//! `tidegate-bench hedge` looks inside one: it uploads through the library, to see what each part takes ([`hedge`]);
//! `tidegate-bench a`, `b`, `c` and `d` are published tables, re-run: objects whole and in parts, a and c ([`parts`]); ways
//! to write a stream, each in a process of its own, b ([`journal`]); and for d the example `compaction` in its ways
//! ([`mod@compaction`], [`tables`]) and requests over prefixes that are limited each by itself ([`prefixes`]), which have
//! commands of their own. `growth` is time and memory by size ([`mod@growth`]). `all` is all of these ([`published`]),
//! `peers` all contests ([`peers`]), and `report` a page with plots of what they said ([`page`]).
//!
//! What every number is, and how the last ones came out: `results/BENCHMARKS.md` in this crate.

pub mod certificate;
pub mod compaction;
pub mod contest;
pub mod embedded;
pub mod example;
pub mod growth;
pub mod hedge;
pub mod http;
pub mod journal;
pub mod machine;
pub mod measure;
pub mod page;
pub mod parts;
pub mod peer;
pub mod peers;
pub mod prefixes;
pub mod process;
mod producer;
pub mod published;
pub mod report;
pub mod scratch;
pub mod sign;
pub mod size;
pub mod stats;
pub mod table;
pub mod tables;
pub mod tool;
pub mod toxiproxy;
pub mod transfer;

/// An error that ends a run, as one sentence.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What everything here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
