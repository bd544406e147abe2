//! The process that is killed: it writes one object, from where the one before it was killed.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate::journal::Durability;
use tidegate::{Resumed, Strategy, Tidegate, Writer};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::sleep;

use super::{Args, Content, location};
use crate::commands::cp::journaled::{self, Found};
use crate::exit::{Failure, Outcome};
use crate::stores::{Place, Stores};

/// Bytes in one write.
const PIECE: usize = 192 << 10;

/// How often it is looked whether a journal that another process has is free.
const LOOK: Duration = Duration::from_millis(5);

/// Object `index` below `to`.
pub(super) async fn place(stores: &Stores, to: &str, index: u64) -> Outcome<Place> {
    let (store, prefix) = stores.tree(&location(to)?).await?;
    Ok(Place { store, key: format!("{prefix}{index:07}") })
}

/// Writes object `index`, and says on standard output where it begins, how far its writes have returned,
/// and that it is done.
pub(super) async fn run(args: &Args, index: u64) -> Outcome {
    let engine = args
        .connection
        .reached(Tidegate::builder())
        .memory(32 << 20)
        .part_size(5 << 20)
        // What the end of a process must leave does not depend on it; what is slow is not tested often.
        .durability(Durability::Group { bytes: 4 << 20, delay: Duration::from_millis(100) })
        .journal(args.journal.iter());
    Stores::with(engine, async |stores| {
        let to = args.to.as_deref().unwrap_or_default();
        let place = place(stores, to, index).await?;
        let mut source = Source { content: Content::new(), index, offset: 0, size: args.size };
        match begin(args, &place, &mut source).await? {
            Some(Resumed::Writer(writer)) => write(writer, &mut source).await,
            Some(Resumed::Object(_)) => {
                say(&format!("begins {}", args.size))?;
                say("done")
            }
            None => Ok(()),
        }
    })
    .await
}

/// Begins as `cp` does: what is in a journal is compared with the source, which is read on from there.
/// Nothing where the object is there, or is another process's to begin.
async fn begin(args: &Args, place: &Place, source: &mut Source) -> Outcome<Option<Resumed>> {
    loop {
        let left = place.store.left(&place.key).await?;
        let Some(left) = left.first() else {
            // The one before may have been done, and killed before it could say so.
            if place.store.head(&place.key).await.is_ok() {
                say("done")?;
                return Ok(None);
            }
            if args.linger.is_some() {
                return Ok(None);
            }
            let builder = place.store.writer(&place.key).strategy(Strategy::Journal);
            return Ok(Some(Resumed::Writer(builder.start().await?)));
        };
        sleep(Duration::from_millis(args.linger.unwrap_or(0))).await;
        let claimed = loop {
            match journaled::claim(left, place).await? {
                Found::Ours(claimed) => break Some(claimed),
                Found::Ended => break None,
                Found::InUse(_) => sleep(LOOK).await,
            }
        };
        let Some(claimed) = claimed else { continue };
        if left.recovered().is_some_and(|found| found.checksum != claimed.recovered().checksum) {
            say("overtaken")?;
        }
        journaled::compare(left, &claimed, source, place, "the source").await?;
        return Ok(Some(claimed.resume().await?));
    }
}

/// Writes the rest of the source.
async fn write(mut writer: Writer, source: &mut Source) -> Outcome {
    say(&format!("begins {}", writer.position()))?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = source.read(&mut piece).await?;
        if read == 0 {
            break;
        }
        writer.write(Bytes::copy_from_slice(&piece[..read])).await?;
        say(&format!("written {}", writer.position()))?;
    }
    writer.finish().await?;
    say("done")
}

/// An object's bytes, read from the beginning as those of a pipe: what is read is gone.
struct Source {
    content: Content,
    index: u64,
    offset: u64,
    size: u64,
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = (self.size - self.offset).min(buffer.remaining() as u64);
        let piece = self.content.piece(self.index, self.offset, most);
        buffer.put_slice(&piece);
        self.offset += piece.len() as u64;
        Poll::Ready(Ok(()))
    }
}

/// Says a line, at once.
fn say(line: &str) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").map_err(Failure::from)?;
    Ok(out.flush()?)
}
