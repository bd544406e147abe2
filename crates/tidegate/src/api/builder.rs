//! How an engine is set up.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Clients, Tidegate};
use crate::backend::gcs::GcsSettings;
use crate::backend::local::Batches;
use crate::backend::s3::S3Settings;
use crate::engine::Engine;
use crate::engine::aborts::Aborts;
use crate::engine::journaling::Journaling;
use crate::engine::limiter::Concurrency;
use crate::engine::records::Records;
use crate::engine::relief::Relief;
use crate::engine::retry::{Retry, RetryPolicy};
use crate::engine::spooling::Spooling;
use crate::journal::Durability;
use crate::memory::budget::Budget;
use crate::memory::payload::RING;
use crate::memory::spool::{Disk, Spool};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::progress::Progress;
use crate::types::trusted_file::TrustedOwners;

/// Sets up a [`Tidegate`].
#[derive(Clone, Debug)]
#[must_use = "nothing is set up before `build`"]
pub struct Builder {
    memory: u64,
    slab: usize,
    concurrency: Concurrency,
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
    s3: S3Settings,
    gcs: GcsSettings,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            slab: 256 << 10,
            concurrency: Concurrency::Auto,
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
            s3: S3Settings::default(),
            gcs: GcsSettings::default(),
        }
    }
}

impl Builder {
    /// The memory budget in bytes, 256 MiB by default: the most that all writers and readers hold in
    /// buffers together.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Directories for what memory has no room for, on as many disks as there are: the bytes of the
    /// writers that hold most, and all bytes of [`Strategy::Spool`](crate::Strategy::Spool). Each must
    /// be there and writable. Nothing is left in them, however the process ends. An eighth of the
    /// memory, and a little more for retries, is set aside for sending from there.
    pub fn spool<P: Into<PathBuf>>(mut self, directories: impl IntoIterator<Item = P>) -> Self {
        self.spool.extend(directories.into_iter().map(Into::into));
        self
    }

    /// A spool of the caller's own, such as a simulated one.
    pub fn spool_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.spool_disks.push(disk);
        self
    }

    /// Directories for the journals of [`Strategy::Journal`](crate::Strategy::Journal), on as many disks
    /// as there are: a new journal goes where the disk was measured to take most bytes for each journal
    /// that this engine has on it, and where 1 GiB is free for each journal in the directory; else to the
    /// one with most space. Each must be there and writable; one of several names counts once. What is in
    /// them survives the process; [`Tidegate::recover`] lists it. A quarter of the memory is set aside for
    /// sending from there.
    pub fn journal<P: Into<PathBuf>>(mut self, directories: impl IntoIterator<Item = P>) -> Self {
        self.journal.extend(directories.into_iter().map(Into::into));
        self
    }

    /// When bytes in a journal are safe from a loss of power; when their write returns, by default. From
    /// the end of the process they are safe as soon as their write returns, whatever is chosen here.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many bytes that the store has acknowledged a journal keeps on its disk, 64 MiB by default: as
    /// long as it has all bytes, a session that expired or was aborted by somebody is opened again and
    /// filled from it. With more than that, all of them are given back at once. `u64::MAX` keeps all.
    pub fn journal_keep(mut self, bytes: u64) -> Self {
        self.journal_keep = bytes;
        self
    }

    /// How long a writer waits for memory that nothing in flight can free, because it is held by
    /// half-filled writers whose producers do not go on; 60 s by default. Then the wait becomes an error
    /// of the kind [`ErrorKind::Starved`]. It can't happen where a spool takes what they hold.
    ///
    /// It is also how long a journal waits for room on a full disk while nothing leaves that for a store.
    pub fn memory_wait(mut self, limit: Duration) -> Self {
        self.memory_wait = limit;
        self
    }

    /// [`WriterBuilder::idle_limit`](crate::WriterBuilder::idle_limit) of writers that set none.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = Some(limit);
        self
    }

    /// Size of the buffers that the budget is handed out in, 256 KiB by default.
    pub fn slab(mut self, bytes: usize) -> Self {
        self.slab = bytes;
        self
    }

    /// How many requests may be in flight to one endpoint.
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Most parts of one writer in flight at once, 64 by default; a writer can set its own.
    pub fn parts_in_flight(mut self, parts: usize) -> Self {
        self.parts_in_flight = parts;
        self
    }

    /// Size of a part in bytes, for writers that do not set their own.
    pub fn part_size(mut self, bytes: u64) -> Self {
        self.part_size = Some(bytes);
        self
    }

    /// How failed requests are made again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Whether a part that is far slower than its peers is sent once more, over another connection; the
    /// first answer counts. On by default: at most one part in twenty, only where the store can tell
    /// which copy it has kept ([`Capabilities::hedge`](crate::backend::Capabilities::hedge)), and not
    /// within half a minute of being throttled.
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.hedge = hedge;
        self
    }

    /// Seeds the random numbers (pauses, tokens), so that a simulation can be replayed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes down in `directory` which sessions this process has, so that a sweep by another process of
    /// this machine leaves them alone, and finds those that this one leaves when it is killed. Off by
    /// default; the command line has `~/.local/state/tidegate`.
    ///
    /// The directory is made when the first session opens, with one file in it for each process that has
    /// any. That it can't be written fails no upload: it is logged, once.
    pub fn records(mut self, directory: impl Into<PathBuf>) -> Self {
        self.records = Some(directory.into());
        self
    }

    /// Trusts files of this user, too, beside those of the user that the process runs as; may be called again. For a
    /// service whose user has changed.
    ///
    /// Journals, records and notes of partial downloads are used only if they are regular files with one name that
    /// nobody else may write to, and belong to a trusted user: what they say is done with this process's rights. Others
    /// are refused, with the reason ([`UntrustedFile`](crate::UntrustedFile)).
    pub fn owner(mut self, uid: u32) -> Self {
        self.owners = self.owners.and(uid);
        self
    }

    /// How `s3://` is reached; what every S3 tool does by default.
    pub fn s3(mut self, settings: S3Settings) -> Self {
        self.s3 = settings;
        self
    }

    /// How `gs://` is reached; what every tool of Google's does by default.
    pub fn gcs(mut self, settings: GcsSettings) -> Self {
        self.gcs = settings;
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the budget does not hold three slabs, also beside what is set aside for
    /// sending from a spool and from journals, where a figure is zero, and where a spool or journal directory is
    /// missing or a spool directory can't be written to.
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
            // Without directories a journal of another engine's may be gone on with all the same.
            if sending > 0 { Budget::new(sending, self.slab) } else { budget.clone() },
        );
        let engine = Engine {
            relief: Relief::new(budget.clone(), spooling, self.memory_wait),
            reserved,
            budget,
            idle_limit: self.idle_limit,
            journaling,
            retry: Arc::new(Retry::new(self.retry, self.seed)),
            hedge: self.hedge,
            progress: Progress::default(),
            aborts: Aborts::default(),
            records: Records::new(self.records, self.owners.clone()),
            owners: self.owners,
            batches: Batches::default(),
            part_size: self.part_size,
            parts_in_flight: self.parts_in_flight,
            concurrency: self.concurrency,
            endpoints: Mutex::default(),
        };
        let clients = Clients { s3: self.s3, gcs: self.gcs, ..Clients::default() };
        Ok(Tidegate { engine: Arc::new(engine), clients: Arc::new(clients) })
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
