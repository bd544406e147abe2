//! Copies through a journal, which resume an interrupted copy.
//!
//! The source is read from its beginning, and must begin with the bytes in the journal: their number and checksum are
//! compared. If they differ, nothing is sent and nothing is deleted; the user decides about the journal.
//!
//! The journal is claimed before it is compared. Until then another process may resume it, and the listing may show
//! only the beginning of its bytes.

use futures::FutureExt;
use tidegate::checksum::Hasher;
use tidegate::journal::JournalError;
use tidegate::recover::{ClaimedUpload, LeftUpload, Resumed};
use tidegate::upload::WriterBuilder;
use tidegate::{ErrorKind, Progress, Store};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::unconstrained;

use super::job::CopyJob;
use crate::command::Producer;
use crate::error::{Error, Result};
use crate::event::{StartedTransfer, TransferInProgress};
use crate::figures::{quoted, size};
use crate::place::Place;

/// How many bytes are read at once to be compared.
const CHUNK: usize = 256 << 10;

/// The state of an upload that was found in a journal.
pub enum FoundUpload {
    /// This process has claimed it.
    Ours(Box<ClaimedUpload>),
    /// It has ended.
    Ended,
    /// Another process writes it; the error's text names that process.
    InUse(String),
}

/// Resumes an interrupted copy to the same place, or begins a new one. Returns the object instead of a writer if the
/// earlier copy had read all of its source, so that only publishing was left.
pub(crate) async fn begin(
    job: &CopyJob,
    builder: WriterBuilder,
    input: &mut dyn Producer,
    to: &Place,
    source: &str,
) -> Result<(TransferInProgress, Resumed)> {
    let live = |progress: &Progress| {
        job.events.start(StartedTransfer {
            key: &to.key,
            progress,
            counted: vec![progress.clone()],
            sends: true,
            journaled: true,
            bytes: job.writing.expect_size,
        })
    };
    // Journals that are damaged or of a later version cannot be resumed, and do not hinder a new upload.
    let goes_on = |left: &&LeftUpload| matches!(left.problem(), None | Some(JournalError::InUse { .. }));
    let left = to.store.left(&to.key).await?;
    let left: Vec<&LeftUpload> = left.iter().filter(goes_on).collect();
    let url = to.url();
    let claimed = match &left[..] {
        [] => None,
        [left] => match claim(left, &to.store).await? {
            FoundUpload::Ours(claimed) => Some((*left, claimed)),
            FoundUpload::Ended => None,
            FoundUpload::InUse(who) => {
                return Err(Error::Failed(format!("{url}: another process writes this object: {who}")));
            }
        },
        [first, ..] => {
            let (count, directory) = (left.len(), directory(first));
            return Err(Error::Failed(format!(
                "{url}: {count} uploads to it were left: end all but one (`tidegate journal ls {directory}`, \
                 `tidegate journal abort {directory} ID`)"
            )));
        }
    };
    let Some((left, claimed)) = claimed else {
        let writer = builder.await?;
        return Ok((live(&writer.progress()), Resumed::Writer(writer)));
    };
    if let Some(expected) = job.writing.expect_size {
        check_size(left, &claimed, expected, to)?;
    }
    if let Err(differs) = compare(left, &claimed, &mut &mut *input, to, source).await {
        // What has ended early may have failed; then that is what is wrong.
        if has_ended(input).await {
            input.complete().await?;
        }
        return Err(differs);
    }
    if claimed.recovered().state.finish.is_some() {
        // Only publishing is left.
        input.complete().await?;
    }
    let live = live(&claimed.progress());
    Ok((live, claimed.resume().await?))
}

/// Whether the input has no more bytes now.
async fn has_ended(input: &mut dyn Producer) -> bool {
    // Of bytes that are still to come, nobody waits for the next.
    matches!(unconstrained(input.read(&mut [0])).now_or_never(), Some(Ok(0)))
}

/// Claims an upload that was found, so that no other process adds to it.
pub async fn claim(left: &LeftUpload, store: &Store) -> Result<FoundUpload> {
    found(left.claim_on(store).await).await
}

/// The state of an upload after a claim.
pub async fn found(claimed: tidegate::Result<ClaimedUpload>) -> Result<FoundUpload> {
    let claimed = match claimed {
        Ok(claimed) => claimed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FoundUpload::Ended),
        Err(error) if is_in_use(&error) => return Ok(FoundUpload::InUse(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    if claimed.recovered().state.end.is_some() {
        // Its process died before it could remove the journal file.
        claimed.abort().await?;
        return Ok(FoundUpload::Ended);
    }
    Ok(FoundUpload::Ours(Box::new(claimed)))
}

/// Whether a claim failed because another process has the journal.
pub fn is_in_use(error: &tidegate::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    matches!(source, Some(JournalError::InUse { .. }))
}

/// Refuses a journal whose bytes can't become an object of the `expected` size.
fn check_size(left: &LeftUpload, claimed: &ClaimedUpload, expected: u64, to: &Place) -> Result {
    let found = claimed.recovered();
    let has = found.checksum.covers();
    if has == expected || (has < expected && found.state.finish.is_none()) {
        return Ok(());
    }
    let (url, id, directory) = (to.url(), left.id(), directory(left));
    Err(Error::Failed(format!(
        "{url}: nothing was published: its journal has {has} bytes, and --expect-size is {expected} \
         (`tidegate journal abort {directory} {id}` ends it)"
    )))
}

/// Reads as many bytes from the source as the journal has, and fails if they differ.
pub async fn compare(
    left: &LeftUpload,
    claimed: &ClaimedUpload,
    input: &mut (impl AsyncRead + Unpin + Send),
    to: &Place,
    source: &str,
) -> Result {
    let found = claimed.recovered();
    let (length, is_finished) = (found.checksum.covers(), found.state.finish.is_some());
    let unreadable = |error: std::io::Error| Error::Failed(format!("{source}: {error}"));
    let mut hasher = Hasher::new(found.checksum.algorithm());
    let mut buffer = vec![0; CHUNK];
    let mut rest = length;
    while rest > 0 {
        let most = usize::try_from(rest).map_or(CHUNK, |rest| rest.min(CHUNK));
        let read = input.read(&mut buffer[..most]).await.map_err(unreadable)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        rest -= read as u64;
    }
    let begins = rest == 0 && hasher.finish() == found.checksum;
    if begins && (!is_finished || input.read(&mut buffer[..1]).await.map_err(unreadable)? == 0) {
        return Ok(());
    }
    let (url, id, directory) = (to.url(), left.id(), directory(left));
    let has = size(length);
    let advice = if is_finished { "publish it" } else { "copy its own source once more" };
    let resume =
        if is_finished { format!(" (`tidegate journal resume {directory} {id}`)") } else { String::new() };
    Err(Error::Failed(format!(
        "{url}: its journal has {has} of an upload that was cut, and {source} does not begin with them: {advice}{resume}, or end it \
         (`tidegate journal abort {directory} {id}`)"
    )))
}

fn directory(left: &LeftUpload) -> String {
    let directory = left.path().parent().map(|directory| directory.display().to_string());
    quoted(&directory.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tidegate::{Strategy, Tidegate};

    use super::*;

    #[tokio::test]
    async fn what_is_compared_is_what_was_claimed_and_not_what_was_listed() {
        let directory = tempfile::tempdir().unwrap();
        let tide = Tidegate::builder().journal([directory.path()]).build().unwrap();
        let store = tide.open("memory://compare").await.unwrap();
        let to = Place::named(store.clone(), "k");
        let mut writer = store.writer("k").strategy(Strategy::Journal).await.unwrap();
        writer.write_bytes("listed".into()).await.unwrap();
        drop(writer);
        tide.settled().await;
        let all = store.left("k").await.unwrap();
        let [left] = &all[..] else { panic!("{all:?}") };

        // Another writer resumes the upload meanwhile.
        let Resumed::Writer(mut other) = left.resume_on(&store).await.unwrap() else { panic!("it is cut") };
        other.write_bytes(", and more".into()).await.unwrap();
        drop(other);
        tide.settled().await;

        let FoundUpload::Ours(claimed) = claim(left, &store).await.unwrap() else { panic!("nobody has it") };
        for other in ["listed", "listed, and other bytes"] {
            let compared = compare(left, &claimed, &mut other.as_bytes(), &to, "the source").await;
            assert!(compared.is_err(), "{other}");
        }
        let mut source = &b"listed, and more, and the rest"[..];
        compare(left, &claimed, &mut source, &to, "the source").await.unwrap();
        assert_eq!(source, b", and the rest", "it is read as far as the journal goes");
    }
}
