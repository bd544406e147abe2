//! `tidegate sessions`: uploads that were begun and neither finished nor aborted.

use std::io::Write;
use std::time::SystemTime;

use futures::TryStreamExt;
use serde::Serialize;
use tidegate::Location;

use crate::exit::Outcome;
use crate::options::Connection;
use crate::stores::Stores;
use crate::{output, text};

/// Look at uploads that were begun and neither finished nor aborted.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ls(Ls),
}

/// List the unfinished uploads whose keys begin with a URL: age, id, key.
#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// A bucket, a prefix or a key; some stores (MinIO) show those of one whole key only.
    #[arg(value_name = "URL")]
    prefix: String,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: Connection,
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    url: String,
    id: &'a str,
    started: Option<String>,
    age_seconds: Option<u64>,
}

impl Command {
    pub(crate) async fn run(self) -> Outcome {
        match self {
            Self::Ls(args) => args.run().await,
        }
    }
}

impl Ls {
    async fn run(self) -> Outcome {
        let location: Location = self.prefix.parse()?;
        Stores::with_defaults(self.connection.settings(), async |stores| {
            let (store, prefix) = stores.bucket(&location).await?;
            let root = store.location();
            let mut sessions = store.sessions(&prefix);
            let mut out = output::text()?;
            while let Some(open) = sessions.try_next().await? {
                let line = Line {
                    url: format!("{root}/{}", open.session.key),
                    id: &open.session.id,
                    started: open.started.map(text::time),
                    age_seconds: open.started.map(age),
                };
                if self.json {
                    serde_json::to_writer(&mut out, &line).map_err(std::io::Error::from)?;
                    writeln!(out)?;
                } else {
                    let age = line.age_seconds.map_or("-".to_owned(), text::age);
                    writeln!(out, "{age:>8}  {}  {}", line.id, line.url)?;
                }
            }
            Ok(out.flush()?)
        })
        .await
    }
}

fn age(started: SystemTime) -> u64 {
    // A store's clock that runs ahead of ours makes no negative age.
    SystemTime::now().duration_since(started).unwrap_or_default().as_secs()
}
