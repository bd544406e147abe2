//! Failures: the library's errors, and those of this side, as `TidegateException` has them.

use std::any::Any;
use std::time::Duration;

use tidegate::ErrorKind;
use tidegate_transfer::job::JobError;

use crate::jvm;
use crate::wire::{self, Encoder};

/// A call that failed. `kind` is the name of the library's kind, or of one of those that Java has beside them: `panic`,
/// `forked`, `cancelled`.
pub(crate) struct Failure(Box<Parts>);

struct Parts {
    kind: &'static str,
    message: String,
    operation: &'static str,
    object: String,
    remedy: Option<String>,
    attempts: u32,
    elapsed: Duration,
    is_unreachable: bool,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    fn new(kind: &'static str, object: &str, message: &str) -> Self {
        let message = match object {
            "" => message.to_owned(),
            object => format!("{object}: {message}"),
        };
        Self(Box::new(Parts {
            kind,
            message,
            operation: "",
            object: object.to_owned(),
            remedy: None,
            attempts: 0,
            elapsed: Duration::ZERO,
            is_unreachable: false,
        }))
    }

    pub(crate) fn of(kind: ErrorKind, object: &str, message: &str) -> Self {
        Self::new(kind.name(), object, message)
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::of(ErrorKind::InvalidInput, "", message)
    }

    pub(crate) fn closed(object: &str, message: &str) -> Self {
        Self::of(ErrorKind::Closed, object, message)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "", "the call was cancelled")
    }

    pub(crate) fn forked() -> Self {
        let parent = jvm::process();
        Self::new(
            "forked",
            "",
            &format!("this process was forked from process {parent}, whose JVM does not run here"),
        )
    }

    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Self::new("panic", "", &format!("the library panicked: {text}"))
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        wire::encoded(|to| self.encode(to))
    }

    /// As `TidegateException` reads it.
    pub(crate) fn encode(&self, to: &mut Encoder) {
        let parts = &self.0;
        to.text(parts.kind);
        to.text(&parts.message);
        to.text(parts.operation);
        to.text(&parts.object);
        to.optional(parts.remedy.as_deref());
        to.number(parts.attempts.into());
        to.count(parts.elapsed.as_millis());
        to.number(parts.is_unreachable.into());
    }
}

impl From<tidegate::Error> for Failure {
    fn from(error: tidegate::Error) -> Self {
        Self(Box::new(Parts {
            kind: error.kind().name(),
            message: error.to_string(),
            operation: error.operation().name(),
            object: error.object().to_owned(),
            remedy: error.remedy().map(str::to_owned),
            attempts: error.attempts(),
            elapsed: error.elapsed(),
            is_unreachable: error.is_unreachable(),
        }))
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let (kind, object, message) = (error.kind(), error.object().to_owned(), error.to_string());
        let parts = match error {
            JobError::Store(error) => return error.into(),
            JobError::CannotComplete { error, .. } => Self::from(error).0,
            _ => Self::of(kind, "", "").0,
        };
        Self(Box::new(Parts { object, message, ..*parts }))
    }
}

impl From<std::io::Error> for Failure {
    /// The library's own error, which its `AsyncWrite` wraps.
    fn from(error: std::io::Error) -> Self {
        match error.downcast::<tidegate::Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::of(ErrorKind::Source, "", &error.to_string()),
        }
    }
}
