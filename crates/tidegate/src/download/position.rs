//! A reader as a file: reads into buffers, and seeks.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::{FIRST_REACH, Reader};

/// A seek this little ahead reads on over the open request.
const SKIP: u64 = 256 << 10;

impl Reader {
    /// The byte of the object that is read next.
    pub(super) fn position(&self) -> u64 {
        self.at - self.piece.len() as u64
    }

    fn go_to(&mut self, target: u64) {
        let position = self.position();
        if (position..=self.at).contains(&target) {
            self.piece.advance((target - position) as usize);
            return;
        }
        self.piece.clear();
        self.at = target;
        // Some bytes are skipped or read twice, so the checksum of the whole is not known.
        self.hasher = None;
        self.reach = FIRST_REACH;
        if let Some(ahead) = &mut self.ahead {
            ahead.sought();
        }
        // With one stream, another request would bring the whole object again, or another object.
        let skip = if self.source.is_one_stream(&self.object) { u64::MAX } else { SKIP };
        let goes_on =
            |direct: &mut super::Direct| (direct.at..direct.at.saturating_add(skip)).contains(&target);
        if self.direct.take_if(|direct| !goes_on(direct)).is_none() && self.direct.is_some() {
            self.reach = u64::MAX;
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = ready!(self.as_mut().poll_fill_buf(cx))?;
        let taken = bytes.len().min(buffer.remaining());
        buffer.put_slice(&bytes[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Reader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let turn = ready!(poll_proceed(cx));
        let this = self.get_mut();
        while this.piece.is_empty() {
            match ready!(this.poll_piece(cx)) {
                Some(piece) => this.piece = piece?,
                None => break,
            }
        }
        turn.made_progress();
        Poll::Ready(Ok(&this.piece))
    }

    fn consume(mut self: Pin<&mut Self>, bytes: usize) {
        self.piece.advance(bytes);
    }
}

/// Positions count from the first byte of the range that is read. Past its end there is nothing to read, which is no
/// error. Chunks that were read ahead and lie ahead of the new position are kept; of the others, the nearest is.
impl AsyncSeek for Reader {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let Range { start, end } = self.range();
        let (from, by) = match to {
            SeekFrom::Start(offset) => (start, i128::from(offset)),
            SeekFrom::End(by) => (end, i128::from(by)),
            SeekFrom::Current(by) => (self.position(), i128::from(by)),
        };
        let target = i128::from(from) + by;
        match u64::try_from(target) {
            Ok(target) if target >= start => self.go_to(target),
            _ => {
                let message = format!("{}: no byte lies before the first that is read", self.source.url());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position() - self.range().start))
    }
}
