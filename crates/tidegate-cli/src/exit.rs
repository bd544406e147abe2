//! How a command ends: what it says on standard error, and its exit code.

use std::error::Error as _;
use std::process::ExitCode;

use tidegate::location::LocationError;
use tidegate::{Error, ErrorKind};

use crate::interrupt::Signal;
use crate::output;

/// How a command ended.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not do everything.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or its input is wrong.
    Usage(String),
    /// The library's word.
    Store(Error),
    /// Anything else, in one sentence.
    Failed(String),
    /// Whoever reads the output has gone: nothing to say, and nobody to say it to.
    NobodyReads,
    /// It was told to end, and has said so.
    Interrupted(Signal),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Store(error) if is_input(error) => 2,
            Self::Store(_) | Self::Failed(_) | Self::NobodyReads => 1,
            Self::Interrupted(signal) => signal.exit_code(),
        }
    }

    /// The sentence for people; `None` where there is nothing to say.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            Self::Usage(sentence) | Self::Failed(sentence) => Some(sentence.clone()),
            Self::Store(error) => Some(error.to_string()),
            Self::NobodyReads | Self::Interrupted(_) => None,
        }
    }

    /// Whether every other object of the same command would fail in the same way.
    pub(crate) fn is_common(&self) -> bool {
        match self {
            Self::Store(error) => {
                matches!(
                    error.kind(),
                    ErrorKind::NoBucket | ErrorKind::Credentials | ErrorKind::ClockSkew | ErrorKind::NoSpace
                )
            }
            Self::Usage(_) | Self::NobodyReads | Self::Interrupted(_) => true,
            Self::Failed(_) => false,
        }
    }
}

/// What was refused before anything was sent.
fn is_input(error: &Error) -> bool {
    error.attempts() == 0 && matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<LocationError> for Failure {
    fn from(error: LocationError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// An error of writing to standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::NobodyReads;
        }
        Self::Failed(format!("writing to standard output failed: {error}"))
    }
}

/// Says why, and with `verbose` what lies beneath; gives the exit code.
pub(crate) fn end(outcome: Outcome, verbose: bool) -> ExitCode {
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    if let Some(sentence) = failure.sentence() {
        output::say(&format!("error: {sentence}"));
    }
    if let (Failure::Store(error), true) = (&failure, verbose) {
        let mut cause = error.source();
        while let Some(error) = cause {
            output::say(&format!("  because: {error}"));
            cause = error.source();
        }
    }
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code() {
        assert_eq!(Failure::Usage(String::new()).code(), 2);
        assert_eq!(Failure::Failed(String::new()).code(), 1);
        assert_eq!(Failure::NobodyReads.code(), 1);
        assert_eq!(Failure::Interrupted(Signal::Interrupt).code(), 130);
        assert_eq!(Failure::Interrupted(Signal::Terminate).code(), 143);
        assert_eq!(Failure::Interrupted(Signal::HangUp).code(), 129);
    }

    #[test]
    fn what_was_refused_before_sending_is_bad_input() {
        let refused = tidegate::Tidegate::builder().memory(1).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(Failure::Store(refused).code(), 2);
    }

    #[test]
    fn a_reader_that_left_is_not_spoken_of() {
        let gone = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(gone.sentence().is_none());
    }
}
