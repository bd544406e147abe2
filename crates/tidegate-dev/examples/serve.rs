//! Runs the embedded server as a program, for clients in other languages:
//! `cargo run -p tidegate-dev --example serve -- --storage discard`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use tidegate_dev::{Knobs, Server, Storage};

#[derive(Parser)]
struct ServerArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// memory, disk:PATH or discard.
    #[arg(long, default_value = "memory", value_parser = storage)]
    storage: Storage,
    /// Knobs, as JSON.
    #[arg(long, default_value = "{}", value_parser = knobs)]
    knobs: Knobs,
    #[arg(long, default_value = "tidegate")]
    access_key: String,
    #[arg(long, default_value = "tidegate")]
    secret_key: String,
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Seed for all random choices of the knobs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Make ETags the MD5 of the content.
    #[arg(long)]
    md5_etags: bool,
    /// Create a bucket at the first write to it.
    #[arg(long)]
    auto_create_buckets: bool,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn storage(text: &str) -> Result<Storage, String> {
    match text.split_once(':') {
        None if text == "memory" => Ok(Storage::Memory),
        None if text == "discard" => Ok(Storage::Discard),
        Some(("disk", path)) => Ok(Storage::Disk(PathBuf::from(path))),
        _ => Err("not one of memory, disk:PATH, discard".to_owned()),
    }
}

fn knobs(text: &str) -> Result<Knobs, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let args = ServerArgs::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(args.threads).enable_all().build()?;
    runtime.block_on(async {
        let server = Server::builder()
            .storage(args.storage)
            .listen(args.listen)
            .credentials(args.access_key, args.secret_key)
            .region(args.region)
            .knobs(args.knobs)
            .seed(args.seed)
            .md5_etags(args.md5_etags)
            .auto_create_buckets(args.auto_create_buckets)
            .start()
            .await?;
        println!("listening on {}", server.endpoint());
        std::io::stdout().flush()?;
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(())
    })
}
