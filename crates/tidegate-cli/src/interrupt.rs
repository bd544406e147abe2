//! Ctrl-C, SIGTERM, and a terminal that is closed.

use tokio::signal::unix::{self, SignalKind};

use crate::exit::{Failure, Outcome};

/// What told the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Signal {
    /// 128 and the signal's number, as shells have it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
        }
    }
}

/// The signals that end the process; from [`new`](Self::new) on they no longer do so by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: Option<unix::Signal>,
}

impl Signals {
    pub(crate) fn new() -> Outcome<Self> {
        let listen = |kind| {
            unix::signal(kind).map_err(|error| Failure::Failed(format!("can't listen for signals: {error}")))
        };
        // What `nohup` started is to go on.
        let hang_up = (!ignores_hang_up()).then(|| listen(SignalKind::hangup())).transpose()?;
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signal {
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

/// The signals that a process ignores, as its `/proc/…/status` has them: signal 1 is the lowest bit.
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
