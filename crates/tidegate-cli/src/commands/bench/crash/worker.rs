//! The process that is killed: it writes one object, from where the one before it was killed.

use std::io::Write;

use tidegate::journal::Durability;
use tidegate::{Resumed, Strategy, Tidegate};

use super::{Args, Content, location};
use crate::exit::Outcome;
use crate::stores::{Place, Stores};

/// Bytes in one write.
const PIECE: u64 = 192 << 10;

/// Object `index` below `to`.
pub(super) async fn place(stores: &Stores, to: &str, index: u64) -> Outcome<Place> {
    let (store, prefix) = stores.tree(&location(to)?).await?;
    Ok(Place { store, key: format!("{prefix}{index:07}") })
}

/// Writes object `index`, and says on standard output where it begins, how far its writes have returned,
/// and that it is done.
pub(super) async fn run(args: &Args, index: u64) -> Outcome {
    let engine = Tidegate::builder()
        .s3(args.connection.settings())
        .memory(32 << 20)
        .part_size(5 << 20)
        // What the end of a process must leave does not depend on it; what is slow is not tested often.
        .durability(Durability::Group { bytes: 4 << 20, delay: std::time::Duration::from_millis(100) })
        .journal(args.journal.iter());
    Stores::with(engine, async |stores| {
        let to = args.to.as_deref().unwrap_or_default();
        let place = place(stores, to, index).await?;
        let content = Content::new();
        let begun = match place.store.left(&place.key).await?.first() {
            Some(left) => left.resume_on(&place.store).await?,
            // The one before may have been done, and killed before it could say so.
            None if place.store.head(&place.key).await.is_ok() => return say("done"),
            None => {
                let builder = place.store.writer(&place.key).strategy(Strategy::Journal);
                Resumed::Writer(builder.start().await?)
            }
        };
        let Resumed::Writer(mut writer) = begun else {
            say(&format!("begins {}", args.size))?;
            return say("done");
        };
        say(&format!("begins {}", writer.position()))?;
        while writer.position() < args.size {
            let offset = writer.position();
            writer.write(content.piece(index, offset, PIECE.min(args.size - offset))).await?;
            say(&format!("written {}", writer.position()))?;
        }
        writer.finish().await?;
        say("done")
    })
    .await
}

/// Says a line, at once.
fn say(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
