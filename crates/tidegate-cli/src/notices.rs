//! Notices for people while the library works: why a request is retried, which endpoint does not answer, and which
//! features a server lacks.
//!
//! The library emits them as tracing events, and [`Notices`] prints them as lines. A notice about
//! waiting appears at most once per [`PAUSE`] for each kind. A missing feature is reported once.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer};

use crate::{output, text};

const RETRY: &str = "tidegate::retry";
const CONNECT: &str = "tidegate::connect";
const ANSWER: &str = "tidegate::answer";
const LACKS: &str = "tidegate::lacks";
/// The shortest time between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(5);

/// Prints on standard error what the library waits for, and what servers lack.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    retries: NoticeRate,
    /// Connections that are not made and responses that do not come. They share one rate, so that one outage prints
    /// one line.
    silence: NoticeRate,
    /// Whether to tell of features that are lacking and that something else replaces.
    tells_lacks: bool,
}

impl Notices {
    /// Notices of what is waited for, and warnings of lacking features without which a promise cannot be kept; with
    /// `is_verbose`, also notices of lacking features that something else replaces.
    pub(crate) fn new(is_verbose: bool) -> Self {
        Self { tells_lacks: is_verbose, ..Self::default() }
    }
}

/// Lets through the events that are notices to print.
pub(crate) fn filter() -> Targets {
    [RETRY, CONNECT, ANSWER, LACKS].into_iter().map(|target| (target, LevelFilter::DEBUG)).collect()
}

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut told = NoticeFields::default();
        event.record(&mut told);
        let (rate, line) = match event.metadata().target() {
            RETRY => (&self.retries, told.retry(SystemTime::now())),
            CONNECT => (&self.silence, told.connection()),
            ANSWER => (&self.silence, told.answer()),
            LACKS if told.is_unkept => return output::warn(&told.lack()),
            LACKS if self.tells_lacks => return output::say(&told.lack()),
            _ => return,
        };
        if let Some(more) = rate.admits(Instant::now()) {
            output::say(&format!("waiting: {line}{more}"));
        }
    }
}

/// When a line was last printed, and how many have been suppressed since.
#[derive(Debug, Default)]
struct NoticeRate(Mutex<(Option<Instant>, u64)>);

impl NoticeRate {
    /// Returns the text to append if a line may be printed now, otherwise `None`.
    fn admits(&self, now: Instant) -> Option<String> {
        let mut rate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, unsaid) = &mut *rate;
        if last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            *unsaid += 1;
            return None;
        }
        *last = Some(now);
        Some(match std::mem::take(unsaid) {
            0 => String::new(),
            more => format!(" (and {more} more since the last line)"),
        })
    }
}

/// The fields of an event.
#[derive(Debug, Default)]
struct NoticeFields {
    object: String,
    operation: String,
    fault: String,
    at: String,
    notice: String,
    attempt: u64,
    attempts: u64,
    pause_ms: u64,
    longest_ms: u64,
    is_unreachable: bool,
    is_work: bool,
    is_unkept: bool,
}

impl NoticeFields {
    fn retry(&self, now: SystemTime) -> String {
        let Self { object, operation, fault, attempt, attempts, .. } = self;
        if self.is_unreachable {
            let until = text::time(now + Duration::from_millis(self.longest_ms));
            return format!("{object} is not reachable: {fault}; trying again until {until}");
        }
        let pause = text::seconds(self.pause_ms as f64 / 1e3);
        let next = attempt + 1;
        format!("{object}: {operation} failed: {fault}; attempt {next} of {attempts} in {pause}")
    }

    fn connection(&self) -> String {
        let waited = text::seconds(self.pause_ms as f64 / 1e3);
        format!("{} is not reachable so far: no connection within {waited}; still trying", self.at)
    }

    fn answer(&self) -> String {
        let waited = text::seconds(self.pause_ms as f64 / 1e3);
        if self.is_work {
            return format!("still waiting for {}, which has been at work for {waited}", self.at);
        }
        format!("{} is not answering so far: no answer within {waited}; still waiting", self.at)
    }

    fn lack(&self) -> String {
        format!("{} {}", self.at, self.notice)
    }
}

impl Visit for NoticeFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = match field.name() {
            "object" => &mut self.object,
            "operation" => &mut self.operation,
            "fault" => &mut self.fault,
            "at" => &mut self.at,
            "notice" => &mut self.notice,
            _ => return,
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "attempt" => self.attempt = value,
            "attempts" => self.attempts = value,
            "pause_ms" => self.pause_ms = value,
            "longest_ms" => self.longest_ms = value,
            _ => {}
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "is_unreachable" => self.is_unreachable = value,
            "is_work" => self.is_work = value,
            "is_unkept" => self.is_unkept = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_names_its_end_and_a_retry_its_cause() {
        let mut told = NoticeFields {
            object: "s3://b/k".to_owned(),
            operation: "part".to_owned(),
            fault: "connection refused by h:1".to_owned(),
            attempt: 1,
            attempts: 10,
            pause_ms: 1200,
            longest_ms: 60_000,
            is_unreachable: true,
            ..NoticeFields::default()
        };
        assert_eq!(
            told.retry(SystemTime::UNIX_EPOCH),
            "s3://b/k is not reachable: connection refused by h:1; trying again until 1970-01-01T00:01:00Z"
        );
        told.is_unreachable = false;
        told.fault = "slow down".to_owned();
        assert_eq!(
            told.retry(SystemTime::UNIX_EPOCH),
            "s3://b/k: part failed: slow down; attempt 2 of 10 in 1.2 s"
        );
    }

    #[test]
    fn silence_and_work_are_told_apart() {
        let mut told = NoticeFields { at: "h:1".to_owned(), pause_ms: 1600, ..NoticeFields::default() };
        assert_eq!(told.answer(), "h:1 is not answering so far: no answer within 1.6 s; still waiting");
        (told.is_work, told.pause_ms) = (true, 10_000);
        assert!(told.answer().starts_with("still waiting for h:1, "), "{}", told.answer());
    }

    #[test]
    fn what_a_server_lacks_is_a_sentence_about_its_address() {
        let told = NoticeFields {
            at: "http://h:1".to_owned(),
            notice: "has no uploads in parts: each object is sent in one request".to_owned(),
            ..NoticeFields::default()
        };
        assert_eq!(told.lack(), "http://h:1 has no uploads in parts: each object is sent in one request");
    }

    #[test]
    fn a_thousand_retries_are_one_line() {
        let (rate, now) = (NoticeRate::default(), Instant::now());
        let said: Vec<_> = (0..1000).filter_map(|_| rate.admits(now)).collect();
        assert_eq!(said, [""]);
        let later = rate.admits(now + PAUSE).unwrap();
        assert!(later.contains("999 more"), "{later}");
    }
}
