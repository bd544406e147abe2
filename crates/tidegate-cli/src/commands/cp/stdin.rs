//! Standard input.

use std::fs;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

/// Standard input as a source of bytes; its errors say that they are its.
#[derive(Debug)]
pub(super) enum Stdin {
    /// A pipe: read when it has something, straight into the buffer that is sent.
    Pipe(pipe::Receiver),
    /// Anything else, read in a thread.
    Other(tokio::io::Stdin),
}

impl Stdin {
    /// What a pipe is made to hold, so that each read finds much: the system's limit for everyone.
    const PIPE: usize = 1 << 20;

    pub(super) fn open() -> Self {
        match Self::pipe() {
            Ok(pipe) => Self::Pipe(pipe),
            Err(_) => Self::Other(tokio::io::stdin()),
        }
    }

    /// Standard input, where it is a pipe, opened once more.
    ///
    /// Reads that do not block need `O_NONBLOCK`, and that belongs to the open file, which other
    /// processes may share: a shell that reads from the same pipe would see its reads fail. A second
    /// open of the same pipe has its own flags. (Of a named pipe it would not be told that the writer
    /// has left before; there a thread reads.)
    fn pipe() -> io::Result<pipe::Receiver> {
        const PATH: &str = "/proc/self/fd/0";
        if !fs::read_link(PATH)?.as_os_str().as_encoded_bytes().starts_with(b"pipe:[") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pipe = pipe::OpenOptions::new().open_receiver(PATH)?;
        // A pipe that stays as it is works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, Self::PIPE);
        Ok(pipe)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut *self {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Other(stdin) => Pin::new(stdin).poll_read(cx, buffer),
        };
        read.map_err(|error| io::Error::new(error.kind(), format!("stdin: {error}")))
    }
}
