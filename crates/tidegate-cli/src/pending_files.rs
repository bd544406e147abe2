//! Files of pending uploads: `cp --prepare` writes one, `commit` and `abandon` read them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use futures::stream::{self, StreamExt};
use serde::Serialize;
use tidegate::location::Location;
use tidegate::store::Manifest;
use tidegate::upload::Pending;
use tidegate::{Store, Tidegate};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::ui::lines::OutputLine;
use crate::{output, standard, text};

/// Uploads that are committed or abandoned at the same time; the engine's limits hold as well.
const AT_ONCE: usize = 64;

/// The end of a pending upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingAction {
    Commit,
    Abandon,
}

/// A pending upload that a command prepared, published or gave up.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "pending")]
pub(crate) struct PendingLine<'a> {
    /// `prepared`, `committed` or `abandoned`; `visible` of an upload that was published before its set was given up.
    state: &'static str,
    url: String,
    bytes: u64,
    checksum: String,
    /// When its lifetime ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The file that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
}

impl<'a> PendingLine<'a> {
    /// An upload that was prepared, and the file that it is in.
    pub(crate) fn prepared(pending: &Pending, file: &'a str) -> Self {
        Self { until: Some(text::time(pending.until())), file: Some(file), ..Self::of("prepared", pending) }
    }

    fn of(state: &'static str, pending: &Pending) -> Self {
        Self {
            state,
            url: url(pending),
            bytes: pending.size(),
            checksum: pending.checksum().to_string(),
            until: None,
            file: None,
        }
    }
}

impl OutputLine for PendingLine<'_> {
    fn text(&self) -> String {
        let until = self.until.as_ref().map_or_else(String::new, |until| format!(", until {until}"));
        format!("{}  {}  {}{until}", self.state, text::size(self.bytes), self.url)
    }
}

fn url(pending: &Pending) -> String {
    format!("{}/{}", pending.url(), pending.key())
}

/// A new file for a pending upload. It is made before the upload, which would be lost without it, and is removed if
/// nothing was written to it. Only its owner may read it: it may have an address that is a secret.
#[derive(Debug)]
pub(crate) struct PendingFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl PendingFile {
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| CommandFailure::of_file(path, &error))?;
        Ok(Self { path: path.to_owned(), file, is_written: false })
    }

    /// Writes the upload, and forces it to disk.
    pub(crate) fn write(&mut self, pending: &Pending) -> Outcome {
        let text = format!("{}\n", pending.to_json());
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|error| CommandFailure::of_file(&self.path, &error))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.is_written
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            output::warn(&format!("{}: the empty file could not be removed: {error}", self.path.display()));
        }
    }
}

/// Reads the pending uploads of a file: one in each line.
fn read(path: &Path) -> Outcome<Vec<Pending>> {
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => {
            standard::refuse_closed_input(Path::new("/dev/stdin"))?;
            std::io::stdin().lock().read_to_string(&mut text)
        }
        false => File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| CommandFailure::of_file(path, &error))?;
    let pending: Result<Vec<_>, _> =
        text.lines().filter(|line| !line.trim().is_empty()).map(Pending::from_json).collect();
    let at = |failure: CommandFailure| {
        let path = path.display().to_string();
        let sentence = format!("{path}: {}", failure.sentence().unwrap_or_default());
        CommandFailure::At(path, CommandFailure::Usage(sentence).into())
    };
    let pending = pending.map_err(|error| at(error.into()))?;
    if pending.is_empty() {
        return Err(at(CommandFailure::Failed("there is no pending upload in it".to_owned())));
    }
    Ok(pending)
}

/// The store that a pending upload is in.
async fn store(stores: &Stores, pending: &Pending) -> Outcome<Store> {
    let location: Location = pending.url().parse()?;
    match location {
        // The very directory that it was prepared in, whatever is there now.
        Location::Local { .. } => Ok(stores.tide().open(pending.url()).await?),
        location => Ok(stores.bucket(&location).await?.0),
    }
}

/// Commits the pending uploads of all files as one set with the pointer at a URL; without files, completes the set that was
/// begun there.
pub(crate) async fn commit_set(
    invocation: &Invocation,
    connection: &ConnectionOptions,
    files: &[PathBuf],
    pointer: &str,
) -> Outcome {
    let read: Vec<Pending> = files.iter().map(|path| read(path)).collect::<Outcome<Vec<_>>>()?.concat();
    let location: Location = pointer.parse()?;
    Stores::with(invocation, connection.reached(Tidegate::builder()), async |stores| {
        let (store, key) = stores.bucket(&location).await?;
        let objects = match read.is_empty() {
            true => store.roll_forward(&key).await?,
            false => Some(store.commit_all(&Manifest::new(key, read.iter().cloned())?).await?),
        };
        let mut out = output::text(invocation.format())?;
        for pending in &read {
            out.print(&PendingLine::of("committed", pending))?;
        }
        out.finish().await?;
        match objects {
            Some(objects) => {
                output::say(&format!("{pointer}: published {}", text::count(objects.len() as u64, "object")))
            }
            None => output::say(&format!("{pointer}: the set was complete already")),
        }
        Ok(())
    })
    .await
}

/// Gives up the pending uploads of all files as one set with the pointer at a URL; without files, ends the set that was begun
/// there and cannot be completed.
pub(crate) async fn abandon_set(
    invocation: &Invocation,
    connection: &ConnectionOptions,
    files: &[PathBuf],
    pointer: &str,
) -> Outcome {
    let read: Vec<Pending> = files.iter().map(|path| read(path)).collect::<Outcome<Vec<_>>>()?.concat();
    let location: Location = pointer.parse()?;
    Stores::with(invocation, connection.reached(Tidegate::builder()), async |stores| {
        let (store, key) = stores.bucket(&location).await?;
        let (visible, abandoned) = match read.is_empty() {
            true => {
                let ended = store.abandon_set(&key).await?;
                (ended.visible, ended.abandoned)
            }
            false => {
                store.abandon_all(&Manifest::new(key, read.iter().cloned())?).await?;
                (Vec::new(), read)
            }
        };
        let mut out = output::text(invocation.format())?;
        for (state, pending) in [("visible", &visible), ("abandoned", &abandoned)] {
            for pending in pending {
                out.print(&PendingLine::of(state, pending))?;
            }
        }
        out.finish().await?;
        let given_up = text::count(abandoned.len() as u64, "upload");
        let stays = match visible.len() {
            0 => "no object is visible".to_owned(),
            visible => format!("{} had been published and stay", text::count(visible as u64, "object")),
        };
        output::say(&format!("{pointer}: gave up {given_up}; {stays}"));
        Ok(())
    })
    .await
}

/// Commits or abandons the pending uploads of all files. One that fails does not keep the others.
pub(crate) async fn end_all(
    invocation: &Invocation,
    connection: &ConnectionOptions,
    files: &[PathBuf],
    action: PendingAction,
) -> Outcome {
    let read: Vec<Pending> = files.iter().map(|path| read(path)).collect::<Outcome<Vec<_>>>()?.concat();
    Stores::with(invocation, connection.reached(Tidegate::builder()), async |stores| {
        let mut out = output::text(invocation.format())?;
        let mut failed = Vec::new();
        let ends = read.iter().map(async |pending| {
            let ended = async {
                let store = store(stores, pending).await?;
                match action {
                    PendingAction::Commit => store.commit(pending).await.map(drop)?,
                    PendingAction::Abandon => store.abandon(pending).await?,
                }
                Ok(())
            };
            let ended: Outcome = ended.await;
            (pending, ended)
        });
        let mut ends = std::pin::pin!(stream::iter(ends).buffered(AT_ONCE));
        while let Some((pending, ended)) = ends.next().await {
            match ended {
                Ok(()) => {
                    let state = if action == PendingAction::Commit { "committed" } else { "abandoned" };
                    out.print(&PendingLine::of(state, pending))?;
                    out.flow().await?;
                }
                Err(failure) if read.len() == 1 => return Err(failure),
                Err(failure) => {
                    output::fail(&failure);
                    failed.push(failure.code());
                }
            }
        }
        out.finish().await?;
        let (all, count) = (read.len(), failed.len());
        let word = if action == PendingAction::Commit { "committed" } else { "abandoned" };
        match (failed.first(), count) {
            (None, _) => Ok(()),
            (Some(code), _) if count == all && failed.iter().all(|other| other == code) => Err(
                CommandFailure::All(*code, format!("{count} of {all} pending uploads could not be {word}")),
            ),
            _ => Err(CommandFailure::Failed(format!("{count} of {all} pending uploads could not be {word}"))),
        }
    })
    .await
}
