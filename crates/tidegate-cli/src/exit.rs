//! How a command ends: its message on standard error, and its exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tidegate::location::LocationError;
use tidegate::{Error, ErrorKind};
use tidegate_transfer::job::JobError;
use tidegate_transfer::{ErrorClass, Reach, sentence_of};

use crate::interrupt::Signal;
use crate::output;

/// How a command ended.
pub(crate) type Outcome<T = ()> = Result<T, CommandFailure>;

/// Why a command did not do everything.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The command line or its input is wrong.
    Usage(String),
    /// The object, bucket, directory or file does not exist.
    NotFound(String),
    /// The system denies access.
    Denied(String),
    /// An error of the library.
    Store(Error),
    /// Any other failure, in one sentence.
    Failed(String),
    /// Everything failed, each time with this exit code.
    All(u8, String),
    /// A command that produces or takes the bytes failed; the exit code is its own.
    Command(u8, String),
    /// The reader of standard output has gone. Nothing is printed.
    NobodyReads,
    /// A signal ended the command, which has already printed its message.
    Interrupted(Signal),
    /// A failure that concerns one object, place or file, whose URL or path is the first value.
    At(String, Box<CommandFailure>),
}

impl CommandFailure {
    /// The kind of a failure that a signal caused.
    pub(crate) const INTERRUPTED: &str = "interrupted";

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Denied(_) => 4,
            Self::Store(error) => code_of(error),
            Self::Failed(_) | Self::NobodyReads => 1,
            Self::All(code, _) | Self::Command(code, _) => *code,
            Self::Interrupted(signal) => signal.exit_code(),
            Self::At(_, failure) => failure.code(),
        }
    }

    /// The kind, for programs: that of the library's error, or the one that comes closest.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::NotFound(_) => ErrorKind::NotFound.name(),
            Self::Denied(_) => ErrorKind::PermissionDenied.name(),
            Self::Store(error) => error.kind().name(),
            Self::Failed(_) | Self::All(..) | Self::Command(..) | Self::NobodyReads => "failed",
            Self::Interrupted(_) => Self::INTERRUPTED,
            Self::At(_, failure) => failure.kind(),
        }
    }

    /// The URL or path of what it concerns, if that is one object, place or file.
    pub(crate) fn object(&self) -> Option<&str> {
        match self {
            Self::Store(error) => Some(error.object()),
            Self::At(object, _) => Some(object),
            _ => None,
        }
    }

    /// The sentence for people; `None` where there is nothing to say.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            Self::Usage(sentence)
            | Self::NotFound(sentence)
            | Self::Denied(sentence)
            | Self::All(_, sentence)
            | Self::Command(_, sentence)
            | Self::Failed(sentence) => Some(sentence.clone()),
            Self::Store(error) => Some(sentence_of(error)),
            Self::NobodyReads | Self::Interrupted(_) => None,
            Self::At(_, failure) => failure.sentence(),
        }
    }

    /// Whether the cause concerns this object only or all objects of the command.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Store(error) => Reach::of(error),
            Self::Usage(_) | Self::NobodyReads | Self::Interrupted(_) => Reach::All,
            Self::NotFound(_) | Self::Denied(_) | Self::Failed(_) | Self::All(..) | Self::Command(..) => {
                Reach::One
            }
            Self::At(_, failure) => failure.reach(),
        }
    }

    /// A failure of the local file `path`, with the system's message.
    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        tidegate_transfer::Error::of_file(path, error).into()
    }

    /// There is nothing at `location`; `what` says so in words.
    pub(crate) fn nothing_at(location: &impl ToString, what: &str) -> Self {
        tidegate_transfer::Error::nothing_at(location, what).into()
    }
}

/// The exit code of a command that ends with an error of the library.
pub(crate) fn code_of(error: &Error) -> u8 {
    match ErrorClass::of(error) {
        ErrorClass::Input => 2,
        ErrorClass::NotFound => 3,
        ErrorClass::Denied => 4,
        ErrorClass::Unreachable => 5,
        _ => 1,
    }
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<tidegate_transfer::Error> for CommandFailure {
    fn from(error: tidegate_transfer::Error) -> Self {
        use tidegate_transfer::Error as TreeError;
        match error {
            TreeError::Refused(sentence) => Self::Usage(sentence),
            TreeError::NotFound(sentence) => Self::NotFound(sentence),
            TreeError::Denied(sentence) => Self::Denied(sentence),
            TreeError::Store(error) => Self::Store(error),
            TreeError::Command(error) => Self::Command(error.exit_code(), error.to_string()),
            TreeError::At { object, error } => Self::At(object, Box::new(Self::from(*error))),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<JobError> for CommandFailure {
    fn from(error: JobError) -> Self {
        tidegate_transfer::Error::from(error).into()
    }
}

/// What the opening of a store tells an operation on trees.
impl From<CommandFailure> for tidegate_transfer::Error {
    fn from(failure: CommandFailure) -> Self {
        match failure {
            CommandFailure::Usage(sentence) => Self::Refused(sentence),
            CommandFailure::NotFound(sentence) => Self::NotFound(sentence),
            CommandFailure::Denied(sentence) => Self::Denied(sentence),
            CommandFailure::Store(error) => Self::Store(error),
            CommandFailure::At(object, failure) => Self::At { object, error: Box::new(Self::from(*failure)) },
            other => Self::Failed(other.sentence().unwrap_or_default()),
        }
    }
}

impl From<LocationError> for CommandFailure {
    fn from(error: LocationError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// A failed write to standard output.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::NobodyReads;
        }
        Self::Failed(format!("writing to standard output failed: {error}"))
    }
}

/// Prints why the command failed, with `verbose` also the underlying causes, and returns the exit code.
pub(crate) fn end(outcome: Outcome, verbose: bool) -> ExitCode {
    let Err(failure) = outcome else {
        output::flush();
        return ExitCode::SUCCESS;
    };
    say(&failure, verbose);
    output::flush();
    ExitCode::from(failure.code())
}

/// Prints why a command failed, with `verbose` also the underlying causes.
pub(crate) fn say(failure: &CommandFailure, verbose: bool) {
    output::fail(failure);
    if verbose {
        output::because(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code() {
        assert_eq!(CommandFailure::Usage(String::new()).code(), 2);
        assert_eq!(CommandFailure::NotFound(String::new()).code(), 3);
        assert_eq!(CommandFailure::Denied(String::new()).code(), 4);
        assert_eq!(CommandFailure::Failed(String::new()).code(), 1);
        assert_eq!(CommandFailure::NobodyReads.code(), 1);
        assert_eq!(CommandFailure::Interrupted(Signal::Interrupt).code(), 130);
        assert_eq!(CommandFailure::Interrupted(Signal::Terminate).code(), 143);
        assert_eq!(CommandFailure::Interrupted(Signal::HangUp).code(), 129);
    }

    #[test]
    fn what_was_refused_before_sending_is_bad_input() {
        let refused = tidegate::Tidegate::builder().memory(1).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(CommandFailure::Store(refused).code(), 2);
    }

    #[test]
    fn a_reader_that_left_is_not_spoken_of() {
        let gone = CommandFailure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(gone.sentence().is_none());
    }
}
