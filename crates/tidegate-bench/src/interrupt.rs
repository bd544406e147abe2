//! Ends a run of the engine in this process on Ctrl-C or SIGTERM, and aborts its uploads.

use std::fmt;
use std::time::Duration;

use tidegate::Tidegate;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::Result;

/// How long the aborts may take after a signal.
const ABORTING: Duration = Duration::from_millis(1200);

/// The error of a run that a signal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptedRun {
    /// The exit code, as a shell reports a program that the signal ended.
    pub exit_code: u8,
}

impl fmt::Display for InterruptedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for InterruptedRun {}

/// Does `work`, which uses `tide`, until it ends or a signal arrives. Then waits for the aborts of dropped writers.
///
/// # Errors
/// The error of `work`; [`InterruptedRun`]; or that uploads could not be aborted.
pub(crate) async fn until_signal<T>(tide: &Tidegate, work: impl Future<Output = Result<T>>) -> Result<T> {
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let done = {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => done,
            _ = interrupt.recv() => Err(InterruptedRun { exit_code: 130 }.into()),
            _ = terminate.recv() => Err(InterruptedRun { exit_code: 143 }.into()),
        }
    }; // dropping the work drops every writer, which begins the aborts
    let failed = match &done {
        Err(error) if error.is::<InterruptedRun>() => {
            timeout(ABORTING, tide.settled()).await.unwrap_or_default()
        }
        _ => tide.settled().await,
    };
    for error in &failed {
        eprintln!("an upload could not be aborted and may hold parts: {}", error.object());
    }
    done
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| format!("the system gives no signals: {error}").into())
}
