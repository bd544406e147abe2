//! Measures whole commands side by side in one run.
//!
//! `tidegate-bench upload|shaped|small|download` ([`transfer`]) starts the embedded server as a process of its
//! own and runs each tool in turn, as a person would run it (A B C A B C …). The kernel reports the cost of
//! each run: wall time, CPU seconds and peak memory of exactly that process ([`measure`]). The server reports
//! the requests ([`embedded`]).
//! The tools are in [`tool`]; the peers that are libraries are small programs, in `peers/`.
//!
//! `tidegate-bench hedge` looks inside a command: it uploads through the library, to see the time of each part
//! ([`hedge`]).
//!
//! `tidegate-bench a`, `b`, `c` and `d` re-run published tables. Tables a and c upload objects whole and in
//! parts ([`parts`]). Table b compares ways to write a stream, each in a process of its own ([`journal`]).
//! Table d runs the example `compaction` in its ways ([`mod@compaction`], [`tables`]), and requests over
//! prefixes that each have a limit ([`prefixes`]); these have commands of their own.
//!
//! `growth` measures time and memory by size ([`mod@growth`]), `all` runs all of these ([`published`]), and `peers`
//! runs all contests ([`peers`]).
//!
//! `crash` kills processes that upload through a journal and counts what is lost ([`crash`]), and `writers` keeps
//! thousands of writers open at once ([`writers`]).
//!
//! `results/BENCHMARKS.md` in this crate explains every number and has the latest results.

pub mod certificate;
pub mod compaction;
mod content;
pub mod contest;
pub mod crash;
pub mod embedded;
pub mod example;
pub mod growth;
pub mod hedge;
pub mod http;
pub mod interrupt;
pub mod journal;
pub mod machine;
pub mod measure;
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
pub mod writers;

/// An error that ends a run, as one sentence.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
