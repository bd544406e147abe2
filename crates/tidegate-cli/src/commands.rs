//! The commands, one file each.

pub(crate) mod abandon;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod doctor;
pub(crate) mod du;
pub(crate) mod journal;
pub(crate) mod lifecycle;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mb;
pub(crate) mod mv;
pub(crate) mod prefix;
pub(crate) mod presign;
pub(crate) mod rb;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stat;
pub(crate) mod sweep;
pub(crate) mod sync;
