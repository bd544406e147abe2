//! Why something was not done.

use std::io;
use std::path::Path;

use tidegate::location::LocationError;
use tidegate::text::printable;
use tidegate::{Error as StoreError, ErrorKind};

use crate::command::CommandError;
use crate::event::Report;
use crate::listing::Disorder;

/// The result of an operation on trees.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense, or would change something that it does not name. Nothing was done for it.
    #[error("{0}")]
    Refused(String),
    /// The object, bucket, directory or file does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The system denies access.
    #[error("{0}")]
    Denied(String),
    /// Nothing was removed: more objects than allowed would be, or everything.
    #[error("nothing removed: {0}")]
    NotRemoved(String),
    /// A listing is not in the order of its keys, so trees can't be compared.
    #[error(transparent)]
    Disorder(#[from] Disorder),
    /// A store lists in another order than that of the keys, and the listing could not be sorted.
    #[error(
        "{}: the listing could not be sorted through a temporary file in {}: {error}",
        printable(tree),
        temporary_directory()
    )]
    Unsorted {
        /// The URL of the tree.
        tree: String,
        /// The failure of the file.
        #[source]
        error: io::Error,
    },
    /// A program that was to produce or to take the bytes did not succeed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// An error of a store.
    #[error("{}", sentence_of(_0))]
    Store(#[from] StoreError),
    /// Any other failure, in one sentence.
    #[error("{0}")]
    Failed(String),
    /// A failure that concerns one object, place or file.
    #[error("{error}")]
    At {
        /// The URL or path.
        object: String,
        /// The failure.
        #[source]
        error: Box<Error>,
    },
    /// The operation did not do everything: the report has what was done, and the failures.
    #[error("{}", incomplete(report, cause.as_deref()))]
    Incomplete {
        /// What was done.
        report: Box<Report>,
        /// What ended the operation early, if something did.
        #[source]
        cause: Option<Box<Error>>,
    },
    /// The operation was stopped before its end.
    #[error("stopped before the end")]
    Stopped,
}

impl Error {
    /// The URL or path of what the failure concerns, if that is one object, place or file.
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Store(error) => Some(error.object()),
            Self::At { object, .. } | Self::Unsorted { tree: object, .. } => Some(object),
            _ => None,
        }
    }

    /// The same failure, of this object unless it names one.
    pub(crate) fn of_object(self, object: &str) -> Self {
        match self.object() {
            Some(_) => self,
            None => Self::At { object: object.to_owned(), error: self.into() },
        }
    }

    /// A failure of the local file `path`, with the system's message.
    pub fn of_file(path: &Path, error: &io::Error) -> Self {
        let path = path.display().to_string();
        let failure = Self::by_kind(Some(error.kind()), format!("{}: {error}", printable(&path)));
        Self::At { object: path, error: failure.into() }
    }

    /// The failure of a copy from `source` to a `target` that may be the file of another name.
    pub(crate) fn maybe_one_file(source: &str, target: &str) -> Self {
        let message = format!(
            "{source}: not copied to {target}: the file system may take that name and the name of another object for one: \
             rename one of them"
        );
        Self::Failed(printable(&message).into_owned())
    }

    /// A failure of a local file: the system's kind of error decides what it is.
    pub(crate) fn by_kind(kind: Option<io::ErrorKind>, sentence: String) -> Self {
        match kind {
            Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Self::NotFound(sentence),
            Some(io::ErrorKind::PermissionDenied) => Self::Denied(sentence),
            _ => Self::Failed(sentence),
        }
    }

    /// There is nothing at `location`; `what` says so in words.
    pub fn nothing_at(location: &impl ToString, what: &str) -> Self {
        let location = location.to_string();
        let sentence = format!("{}: {what}{}", printable(&location), pattern_note(&location));
        Self::At { object: location, error: Self::NotFound(sentence).into() }
    }

    /// Whether what was asked for is wrong.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::At { error, .. } => error.is_refusal(),
            error => matches!(error, Self::Refused(_)),
        }
    }

    /// What class a failure is of: input, something that is not there, access, a store that was not reached, or other.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::At { error, .. } => error.class(),
            Self::Refused(_) => ErrorClass::Input,
            Self::NotFound(_) => ErrorClass::NotFound,
            Self::Denied(_) => ErrorClass::Denied,
            Self::Store(error) => ErrorClass::of(error),
            _ => ErrorClass::Other,
        }
    }

    /// Whether the cause concerns this object only or all objects of the operation.
    pub fn reach(&self) -> Reach {
        match self {
            Self::Store(error) => Reach::of(error),
            Self::Refused(_) => Reach::All,
            Self::NotFound(_)
            | Self::Denied(_)
            | Self::NotRemoved(_)
            | Self::Command(_)
            | Self::Disorder(_)
            | Self::Unsorted { .. }
            | Self::Failed(_)
            | Self::Incomplete { .. }
            | Self::Stopped => Reach::One,
            Self::At { error, .. } => error.reach(),
        }
    }
}

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// What was asked for is wrong.
    Input,
    /// The object, bucket or file does not exist.
    NotFound,
    /// Access is denied.
    Denied,
    /// The store could not be reached.
    Unreachable,
    /// Any other.
    Other,
}

impl ErrorClass {
    /// The class of an error of a store.
    pub fn of(error: &StoreError) -> Self {
        match error.kind() {
            _ if is_input(error) => Self::Input,
            ErrorKind::NotFound | ErrorKind::NoBucket => Self::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::Credentials => Self::Denied,
            _ if error.is_unreachable() => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

/// Whether the library refused the input before it sent a request, or the store refuses the way it is addressed.
fn is_input(error: &StoreError) -> bool {
    error.refuses_path_style()
        || error.attempts() == 0 && matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// Whether the cause of a failure concerns one object only, or all objects of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This object only.
    One,
    /// Every object: the credentials, the bucket, what was asked for.
    All,
    /// Perhaps every object: the store must be asked.
    AskStore,
}

impl Reach {
    /// Whether the cause of an error of a store concerns one object only.
    pub fn of(error: &StoreError) -> Self {
        match error.kind() {
            ErrorKind::NoBucket | ErrorKind::Credentials | ErrorKind::ClockSkew => Self::All,
            kind if kind == ErrorKind::NotAStore || error.is_unreachable() => Self::AskStore,
            _ => Self::One,
        }
    }
}

fn incomplete(report: &Report, cause: Option<&Error>) -> String {
    let (failed, all) = (report.failed, report.failed + report.done());
    match cause {
        Some(cause) => format!("{failed} of {all} failed, then stopped: {cause}"),
        None => format!("{failed} of {all} failed"),
    }
}

/// The directory of temporary files, for the message of one that failed.
pub(crate) fn temporary_directory() -> String {
    printable(&std::env::temp_dir().display().to_string()).into_owned()
}

/// A hint for keys that look like patterns of another tool.
fn pattern_note(location: &str) -> &'static str {
    if location.contains(['?', '[']) {
        "; only `*` and `**` make a pattern: `?` and `[` are characters of the key"
    } else if location.contains('*') {
        "; here, `*` is a character of the key"
    } else {
        ""
    }
}

/// The sentence for people about an error of a store.
pub fn sentence_of(error: &StoreError) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("{error}{}", pattern_note(error.object())),
        _ => error.to_string(),
    }
}

impl From<LocationError> for Error {
    fn from(error: LocationError) -> Self {
        Self::Refused(error.to_string())
    }
}
