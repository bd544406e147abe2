//! Errors: what failed, on which object, at which part, after how many attempts, and what to do.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::types::fault::{Fault, FaultKind, PATH_STYLE_REFUSED};
use crate::types::printable::{printable, printable_bytes};
use crate::types::unknown_name::UnknownName;

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation. Its display is one sentence for people; [`kind`](Self::kind) is for programs.
#[derive(Debug)]
pub struct Error {
    context: Box<ErrorContext>,
    /// Shared, so that a failure that is reported again keeps its source.
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[derive(Clone, Debug)]
struct ErrorContext {
    kind: ErrorKind,
    object: String,
    operation: Operation,
    part: Option<(u32, Range<u64>)>,
    attempts: u32,
    elapsed: Duration,
    message: String,
    is_unreachable: bool,
    refuses_path_style: bool,
}

/// The longest message that is shown, in bytes: a store may send one of megabytes.
const LONGEST_MESSAGE: usize = 4 << 10;

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such object.
    NotFound,
    /// No such bucket or root directory.
    NoBucket,
    /// There is an object already, and `create_only` was asked for; or there is a bucket of the name of a new one.
    /// Nothing was changed.
    AlreadyExists,
    /// The bucket that was to be removed has objects. Nothing was changed.
    NotEmpty,
    /// The key has another object now than the one that was being read or copied, or that was to be replaced.
    Replaced,
    /// The credentials do not allow it.
    PermissionDenied,
    /// No usable credentials.
    Credentials,
    /// This machine's clock and the store's are too far apart.
    ClockSkew,
    /// An argument or a setting is wrong.
    InvalidInput,
    /// The object is larger than the store, or the memory budget, allows.
    TooLarge,
    /// The source could not be read, or changed while it was sent; or a spool directory, from which spooled bytes
    /// are sent, failed.
    Source,
    /// The store asked for fewer requests for longer than the retries last.
    Throttled,
    /// No answer in time, in any of the attempts.
    Timeout,
    /// The store or the network failed, in all of the attempts.
    Unavailable,
    /// The answer is not an object store's: a login page, a proxy or another server stands at the endpoint.
    NotAStore,
    /// The bytes that the store has are not those that were sent.
    Integrity,
    /// The store can't say whether the object was committed, or that it will outlast a loss of power.
    Uncertain,
    /// The disk is full, or a quota is used up.
    NoSpace,
    /// The wait for memory could not end: half-filled parts hold the memory, and their producers do not continue.
    Starved,
    /// The writer took no byte for longer than its idle limit, and others waited for the memory that it held.
    Idle,
    /// The server-side session is gone (aborted by someone else, or expired), or has lost parts that it had
    /// acknowledged.
    SessionLost,
    /// The writer failed, was aborted or finished before; or the engine is that of the process from which this one was
    /// forked.
    Closed,
    /// Not possible on this store.
    Unsupported,
}

impl ErrorKind {
    const ALL: [Self; 23] = [
        Self::NotFound,
        Self::NoBucket,
        Self::AlreadyExists,
        Self::NotEmpty,
        Self::Replaced,
        Self::PermissionDenied,
        Self::Credentials,
        Self::ClockSkew,
        Self::InvalidInput,
        Self::TooLarge,
        Self::Source,
        Self::Throttled,
        Self::Timeout,
        Self::Unavailable,
        Self::NotAStore,
        Self::Integrity,
        Self::Uncertain,
        Self::NoSpace,
        Self::Starved,
        Self::Idle,
        Self::SessionLost,
        Self::Closed,
        Self::Unsupported,
    ];

    /// One word, as in metrics and JSON: `not_found`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NoBucket => "no_bucket",
            Self::AlreadyExists => "already_exists",
            Self::NotEmpty => "not_empty",
            Self::Replaced => "replaced",
            Self::PermissionDenied => "permission_denied",
            Self::Credentials => "credentials",
            Self::ClockSkew => "clock_skew",
            Self::InvalidInput => "invalid_input",
            Self::TooLarge => "too_large",
            Self::Source => "source",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::NotAStore => "not_a_store",
            Self::Integrity => "integrity",
            Self::Uncertain => "uncertain",
            Self::NoSpace => "no_space",
            Self::Starved => "starved",
            Self::Idle => "idle",
            Self::SessionLost => "session_lost",
            Self::Closed => "closed",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for ErrorKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("kind of error", name, &Self::ALL, Self::name)
    }
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Connecting to a store.
    Connect,
    /// Taking bytes from the producer.
    Write,
    /// Writing an object in one request.
    Put,
    /// Opening a session.
    Open,
    /// Storing a part.
    Part,
    /// Publishing the object.
    Complete,
    /// Ending a session without an object.
    Abort,
    /// Describing an object.
    Head,
    /// Reading an object.
    Get,
    /// Listing.
    List,
    /// Removing an object.
    Delete,
    /// Removing many objects in one request. Errors of this request are errors of each object's `Delete`.
    DeleteMany,
    /// Having the store copy an object, or a part of one.
    Copy,
    /// Giving an object another key.
    Rename,
    /// Signing a URL for others.
    Presign,
    /// Creating a bucket.
    CreateBucket,
    /// Removing a bucket.
    RemoveBucket,
    /// Reading or changing a bucket's lifecycle rules.
    Lifecycle,
    /// Asking whether a bucket keeps versions.
    Versioning,
    /// Ending what was left behind.
    Sweep,
    /// Reading or changing how keys are spread over prefixes.
    Layout,
}

impl Operation {
    const ALL: [Self; 21] = [
        Self::Connect,
        Self::Write,
        Self::Put,
        Self::Open,
        Self::Part,
        Self::Complete,
        Self::Abort,
        Self::Head,
        Self::Get,
        Self::List,
        Self::Delete,
        Self::DeleteMany,
        Self::Copy,
        Self::Rename,
        Self::Presign,
        Self::CreateBucket,
        Self::RemoveBucket,
        Self::Lifecycle,
        Self::Versioning,
        Self::Sweep,
        Self::Layout,
    ];

    /// Whether its duration depends on the store's work on what it has, and not on the network.
    pub fn is_work_of_store(self) -> bool {
        matches!(self, Self::Complete | Self::Copy | Self::DeleteMany)
    }

    /// Whether the store may work on it for minutes before it answers.
    pub fn may_take_minutes(self) -> bool {
        matches!(self, Self::Complete | Self::Copy)
    }

    /// One word, as in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Put => "put",
            Self::Open => "open",
            Self::Part => "part",
            Self::Complete => "complete",
            Self::Abort => "abort",
            Self::Head => "head",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
            Self::DeleteMany => "delete_many",
            Self::Copy => "copy",
            Self::Rename => "rename",
            Self::Presign => "presign",
            Self::CreateBucket => "create_bucket",
            Self::RemoveBucket => "remove_bucket",
            Self::Lifecycle => "lifecycle",
            Self::Versioning => "versioning",
            Self::Sweep => "sweep",
            Self::Layout => "layout",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("operation", name, &Self::ALL, Self::name)
    }
}

impl Error {
    /// An error without attempts: a refusal or a failure on this side.
    pub fn new(
        kind: ErrorKind,
        operation: Operation,
        object: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let context = ErrorContext {
            kind,
            object: object.into(),
            operation,
            part: None,
            attempts: 0,
            elapsed: Duration::ZERO,
            message: message.into(),
            is_unreachable: false,
            refuses_path_style: false,
        };
        Self { context: Box::new(context), source: None }
    }

    /// The error of a request after its last attempt.
    pub fn from_fault(
        fault: Fault,
        operation: Operation,
        object: impl Into<String>,
        attempts: u32,
        elapsed: Duration,
    ) -> Self {
        let is_unreachable = fault.is_unreachable();
        let refuses_path_style = fault.code == PATH_STYLE_REFUSED;
        let mut error =
            Self::new(fault.kind.error_kind(), operation, object, fault.message).after(attempts, elapsed);
        error.source = fault.source.map(Arc::from);
        error.context.is_unreachable = is_unreachable;
        error.context.refuses_path_style = refuses_path_style;
        error
    }

    /// The part of the object that the operation failed at, and its bytes.
    #[must_use]
    pub fn at_part(mut self, number: u32, range: Range<u64>) -> Self {
        self.context.part = Some((number, range));
        self
    }

    /// The error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error, after so many attempts of a request.
    #[must_use]
    pub fn after(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.context.attempts = attempts;
        self.context.elapsed = elapsed;
        self
    }

    /// The same error, with one more clause in its message.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        self.context.message.push_str("; ");
        self.context.message.push_str(more);
        self
    }

    /// The same failure, for another caller who asks for it.
    pub fn again(&self) -> Self {
        Self { context: self.context.clone(), source: self.source.clone() }
    }

    /// The same failure, for another object that it is about.
    pub fn of_object(&self, object: String) -> Self {
        let mut again = self.again();
        again.context.object = object;
        again
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.context.kind
    }

    /// Whether the store could not be reached: there was no connection, no response, or no response in time. A
    /// store that answers with an error, even a 500 or 503, was reached.
    pub fn is_unreachable(&self) -> bool {
        self.context.is_unreachable
    }

    /// The object (or bucket) that it is about, as a URL.
    pub fn object(&self) -> &str {
        &self.context.object
    }

    /// The operation that failed.
    pub fn operation(&self) -> Operation {
        self.context.operation
    }

    /// Which part, and its byte range in the object.
    pub fn part(&self) -> Option<(u32, Range<u64>)> {
        self.context.part.clone()
    }

    /// How many requests were made; 0 if there was no request.
    pub fn attempts(&self) -> u32 {
        self.context.attempts
    }

    /// From the first attempt to giving up.
    pub fn elapsed(&self) -> Duration {
        self.context.elapsed
    }

    /// Whether the store does not take the bucket's name in the path of addresses, so that the settings must put it
    /// into the host (`Addressing::VirtualHost`).
    pub fn refuses_path_style(&self) -> bool {
        self.context.refuses_path_style
    }

    /// Advice on what to do about it, if there is any.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self.kind() {
            ErrorKind::AlreadyExists if self.operation() == Operation::CreateBucket => {
                "use that bucket if it is yours, else choose another name"
            }
            ErrorKind::Uncertain if self.operation() == Operation::CreateBucket => {
                "look whether the bucket is one of yours"
            }
            // Mostly a proxy's limit of a request's body.
            ErrorKind::TooLarge
                if self.context.part.is_some() || self.context.message.contains("HTTP 413") =>
            {
                "make the parts smaller (`--part-size`), or raise the limit of the server or of a proxy in front of it"
            }
            ErrorKind::NotEmpty => "remove its objects first, and versions of objects if it keeps them",
            ErrorKind::AlreadyExists => {
                "an object exists there and was left as it is; leave out create-only to replace it"
            }
            ErrorKind::NoBucket
                if self.context.object.contains("://") && !self.context.object.starts_with("file:") =>
            {
                "check the name of the bucket; `tidegate mb` makes a bucket"
            }
            ErrorKind::Replaced => "read it again from its beginning",
            ErrorKind::Credentials if self.context.object.starts_with("gs://") => {
                "check GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`"
            }
            ErrorKind::Credentials
                if ["az://", "abfss://"].iter().any(|scheme| self.context.object.starts_with(scheme)) =>
            {
                "check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY with AZURE_STORAGE_ACCOUNT, or `az login`"
            }
            ErrorKind::Credentials if self.context.object.starts_with("dev://") => {
                "check how the `tidegate serve` that holds the directory was started"
            }
            ErrorKind::Credentials => "check AWS_PROFILE, AWS_ACCESS_KEY_ID or `aws sso login`",
            ErrorKind::ClockSkew => "set this machine's clock, by NTP for good",
            ErrorKind::Throttled => "lower the concurrency or spread the keys over more prefixes",
            ErrorKind::Timeout | ErrorKind::Unavailable => {
                "check the endpoint and the network, then try again"
            }
            ErrorKind::NotAStore => "check the endpoint URL, and for a proxy or a login page in front of it",
            ErrorKind::Integrity
                if ["az://", "abfss://"].iter().any(|scheme| self.context.object.starts_with(scheme)) =>
            {
                "try again, and check memory and network if it recurs; if another program has changed the bytes of the \
                 blob and kept its metadata `tidegate_crc64nvme`, `--no-metadata-checksum` reads it all the same"
            }
            ErrorKind::Integrity => "try again, and check memory and network if it recurs",
            ErrorKind::Uncertain => "look at the object before writing it again",
            ErrorKind::SessionLost => {
                "upload it again; look for a lifecycle rule or another process that aborts uploads, and for a \
                 store that was stopped in the middle"
            }
            ErrorKind::Unsupported if self.operation() == Operation::Lifecycle => {
                "run `tidegate sweep` from time to time instead"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = &*self.context;
        let object = printable(&context.object);
        match &context.part {
            Some((number, range)) => {
                let last = range.end.saturating_sub(1);
                write!(f, "{object}: part {number} (bytes {}-{last}) failed", range.start)?;
            }
            // No request was made, so naming one would mislead.
            None if context.operation == Operation::Connect
                && context.attempts == 0
                && context.elapsed.is_zero() =>
            {
                write!(f, "{object}")?;
            }
            None => write!(f, "{object}: {} failed", context.operation.name())?,
        }
        match context.attempts {
            0 => {}
            1 => write!(f, " after 1 attempt")?,
            attempts => write!(f, " after {attempts} attempts")?,
        }
        if !context.elapsed.is_zero() {
            write!(f, " in {}", Took(context.elapsed))?;
        }
        write!(f, ": {}", printable_bytes(context.message.as_bytes(), LONGEST_MESSAGE))?;
        if let Some(remedy) = self.remedy() {
            write!(f, " ({remedy})")?;
        }
        Ok(())
    }
}

/// How long something took: `12 ms`, `3.4 s`.
struct Took(Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            millis @ 0..1000 => write!(f, "{millis} ms"),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NoBucket => Io::NotFound,
            ErrorKind::AlreadyExists => Io::AlreadyExists,
            ErrorKind::NotEmpty => Io::DirectoryNotEmpty,
            ErrorKind::PermissionDenied | ErrorKind::Credentials | ErrorKind::ClockSkew => {
                Io::PermissionDenied
            }
            ErrorKind::InvalidInput => Io::InvalidInput,
            ErrorKind::TooLarge => Io::FileTooLarge,
            ErrorKind::Timeout => Io::TimedOut,
            ErrorKind::Integrity => Io::InvalidData,
            ErrorKind::NoSpace => Io::StorageFull,
            ErrorKind::Closed => Io::BrokenPipe,
            ErrorKind::Unsupported => Io::Unsupported,
            _ => Io::Other,
        };
        Self::new(kind, error)
    }
}

impl FaultKind {
    /// The kind of the error that a caller gets for it.
    pub fn error_kind(self) -> ErrorKind {
        match self {
            FaultKind::NotFound => ErrorKind::NotFound,
            FaultKind::NoBucket => ErrorKind::NoBucket,
            FaultKind::NoSession | FaultKind::Diverged | FaultKind::PartMismatch => ErrorKind::SessionLost,
            FaultKind::Exists => ErrorKind::AlreadyExists,
            FaultKind::NotEmpty => ErrorKind::NotEmpty,
            FaultKind::Replaced => ErrorKind::Replaced,
            FaultKind::Denied => ErrorKind::PermissionDenied,
            FaultKind::Credentials | FaultKind::Expired => ErrorKind::Credentials,
            FaultKind::Skewed => ErrorKind::ClockSkew,
            FaultKind::Invalid => ErrorKind::InvalidInput,
            FaultKind::TooLarge => ErrorKind::TooLarge,
            FaultKind::Throttled => ErrorKind::Throttled,
            FaultKind::Unreachable | FaultKind::Transient | FaultKind::Undone => ErrorKind::Unavailable,
            FaultKind::Unsynced => ErrorKind::Uncertain,
            FaultKind::Timeout => ErrorKind::Timeout,
            FaultKind::NotAStore => ErrorKind::NotAStore,
            FaultKind::Integrity | FaultKind::Corrupted => ErrorKind::Integrity,
            FaultKind::Source => ErrorKind::Source,
            FaultKind::NoSpace => ErrorKind::NoSpace,
            FaultKind::Unsupported => ErrorKind::Unsupported,
            FaultKind::Inherited => ErrorKind::Closed,
        }
    }
}
