//! Sends standard input through one face of the writer: `cargo run --release --example faces -- FACE s3://bucket KEY`
//! with `write`, `async-write`, `sink`, `blocking`, or `spool` (`write`, all to disk first) as the face. The fault suite
//! runs it, with `TIDEGATE_PART_SIZE` in bytes and `TIDEGATE_SPOOL`, a directory for what little memory does not hold.

use std::io::{Read, Write};
use std::process::ExitCode;

use bytes::Bytes;
use futures::SinkExt;
use tidegate::{Builder, Store, Strategy, Tidegate, blocking};
use tokio::io::AsyncWriteExt;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [face, location, key] = &arguments[..] else {
        eprintln!("usage: faces write|async-write|sink|blocking|spool LOCATION KEY");
        return ExitCode::from(2);
    };
    let sent = match face.as_str() {
        "blocking" => blocking(location, key),
        face => asynchronous(face, location, key),
    };
    match sent {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn engine() -> Outcome<Builder> {
    let mut builder = Tidegate::builder().memory(64 << 20);
    if let Ok(bytes) = std::env::var("TIDEGATE_PART_SIZE") {
        builder = builder.part_size(bytes.parse()?);
    }
    if let Ok(directory) = std::env::var("TIDEGATE_SPOOL") {
        builder = builder.memory(12 << 20).spool([directory]);
    }
    Ok(builder)
}

/// The next bytes of standard input; none at its end. Their number is odd, so that pieces and parts do not meet.
fn piece() -> std::io::Result<Bytes> {
    let mut piece = vec![0; 200_003];
    let read = std::io::stdin().lock().read(&mut piece)?;
    piece.truncate(read);
    Ok(piece.into())
}

fn blocking(location: &str, key: &str) -> Outcome {
    let store = blocking::Tidegate::new(engine()?)?.open(location)?;
    let mut writer = store.writer(key, |writer| writer)?;
    loop {
        let piece = piece()?;
        if piece.is_empty() {
            break;
        }
        writer.write_all(&piece)?;
    }
    writer.finish()?;
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn asynchronous(face: &str, location: &str, key: &str) -> Outcome {
    let tide = engine()?.build()?;
    let sent = send(face, &tide.open(location).await?, key).await;
    // A writer that failed is dropped by now; its session is aborted meanwhile.
    tide.settled().await;
    sent
}

async fn send(face: &str, store: &Store, key: &str) -> Outcome {
    let strategy = if face == "spool" { Strategy::Spool } else { Strategy::Auto };
    let mut writer = store.writer(key).strategy(strategy).start().await?;
    loop {
        // Nothing else is done on this task, so that reading may hold it up.
        let piece = tokio::task::block_in_place(piece)?;
        if piece.is_empty() {
            break;
        }
        match face {
            "write" | "spool" => writer.write(piece).await?,
            "async-write" => writer.write_all(&piece).await?,
            "sink" => writer.feed(piece).await?,
            other => return Err(format!("no such face: {other}").into()),
        }
    }
    match face {
        "async-write" => writer.shutdown().await?,
        "sink" => SinkExt::<Bytes>::close(&mut writer).await?,
        _ => drop(writer.finish().await?),
    }
    Ok(())
}
