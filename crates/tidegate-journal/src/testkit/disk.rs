//! A simulated disk that loses unsynced data, tears writes, and fails.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;

use super::super::disk::JournalFile;
use super::super::format::HEAD;

const SECTOR: usize = 512;

/// One file on the simulated disk.
#[derive(Debug)]
pub(crate) struct SimFile(Mutex<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    random: Rng,
    /// The contents that reads return.
    cache: Vec<u8>,
    /// The contents that certainly survive a loss of power.
    disk: Vec<u8>,
    /// The versions of each sector since the last sync, with their times. Any version may be on the disk.
    since: BTreeMap<usize, Vec<(u64, [u8; SECTOR])>>,
    /// The lengths of the file since the last sync, with their times.
    lengths: Vec<(u64, usize)>,
    /// The number of changes so far.
    time: u64,
    /// The time of the last sync.
    synced: u64,
    /// Space is reserved below this offset.
    allocated: usize,
    /// Bytes whose space was freed.
    punched: usize,
    /// How many syncs there were.
    syncs: u32,
    /// How many reads there were.
    reads: u32,
    faults: Faults,
}

/// The faults of the disk, and when they occur.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Bytes of space that the file can use; space that it already has stays.
    pub(crate) room: Option<usize>,
    /// Reserving space is not supported.
    pub(crate) no_reserve: bool,
    /// Changes until the power fails, in the middle of one.
    pub(crate) power: Option<u32>,
    /// Syncs until one fails.
    pub(crate) sync: Option<u32>,
    /// The sync fails with the error for a full disk.
    pub(crate) late: bool,
    /// After a failed sync, reads return the old contents of sectors that were not written, as on Btrfs.
    pub(crate) reverts: bool,
    /// Changes until one fails.
    pub(crate) change: Option<u32>,
    /// Punching holes is not supported.
    pub(crate) no_holes: bool,
}

impl SimFile {
    pub(crate) fn new(random: Rng) -> Arc<Self> {
        Self::of(Vec::new(), random)
    }

    /// A file whose contents are already on the disk.
    pub(crate) fn of(bytes: Vec<u8>, random: Rng) -> Arc<Self> {
        let inner = Inner {
            random,
            cache: bytes.clone(),
            lengths: Vec::new(),
            disk: bytes,
            since: BTreeMap::new(),
            time: 0,
            synced: 0,
            allocated: 0,
            punched: 0,
            syncs: 0,
            reads: 0,
            faults: Faults::default(),
        };
        Arc::new(Self(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn faults(&self, set: impl FnOnce(&mut Faults)) {
        set(&mut self.lock().faults);
    }

    /// Whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        self.lock().faults.power == Some(0)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().cache.clone()
    }

    /// The power fails and comes back: each unsynced sector has any of the versions it had since the last sync.
    pub(crate) fn lose_power(&self) {
        let inner = &mut *self.lock();
        // All sectors have the version of one time, or each sector of its own time, or most of the one time: if each
        // sector has its own time, hardly a frame stays whole; with one time, hardly a frame is torn.
        let time = inner.random.u64(inner.synced..=inner.time);
        let stray = inner.random.choice([0, 0, 20, 255]).unwrap();
        let mut random = inner.random.fork();
        let (synced, now) = (inner.synced, inner.time);
        let at = || if random.u8(..) < stray { random.u64(synced..=now) } else { time };
        inner.become_what_was(at);
    }

    /// The power fails and comes back: exactly the writes up to `time` are there.
    pub(crate) fn lose_power_at(&self, time: u64) {
        self.lock().become_what_was(|| time);
    }

    /// A copy of the file that can meet other faults.
    pub(crate) fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.lock().clone())))
    }

    /// True if any byte of `range` was written since the last sync.
    pub(crate) fn is_unsynced(&self, range: Range<usize>) -> bool {
        self.lock().since.range(range.start / SECTOR..range.end.div_ceil(SECTOR)).next().is_some()
    }

    pub(crate) fn syncs(&self) -> u32 {
        self.lock().syncs
    }

    pub(crate) fn reads(&self) -> u32 {
        self.lock().reads
    }

    /// Fills the disk: no space is left but the reserved space.
    pub(crate) fn fill(&self) {
        let inner = &mut *self.lock();
        inner.faults.room = Some(inner.cache.len() - inner.punched);
    }

    /// The current time, as a number of changes.
    pub(crate) fn time(&self) -> u64 {
        self.lock().time
    }
}

impl Inner {
    /// Gives each sector the version of the time that `at` returns for it.
    fn become_what_was(&mut self, mut at: impl FnMut() -> u64) {
        let inner = self;
        inner.faults = Faults::default();
        let (mut disk, since) = (std::mem::take(&mut inner.disk), std::mem::take(&mut inner.since));
        let length = before(&std::mem::take(&mut inner.lengths), at()).unwrap_or(disk.len());
        for (sector, versions) in since {
            if let Some(bytes) = before(&versions, at()) {
                put(&mut disk, sector, &bytes);
            }
        }
        disk.resize(length, 0);
        inner.cache.clone_from(&disk);
        // The reservation was never durable.
        inner.allocated = 0;
        inner.disk = disk;
        inner.synced = inner.time;
    }
}

/// The version at `time`, if one is known.
fn before<T: Copy>(versions: &[(u64, T)], time: u64) -> Option<T> {
    versions.iter().rev().find(|(at, _)| *at <= time).map(|(_, version)| *version)
}

fn put(disk: &mut Vec<u8>, sector: usize, bytes: &[u8; SECTOR]) {
    let start = sector * SECTOR;
    if disk.len() < start + SECTOR {
        disk.resize(start + SECTOR, 0);
    }
    disk[start..start + SECTOR].copy_from_slice(bytes);
}

impl Inner {
    fn sector(&self, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let from = self.cache.get(sector * SECTOR..).unwrap_or_default();
        let length = from.len().min(SECTOR);
        bytes[..length].copy_from_slice(&from[..length]);
        bytes
    }

    /// Records that these bytes of the cache have changed.
    fn changed(&mut self, range: Range<usize>) {
        for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
            let bytes = self.sector(sector);
            self.since.entry(sector).or_default().push((self.time, bytes));
        }
    }

    fn resize(&mut self, length: usize) {
        let before = self.cache.len();
        self.cache.resize(length, 0);
        self.lengths.push((self.time, length));
        if length < before {
            self.changed(length..before);
        }
    }

    /// The first offset without space.
    fn limit(&self) -> usize {
        let room = self.faults.room.unwrap_or(usize::MAX).saturating_add(self.punched);
        room.max(self.cache.len())
    }

    /// Counts a change. It is made if the result is `Ok`, made wholly or in part if `Err(true)`, and not made if
    /// `Err(false)`.
    fn change(&mut self) -> Result<(), bool> {
        self.time += 1;
        let random = self.random.bool();
        match &mut self.faults.power {
            Some(0) => return Err(false),
            Some(1) => {
                self.faults.power = Some(0);
                return Err(random);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        match &mut self.faults.change {
            Some(0) => {
                self.faults.change = None;
                Err(random)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("Input/output error")
}

impl JournalFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.lock().cache.len() as u64)
    }

    fn write(&self, offset: u64, pieces: &[&[u8]]) -> io::Result<()> {
        let inner = &mut *self.lock();
        let mut bytes = pieces.concat();
        let start = offset as usize;
        let room = inner.limit().max(inner.allocated);
        let mut result = Ok(());
        if let Err(some) = inner.change() {
            let written = if some { inner.random.usize(..=2 * bytes.len()) } else { 0 };
            bytes.truncate(written);
            result = Err(failed());
        } else if start + bytes.len() > room {
            bytes.truncate(room.saturating_sub(start));
            result = Err(io::ErrorKind::StorageFull.into());
        }
        if !bytes.is_empty() {
            let end = start + bytes.len();
            if end > inner.cache.len() {
                inner.resize(end);
            }
            inner.cache[start..end].copy_from_slice(&bytes);
            inner.changed(start..end);
        }
        result
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let inner = &mut *self.lock();
        inner.reads += 1;
        let from = inner.cache.get(offset as usize..).unwrap_or_default();
        let mut length = buffer.len().min(from.len());
        if length > 1 && inner.random.u8(..) < 8 {
            length = inner.random.usize(1..length);
        }
        buffer[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        if self.lock().random.bool() { Ok(None) } else { self.read(buffer, offset).map(Some) }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let inner = &mut *self.lock();
        let changed = inner.change();
        if matches!(changed, Ok(()) | Err(true)) {
            inner.resize(length as usize);
            inner.allocated = inner.allocated.min(length as usize);
        }
        changed.map_err(|_| failed())
    }

    fn sync(&self) -> io::Result<()> {
        let inner = &mut *self.lock();
        inner.syncs += 1;
        let mut fails = inner.change().is_err();
        match &mut inner.faults.sync {
            Some(0) => {
                inner.faults.sync = None;
                fails = true;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let since = std::mem::take(&mut inner.since);
        if !fails {
            for (sector, versions) in since {
                put(&mut inner.disk, sector, &versions.last().unwrap().1);
            }
            inner.disk.resize(inner.cache.len(), 0);
            inner.lengths.clear();
            inner.synced = inner.time;
            return Ok(());
        }
        // Each sector is on the disk or never will be, and the cache counts all of them as clean.
        for (sector, versions) in since {
            if inner.random.bool() {
                put(&mut inner.disk, sector, &versions.last().unwrap().1);
            }
        }
        if !inner.lengths.is_empty() {
            let now = (inner.time, inner.cache.len());
            inner.lengths.push(now);
        }
        if inner.faults.reverts {
            let length = inner.cache.len();
            let mut disk = inner.disk.clone();
            disk.resize(length, 0);
            inner.cache = disk;
        }
        Err(if inner.faults.late { io::ErrorKind::StorageFull.into() } else { failed() })
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let inner = &mut *self.lock();
        if inner.faults.no_holes {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut range = range.start as usize..range.end as usize;
        let result = match inner.change() {
            Ok(()) => Ok(()),
            Err(some) => {
                range.end = if some { inner.random.usize(range.clone()) } else { range.start };
                Err(failed())
            }
        };
        assert!(range.end <= inner.cache.len(), "punched behind the end");
        // Everything before this range was punched, except for the head.
        inner.punched = inner.punched.max(range.end.saturating_sub(HEAD as usize));
        inner.cache[range.clone()].fill(0);
        inner.changed(range);
        result
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let inner = &mut *self.lock();
        if inner.faults.no_reserve {
            return Err(io::ErrorKind::Unsupported.into());
        }
        inner.change().map_err(|_| failed())?;
        if range.end as usize > inner.limit().max(inner.allocated) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.allocated = inner.allocated.max(range.end as usize);
        Ok(())
    }
}
