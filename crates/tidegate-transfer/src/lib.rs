//! Trees of objects: copy, move, compare and remove them, from any store to any store.
//!
//! An operation is a [`Run`]: a stream of [`Event`]s, and then a [`Report`]; or awaited, the report alone. Nothing here
//! prints, or keeps anything from one call to the next.

mod ahead;
pub mod attributes;
mod check;
pub mod command;
mod common_cause;
mod compare;
mod copy;
pub mod copy_through;
mod error;
mod event;
#[doc(hidden)]
pub mod figures;
mod folding;
mod hashed;
pub mod job;
mod links;
mod listing;
mod merge;
mod obstacle;
mod place;
mod plan;
mod planted;
mod prepare;
mod removal;
mod resolved;
mod run;
mod select;
mod sync;
mod two_addresses;
mod walk;

pub use ahead::ahead;
pub use check::CheckTrees;
pub use compare::{Comparison, Tree};
pub use copy::{AfterCopy, CopyTrees, IfExists, NameList, journaled, naming};
pub use copy::{is_single, is_stream};
pub use error::{Error, ErrorClass, Reach, Result, sentence_of};
pub use event::{
    CopiedObject, Ends, Event, Failure, Finding, Report, RunProgress, Side, SkipReason, Step, Transfer,
};
pub use links::{FileOptions, LinkRules, Links, WriteLinks};
pub use listing::Disorder;
pub use place::{OpenStore, Place, Stores};
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use planted::Planted;
pub use prepare::{PreparedSource, prepare};
pub use removal::RemoveTrees;
pub use run::{Run, RunHandle};
pub use select::{KeyPattern, Matches, ObjectFilter, Selection, Source, Wildcards};
pub use sync::{Extra, SyncTrees};
pub use two_addresses::Distinct;
