//! Transfers of objects, as `cp`, `sync` and `journal resume` make them.

mod carried;
pub(crate) mod choices;
pub(crate) mod copies;
pub(crate) mod copy;
mod distinct;
pub(crate) mod download;
pub(crate) mod emptied;
pub(crate) mod item;
pub(crate) mod job;
pub(crate) mod journaled;
pub(crate) mod links;
pub(crate) mod naming;
mod opened;
pub(crate) mod options;
pub(crate) mod report;
mod sources;
mod stdin;
pub(crate) mod upload;
pub(crate) mod verify;
