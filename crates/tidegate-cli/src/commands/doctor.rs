//! `tidegate doctor`: tells what a store has, what Tidegate does instead, and what to set.

use std::io::Write;

use futures::StreamExt;
use serde::Serialize;
use tidegate::ErrorKind;
use tidegate::examine::{Finding, FindingState, StoreFeature};
use tidegate::location::Location;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::{output, text};

/// Test a store in ten seconds: what it has, what Tidegate does instead, what to set
///
///     tidegate doctor s3://BUCKET/
///     tidegate doctor gs://BUCKET/tables/ --json
///
/// Writes a few objects of at most 64 KiB there, whose names begin with .tidegate-examine-, and removes them.
///
/// Each line has a feature, and whether it works, is missing (then the line says what is done instead, and every
/// promise holds), is broken (then the line names the promise that does not hold there), or could not be tested. The
/// exit code is 1 if one is broken, or if nothing could be written.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// Bucket, prefix or directory to test.
    #[arg(value_name = "URL")]
    place: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A finding as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "finding")]
struct FindingLine<'a> {
    url: &'a str,
    feature: &'a str,
    state: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    seconds: f64,
}

/// Names the prefix whose objects are left, if the command ends before they are removed.
struct LeftBehind(Option<String>);

impl Drop for LeftBehind {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            output::warn(&format!("objects of the test may be left: remove them by `tidegate rm {place}*`"));
        }
    }
}

impl DoctorArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.place.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let (store, prefix) = stores.tree(&location).await?;
            let store = store.within(&prefix);
            let url = store.location();
            if let Some(Err(error)) = store.list("").next().await
                && error.kind() != ErrorKind::PermissionDenied
            {
                return Err(error.into());
            }
            let mut examination = store.examine();
            let mut left_behind = LeftBehind(Some(examination.place().to_owned()));
            let mut out = output::text(invocation.format())?;
            let (mut broken, mut cannot_write) = (0, None);
            while let Some(Finding { feature, state, took, .. }) = examination.next().await {
                if feature == StoreFeature::Delete && matches!(state, FindingState::Works(_)) {
                    left_behind.0 = None;
                }
                if feature == StoreFeature::Write && !matches!(state, FindingState::Works(_)) {
                    cannot_write = Some(state.text().to_owned());
                }
                broken += u64::from(matches!(state, FindingState::Broken(_)));
                let (name, message) = (state.name(), state.text());
                if out.is_json() {
                    let (url, feature, seconds) = (&url, feature.name(), took.as_secs_f64());
                    out.json(&FindingLine { url, feature, state: name, message, seconds })?;
                } else {
                    let line = format!("{name:<9} {:<28} {message}", feature.name());
                    writeln!(out, "{}", line.trim_end())?;
                }
                out.flow_soon().await?;
            }
            out.finish().await?;
            let failed = match (cannot_write, broken) {
                (None, 0) => return Ok(()),
                (None, broken) => format!("{} not kept here", text::count(broken, "promise")),
                (Some(why), _) => format!("nothing could be written, so little could be tested: {why}"),
            };
            Err(CommandFailure::Failed(format!("{url}: {failed}")))
        })
        .await
    }
}
