//! The process that is killed: writes one object, and resumes where the killed process before it stopped.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use tidegate::journal::Durability;
use tidegate::recover::Resumed;
use tidegate::{Strategy, Tidegate, Writer};
use tokio::time::sleep;

use super::{Args, Content};
use crate::commands::cp::journaled::{self, Found};
use crate::exit::{Failure, Outcome};
use crate::stores::{Place, Stores};

/// Bytes in one write.
const PIECE: usize = 192 << 10;

/// How often to check whether another process has released a journal.
const LOOK: Duration = Duration::from_millis(5);

/// The place of object `index` below `to`.
pub(super) async fn place(stores: &Stores, to: &str, index: u64) -> Outcome<Place> {
    let (store, prefix) = stores.tree(&to.trim_end_matches('/').parse()?).await?;
    Ok(Place { store, key: format!("{prefix}{index:07}") })
}

/// Writes object `index`. Prints on standard output where the writing begins, how far its writes have returned, and
/// when the object is done.
pub(super) async fn run(args: &Args, index: u64) -> Outcome {
    let engine = args
        .connection
        .reached(Tidegate::builder())
        .memory(32 << 20)
        .part_size(5 << 20)
        // The guarantee after a killed process does not depend on the durability; a slow setting would allow fewer
        // runs.
        .durability(Durability::Group { bytes: 4 << 20, delay: Duration::from_millis(100) })
        .journal(args.journal.iter());
    Stores::with(engine, async |stores| {
        let to = args.to.as_deref().unwrap_or_default();
        let place = place(stores, to, index).await?;
        let object = object(index, args.size);
        // The source is consumed as it is read, as a pipe is.
        let mut source = &object[..];
        match begin(args, &place, &mut source).await? {
            Some(Resumed::Writer(writer)) => write(writer, source).await,
            Some(Resumed::Object(_)) => {
                say(&format!("begins {}", args.size))?;
                say("done")
            }
            None => Ok(()),
        }
    })
    .await
}

/// Begins as `cp` does: compares the source with the journal, and resumes behind the bytes that match. `None` if the
/// object exists already, or if there is no journal and this process only lingers.
async fn begin(args: &Args, place: &Place, source: &mut &[u8]) -> Outcome<Option<Resumed>> {
    loop {
        let left = place.store.left(&place.key).await?;
        let Some(left) = left.first() else {
            // The process before may have published the object, and been killed before it printed that.
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
            match journaled::claim(left, &place.store).await? {
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
async fn write(mut writer: Writer, source: &[u8]) -> Outcome {
    say(&format!("begins {}", writer.position()))?;
    for piece in source.chunks(PIECE) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        say(&format!("written {}", writer.position()))?;
    }
    writer.finish().await?;
    say("done")
}

/// All bytes of object `index`.
fn object(index: u64, size: u64) -> Vec<u8> {
    let (content, mut bytes) = (Content::new(), Vec::new());
    while (bytes.len() as u64) < size {
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(&content.piece(index, offset, size - offset));
    }
    bytes
}

/// Prints a line, and flushes it at once.
fn say(line: &str) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").map_err(Failure::from)?;
    Ok(out.flush()?)
}
