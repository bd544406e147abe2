//! A simulated spool disk that may be slow or small, may fail, and may return wrong bytes.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use tidegate::spool::{Disk, Space};
use tokio::time::{Instant, sleep_until};

use crate::plant::Plant;
use crate::trace::RunTrace;

/// The disk allocates its space in blocks of this many bytes.
pub const BLOCK: u64 = 64 << 10;
/// More bytes than any run writes.
const LARGE: u64 = 1 << 30;

/// The size, the speed and the faults of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskPlan {
    /// Capacity in bytes.
    pub size: u64,
    /// Least and most latency of a write, in milliseconds.
    pub latency: (u64, u64),
    /// Write speed in bytes a millisecond.
    pub rate: u64,
    /// Share of writes that fail.
    pub bad_writes: f64,
    /// Share of reads that fail.
    pub bad_reads: f64,
    /// Share of reads that return wrong bytes.
    pub wrong_reads: f64,
    /// Whether reads return fewer bytes than asked for.
    pub short_reads: bool,
    /// Whether the disk does not report its free space.
    pub silent: bool,
}

impl DiskPlan {
    /// A disk that has room and works.
    pub fn sound(random: &mut Rng) -> Self {
        let least = random.choice([0, 1, 20, 500]).unwrap_or(0);
        Self {
            size: LARGE,
            latency: (least, least + random.u64(0..=least)),
            rate: random.choice([1, 50, 10_000]).unwrap_or(50),
            short_reads: random.bool(),
            ..Self::default()
        }
    }

    /// A disk whose writes may fail.
    pub fn bad_writer(random: &mut Rng) -> Self {
        Self { bad_writes: random.choice([0.05, 0.5, 1.0]).unwrap_or(1.0), ..Self::small(random) }
    }

    /// A disk with failing writes, failing reads, wrong reads, or little room.
    pub fn bad(random: &mut Rng) -> Self {
        let plan = match random.u8(0..4) {
            0 => Self::bad_writer(random),
            1 => Self { bad_reads: random.f64() * 0.2, ..Self::sound(random) },
            2 => Self { wrong_reads: random.f64() * 0.2, ..Self::sound(random) },
            _ => Self::small(random),
        };
        Self { silent: random.u8(0..8) == 0, ..plan }
    }

    fn small(random: &mut Rng) -> Self {
        Self { size: BLOCK * random.u64(0..=32), ..Self::sound(random) }
    }

    /// Whether the disk has room for everything that a run writes, and works.
    pub fn is_sound(&self) -> bool {
        self.size == LARGE && self.writes() && self.reads()
    }

    /// Whether writes fail only for lack of room.
    pub fn writes(&self) -> bool {
        self.bad_writes == 0.0
    }

    /// Whether reads return the bytes that were written.
    pub fn reads(&self) -> bool {
        self.bad_reads == 0.0 && self.wrong_reads == 0.0
    }
}

/// A simulated disk; a clone is the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    number: usize,
    plan: DiskPlan,
    plant: Option<Plant>,
    trace: Arc<RunTrace>,
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug)]
struct DiskState {
    random: Rng,
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Ranges that are being written.
    writing: Vec<Range<u64>>,
    /// When the disk will have done all writes requested so far.
    busy_until: Instant,
    /// When the engine last asked for the free space, and how often at that moment.
    asked: (Instant, u64),
    violations: Vec<String>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(
        number: usize,
        plan: DiskPlan,
        random: Rng,
        trace: Arc<RunTrace>,
        plant: Option<Plant>,
    ) -> Self {
        let now = Instant::now();
        let state = DiskState {
            random,
            blocks: BTreeMap::new(),
            writing: Vec::new(),
            busy_until: now,
            asked: (now, 0),
            violations: Vec::new(),
        };
        Self { number, plan, plant, trace, state: Arc::new(Mutex::new(state)) }
    }

    /// Misuses of the disk by the engine.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Whether no write is running.
    pub fn is_quiet(&self) -> bool {
        self.lock().writing.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out the write of `pieces`, once its latency has passed.
    fn carry_out(&self, pieces: &[(u64, Bytes)]) -> io::Result<()> {
        let mut state = self.lock();
        let lost = usize::from(self.plant == Some(Plant::LostTail));
        let fails = state.random.f64() < self.plan.bad_writes;
        for (at, (offset, piece)) in pieces.iter().enumerate() {
            if fails && (at + 1 == pieces.len() || state.random.bool()) {
                return Err(io::Error::other("simulated: input/output error"));
            }
            let kept = if at + 1 == pieces.len() { piece.len().saturating_sub(lost) } else { piece.len() };
            self.put(&mut state, *offset, &piece[..kept])?;
        }
        Ok(())
    }

    fn put(&self, state: &mut DiskState, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (block, within) = self.place(offset);
            if !state.blocks.contains_key(&block) && (state.blocks.len() as u64 + 1) * BLOCK > self.plan.size
            {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK as usize - within));
            let block = state.blocks.entry(block).or_default();
            block.resize(block.len().max(within + now.len()), 0);
            block[within..within + now.len()].copy_from_slice(now);
            (offset, bytes) = (offset + now.len() as u64, later);
        }
        Ok(())
    }

    fn place(&self, offset: u64) -> (u64, usize) {
        let block = offset / BLOCK;
        let block = if self.plant == Some(Plant::SharedBlock) { block / 2 } else { block };
        (block, usize::try_from(offset % BLOCK).unwrap_or(0))
    }
}

impl DiskState {
    fn violation(&mut self, message: String) {
        if self.violations.len() < 5 {
            self.violations.push(message);
        }
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.writing.iter().any(|other| other.start < range.end && range.start < other.end)
    }
}

#[async_trait]
impl Disk for SimDisk {
    fn name(&self) -> String {
        format!("disk-{}", self.number)
    }

    /// Like a write on a real thread, the write continues when its caller is dropped.
    async fn write(&self, pieces: Vec<(u64, Bytes)>) -> io::Result<()> {
        if self.plant == Some(Plant::LostWake) {
            std::future::pending::<()>().await;
        }
        let ranges: Vec<_> =
            pieces.iter().map(|(offset, piece)| *offset..offset + piece.len() as u64).collect();
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let until = {
            let mut state = self.lock();
            for range in &ranges {
                if state.overlaps(range) {
                    let name = self.name();
                    state.violation(format!("{name}: {range:?} is written twice at once"));
                }
                state.writing.push(range.clone());
            }
            let wait = state.random.u64(self.plan.latency.0..=self.plan.latency.1) + bytes / self.plan.rate;
            let until = state.busy_until.max(Instant::now()) + Duration::from_millis(wait);
            state.busy_until = until;
            until
        };
        let disk = self.clone();
        let write = async move {
            sleep_until(until).await;
            let result = disk.carry_out(&pieces);
            disk.lock().writing.retain(|range| !ranges.contains(range));
            drop(pieces);
            disk.trace.note(format_args!("disk {}: {bytes} bytes written: {result:?}", disk.number));
            result
        };
        tokio::spawn(write).await.unwrap_or_else(|ended| Err(io::Error::other(ended)))
    }

    /// Reads at once: if a real thread waited for a disk, real time would decide the order of events.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let mut state = self.lock();
        let name = self.name();
        if state.random.f64() < self.plan.bad_reads {
            return Err(io::Error::other("simulated: input/output error"));
        }
        let (block, within) = self.place(offset);
        let mut length = buffer.len().min(BLOCK as usize - within);
        if self.plan.short_reads && length > 1 {
            length = state.random.usize(1..=length);
        }
        if state.overlaps(&(offset..offset + length as u64)) {
            state.violation(format!("{name}: read at {offset} while it is written"));
        }
        let read = state.blocks.get(&block).and_then(|block| block.get(within..within + length));
        match read.map(|read| buffer[..length].copy_from_slice(read)) {
            Some(()) => {}
            // Reads as zeros, like a hole in a sparse file.
            None if self.plant.is_some() => buffer[..length].fill(0),
            None => {
                state.violation(format!("{name}: read at {offset} of what was not written"));
                return Ok(Some(0));
            }
        }
        if state.random.f64() < self.plan.wrong_reads {
            buffer[state.random.usize(0..length)] ^= 1;
        }
        Ok(Some(length))
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.read_cached(buffer, offset)?.unwrap_or_default())
    }

    fn space(&self) -> io::Result<Space> {
        /// The engine asks this often at one moment only if its search for memory loops without progress.
        const MOST: u64 = 1_000_000;
        let mut state = self.lock();
        let now = Instant::now();
        let asked = if state.asked.0 == now { state.asked.1 + 1 } else { 1 };
        state.asked = (now, asked);
        if asked == MOST {
            let name = self.name();
            state.violation(format!("{name}: asked for its space {MOST} times at one moment"));
        }
        if self.plan.silent {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let used = state.blocks.len() as u64 * BLOCK;
        Ok(Space { free: self.plan.size.saturating_sub(used), total: self.plan.size })
    }

    fn clear(&self) -> io::Result<()> {
        let mut state = self.lock();
        if !state.writing.is_empty() {
            let name = self.name();
            state.violation(format!("{name}: cleared while it is written"));
        }
        state.blocks.clear();
        Ok(())
    }
}
