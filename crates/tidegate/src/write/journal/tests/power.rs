//! In seeded trouble: a disk under the journals that loses power, or a real one.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use crate::journal::{Durability, SimDisk};

pub(super) struct Power {
    pub(super) disk: Option<Arc<SimDisk>>,
    random: Rng,
    /// Whether a write that has returned is durable.
    syncs_writes: bool,
    /// How many bytes are there whatever happens.
    durable: u64,
    is_failing: bool,
}

impl Power {
    pub(super) fn of(directory: &Path, durability: Durability, mut random: Rng) -> Self {
        let disk = random.bool().then(|| Arc::new(SimDisk::under(directory, random.fork())));
        let syncs_writes = durability == Durability::Write;
        Self { disk, random, syncs_writes, durable: 0, is_failing: false }
    }

    /// It is gone soon, in the middle of something.
    pub(super) fn fail(&mut self) {
        if let Some(disk) = &self.disk {
            disk.fail_after(self.random.u32(..20));
            self.is_failing = true;
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Writes have returned, up to there.
    pub(super) fn written(&mut self, position: u64) {
        if self.syncs_writes {
            self.durable = position;
        }
    }

    /// So many bytes were said to be durable.
    pub(super) fn synced(&mut self, position: u64) {
        self.durable = position;
    }

    /// The process has ended: how many of the bytes that were written the next one finds.
    pub(super) fn restart(&mut self, written: u64) -> u64 {
        let is_lost = self.is_failing || self.random.u8(..4) == 0;
        let Some(disk) = self.disk.as_ref().filter(|_| is_lost) else { return written };
        disk.lose_power();
        self.is_failing = false;
        self.durable
    }
}
