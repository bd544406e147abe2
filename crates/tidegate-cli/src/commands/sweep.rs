//! `tidegate sweep`: aborts old unfinished uploads that no running process writes.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use tidegate::Tidegate;
use tidegate::location::Location;
use tidegate::sweep::{KeepReason, SweepOutcome, SweepReport, Swept};

use super::sessions::{DescribedSession, SessionFate, SessionTotals};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, Owners};
use crate::output::TextOutput;
use crate::stores::{Stores, refuse_missing};
use crate::{output, text, values};

/// Abort old unfinished uploads that no running process writes, and show what was freed
///
///     tidegate sweep s3://BUCKET/ --dry-run
///     tidegate sweep s3://BUCKET/tables/ --older-than 12h
///
/// Stores charge for the parts of unfinished uploads. Two kinds are left alone, however old they
/// are: uploads that a live tidegate of this user writes on this machine, and pending uploads (`cp
/// --prepare`) of any machine until their lifetime ends. Sweep cannot know the uploads of other
/// machines and other programs: choose an age that these never reach.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SweepArgs {
    /// A bucket, a prefix or a key.
    #[arg(value_name = "URL")]
    prefix: String,

    /// Abort only uploads that are at least this old, such as 1d, 12h or 90min.
    #[arg(long, default_value = "1d", value_parser = values::age, value_name = "AGE")]
    older_than: Duration,

    /// Leave alone sessions of uploads in this journal directory, however old they are. Repeat it for several.
    #[arg(long, value_name = "DIR")]
    journal: Vec<PathBuf>,

    /// Show which uploads would be aborted, and abort none.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    #[command(flatten)]
    owners: Owners,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl SweepArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.prefix.parse()?;
        let engine =
            self.connection.reached(self.owners.trusted(Tidegate::builder())).journal(self.journal.clone());
        Stores::with(invocation, engine, async |stores| {
            let (store, prefix) = stores.bucket(&location).await?;
            let root = store.location();
            let mut swept = store.sweep(prefix).older_than(self.older_than).dry_run(self.dry_run).stream();
            let mut out = output::text(invocation.format())?;
            let mut report = SweepReport::default();
            let mut is_found = false;
            let result = async {
                while let Some(one) = swept.try_next().await? {
                    is_found = true;
                    self.tell(&mut out, &root, &one)?;
                    out.flow().await?;
                    report.add(one);
                }
                Ok(())
            };
            let result: Outcome = result.await;
            if !is_found && result.is_ok() {
                refuse_missing(&location)?;
            }
            self.sum_up(&mut out, &report)?;
            out.finish().await?;
            result?;
            if let Some(left_out) = store.unlisted_sessions() {
                output::warn(left_out);
            }
            match report.failed {
                0 => Ok(()),
                failed => {
                    let uploads = text::count(failed, "unfinished upload");
                    Err(CommandFailure::Failed(format!("{uploads} of {location} could not be ended")))
                }
            }
        })
        .await
    }

    fn tell(&self, out: &mut TextOutput, root: &str, swept: &Swept) -> Outcome {
        let described = DescribedSession::of(root, &swept.found);
        if let SweepOutcome::Failed(error) = &swept.fate {
            output::fail_with(error);
        }
        if out.is_json() {
            let fate = match &swept.fate {
                SweepOutcome::Ended => "ended",
                SweepOutcome::WouldEnd => "would_end",
                SweepOutcome::Kept(KeepReason::Live) => "live",
                SweepOutcome::Kept(KeepReason::Young) => "young",
                SweepOutcome::Kept(KeepReason::Journaled) => "journaled",
                SweepOutcome::Kept(KeepReason::Pending) => "pending",
                SweepOutcome::AlreadyGone => "gone",
                SweepOutcome::Failed(_) => "failed",
                _ => "ageless",
            };
            return out.json(&SessionFate { described, fate, dry_run: self.dry_run });
        }
        match &swept.fate {
            SweepOutcome::Ended => writeln!(out, "ended      {}", described.line())?,
            SweepOutcome::WouldEnd => writeln!(out, "would end  {}", described.line())?,
            _ => {}
        }
        Ok(())
    }

    fn sum_up(&self, out: &mut TextOutput, report: &SweepReport) -> Outcome {
        let &SweepReport {
            ended, would_end, bytes, live, young, ageless, journaled, pending, failed, ..
        } = report;
        if out.is_json() {
            let total = SessionTotals {
                ended,
                would_end,
                bytes,
                live,
                young,
                ageless,
                journaled,
                pending,
                failed,
                dry_run: self.dry_run,
            };
            return out.json(&total);
        }
        let size = text::size(bytes);
        if self.dry_run {
            write!(out, "would end {} and free {size}", text::count(would_end, "unfinished upload"))?;
        } else {
            write!(out, "ended {}, freed {size}", text::count(ended, "unfinished upload"))?;
        }
        let age = text::age(self.older_than.as_secs());
        let kept = [
            (live, "of live processes".to_owned()),
            (young, format!("younger than {age}")),
            (journaled, "in journals".to_owned()),
            (pending, "that wait for a commit".to_owned()),
            (ageless, "whose age the store does not say".to_owned()),
        ];
        let kept: Vec<String> = kept
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, which)| format!("{count} {which}"))
            .collect();
        if !kept.is_empty() {
            write!(out, "; left alone: {}", kept.join(", "))?;
        }
        Ok(writeln!(out)?)
    }
}
