//! The example `compaction` as a program, each run a process of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tidegate::Tidegate;
use tidegate::backend::Entry;
use tidegate::backend::s3::{Credentials, S3, S3Settings};

use crate::Result;
use crate::embedded::Embedded;
use crate::measure::{self, Usage};
use crate::process::Program;

/// How the example moves tables; its `--way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// As streams.
    Streamed,
    /// Whole in memory, uploaded while the next is made.
    Beside,
    /// Whole in memory, one after the other.
    Whole,
}

impl Way {
    /// The option's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Beside => "beside",
            Self::Whole => "whole",
        }
    }
}

/// What a run of the example said of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// From before its first request to after its last.
    pub seconds: f64,
    /// Bytes of all inputs.
    pub bytes_in: u64,
    /// Bytes of all outputs.
    pub bytes_out: u64,
    /// Entries of all outputs of a merge.
    #[serde(default)]
    pub entries_out: u64,
    /// Requests, retries among them.
    pub requests: u64,
    /// Requests made again.
    pub retries: u64,
    /// The most of its memory budget that was held at a time.
    pub peak_budget_bytes: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What it said.
    pub figures: Figures,
    /// What the kernel said.
    pub usage: Usage,
}

/// The example's program and the store that it works on.
#[derive(Debug)]
pub struct Example<'a> {
    path: PathBuf,
    server: &'a Embedded,
    folder: &'a Path,
    limit: Duration,
}

impl<'a> Example<'a> {
    /// The program beside this one, or the one that `COMPACTION_BIN` names. Its logs go to `folder`.
    ///
    /// # Errors
    /// Where it is not built.
    pub fn find(server: &'a Embedded, folder: &'a Path, limit: Duration) -> Result<Self> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("compaction"));
        let path = std::env::var_os("COMPACTION_BIN").map(PathBuf::from).or_else(beside);
        let path = path.filter(|path| path.is_file()).ok_or(
            "there is no program compaction: cargo build --release -p compaction, or COMPACTION_BIN",
        )?;
        Ok(Self { path, server, folder, limit })
    }

    /// A location in the store.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        format!("s3://{}/{prefix}", self.server.endpoint().bucket)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// Where it fails, takes longer than the limit, or says no figures.
    pub fn run(&self, arguments: &[String]) -> Result<Run> {
        let mut program = Program::new(&self.path).variables(self.server.endpoint().variables());
        for argument in arguments {
            program = program.arg(argument);
        }
        let log = self.folder.join("compaction.log");
        let usage = measure::measure(&program, &log, self.limit)?;
        Ok(Run { figures: figures(&std::fs::read_to_string(log)?)?, usage })
    }

    /// Removes everything below a prefix.
    ///
    /// # Errors
    /// Where the store refuses.
    pub fn clear(&self, prefix: &str) -> Result<()> {
        let endpoint = self.server.endpoint();
        let signer = &endpoint.signer;
        let credentials = Credentials::fixed(signer.access_key.as_str(), signer.secret_key.as_str(), None);
        let settings = S3Settings::default()
            .with_endpoint_url(endpoint.url.as_str())
            .with_region(signer.region.as_str())
            .with_credentials(credentials);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let tide = Tidegate::builder().build()?;
            let store = tide.store(std::sync::Arc::new(S3::connect(endpoint.bucket, &settings).await?));
            let listed: Vec<_> = store.list(prefix, true).try_collect().await?;
            for entry in listed {
                if let Entry::Object(object) = entry {
                    store.delete(&object.key).await?;
                }
            }
            Ok(())
        })
    }
}

/// What the program said at its end.
fn figures(said: &str) -> Result<Figures> {
    let figures = said.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    figures.ok_or_else(|| format!("no figures were said, but: {said}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_last_line() {
        let line = r#"{"way":"whole","seconds":1.5,"bytes_in":7,"bytes_out":5,"outputs":[],"entries_out":3,"requests":4,"retries":0,"peak_budget_bytes":2}"#;
        let read = figures(&format!("a warning\n{line}\n")).unwrap();
        assert_eq!((read.seconds, read.bytes_in, read.entries_out), (1.5, 7, 3));
        assert!(figures("failed\n").unwrap_err().to_string().contains("failed"));
    }
}
