//! Makes a small file whose bytes are all there: without a name, if the system can, and named when it is complete.

use std::sync::Arc;

use bytes::Bytes;

use super::{Arrival, Destination, NotedTarget};
#[cfg(not(target_os = "linux"))]
use crate::Parents;
use crate::batch::Coming;
#[cfg(not(target_os = "linux"))]
use crate::target::Target;
use crate::temp::Publish;
use crate::waiting::WaitedWork;
use tidegate_core::backend::Fault;
use tidegate_core::memory::budget::Lease;
use tidegate_core::types::object::Object;

impl Arrival {
    /// Makes the file at `destination` from `bytes`, whose memory `memory` accounts for, in one hand-off, if somebody
    /// still waits for it. The file of an earlier download is removed, not resumed.
    pub async fn of_bytes(
        coming: Coming,
        destination: Destination,
        bytes: Bytes,
        memory: Lease,
        how: Publish,
        waiting: Arc<WaitedWork>,
    ) -> Result<Object, Fault> {
        let made = move || {
            waiting.check()?;
            let (place, _) = NotedTarget::at(destination)?;
            // Compared to a sync, making a name costs nothing.
            if !place.is_there
                && !how.sync
                && let Some(object) = nameless::make(&place.target, &place.parents, &bytes, how, &waiting)?
            {
                place.remove_left();
                return Ok(object);
            }
            let arrival = waiting.make(|| place.begin(), Self::trace)?;
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
    use super::{Bytes, Fault, Object, Parents, Publish, Target, WaitedWork};

    pub(super) fn make(
        _: &Target,
        _: &Parents,
        _: &Bytes,
        _: Publish,
        _: &WaitedWork,
    ) -> Result<Option<Object>, Fault> {
        Ok(None)
    }
}

#[cfg(target_os = "linux")]
mod nameless;
