//! The embedded server in a separate process, so that the figures are those of this process alone.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidegate::backend::s3::{Credentials, S3Settings};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::dev;
use crate::exit::{Failure, Outcome};

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Embedded {
    child: Child,
    url: String,
}

impl Embedded {
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Starts `tidegate serve` with objects in memory. It receives at most `rate` bytes per second.
    pub(super) async fn start(rate: Option<u64>) -> Outcome<Self> {
        let mut command = Command::new(super::this_program()?);
        command.args(["serve", "--storage", "memory", "--listen", "127.0.0.1:0", "--auto-create-buckets"]);
        if let Some(rate) = rate {
            command.arg("--knobs").arg(format!(r#"{{"bandwidth": {{"total_in": {rate}}}}}"#));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| failed(&format!("can't be started: {error}")))?;
        let output = child.stdout.take().ok_or_else(|| failed("has no output"))?;
        let mut lines = BufReader::new(output).lines();
        let first = timeout(Self::PATIENCE, lines.next_line()).await.map_err(|_| failed("does not begin"))?;
        let first = first.map_err(|error| failed(&format!("can't be heard: {error}")))?;
        let url = first.as_deref().and_then(|line| line.strip_prefix("listening on "));
        let url = url.ok_or_else(|| failed("says something else than where it listens"))?.to_owned();
        // Reads the rest of the server's output, so that the server never blocks on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, url })
    }

    pub(super) fn settings(&self) -> S3Settings {
        S3Settings::default()
            .with_endpoint_url(&self.url)
            .with_region(dev::REGION)
            .with_credentials(Credentials::fixed(dev::KEY, dev::KEY, None))
    }

    /// Makes another `tidegate` process write to this server, and ignore the user's environment and configuration
    /// files.
    pub(super) fn reach(&self, command: &mut Command) {
        // Arguments override environment variables.
        command.args(["--endpoint-url", &self.url, "--region", dev::REGION]);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"AWS_") {
                command.env_remove(name);
            }
        }
        command.env("AWS_ACCESS_KEY_ID", dev::KEY).env("AWS_SECRET_ACCESS_KEY", dev::KEY);
        for file in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
            command.env(file, "/dev/null");
        }
    }

    /// Stops the server process for a while: connections stay open, and no bytes move.
    pub(super) async fn stall(&self, time: Duration) -> Outcome {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let process = id.ok_or_else(|| failed("has ended"))?;
        kill_process(process, Signal::STOP).map_err(|error| failed(&format!("can't be stopped: {error}")))?;
        tokio::time::sleep(time).await;
        kill_process(process, Signal::CONT).map_err(|error| failed(&format!("can't go on: {error}")))
    }
}

fn failed(what: &str) -> Failure {
    Failure::Failed(format!("the embedded server {what}"))
}
