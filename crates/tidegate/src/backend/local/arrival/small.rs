//! A small file, all of whose bytes are there: made without a name, where the system can, and named when it is whole.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::{Arrival, new_mark, remove_left, target_at};
use crate::backend::Fault;
use crate::backend::local::batch::Coming;
#[cfg(not(target_os = "linux"))]
use crate::backend::local::target::Target;
use crate::backend::local::temp::{self, Publish};
use crate::backend::local::waiting::Waiting;
use crate::budget::Lease;
use crate::object::Object;

impl Arrival {
    /// Makes the file at `path` of `bytes`, which `memory` is for, all in one hand-off, where somebody still waits for
    /// it. What was left under `mark` is not gone on with, but removed.
    pub(crate) async fn of_bytes(
        coming: Coming,
        path: PathBuf,
        mark: String,
        bytes: Bytes,
        memory: Lease,
        how: Publish,
        waiting: Arc<Waiting>,
    ) -> Result<Object, Fault> {
        let made = move || {
            waiting.check()?;
            let (target, is_there) = target_at(&path)?;
            let left = temp::path(&target, &temp::id(&mark, target.name()))?;
            // Beside a wait for the disk a name costs nothing.
            if !is_there
                && !how.sync
                && let Some(object) = nameless::make(&target, &bytes, &waiting)?
            {
                remove_left(&left);
                return Ok(object);
            }
            let begin = || {
                // By a name that nobody else has: it may be removed whenever nobody waits for it any more.
                let mut arrival = Self::begin_at(target, &new_mark())?;
                arrival.other = Some(left);
                Ok(arrival)
            };
            let arrival = waiting.make(begin, Self::trace)?;
            let size = bytes.len() as u64;
            arrival.reserve(size)?;
            arrival.write(&[bytes], 0)?;
            drop(memory); // before the disk is waited for
            arrival.publish_now(size, how, &waiting)
        };
        coming.done(made).await
    }
}

#[cfg(not(target_os = "linux"))]
mod nameless {
    use super::{Bytes, Fault, Object, Target, Waiting};

    pub(super) fn make(_: &Target, _: &Bytes, _: &Waiting) -> Result<Option<Object>, Fault> {
        Ok(None)
    }
}

#[cfg(target_os = "linux")]
mod nameless;
