//! Copies and moves, as `cp` and `mv` make them.

pub(crate) mod choices;
pub(crate) mod copy;
mod object_output;
pub(crate) mod options;
mod stdin;
mod verified;
