//! Reads standard input.

use std::fs;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
use tokio::task::coop;

use crate::exit::Outcome;
use crate::standard;

/// How to wait for bytes when the pipe is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdinWait {
    /// Block the thread for [`GATHER`] and then [`MOMENT`], before other tasks continue.
    Here,
    /// Block the thread for `MOMENT` only.
    HereBriefly,
    /// Do not block the thread: wait for a readiness event.
    Elsewhere,
}

/// Standard input as a source of bytes. Its errors name stdin.
#[derive(Debug)]
pub(crate) enum Stdin {
    /// A pipe: read straight into the buffer that is sent.
    Pipe(pipe::Receiver, StdinWait),
    /// Anything else, read in a thread. (Not `tokio::io::Stdin`, which reports an `EBADF` error as the end of the
    /// input.)
    Other(tokio::fs::File),
}

impl Stdin {
    /// The size to give a pipe, so that each read finds many bytes: Linux's default limit for unprivileged users.
    const PIPE: usize = 1 << 20;

    /// # Errors
    /// If standard input is closed.
    pub(crate) fn open(wait: StdinWait) -> Outcome<Self> {
        let input = standard::input()?;
        Ok(match Self::pipe() {
            // Gathering needs a pipe that can hold what arrives meanwhile.
            Ok((pipe, false)) if wait == StdinWait::Here => Self::Pipe(pipe, StdinWait::HereBriefly),
            Ok((pipe, _)) => Self::Pipe(pipe, wait),
            Err(_) => Self::Other(tokio::fs::File::from_std(input)),
        })
    }

    /// Opens standard input once more, if it is a pipe; also returns whether the pipe holds [`PIPE`](Self::PIPE)
    /// bytes.
    ///
    /// Reads that do not block need `O_NONBLOCK`. That flag belongs to the open file, which other processes may
    /// share: a shell that reads from the same pipe would see its reads fail. A second open of the same pipe has
    /// flags of its own. (A second open of a named pipe would not notice that the writer had already left, so named
    /// pipes are read in a thread.)
    fn pipe() -> io::Result<(pipe::Receiver, bool)> {
        const PATH: &str = "/proc/self/fd/0";
        if !fs::read_link(PATH)?.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pipe = pipe::OpenOptions::new().open_receiver(PATH)?;
        // A pipe of the old size works as well.
        let is_large = rustix::pipe::fcntl_setpipe_size(&pipe, Self::PIPE).is_ok();
        Ok((pipe, is_large))
    }
}

/// How long to sleep first when the pipe is empty: many small writes then become one read and cause no wake-ups.
/// (With what the system adds to the sleep, a writer of 7 GB/s would fill the pipe in that time.)
const GATHER: Duration = Duration::from_micros(100);

/// How long to block after that until bytes arrive, before other tasks continue. The next write usually comes within
/// this time. A readiness event would come through another thread, which costs as much as moving the bytes.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Reads from the pipe at once, or within the time that it may block; otherwise waits for a readiness event.
fn poll_pipe(
    pipe: &mut pipe::Receiver,
    wait: StdinWait,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    // If each read found bytes, the task would never yield, and a signal would never be seen.
    let turn = ready!(coop::poll_proceed(cx));
    let mut read = rustix::io::read(&*pipe, buffer.initialize_unfilled());
    if wait == StdinWait::Here && read == Err(Errno::AGAIN) {
        std::thread::sleep(GATHER);
        read = rustix::io::read(&*pipe, buffer.initialize_unfilled());
    }
    if wait != StdinWait::Elsewhere && read == Err(Errno::AGAIN) {
        // The result does not matter: the next read shows whether bytes have come.
        let _ = poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&MOMENT));
        read = rustix::io::read(&*pipe, buffer.initialize_unfilled());
    }
    match read {
        Err(Errno::AGAIN | Errno::INTR) => Pin::new(pipe).poll_read(cx, buffer),
        read => {
            turn.made_progress();
            buffer.advance(read?);
            Poll::Ready(Ok(()))
        }
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut *self {
            Self::Pipe(pipe, wait) => poll_pipe(pipe, *wait, cx, buffer),
            Self::Other(stdin) => Pin::new(stdin).poll_read(cx, buffer),
        };
        read.map_err(|error| io::Error::new(error.kind(), format!("stdin: {error}")))
    }
}
