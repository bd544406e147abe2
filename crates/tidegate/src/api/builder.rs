//! Settings of an engine, and their checks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Tidegate;
use super::schemes::{NamedSchemes, Schemes};
use crate::backend::azure::AzureSettings;
use crate::backend::gcs::GcsSettings;
use crate::backend::local::Batches;
use crate::backend::s3::S3Settings;
use crate::backend::{KnownFacts, Scheme};
use crate::engine::Engine;
use crate::engine::aborts::{Aborts, AbortsOn};
use crate::engine::journaling::Journaling;
use crate::engine::limiter::Concurrency;
use crate::engine::records::Records;
use crate::engine::retry::{Retry, RetryPolicy};
use crate::engine::spooling::Spooling;
use crate::journal::Durability;
use crate::memory::budget::Budget;
use crate::memory::payload::RING;
use crate::memory::relief::Relief;
use crate::memory::spool::{Disk, Spool};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::owner_process::OwnerProcess;
use crate::types::progress::Progress;
use crate::types::transfer_rate::TransferRate;
use crate::types::trusted_file::TrustedOwners;

/// Sets up a [`Tidegate`].
#[derive(Clone, Debug)]
#[must_use = "nothing is set up before `build`"]
pub struct TidegateBuilder {
    memory: u64,
    slab: usize,
    concurrency: Concurrency,
    bandwidth: Option<u64>,
    parts_in_flight: usize,
    part_size: Option<u64>,
    retry: RetryPolicy,
    hedge: bool,
    seed: Option<u64>,
    spool: Vec<PathBuf>,
    spool_disks: Vec<Arc<dyn Disk>>,
    journal: Vec<PathBuf>,
    durability: Durability,
    journal_keep: u64,
    memory_wait: Duration,
    idle_limit: Option<Duration>,
    records: Option<PathBuf>,
    owners: TrustedOwners,
    aborts_on: AbortsOn,
    s3: S3Settings,
    gcs: GcsSettings,
    azure: AzureSettings,
    schemes: NamedSchemes,
}

impl Default for TidegateBuilder {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            slab: 256 << 10,
            concurrency: Concurrency::Auto,
            bandwidth: None,
            parts_in_flight: 64,
            part_size: None,
            retry: RetryPolicy::default(),
            hedge: true,
            seed: None,
            spool: Vec::new(),
            spool_disks: Vec::new(),
            journal: Vec::new(),
            durability: Durability::Write,
            journal_keep: 64 << 20,
            memory_wait: Duration::from_secs(60),
            idle_limit: None,
            records: None,
            owners: TrustedOwners::default(),
            aborts_on: AbortsOn::default(),
            s3: S3Settings::default(),
            gcs: GcsSettings::default(),
            azure: AzureSettings::default(),
            schemes: NamedSchemes::default(),
        }
    }
}

impl TidegateBuilder {
    /// The memory budget in bytes, 256 MiB by default. All writers and readers together hold at most this much in
    /// buffers.
    ///
    /// It also bounds how many writers one task can feed in turn, because a part that is not full stays in memory while
    /// the task feeds the others. Without a spool directory these writers need
    ///
    /// ```text
    /// writers x bytes in each one's unfinished part (rounded up to 4 KiB) + the largest part
    /// ```
    ///
    /// of memory: by default, 500 writers with nearly half a MiB each beside a part of 16 MiB. More ends with
    /// [`ErrorKind::Starved`] after [`memory_wait`](Self::memory_wait).
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Directories for bytes that do not fit in memory, on any number of disks: the bytes of the writers that hold
    /// most, and all bytes of [`Strategy::Spool`](crate::Strategy::Spool). Each directory must exist and be writable.
    /// Nothing is left in them, however the process ends. An eighth of the memory, and a little more for retries, is
    /// reserved for sending from the spool.
    pub fn spool<P: Into<PathBuf>>(mut self, directories: impl IntoIterator<Item = P>) -> Self {
        self.spool.extend(directories.into_iter().map(Into::into));
        self
    }

    /// A spool disk of the caller's own, such as a simulated one.
    pub fn spool_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.spool_disks.push(disk);
        self
    }

    /// Directories for the journals of [`Strategy::Journal`](crate::Strategy::Journal), on any number of disks. A new
    /// journal goes to a directory with at least 1 GiB free for each of its journals, there to the disk that was
    /// measured to take the most bytes for each journal that this engine has on it. If no directory has that much
    /// space, the one with the most free space for each journal gets it. Each directory must exist and be writable; a
    /// directory with several names counts once. The journals survive the process; [`Tidegate::recover`] lists them.
    /// A quarter of the memory is reserved for sending from journals.
    pub fn journal<P: Into<PathBuf>>(mut self, directories: impl IntoIterator<Item = P>) -> Self {
        self.journal.extend(directories.into_iter().map(Into::into));
        self
    }

    /// When bytes in a journal survive a power loss: by default as soon as their write returns. Whatever is set here,
    /// they survive the end of the process as soon as their write returns.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many acknowledged bytes a journal keeps on its disk, 64 MiB by default. While the journal still has all
    /// bytes, a session that has expired or was aborted by someone else is opened again and filled from the journal.
    /// When the acknowledged bytes exceed this size, the journal frees all of them at once. `u64::MAX` keeps all.
    pub fn journal_keep(mut self, bytes: u64) -> Self {
        self.journal_keep = bytes;
        self
    }

    /// How long a writer waits for memory that no request in flight can free, because half-filled writers with
    /// stopped producers hold it; 60 s by default. Then the write fails with [`ErrorKind::Starved`]. This cannot
    /// happen while a spool takes the bytes of those writers.
    ///
    /// It is also how long a journal waits for space on a full disk while no bytes leave that disk for a store.
    pub fn memory_wait(mut self, limit: Duration) -> Self {
        self.memory_wait = limit;
        self
    }

    /// The [`WriterBuilder::idle_limit`](crate::upload::WriterBuilder::idle_limit) of writers that set none.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = Some(limit);
        self
    }

    /// Size of the buffers (slabs) that the memory budget consists of, in bytes; 256 KiB by default.
    pub fn slab(mut self, bytes: usize) -> Self {
        self.slab = bytes;
        self
    }

    /// How many requests may be in flight to one endpoint.
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// The most bytes a second that all transfers of this engine move together, uploads and downloads added up;
    /// unlimited by default.
    ///
    /// The bytes of objects count: of parts, bodies and ranges, again for each retry. Headers, listings and copies
    /// inside a store do not count, nor do transfers between this machine's memory and disks. A copy from one store to
    /// another through this machine counts twice, once for each direction.
    ///
    /// Bytes are spread over time: they move in slices of at most 50 ms worth of the rate, each transfer in turn, so
    /// that no connection is silent for long. Over any second or more the rate is exceeded by a tenth of a second's
    /// worth at most. Bytes that arrive are counted as they are read; at the beginning of each response, the system's
    /// receive buffer holds some more.
    ///
    /// Large requests are few: besides three to each endpoint, only as many begin as together have a second's worth
    /// of bytes, and more only while the rate is not reached. Time in which the limit holds a transfer back counts
    /// neither as a stall nor as slowness of the store. No part is [hedged](Self::hedge), as its copy would take
    /// bytes from other transfers.
    ///
    /// ```
    /// # fn main() -> tidegate::Result<()> {
    /// let tide = tidegate::Tidegate::builder().bandwidth(50_000_000).build()?;
    /// # let _ = tide;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.bandwidth = Some(bytes_per_second);
        self
    }

    /// Most parts that one writer may have in flight, 64 by default. A writer can set its own limit.
    pub fn parts_in_flight(mut self, parts: usize) -> Self {
        self.parts_in_flight = parts;
        self
    }

    /// Part size in bytes, for writers that set none.
    pub fn part_size(mut self, bytes: u64) -> Self {
        self.part_size = Some(bytes);
        self
    }

    /// How failed requests are retried.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Whether a part that is far slower than its peers is sent a second time, over another connection; the first
    /// answer counts. On by default. Hedges are at most one part in twenty, only on stores that can tell which copy
    /// they have kept ([`Capabilities::hedge`](crate::backend::Capabilities::hedge)), and never within 30 s of
    /// throttling.
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.hedge = hedge;
        self
    }

    /// Seeds the random numbers (pauses, tokens), so that a simulation can be replayed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Records the sessions of this process in `directory`, so that a sweep by another process on this machine leaves
    /// them alone, and finds those that a killed process left behind. Off by default; the command line uses
    /// `~/.local/state/tidegate`.
    ///
    /// The directory is created when the first session opens. It holds one file for each process with sessions. If a
    /// record cannot be written, no upload fails; the problem is logged once.
    pub fn records(mut self, directory: impl Into<PathBuf>) -> Self {
        self.records = Some(directory.into());
        self
    }

    /// Also trusts files of this user, beside those of the process's own user; may be called several times. For a
    /// service whose user has changed.
    ///
    /// Journals, records and notes of partial downloads decide what this process does with its rights. They are
    /// therefore used only if they are regular files with a single name, belong to a trusted user, and no other user
    /// may write to them. Other files are refused with the reason
    /// ([`UntrustedFile`](crate::trusted_file::UntrustedFile)).
    pub fn owner(mut self, uid: u32) -> Self {
        self.owners = self.owners.and(uid);
        self
    }

    /// How `s3://` is reached, by stores that are not [opened](Tidegate::open) with settings of their own; by default
    /// like every S3 tool, from the environment and the shared configuration.
    #[cfg(feature = "s3")]
    pub fn s3(mut self, settings: S3Settings) -> Self {
        self.s3 = settings;
        self
    }

    /// How `gs://` is reached; by default like every Google tool.
    #[cfg(feature = "gcs")]
    pub fn gcs(mut self, settings: GcsSettings) -> Self {
        self.gcs = settings;
        self
    }

    /// How `az://` and `abfss://` are reached; by default like every Azure tool.
    #[cfg(feature = "azure")]
    pub fn azure(mut self, settings: AzureSettings) -> Self {
        self.azure = settings;
        self
    }

    /// Runs aborts on the runtime of their writer instead of a thread of the engine, and lets no drop wait for them:
    /// for a program that pauses tokio's clock, as a simulation does.
    pub fn aborts_on_writers_runtime(mut self) -> Self {
        self.aborts_on = AbortsOn::WritersRuntime;
        self
    }

    /// Undoes `aborts_on_writers_runtime`, the default of this crate's tests.
    #[cfg(test)]
    pub(crate) fn aborts_on_own_thread(mut self) -> Self {
        self.aborts_on = AbortsOn::OwnThread;
        self
    }

    /// Opens `name://bucket/key` with `scheme`, also if the name is one that every engine knows.
    pub fn scheme(mut self, name: &str, scheme: impl Scheme) -> Self {
        self.schemes.add(name, Arc::new(scheme));
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the budget holds fewer than three slabs after the reserves for the spool and
    /// the journals, if a limit is zero, or if a spool or journal directory is missing or a spool directory is not
    /// writable.
    pub fn build(self) -> Result<Tidegate> {
        let refused =
            |message: String| Error::new(ErrorKind::InvalidInput, Operation::Connect, "tidegate", message);
        if self.slab == 0 || self.memory / RING < self.slab as u64 {
            let (memory, slab) = (self.memory, self.slab);
            return Err(refused(format!(
                "a memory budget of {memory} bytes does not hold {RING} buffers of {slab} bytes"
            )));
        }
        if self.concurrency == Concurrency::Fixed(0) || self.parts_in_flight == 0 {
            return Err(refused("a concurrency of 0 would never send anything".to_owned()));
        }
        if self.bandwidth == Some(0) {
            return Err(refused("a bandwidth of 0 would never move anything".to_owned()));
        }
        if let Some(path) = self.journal.iter().find(|path| !path.is_dir()) {
            let path = path.display();
            return Err(refused(format!(
                "{path}: there is no such directory to keep journals in: create it"
            )));
        }
        let spooling = self.spooling()?;
        let reserved = spooling.as_ref().map_or(0, |spooling| spooling.reserved());
        let slab = self.slab as u64;
        let sending = if self.journal.is_empty() { 0 } else { Journaling::reserve(self.memory, slab) };
        if (self.memory - reserved).saturating_sub(sending) / RING < slab {
            let memory = self.memory;
            let spool = if reserved > 0 {
                format!(" and the {reserved} bytes that sending from a spool takes")
            } else {
                String::new()
            };
            return Err(refused(format!(
                "a memory budget of {memory} bytes leaves too little beside the {sending} bytes that sending from \
                 journals takes{spool}"
            )));
        }
        let budget = Budget::new(self.memory - reserved - sending, self.slab);
        let journaling = Journaling::new(
            self.journal,
            self.durability,
            self.journal_keep,
            self.memory_wait,
            // Without journal directories, another engine's journal may still be resumed; that uses the main budget.
            if sending > 0 { Budget::new(sending, self.slab) } else { budget.clone() },
        );
        let spool = spooling.as_ref().map(|spooling| spooling.spool().clone());
        let engine = Engine {
            owner: OwnerProcess::this(),
            relief: Relief::new(budget.clone(), spool, self.memory_wait),
            spooling,
            reserved,
            budget,
            idle_limit: self.idle_limit,
            journaling,
            retry: Arc::new(Retry::new(self.retry, self.seed)),
            hedge: self.hedge && self.bandwidth.is_none(),
            progress: Progress::default(),
            aborts: Arc::new(Aborts::new(self.aborts_on)),
            records: Records::new(self.records, self.owners.clone()),
            owners: self.owners,
            batches: Batches::default(),
            parents: Arc::default(),
            part_size: self.part_size,
            parts_in_flight: self.parts_in_flight,
            concurrency: self.concurrency,
            rate: self.bandwidth.map(TransferRate::new),
            endpoints: Mutex::default(),
            facts: KnownFacts::default(),
        };
        let schemes = Schemes::new(self.s3, self.gcs, self.azure, self.schemes);
        Ok(Tidegate { engine: Arc::new(engine), schemes: Arc::new(schemes) })
    }

    /// Another view of the engine of `tide`, which reaches stores by this builder's settings: [`s3`](Self::s3),
    /// [`gcs`](Self::gcs), [`azure`](Self::azure) and [`scheme`](Self::scheme). Everything else is that of `tide`, such
    /// as the memory budget, the limiters, the journals and the schemes that this builder does not have; this builder's
    /// other settings do not count. So several accounts share one budget, also where buckets are listed and created.
    pub fn build_on(self, tide: &Tidegate) -> Tidegate {
        let schemes = tide.schemes.with_settings(&self.s3, &self.gcs, &self.azure, self.schemes);
        Tidegate { engine: tide.engine.clone(), schemes: Arc::new(schemes) }
    }

    /// The settings for `s3://`.
    #[cfg(feature = "s3")]
    pub fn s3_settings(&self) -> &S3Settings {
        &self.s3
    }

    fn spooling(&self) -> Result<Option<Arc<Spooling>>> {
        let refused =
            |message: String| Error::new(ErrorKind::InvalidInput, Operation::Connect, "tidegate", message);
        let mut disks =
            Spool::open(&self.spool).map_err(|error| refused(error.to_string()).with_source(error))?;
        disks.extend(self.spool_disks.iter().cloned());
        if disks.is_empty() {
            return Ok(None);
        }
        let slab = self.slab as u64;
        let reserve = Spooling::reserve(self.memory, slab);
        if self.memory.saturating_sub(reserve) / RING < slab {
            let memory = self.memory;
            return Err(refused(format!(
                "a memory budget of {memory} bytes leaves too little beside the {reserve} bytes that sending from a \
                 spool takes"
            )));
        }
        Ok(Some(Arc::new(Spooling::new(Spool::new(disks), reserve, self.slab))))
    }
}
