//! Uploads or downloads a file with the library, as the long transfer suite does (`tests/long`):
//! `transfers multi-thread|current-thread|blocking upload|download s3://bucket KEY FILE`.

use std::process::ExitCode;

use tidegate::{Store, Tidegate, blocking};
use tokio::runtime::{Builder, Runtime};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[derive(Clone, Copy)]
enum Direction {
    Upload,
    Download,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [face, direction @ ("upload" | "download"), location, key, path] = words[..] else {
        return usage();
    };
    let direction = if direction == "upload" { Direction::Upload } else { Direction::Download };
    let transferred = match face {
        "multi-thread" => on(Builder::new_multi_thread(), direction, location, key, path),
        "current-thread" => on(Builder::new_current_thread(), direction, location, key, path),
        "blocking" => blocking_transfer(direction, location, key, path),
        _ => return usage(),
    };
    match transferred {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: transfers multi-thread|current-thread|blocking upload|download LOCATION KEY FILE");
    ExitCode::from(2)
}

fn on(mut runtime: Builder, direction: Direction, location: &str, key: &str, path: &str) -> Outcome {
    let runtime: Runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        let store: Store = Tidegate::builder().build()?.open(location).await?;
        match direction {
            Direction::Upload => store.upload(path, key).await?,
            Direction::Download => store.download(key, path).await?,
        };
        Ok(())
    })
}

fn blocking_transfer(direction: Direction, location: &str, key: &str, path: &str) -> Outcome {
    let store = blocking::Tidegate::new(Tidegate::builder())?.open(location)?;
    match direction {
        Direction::Upload => store.upload(path, key, |upload| upload)?,
        Direction::Download => store.download(key, path, |download| download)?,
    };
    Ok(())
}
