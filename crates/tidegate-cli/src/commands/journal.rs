//! `tidegate journal`: lists, resumes, aborts and checks uploads whose bytes are in a journal on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tidegate::backend::Session;
use tidegate::backend::s3::S3;
use tidegate::checksum::Algorithm;
use tidegate::journal::{JournalError, JournalState};
use tidegate::location::Location;
use tidegate::recover::LeftUpload;
use tidegate::text::printable;
use tidegate::{Store, Tidegate};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, Owners};
use crate::stores::Stores;
use crate::{output, text};
use tidegate_transfer::journaled::{self, FoundUpload};

mod abort;
mod ls;
mod resume;
mod show;
mod verify;

/// List the uploads in a journal directory, and show, resume, abort or verify them
///
///     tidegate journal ls /mnt/ssd1/journal
///     tidegate journal resume /mnt/ssd1/journal
///
/// `tidegate cp --journal DIR` keeps the bytes of an upload in DIR until the store has them.
#[derive(Debug, clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum JournalCommand {
    Ls(ls::JournalLs),
    Show(show::JournalShow),
    Resume(resume::JournalResume),
    Abort(abort::JournalAbort),
    Verify(verify::JournalVerify),
}

impl JournalCommand {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match self {
            Self::Ls(args) => args.run(invocation).await,
            Self::Show(args) => args.run(invocation).await,
            Self::Resume(args) => args.run(invocation).await,
            Self::Abort(args) => args.run(invocation).await,
            Self::Verify(args) => args.run(invocation).await,
        }
    }
}

/// An upload as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "journal")]
struct DescribedJournal {
    id: String,
    file: PathBuf,
    /// `finished`: it needs no producer any more. `cut`: it needs its producer. `in_use`: a process has it.
    /// `damaged`, `newer`, `refused` (another user may have written it) and `unreadable`: `problem` says why. In the
    /// last five states the other fields are empty.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    bytes: u64,
    acknowledged_bytes: u64,
    parts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl DescribedJournal {
    fn of(left: &LeftUpload) -> Self {
        let state = match (left.problem(), left.is_finished()) {
            (None, true) => "finished",
            (None, false) => "cut",
            (Some(JournalError::InUse { .. }), _) => "in_use",
            (Some(JournalError::Damaged { .. }), _) => "damaged",
            (Some(JournalError::Newer { .. }), _) => "newer",
            (Some(JournalError::Untrusted(_)), _) => "refused",
            (Some(_), _) => "unreadable",
        };
        let found = left.recovered().map(|found| &found.state);
        let created =
            found.and_then(|state| UNIX_EPOCH.checked_add(Duration::from_secs(state.header.created)));
        let age = created.and_then(|created| SystemTime::now().duration_since(created).ok());
        Self {
            id: left.id().to_owned(),
            file: left.path().to_owned(),
            state,
            url: left.url(),
            bytes: left.length(),
            acknowledged_bytes: found.map_or(0, acknowledged),
            parts: found.map_or(0, |state| state.parts.len()),
            session: found.and_then(|state| {
                let id = state.session.as_ref()?.id.clone();
                Some(Session { key: String::new(), id }.public_id().into_owned())
            }),
            created: created.map(text::time),
            age_seconds: age.map(|age| age.as_secs()),
            problem: left.problem().map(ToString::to_string),
        }
    }

    /// The line for people: id, state, age, size and target; a dash for what is unknown.
    fn line(&self) -> String {
        let age = self.age_seconds.map_or_else(|| "-".to_owned(), text::age);
        let size = if self.url.is_some() { text::size(self.bytes) } else { "-".to_owned() };
        let what = self.url.as_deref().or(self.problem.as_deref()).unwrap_or("-");
        let (id, what) = (printable(&self.id), printable(what));
        let state = self.state.replace('_', "-");
        format!("{id}  {state:>10}  {age:>8}  {size:>12}  {what}")
    }
}

/// The acknowledged bytes: in parts, or the length of a prefix.
fn acknowledged(state: &JournalState) -> u64 {
    state.parts.values().map(|part| part.size).sum::<u64>().max(state.committed)
}

/// Fails if the journal directory does not exist.
fn refuse_missing(directory: &Path) -> Outcome {
    match directory.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(CommandFailure::of_file(directory, &error))
        }
        _ => Ok(()),
    }
}

/// The uploads in `directory`.
async fn list(directory: &Path, owners: &Owners) -> Outcome<Vec<LeftUpload>> {
    refuse_missing(directory)?;
    Ok(owners.trusted(Tidegate::builder()).journal([directory]).build()?.recover().await?)
}

/// The upload with this id.
fn chosen<'a>(all: &'a [LeftUpload], id: &str, directory: &Path) -> Outcome<&'a LeftUpload> {
    all.iter().find(|left| left.id() == id).ok_or_else(|| {
        let directory = directory.display();
        CommandFailure::NotFound(format!("{id}: {directory} has no such upload"))
    })
}

/// The uploads with these ids, each once; all uploads if no id is given.
fn all_chosen<'a>(all: &'a [LeftUpload], ids: &[String], directory: &Path) -> Outcome<Vec<&'a LeftUpload>> {
    for id in ids {
        chosen(all, id, directory)?;
    }
    let is_chosen = |left: &&LeftUpload| ids.is_empty() || ids.iter().any(|id| id == left.id());
    Ok(all.iter().filter(is_chosen).collect())
}

/// Decides about an upload that, since it was listed, another process has claimed, or that has ended: it is left
/// alone, but an error if the user gave its id.
fn left_alone(found: FoundUpload, left: &LeftUpload, is_asked_for: bool) -> Outcome<FoundUpload> {
    match found {
        FoundUpload::InUse(who) if is_asked_for => Err(CommandFailure::Failed(who)),
        FoundUpload::Ended if is_asked_for => {
            let (id, url) = (left.id(), left.url().unwrap_or_default());
            let message = format!("{id}: {url} has been published or ended by another process meanwhile");
            Err(CommandFailure::Failed(message))
        }
        found => Ok(found),
    }
}

/// Counts the uploads that failed.
#[derive(Default)]
struct Undone(u64);

impl Undone {
    /// The result of a success; a failure is counted and printed.
    fn or_done<T>(&mut self, done: Outcome<T>) -> Option<T> {
        done.inspect_err(|failure| {
            self.0 += 1;
            output::fail(failure);
        })
        .ok()
    }

    fn end(self, asked: &str) -> Outcome {
        match self.0 {
            0 => Ok(()),
            n => Err(CommandFailure::Failed(format!("{} could not be {asked}", text::count(n, "upload")))),
        }
    }
}

/// Locks an upload's journal, so that no other process resumes it. Only the journal names a local target directory,
/// so a journal with such a target must belong to the caller.
async fn claim(stores: &Stores, left: &LeftUpload, connection: &ConnectionOptions) -> Outcome<FoundUpload> {
    let is_local = |left: &LeftUpload| {
        let location = left.recovered().map(|found| found.state.header.url.parse());
        matches!(location, Some(Ok(Location::Local { .. })))
    };
    if is_local(left) {
        return Ok(journaled::found(left.claim().await).await?);
    }
    Ok(journaled::claim(left, &store(stores, left, connection).await?).await?)
}

/// The store that an upload goes to, with the upload's checksum algorithm.
async fn store(stores: &Stores, left: &LeftUpload, connection: &ConnectionOptions) -> Outcome<Store> {
    let Some(found) = left.recovered() else {
        let problem = left.problem().map(ToString::to_string).unwrap_or_default();
        return Err(CommandFailure::Failed(problem));
    };
    let header = &found.state.header;
    let location: Location = header.url.parse()?;
    let checksum = header.checksum.algorithm();
    match &location {
        // Other stores have one algorithm only, and the engine opens S3 stores with the default one.
        Location::S3 { bucket, .. } if checksum != Algorithm::default() => {
            let store = S3::connect(bucket, &connection.settings_with(checksum)).await;
            let store = store.map_err(|fault| CommandFailure::Failed(format!("{location}: {fault}")))?;
            Ok(stores.tide().store(Arc::new(store)))
        }
        _ => Ok(stores.bucket(&location).await?.0),
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Strategy;

    use super::*;

    /// Makes one journaled upload of object `k` with the content `bytes`. Returns its journal directory and its
    /// target directory.
    pub(super) async fn one_upload(directory: &Path, is_finished: bool) -> (PathBuf, PathBuf, Tidegate) {
        let [journals, target] = ["journals", "target"].map(|name| directory.join(name));
        for directory in [&journals, &target] {
            std::fs::create_dir(directory).unwrap();
        }
        let tide = Tidegate::builder().journal([&journals]).build().unwrap();
        let store = tide.open(target.to_str().unwrap()).await.unwrap();
        let mut writer = store.writer("k").strategy(Strategy::Journal).await.unwrap();
        writer.write_bytes("bytes".into()).await.unwrap();
        if is_finished {
            // Publishing fails where a directory is in the way.
            std::fs::create_dir_all(target.join("k/in the way")).unwrap();
            writer.finish().await.unwrap_err();
            std::fs::remove_dir_all(target.join("k")).unwrap();
        } else {
            drop(writer);
        }
        tide.settled().await;
        (journals, target, tide)
    }

    #[tokio::test]
    async fn a_journal_directory_that_is_not_there_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        assert!(list(directory.path(), &Owners::default()).await.unwrap().is_empty());
        let missing = list(&directory.path().join("nowhere"), &Owners::default()).await.unwrap_err();
        assert_eq!(missing.code(), 3, "{missing:?}");
    }

    #[tokio::test]
    async fn each_upload_is_chosen_once_and_all_ids_must_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let tide = Tidegate::builder().journal([directory.path()]).build().unwrap();
        let store = tide.open("memory://chosen").await.unwrap();
        for key in ["one", "two"] {
            let mut writer = store.writer(key).strategy(Strategy::Journal).await.unwrap();
            writer.write_bytes("bytes".into()).await.unwrap();
        }
        tide.settled().await;
        let all = tide.recover().await.unwrap();
        let id = |at: usize| all[at].id().to_owned();
        let chosen = |ids: &[String]| {
            let chosen = all_chosen(&all, ids, directory.path())?;
            Outcome::Ok(chosen.iter().map(|left| left.id().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), [id(0), id(1)]);
        assert_eq!(chosen(&[id(1), id(1)]).unwrap(), [id(1)]);
        assert!(matches!(chosen(&[id(0), "nobody".to_owned()]), Err(CommandFailure::NotFound(_))));
    }
}
