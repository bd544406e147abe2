//! Ctrl-C, SIGTERM, and a closed terminal: each ends the process within two seconds.
//!
//! A separate thread listens, with a runtime of its own, so that no command can be too busy or too blocked to end. A
//! command that must clean up takes [`Signals`] and ends by itself. The thread ends the process in three cases: no
//! command has taken [`Signals`], [`GRACE`] has passed, or a second signal arrives.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;

use crate::exit::{CommandFailure, Outcome};
use crate::output;

/// How long a command may clean up after a signal. The rest of the two seconds is a reserve for a busy machine.
const GRACE: Duration = Duration::from_millis(1600);
/// How long printing the last messages may take: standard error may be a pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The signal that ended the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal was closed.
    HangUp,
}

impl Signal {
    /// 128 plus the signal's number, as shells report it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
        }
    }
}

/// Prints the last messages.
type LastWords = Arc<dyn Fn() + Send + Sync>;

/// The one listener of the process, because signals arrive per process.
struct Listener {
    heard: watch::Sender<Option<Signal>>,
    last_words: Mutex<Option<LastWords>>,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

fn listener() -> &'static Listener {
    LISTENER.get_or_init(|| Listener { heard: watch::Sender::new(None), last_words: Mutex::default() })
}

/// Starts to listen for signals, until the process ends.
pub(crate) fn listen() -> Outcome {
    let failed = |error: std::io::Error| CommandFailure::Failed(format!("can't listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let mut arriving = {
        let _runtime = runtime.enter();
        ArrivingSignals::new().map_err(failed)?
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let listening = thread.spawn(move || runtime.block_on(listener().watch(&mut arriving)));
    listening.map_err(failed)?;
    Ok(())
}

impl Listener {
    async fn watch(&self, arriving: &mut ArrivingSignals) {
        let signal = arriving.next().await;
        // Count the listeners before sending: a command that ends immediately prints its own message.
        let nobody_cleans_up = self.heard.receiver_count() == 0;
        self.heard.send_replace(Some(signal));
        if nobody_cleans_up {
            self.leave(signal, Some("interrupted"));
        }
        // The process ends after a second signal, or when the time limit passes.
        let _ = tokio::time::timeout(GRACE, arriving.next()).await;
        self.leave(signal, None)
    }

    /// Ends the process, even if its other threads are blocked.
    fn leave(&self, signal: Signal, first: Option<&'static str>) -> ! {
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (said, is_said) = mpsc::channel::<()>();
        // Both asking for the last messages and printing them may block, so another thread does that.
        let saying = std::thread::Builder::new().spawn(move || {
            first.into_iter().for_each(|first| output::interrupted(signal, first));
            words.iter().for_each(|words| words());
            output::flush();
            drop(said);
        });
        if saying.is_ok() {
            // The wait ends when everything is printed, or when the time limit passes.
            let _ = is_said.recv_timeout(LAST_WORDS);
        }
        std::process::exit(i32::from(signal.exit_code()))
    }
}

/// The signals that end the process, for a command that cleans up when one arrives.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: watch::Receiver<Option<Signal>>,
}

impl Signals {
    /// From here on, the command ends by itself after a signal, including a signal that arrived before.
    pub(crate) fn new() -> Self {
        Self { heard: listener().heard.subscribe() }
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) -> Signal {
        let heard = self.heard.wait_for(Option::is_some).await.ok().and_then(|heard| *heard);
        // The sender is static, so the channel is never closed.
        match heard {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Sets what prints the last messages if the process must end before the command does; `None` clears them.
    pub(crate) fn last_words(&self, words: Option<LastWords>) {
        *listener().last_words.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.last_words(None);
    }
}

/// The signals as the system delivers them. Once [`new`](Self::new) returns, they no longer end the process by
/// themselves.
struct ArrivingSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: Option<unix::Signal>,
}

impl ArrivingSignals {
    fn new() -> std::io::Result<Self> {
        // `nohup` ignores SIGHUP so that its command continues: keep that.
        let hang_up = (!ignores_hang_up()).then(|| unix::signal(SignalKind::hangup())).transpose()?;
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = hang_up => Signal::HangUp,
        }
    }
}

/// Whether SIGHUP was ignored when the process began.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status) & 1 != 0
}

/// The mask of the signals that a process ignores, from its `/proc/…/status`: signal 1 is the lowest bit.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored_signals(""), 0);
    }
}
