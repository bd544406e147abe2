//! Makes one tree like another, for some of its names, with a progress bar:
//!
//! ```text
//! cargo run -p tidegate-transfer --example sync -- photos s3://bucket/photos '*.jpg'
//! ```

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use futures::StreamExt;
use tidegate::Tidegate;
use tidegate_transfer::{Event, ObjectFilter, RunProgress, SyncTrees, Tree};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, pattern] = &arguments[..] else {
        return Err("give a source, a target, and a pattern of names".into());
    };
    let tide = Tidegate::builder().build()?;
    let (source, target) = (tide.open(source).await?, tide.open(target).await?);
    let mut run = SyncTrees::new(Tree::new(&source, ""), Tree::new(&target, ""))
        .filter(ObjectFilter::default().include(pattern)?)
        .start()
        .progress_every(Duration::from_millis(100));
    while let Some(event) = run.next().await {
        match event {
            Event::Progress(progress) => draw(&progress),
            Event::Copied(copied) => println!("\r{} -> {}", copied.source, copied.target),
            Event::Failed(failure) => println!("\rnot copied: {}", failure.error),
            Event::Warning(warning) => println!("\r{warning}"),
            _ => {}
        }
    }
    draw(&run.progress());
    let report = run.result()?;
    println!("\n{} copied, {} unchanged", report.copied, report.unchanged);
    Ok(())
}

fn draw(progress: &RunProgress) {
    let of = progress.expected.map_or_else(String::new, |bytes| format!(" of {bytes}"));
    print!("\r{}{of} bytes, {} of {} objects", progress.stored, progress.done, progress.found);
    let _ = std::io::stdout().flush();
}
