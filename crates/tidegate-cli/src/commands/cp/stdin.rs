//! Standard input.

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

/// Where an empty pipe is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// In place, for [`GATHER`] and [`MOMENT`], before what else there is to do goes on.
    Here,
    /// The same, for `MOMENT` only.
    HereBriefly,
    /// Nowhere: an event says when there is something.
    Elsewhere,
}

/// Standard input as a source of bytes; its errors say that they are its.
#[derive(Debug)]
pub(super) enum Stdin {
    /// A pipe: read straight into the buffer that is sent.
    Pipe(pipe::Receiver, Wait),
    /// Anything else, read in a thread. (Not `tokio::io::Stdin`: where reading fails with `EBADF`, that says that the
    /// input has ended.)
    Other(tokio::fs::File),
}

impl Stdin {
    /// What a pipe is made to hold, so that each read finds much: the system's limit for everyone.
    const PIPE: usize = 1 << 20;

    /// # Errors
    /// Where standard input is closed.
    pub(super) fn open(wait: Wait) -> Outcome<Self> {
        let input = standard::input()?;
        Ok(match Self::pipe() {
            // What is gathered must fit.
            Ok((pipe, false)) if wait == Wait::Here => Self::Pipe(pipe, Wait::HereBriefly),
            Ok((pipe, _)) => Self::Pipe(pipe, wait),
            Err(_) => Self::Other(tokio::fs::File::from_std(input)),
        })
    }

    /// Standard input, where it is a pipe, opened once more; and whether it holds [`PIPE`](Self::PIPE) bytes.
    ///
    /// Reads that do not block need `O_NONBLOCK`, and that belongs to the open file, which other
    /// processes may share: a shell that reads from the same pipe would see its reads fail. A second
    /// open of the same pipe has its own flags. (Of a named pipe it would not be told that the writer
    /// has left before; there a thread reads.)
    fn pipe() -> io::Result<(pipe::Receiver, bool)> {
        const PATH: &str = "/proc/self/fd/0";
        if !fs::read_link(PATH)?.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pipe = pipe::OpenOptions::new().open_receiver(PATH)?;
        // A pipe that stays as it is works as well.
        let is_large = rustix::pipe::fcntl_setpipe_size(&pipe, Self::PIPE).is_ok();
        Ok((pipe, is_large))
    }
}

/// How long an empty pipe is left alone first: many small writes come to be one read, and wake nobody. (With what the system
/// adds, at 7 GB/s it would be full by then.)
const GATHER: Duration = Duration::from_micros(100);

/// How long an empty pipe is waited for in place after that, before what else there is to do goes on. The next write mostly
/// comes within that; an event of it would come over another thread, which costs as much as the bytes.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Reads what the pipe has now, or within the time that it is waited for in place; else when an event says so.
fn poll_pipe(
    pipe: &mut pipe::Receiver,
    wait: Wait,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    // Where each read finds something, a signal would never be seen.
    let turn = ready!(coop::poll_proceed(cx));
    let mut read = rustix::io::read(&*pipe, buffer.initialize_unfilled());
    if wait == Wait::Here && read == Err(Errno::AGAIN) {
        std::thread::sleep(GATHER);
        read = rustix::io::read(&*pipe, buffer.initialize_unfilled());
    }
    if wait != Wait::Elsewhere && read == Err(Errno::AGAIN) {
        // Whatever it says, the next read finds out.
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
