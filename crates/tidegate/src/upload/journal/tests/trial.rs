//! One object under seeded faults, written by a series of processes, on a real disk or on a disk that loses power.
//! In the end the object has all bytes that were written, or that were durable when the power failed.

use std::path::Path;

use fastrand::Rng;

use super::*;
use crate::Operation;
use crate::journal::testkit::SimDisk;

/// After this step no fault is injected.
pub(super) const ENOUGH: u32 = 60;

/// Runs the first `few` seeds, or those of `TIDEGATE_JOURNAL_SEEDS=FROM..TO`.
pub(super) async fn each_seed(few: u64, one: impl AsyncFn(u64) -> Result<()>) -> Result<()> {
    let given = std::env::var("TIDEGATE_JOURNAL_SEEDS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    let (from, to) = given.map_or((0, few), |(from, to)| (from.parse().unwrap(), to.parse().unwrap()));
    for seed in from..to {
        let one = tokio::time::timeout(Duration::from_secs(60), one(seed));
        one.await.unwrap_or_else(|_| panic!("seed {seed} does not end"))?;
    }
    Ok(())
}

pub(super) struct Trial {
    seed: u64,
    pub(super) random: Rng,
    pub(super) bytes: Bytes,
    /// How many bytes that the store has the journal keeps.
    keep: u64,
    durability: Durability,
    /// The disk whose power may fail.
    pub(super) disk: Option<Arc<SimDisk>>,
    is_failing: bool,
    process: Option<(Tidegate, Store)>,
    pub(super) writer: Option<Writer>,
    /// Bytes whose writes have returned.
    written: u64,
    /// Bytes that survive any fault.
    durable: u64,
}

impl Trial {
    /// A trial of an object of at most `most` bytes, whose journals are in `journals`.
    pub(super) fn new(seed: u64, journals: &Path, most: u64, most_kept: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let keep = if random.bool() { u64::MAX } else { random.u64(1..most_kept) };
        let durabilities = [
            Durability::Write,
            Durability::Sync,
            Durability::Group { bytes: 64 * KIB, delay: Duration::from_millis(2) },
        ];
        let durability = durabilities[random.usize(..3)];
        let bytes = data(random.u64(0..most));
        let disk = random.bool().then(|| Arc::new(SimDisk::under(journals, random.fork())));
        let (is_failing, process, writer, written, durable) = (false, None, None, 0, 0);
        Self { seed, random, bytes, keep, durability, disk, is_failing, process, writer, written, durable }
    }

    pub(super) fn builder(&self, builder: TidegateBuilder) -> TidegateBuilder {
        builder.journal_keep(self.keep).durability(self.durability)
    }

    /// True if a session may be lost, because the journal keeps all of its bytes.
    pub(super) fn keeps_all(&self) -> bool {
        self.keep == u64::MAX
    }

    /// Makes the power fail soon, in the middle of an operation; it stays off until the process [ends](Self::end).
    pub(super) fn lose_power(&mut self) {
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.is_failing) {
            disk.fail_after(self.random.u32(..20));
            self.is_failing = true;
        }
    }

    /// Makes a sync fail soon, and the power when the process ends.
    pub(super) fn fail_sync(&mut self) {
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.is_failing) {
            disk.fail_sync();
            self.is_failing = true;
        }
    }

    /// Ends the process: it is killed, or the power fails.
    pub(super) async fn end(&mut self) -> Option<(Tidegate, Store)> {
        self.writer = None;
        let process = self.process.take();
        if let Some((tide, _)) = &process {
            tide.settled().await;
        }
        let is_lost = self.is_failing || self.random.u8(..4) == 0;
        if let Some(disk) = self.disk.as_ref().filter(|_| is_lost) {
            disk.lose_power();
            (self.is_failing, self.written) = (false, self.durable);
        }
        process
    }

    /// Starts the next process, which resumes the upload that the last one left, or begins a new one. Returns true if
    /// the object is published. If no upload is left, `mend` makes the store answer first.
    pub(super) async fn go_on(
        &mut self,
        step: u32,
        process: (Tidegate, Store),
        mend: impl FnOnce(),
    ) -> Result<bool> {
        let (seed, written) = (self.seed, self.written);
        if step <= ENOUGH && self.random.u32(..8) == 0 {
            self.lose_power();
        }
        let (tide, store) = self.process.insert(process);
        let left = loop {
            let left = tide.recover().await?;
            assert!(left.len() <= 1, "seed {seed}: {left:?}");
            // If the machine stalled for longer than `recover` waits for a journal to close, it is still open.
            if !left.iter().any(|left| matches!(left.problem(), Some(JournalError::InUse { .. }))) {
                break left;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let Some(left) = left.first() else {
            mend();
            if let Ok(object) = store.head("k").await {
                assert_eq!(object.size, self.bytes.len() as u64, "seed {seed}");
                return Ok(true);
            }
            assert_eq!(written, 0, "seed {seed}: nothing is left of {written} bytes");
            match store.writer("k").strategy(Strategy::Journal).start().await {
                Ok(writer) => self.writer = Some(writer),
                Err(error) if self.is_failing => {
                    assert_eq!(error.operation(), Operation::Write, "seed {seed}: {error}");
                }
                Err(error) => return Err(error),
            }
            return Ok(false);
        };
        let whole = left.is_finished();
        assert!(left.length() >= written, "seed {seed}: {} of {written} bytes: {left:?}", left.length());
        match left.resume_on(store).await {
            Ok(Resumed::Writer(resumed)) => {
                assert!(!whole && resumed.position() >= written, "seed {seed}");
                self.durable = resumed.position();
                self.writer = Some(resumed);
            }
            Ok(Resumed::Object(_)) => return Ok(true),
            Err(error) => {
                let expected = self.is_failing || whole && step < 200;
                assert!(expected, "seed {seed}, step {step}: {error}");
            }
        }
        Ok(false)
    }

    pub(super) async fn sync(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        match writer.sync().await {
            Ok(synced) => self.durable = synced,
            Err(_) => self.writer = None,
        }
    }

    /// Writes at most `most` more bytes, or finishes; either may be cancelled within `hurry`. Returns true
    /// if the object is published.
    pub(super) async fn go_further(&mut self, most: u64, hurry: Duration) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let position = writer.position();
        let rest = self.bytes.len() as u64 - position;
        let patience = if self.random.u32(..4) > 0 {
            Duration::MAX
        } else {
            Duration::from_micros(self.random.u64(..hurry.as_micros() as u64))
        };
        if rest == 0 {
            let finish = self.writer.take().map(Writer::finish);
            let finish = async { finish.expect("a writer").await };
            return matches!(tokio::time::timeout(patience, finish).await, Ok(Ok(_)));
        }
        let end = position + self.random.u64(1..=rest.min(most));
        let write = writer.write_bytes(self.bytes.slice(position as usize..end as usize));
        match tokio::time::timeout(patience, write).await {
            Ok(Ok(())) => {
                self.written = end;
                if self.durability == Durability::Write {
                    self.durable = end;
                }
            }
            Ok(Err(_)) => self.writer = None,
            Err(_) => {} // the cancelled write took some of its bytes
        }
        false
    }
}
