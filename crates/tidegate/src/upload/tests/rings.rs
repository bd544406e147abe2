//! Ring buffers of spooled parts that a connection does not release.

use futures::StreamExt;
use tokio::time::timeout;

use super::*;
use crate::engine::spooling::Spooling;
use crate::memory::payload::RING;
use crate::memory::payload::{Payload, Spooled};
use crate::memory::spool::{Spool, Stored};
use crate::types::checksum::{Algorithm, Checksum};

const SLAB: usize = 4096;
const LONG: Duration = Duration::from_secs(2);

async fn spooled(folder: &tempfile::TempDir) -> (Arc<Spooling>, Stored) {
    let spool = Spool::new(Spool::open(&[folder.path().to_owned()]).unwrap());
    // One ring and one spare, as with a small budget.
    let spooling = Arc::new(Spooling::new(spool, 2 * RING * SLAB as u64, SLAB));
    let stored = spooling.spool().store(&Stored::default(), &[data(5 * PART)]).await.unwrap();
    (spooling, stored)
}

fn payload(stored: &Stored, ring: crate::memory::payload::Ring) -> Payload {
    let checksum = Checksum::of(Algorithm::Crc64Nvme, &data(5 * PART));
    Payload::from_spool(Spooled::new(stored.clone(), Vec::new(), checksum), ring)
}

/// Like `a_retry_does_not_wait_for_slabs_that_a_stuck_connection_holds`, but from the spool.
#[tokio::test]
async fn a_retry_from_the_spool_does_not_wait_for_a_stuck_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (spooling, stored) = spooled(&folder).await;
    let (ring, _lent) = spooling.line().ring().await;
    let payload = payload(&stored, ring);
    let mut stuck = payload.stream();
    let _queued = (stuck.next().await, stuck.next().await, stuck.next().await);
    drop(stuck);
    let mut again = payload.stream();
    assert!(timeout(LONG, again.next()).await.is_ok(), "a new request waits for an old connection");
}

#[tokio::test]
async fn a_ring_that_is_lent_has_its_slabs() {
    let folder = tempfile::tempdir().unwrap();
    let (spooling, stored) = spooled(&folder).await;
    let (ring, lent) = spooling.line().ring().await;
    let first = payload(&stored, ring);
    let mut stuck = first.stream();
    let _queued = (stuck.next().await, stuck.next().await, stuck.next().await);
    // The upload is dropped, but the connection still holds its buffers.
    drop((stuck, first, lent));
    let (ring, _lent) = spooling.line().ring().await;
    let another = payload(&stored, ring);
    let mut stream = another.stream();
    assert!(timeout(LONG, stream.next()).await.is_ok(), "another upload waits for that connection");
}
