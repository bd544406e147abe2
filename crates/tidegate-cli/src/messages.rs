//! The messages on standard error: errors, warnings, notices and the log, each as text for people or as one JSON
//! object (`--json`).

use std::error::Error as _;

use serde::Serialize;
use tidegate::text::without_passwords;

use crate::exit::{self, CommandFailure};
use crate::interrupt::Signal;
use crate::invocation::OutputFormat;
use crate::output::{LONGEST, escaped, line};

/// A message. Its serialized form is the JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Message {
    /// Something was not done.
    Error(DescribedFailure),
    /// Something was done, and not all of it as the user may expect.
    Warning { message: String },
    /// What a command did, or waits for.
    Notice { message: String },
    /// An event of the library's log.
    Log { message: String },
}

/// A failure, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct DescribedFailure {
    message: String,
    /// The exit code that a command with this failure alone has.
    exit_code: u8,
    /// A name of `ErrorKind`, or `usage`, `failed` or `interrupted`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// The underlying causes, the most direct one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl Message {
    /// The message about a failure; `None` if there is nothing to say of it.
    pub(crate) fn of_failure(failure: &CommandFailure) -> Option<Self> {
        if let CommandFailure::Store(error) = failure {
            return Some(Self::of_error(error));
        }
        Some(Self::Error(DescribedFailure {
            message: shown(&failure.sentence()?),
            exit_code: failure.code(),
            kind: failure.kind(),
            object: failure.object().map(shown),
            ..DescribedFailure::default()
        }))
    }

    /// The message about an error of the library.
    pub(crate) fn of_error(error: &tidegate::Error) -> Self {
        let is_of_requests = error.attempts() > 0;
        Self::Error(DescribedFailure {
            message: shown(&tidegate_transfer::sentence_of(error)),
            exit_code: exit::code_of(error),
            kind: error.kind().name(),
            object: Some(shown(error.object())),
            operation: Some(error.operation().name()),
            part: error.part().map(|(number, _)| number),
            attempts: is_of_requests.then(|| error.attempts()),
            seconds: is_of_requests.then(|| error.elapsed().as_secs_f64()),
            causes: causes(error),
        })
    }

    /// The message that a signal ends the command.
    pub(crate) fn interrupted(signal: Signal, message: &str) -> Self {
        let failure = CommandFailure::Interrupted(signal);
        Self::Error(DescribedFailure {
            message: shown(message),
            exit_code: failure.code(),
            kind: failure.kind(),
            ..DescribedFailure::default()
        })
    }

    pub(crate) fn warning(message: &str) -> Self {
        Self::Warning { message: shown(message) }
    }

    pub(crate) fn notice(message: &str) -> Self {
        Self::Notice { message: shown(message) }
    }

    pub(crate) fn log(message: &str) -> Self {
        Self::Log { message: shown(message) }
    }

    /// The one line to write.
    pub(crate) fn line(&self, format: OutputFormat) -> String {
        if format == OutputFormat::Json {
            // Serialization of these fields cannot fail.
            return escaped(&serde_json::to_string(self).unwrap_or_default()).into_owned();
        }
        let text = match self {
            Self::Error(failure) if failure.kind == CommandFailure::INTERRUPTED => failure.message.clone(),
            Self::Error(failure) => format!("error: {}", failure.message),
            Self::Warning { message } => format!("warning: {message}"),
            Self::Notice { message } | Self::Log { message } => message.clone(),
        };
        line(&text).into_owned()
    }
}

impl Message {
    /// As [`line`](Self::line), with a label: before the text, or at the beginning of the JSON object's `message`.
    pub(crate) fn line_with_label(&self, format: OutputFormat, label: &str) -> String {
        if format == OutputFormat::Text {
            return line(&format!("{label}{}", self.line(format))).into_owned();
        }
        let mut labelled = self.clone();
        let (Self::Error(DescribedFailure { message, .. })
        | Self::Warning { message }
        | Self::Notice { message }
        | Self::Log { message }) = &mut labelled;
        message.insert_str(0, label);
        labelled.line(format)
    }
}

/// The underlying causes of an error, the most direct one first.
pub(crate) fn causes(error: &tidegate::Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(shown(&error.to_string()));
        cause = error.source();
    }
    causes
}

/// The text without passwords, and not too long.
fn shown(text: &str) -> String {
    let text = without_passwords(text);
    match text.len() {
        0..=LONGEST => text.into_owned(),
        _ => format!("{}…", &text[..text.floor_char_boundary(LONGEST)]),
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Tidegate;

    use super::*;

    fn both(message: &Message) -> (String, String) {
        (message.line(OutputFormat::Text), message.line(OutputFormat::Json))
    }

    #[test]
    fn each_message_has_its_word_and_its_type() {
        assert_eq!(
            both(&Message::warning("left out: a\nb")),
            (
                r"warning: left out: a\nb".to_owned(),
                r#"{"type":"warning","message":"left out: a\nb"}"#.to_owned()
            )
        );
        assert_eq!(Message::notice("x").line(OutputFormat::Json), r#"{"type":"notice","message":"x"}"#);
        assert_eq!(Message::log("x").line(OutputFormat::Text), "x");
        let usage = Message::of_failure(&CommandFailure::Usage("wrong".to_owned())).unwrap();
        let json = r#"{"type":"error","message":"wrong","exit_code":2,"kind":"usage"}"#;
        assert_eq!(both(&usage), ("error: wrong".to_owned(), json.to_owned()));
        let ended = Message::interrupted(Signal::Interrupt, "interrupted: aborting 1 unfinished upload");
        let json = r#"{"type":"error","message":"interrupted: aborting 1 unfinished upload","exit_code":130,"kind":"interrupted"}"#;
        assert_eq!(both(&ended), ("interrupted: aborting 1 unfinished upload".to_owned(), json.to_owned()));
        assert_eq!(Message::of_failure(&CommandFailure::NobodyReads), None);
    }

    #[tokio::test]
    async fn an_error_of_the_library_is_told_in_fields() {
        let store = Tidegate::builder().build().unwrap().open("memory://messages").await.unwrap();
        let error = store.head("none").await.unwrap_err();
        let told = Message::of_failure(&error.into()).unwrap().line(OutputFormat::Json);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        for (field, value) in [
            ("type", "error"),
            ("kind", "not_found"),
            ("operation", "head"),
            ("object", "memory://messages/none"),
        ] {
            assert_eq!(told[field], value, "{told}");
        }
        assert_eq!((&told["exit_code"], &told["attempts"]), (&3.into(), &1.into()), "{told}");
    }

    #[test]
    fn a_label_comes_first() {
        let message = Message::of_failure(&CommandFailure::Usage("wrong".to_owned())).unwrap();
        let labelled = |format| message.line_with_label(format, "list.txt:17: ");
        assert_eq!(labelled(OutputFormat::Text), "list.txt:17: error: wrong");
        let json = r#"{"type":"error","message":"list.txt:17: wrong","exit_code":2,"kind":"usage"}"#;
        assert_eq!(labelled(OutputFormat::Json), json);
    }

    #[test]
    fn a_message_has_no_password_and_an_end() {
        let long = format!("http://user:secret@h/k {}", "é".repeat(1 << 20));
        for message in [Message::warning(&long), Message::of_failure(&CommandFailure::Failed(long)).unwrap()]
        {
            for line in [message.line(OutputFormat::Text), message.line(OutputFormat::Json)] {
                assert!(!line.contains("secret") && line.len() < LONGEST + 200 && line.contains('…'));
            }
        }
    }
}
