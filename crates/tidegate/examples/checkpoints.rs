//! A stream processor whose output appears exactly once: a checkpoint records how far each object has come, and which
//! objects it covers. After a restart the stream goes on from the last safe checkpoint.
//!
//! `cargo run --example checkpoints -- s3://bucket/stream /var/lib/checkpoint`

use std::error::Error;
use std::fs;
use std::path::Path;

use tidegate::upload::{Pending, Resumable};
use tidegate::{Store, Tidegate, Writer};

/// Checkpoints of one object.
const OBJECT: u64 = 5;
/// Checkpoints of one run.
const RUN: u64 = 12;

/// At each checkpoint: what this returns goes into the checkpoint. The object goes on.
async fn at_checkpoint(writer: &mut Writer) -> tidegate::Result<String> {
    Ok(writer.persist().await?.to_json())
}

/// After a restart, on any machine: goes on where the checkpoint was taken. What was written behind it does not count.
async fn after_restart(store: &Store, point: &str) -> tidegate::Result<Writer> {
    store.resume(&Resumable::from_json(point)?).await
}

/// When an object is large enough: the result goes into the next checkpoint.
async fn end_object(writer: Writer) -> tidegate::Result<String> {
    Ok(writer.prepare().await?.to_json())
}

/// When a checkpoint is safe, and after a restart from it: publishes the objects that it covers.
async fn publish(store: &Store, covered: &[String]) -> tidegate::Result<()> {
    for json in covered {
        store.commit(&Pending::from_json(json)?).await?;
    }
    Ok(())
}

/// A checkpoint is a file: the number of rows that were read, the point of the open object (empty without one), and the
/// objects that it covers.
fn save(file: &Path, rows: u64, point: &str, covered: &[String]) -> std::io::Result<()> {
    // It is safe once it has its name.
    let unfinished = file.with_extension("new");
    fs::write(&unfinished, format!("{rows}\n{point}\n{}", covered.join("\n")))?;
    fs::rename(&unfinished, file)
}

/// Goes on from the last checkpoint, for some rows more. `crash_after` so many of them it stops as in a crash.
async fn run(store: &Store, checkpoint: &Path, crash_after: Option<u64>) -> Result<(), Box<dyn Error>> {
    let last = fs::read_to_string(checkpoint).unwrap_or_default();
    let mut lines = last.lines().map(str::to_owned);
    let first: u64 = lines.next().map_or(Ok(0), |number| number.parse())?;
    let point = lines.next().unwrap_or_default();
    publish(store, &lines.collect::<Vec<_>>()).await?;
    let mut open = if point.is_empty() { None } else { Some(after_restart(store, &point).await?) };
    for number in first + 1..=first + RUN {
        let mut writer = match open.take() {
            Some(writer) => writer,
            None => store.writer(format!("{:06}.rows", number.div_ceil(OBJECT))).await?,
        };
        writer.write_bytes(format!("row {number}\n").into()).await?;
        if crash_after.is_some_and(|rows| number == first + rows) {
            return Ok(()); // the row is lost, and written again after the restart
        }
        let (mut point, mut covered) = (String::new(), Vec::new());
        if number.is_multiple_of(OBJECT) {
            covered.push(end_object(writer).await?);
        } else {
            point = at_checkpoint(&mut writer).await?;
            open = Some(writer);
        }
        save(checkpoint, number, &point, &covered)?;
        publish(store, &covered).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, checkpoint] = &arguments[..] else { return Err("usage: checkpoints URL FILE".into()) };
    let tide = Tidegate::builder().memory(64 << 20).build()?;
    run(&tide.open(url.as_str()).await?, Path::new(checkpoint), None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_row_is_there_once_whatever_crashes() -> Result<(), Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let (place, checkpoint) = (directory.path().join("rows"), directory.path().join("checkpoint"));
        for crash_after in [Some(1), Some(3), None, Some(4), Some(2), Some(12), None] {
            // An engine of its own, as after a restart.
            let tide = Tidegate::builder().memory(16 << 20).build()?;
            let store = tide.open(place.to_string_lossy()).await?;
            run(&store, &checkpoint, crash_after).await?;
            tide.settled().await;
        }
        let rows: u64 = fs::read_to_string(&checkpoint)?.lines().next().unwrap_or_default().parse()?;
        assert!(rows > 3 * RUN, "{rows}");
        for object in 1..=rows / OBJECT {
            let expected: String =
                ((object - 1) * OBJECT + 1..=object * OBJECT).map(|row| format!("row {row}\n")).collect();
            assert_eq!(fs::read_to_string(place.join(format!("{object:06}.rows")))?, expected);
        }
        Ok(())
    }

    #[test]
    fn the_page_shows_these_functions() {
        let (page, example) = (include_str!("../../../docs/PENDING.md"), include_str!("checkpoints.rs"));
        let shown =
            page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        assert!(!shown.is_empty() && example.contains(shown.trim()), "{shown}");
    }
}
