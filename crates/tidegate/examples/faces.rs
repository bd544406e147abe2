//! Sends standard input through one face of the writer: `cargo run --release -p tidegate --example faces -- FACE
//! s3://bucket KEY` with `write`, `async-write`, `sink`, `blocking`, or `spool` (`write`, all to disk first) as the
//! face. Or sends an object to standard output through one face of the reader: `stream`, `async-read`, `blocking-read`,
//! `blocks`, or `seek`, which reads backwards as well and compares. The fault suite runs it, with `TIDEGATE_PART_SIZE`
//! in bytes and `TIDEGATE_SPOOL`, a directory for what little memory does not hold.

use std::io::{Read, SeekFrom, Write};
use std::process::ExitCode;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tidegate::{Reader, Store, Strategy, Tidegate, TidegateBuilder, blocking};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [face, location, key] = &arguments[..] else {
        eprintln!("usage: faces write|async-write|sink|blocking|spool LOCATION KEY");
        eprintln!("       faces stream|async-read|blocking-read|blocks|seek LOCATION KEY");
        return ExitCode::from(2);
    };
    let sent = match face.as_str() {
        "blocking" => blocking(location, key),
        "blocking-read" => blocking_read(location, key),
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

fn engine() -> Outcome<TidegateBuilder> {
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
    let store = tide.open(location).await?;
    let sent = match face {
        "stream" | "async-read" | "blocks" | "seek" => receive(face, &store, key).await,
        face => send(face, &store, key).await,
    };
    // A writer that failed is dropped by now; its session is aborted meanwhile.
    tide.settled().await;
    sent
}

async fn send(face: &str, store: &Store, key: &str) -> Outcome {
    let strategy = if face == "spool" { Strategy::Spool } else { Strategy::Auto };
    let mut writer = store.writer(key).strategy(strategy).await?;
    loop {
        // Nothing else is done on this task, so that reading may hold it up.
        let piece = tokio::task::block_in_place(piece)?;
        if piece.is_empty() {
            break;
        }
        match face {
            "write" | "spool" => writer.write_bytes(piece).await?,
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

/// To standard output. Nothing else is done on this task, so that whoever reads it may hold it up.
fn show(bytes: &[u8]) -> std::io::Result<()> {
    tokio::task::block_in_place(|| {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    })
}

fn blocking_read(location: &str, key: &str) -> Outcome {
    let store = blocking::Tidegate::new(engine()?)?.open(location)?;
    let mut reader = store.reader(key, |reader| reader)?;
    std::io::copy(&mut reader, &mut std::io::stdout().lock())?;
    Ok(())
}

async fn receive(face: &str, store: &Store, key: &str) -> Outcome {
    if face == "blocks" {
        return receive_blocks(store, key).await;
    }
    let mut reader = store.reader(key).await?;
    if face == "seek" {
        return receive_seeking(reader).await;
    }
    if face == "stream" {
        while let Some(piece) = reader.try_next().await? {
            show(&piece)?;
        }
        return Ok(());
    }
    let mut piece = vec![0; 200_003];
    loop {
        let read = reader.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        show(&piece[..read])?;
    }
}

/// All of the object, in blocks of an odd size.
async fn receive_blocks(store: &Store, key: &str) -> Outcome {
    let object = store.head(key).await?;
    let index = (0..object.size).step_by(100_003).map(|start| start..object.size.min(start + 100_003));
    let mut blocks = store.blocks(key, index).if_unchanged(&object).await?;
    while let Some(block) = blocks.try_next().await? {
        show(&block.bytes)?;
    }
    Ok(())
}

/// All of the object; behind each piece, some of what came before is read once more.
async fn receive_seeking(mut reader: Reader) -> Outcome {
    let (mut seen, mut again) = (Vec::new(), vec![0; 65_536]);
    loop {
        let from = seen.len();
        (&mut reader).take(700_001).read_to_end(&mut seen).await?;
        if seen.len() == from {
            return Ok(());
        }
        show(&seen[from..])?;
        let at = seen.len().wrapping_mul(2_654_435_761) % seen.len();
        let same = &seen[at..seen.len().min(at + again.len())];
        reader.seek(SeekFrom::Start(at as u64)).await?;
        reader.read_exact(&mut again[..same.len()]).await?;
        if again[..same.len()] != *same {
            return Err(format!("bytes from {at} on are others when they are read again").into());
        }
        reader.seek(SeekFrom::Start(seen.len() as u64)).await?;
    }
}
