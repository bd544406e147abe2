//! A stream processor whose output appears exactly once: a checkpoint records what it covers, and what it covers is
//! published when the checkpoint is safe, and again after a restart.
//!
//! `cargo run --example checkpoints -- s3://bucket/stream /var/lib/checkpoint`

use std::fs;
use std::path::Path;

use tidegate::upload::Pending;
use tidegate::{Store, Tidegate};

/// Before a checkpoint: ends the current object. What this returns goes into the checkpoint.
async fn before_checkpoint(store: &Store, key: &str, rows: Vec<u8>) -> tidegate::Result<String> {
    let mut writer = store.writer(key).await?;
    writer.write_bytes(rows.into()).await?;
    Ok(writer.prepare().await?.to_json())
}

/// When a checkpoint is safe, and after a restart from it: publishes what it covers.
async fn after_checkpoint(store: &Store, covered: &[String]) -> tidegate::Result<()> {
    for json in covered {
        store.commit(&Pending::from_json(json)?).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, checkpoint] = &arguments[..] else { return Err("usage: checkpoints URL FILE".into()) };
    let (tide, checkpoint) = (Tidegate::builder().memory(64 << 20).build()?, Path::new(checkpoint));
    let store = tide.open(url.as_str()).await?;
    // A restart: what the last safe checkpoint covers may not be published yet.
    let last = fs::read_to_string(checkpoint).unwrap_or_default();
    let (number, covered) = last.split_once('\n').unwrap_or(("0", ""));
    after_checkpoint(&store, &covered.lines().map(str::to_owned).collect::<Vec<_>>()).await?;
    let first: u64 = number.parse()?;
    for number in first + 1..=first + 10 {
        let rows = format!("rows of checkpoint {number}\n").into_bytes();
        let covered = vec![before_checkpoint(&store, &format!("{number:06}.rows"), rows).await?];
        // The checkpoint is safe once it has its name.
        let unfinished = checkpoint.with_extension("new");
        fs::write(&unfinished, format!("{number}\n{}", covered.join("\n")))?;
        fs::rename(&unfinished, checkpoint)?;
        after_checkpoint(&store, &covered).await?;
    }
    Ok(())
}
