//! Distributed jobs: `commit --job` and `abandon --job`.

use serde::Serialize;
use tidegate::Tidegate;
use tidegate::location::Location;
use tidegate_transfer::job::{self, CommittedJob, FoundJob, Job, JobAbort, JobOutcome};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::ui::lines::OutputLine;
use crate::{output, text};

/// A job that a command found, and what it did with it.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "job")]
struct JobLine<'a> {
    /// `committed`, `not_begun`, `abandoned`, or `removed` if the job was over and a late attempt had left something.
    state: &'static str,
    /// The output directory.
    url: &'a str,
    id: &'a str,
    /// How many files are visible, and their bytes.
    objects: u64,
    bytes: u64,
    /// How many uploads were given up.
    abandoned: u64,
}

impl OutputLine for JobLine<'_> {
    fn text(&self) -> String {
        let (id, url) = (self.id, self.url);
        let files = || format!("{} ({})", text::count(self.objects, "file"), text::size(self.bytes));
        let abandoned = || format!("{} given up", text::count(self.abandoned, "upload"));
        match self.state {
            "committed" => format!("{}  job {id} of {url}: {}, {}", self.state, files(), abandoned()),
            "abandoned" | "removed" => format!("{}  job {id} of {url}: {}", self.state, abandoned()),
            state => format!("{state}  job {id} of {url}"),
        }
    }
}

/// Completes the jobs of an output directory whose set was begun.
pub(crate) async fn commit(invocation: &Invocation, connection: &ConnectionOptions, url: &str) -> Outcome {
    let location: Location = url.parse()?;
    Stores::with(invocation, connection.reached(Tidegate::builder()), async |stores| {
        let out = stores.root(&location).await?;
        let found = outcomes(job::roll_forward(&out).await?);
        if found.is_empty() {
            return match job::last_completed(&out).await? {
                Some(id) => {
                    output::say(&format!("{url}: no job is left to complete; job {id} wrote {}", job::SUCCESS));
                    Ok(())
                }
                None => Err(CommandFailure::nothing_at(&location, "there is no job")),
            };
        }
        let Printed { committed, idle, given_up } = print(invocation, url, found).await?;
        if !given_up.is_empty() {
            let (jobs, are, their) = match given_up.len() {
                1 => ("job", "was given up, and is not committed", "its"),
                _ => ("jobs", "were given up, and are not committed", "their"),
            };
            let sentence = format!(
                "{url}: {jobs} {} {are}; {their} last uploads and records are removed",
                given_up.join(", ")
            );
            return Err(CommandFailure::Failed(sentence));
        }
        if committed > 0 || idle.is_empty() {
            return Ok(());
        }
        let sentence = format!(
            "the commit of {} was not begun: {} to be committed by its driver, or given up by `tidegate abandon --job`",
            idle.join(", "),
            if idle.len() == 1 { "the job is" } else { "each job is" }
        );
        Err(CommandFailure::nothing_at(&location, &sentence))
    })
    .await
}

/// Gives up the jobs of an output directory whose set was not begun, or one of them.
pub(crate) async fn abandon(
    invocation: &Invocation,
    connection: &ConnectionOptions,
    url: &str,
    id: Option<&str>,
) -> Outcome {
    let location: Location = url.parse()?;
    Stores::with(invocation, connection.reached(Tidegate::builder()), async |stores| {
        let out = stores.root(&location).await?;
        let found = match id {
            Some(id) => vec![(id.to_owned(), Job::new(&out, id)?.abort().await.map(JobOutcome::Ended))],
            None => outcomes(job::abandon_unfinished(&out).await?),
        };
        if found.is_empty() {
            return Err(CommandFailure::nothing_at(&location, "there is no job"));
        }
        print(invocation, url, found).await.map(drop)
    })
    .await
}

/// A job's id, and what was done with it.
type FoundOutcome = (String, job::Result<JobOutcome>);

fn outcomes(found: Vec<FoundJob>) -> Vec<FoundOutcome> {
    found.into_iter().map(|found| (found.id, found.outcome)).collect()
}

/// What became of the jobs that the command found, by the lines that it printed.
#[derive(Default)]
struct Printed {
    committed: usize,
    /// The ids of jobs whose set was not begun.
    idle: Vec<String>,
    /// The ids of jobs that were given up.
    given_up: Vec<String>,
}

/// Prints a line for each job; fails if something was not done.
async fn print(invocation: &Invocation, url: &str, found: Vec<FoundOutcome>) -> Outcome<Printed> {
    let mut out = output::text(invocation.format())?;
    let (count, mut failed, mut printed) = (found.len(), Vec::new(), Printed::default());
    for (id, outcome) in found {
        let line = JobLine { state: "committed", url, id: &id, objects: 0, bytes: 0, abandoned: 0 };
        let (line, unread) = match outcome {
            Ok(JobOutcome::Committed(CommittedJob { objects, bytes, abandoned, unreadable, .. })) => {
                printed.committed += 1;
                (JobLine { objects, bytes, abandoned, ..line }, unreadable)
            }
            Ok(JobOutcome::Ended(JobAbort::Abandoned { uploads, visible, unreadable, .. })) => {
                printed.given_up.push(id.clone());
                (JobLine { state: "abandoned", objects: visible, abandoned: uploads, ..line }, unreadable)
            }
            Ok(JobOutcome::Ended(JobAbort::Removed { uploads, .. })) => {
                (JobLine { state: "removed", abandoned: uploads, ..line }, Vec::new())
            }
            Ok(JobOutcome::Ended(_)) => {
                let sentence = format!(
                    "{url}: the commit of job {id} was begun, so nothing is given up: `tidegate commit --job` completes it"
                );
                failed.push(CommandFailure::Failed(sentence));
                continue;
            }
            Ok(_) => {
                out.print(&JobLine { state: "not_begun", ..line })?;
                printed.idle.push(id);
                continue;
            }
            Err(error) => {
                failed.push(error.into());
                continue;
            }
        };
        out.print(&line)?;
        for key in unread {
            output::warn(&format!(
                "{url}/{key}: nobody can read this record, which is removed; `tidegate sweep` ends its upload, if there is one"
            ));
        }
    }
    out.finish().await?;
    match (failed.len(), count) {
        (0, _) => Ok(printed),
        (1, 1) => Err(failed.remove(0)),
        (failures, _) => {
            failed.iter().for_each(output::fail);
            Err(CommandFailure::Failed(format!("{failures} of {count} jobs could not be ended")))
        }
    }
}
