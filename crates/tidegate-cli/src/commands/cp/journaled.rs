//! Copies through a journal: one that was cut takes up where it stood.
//!
//! The rule: the source is read from its beginning, and must begin with the bytes that the journal has;
//! they are compared by their number and checksum. Where it does not, nothing is sent and nothing is
//! thrown away: what becomes of the journal is for its owner to say.
//!
//! The journal is claimed before it is compared: until then another process may go on with it, and what
//! was listed be only the beginning of what it has.

use tidegate::checksum::Hasher;
use tidegate::journal::JournalError;
use tidegate::{Claimed, ErrorKind, Left, Progress, Resumed, Store, WriterBuilder};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::job::Job;
use super::report::Live;
use crate::exit::{Failure, Outcome};
use crate::stores::Place;
use crate::text;

/// How much is read at once to be compared.
const CHUNK: usize = 256 << 10;

/// What has become of an upload that was found in a journal.
pub(in crate::commands) enum Found {
    /// It is this process's own.
    Ours(Box<Claimed>),
    /// It has ended.
    Ended,
    /// Somebody writes it; the sentence that says who.
    InUse(String),
}

/// Resumes an earlier copy to the same place that was cut, or begins a new one. Gives the object where the earlier copy
/// had read all of its source: then only the store's part was left to do.
pub(super) async fn begin<'a>(
    job: &'a Job<'_>,
    builder: WriterBuilder,
    input: &mut (impl AsyncRead + Unpin),
    to: &Place,
    source: &str,
) -> Outcome<(Live<'a>, Resumed)> {
    let live = |progress: &Progress| job.report.upload(&to.key, progress, vec![progress.clone()]);
    // What is damaged, or of a later version, can't be gone on with, and is in nobody's way.
    let goes_on = |left: &&Left| matches!(left.problem(), None | Some(JournalError::InUse { .. }));
    let left = to.store.left(&to.key).await?;
    let left: Vec<&Left> = left.iter().filter(goes_on).collect();
    let url = to.url();
    let claimed = match &left[..] {
        [] => None,
        [left] => match claim(left, &to.store).await? {
            Found::Ours(claimed) => Some((*left, claimed)),
            Found::Ended => None,
            Found::InUse(who) => {
                return Err(Failure::Failed(format!("{url}: another process writes this object: {who}")));
            }
        },
        [first, ..] => {
            let (count, directory) = (left.len(), directory(first));
            return Err(Failure::Failed(format!(
                "{url}: {count} uploads to it were left: end all but one (`tidegate journal ls {directory}`, \
                 `tidegate journal abort {directory} ID`)"
            )));
        }
    };
    let Some((left, claimed)) = claimed else {
        let writer = builder.start().await?;
        return Ok((live(&writer.progress()), Resumed::Writer(writer)));
    };
    if let Some(expected) = job.writing.expect_size {
        check_size(left, &claimed, expected, to)?;
    }
    compare(left, &claimed, input, to, source).await?;
    let live = live(&claimed.progress());
    Ok((live, claimed.resume().await?))
}

/// Takes an upload that was found, so that nothing is added to it.
pub(in crate::commands) async fn claim(left: &Left, store: &Store) -> Outcome<Found> {
    found(left.claim_on(store).await).await
}

/// What has become of an upload that was to be claimed.
pub(in crate::commands) async fn found(claimed: tidegate::Result<Claimed>) -> Outcome<Found> {
    let claimed = match claimed {
        Ok(claimed) => claimed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Ended),
        Err(error) if is_in_use(&error) => return Ok(Found::InUse(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    if claimed.recovered().state.end.is_some() {
        // Its process died before it could remove the file.
        claimed.abort().await?;
        return Ok(Found::Ended);
    }
    Ok(Found::Ours(Box::new(claimed)))
}

/// Whether it is refused because another process has the journal.
pub(in crate::commands) fn is_in_use(error: &tidegate::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    matches!(source, Some(JournalError::InUse { .. }))
}

/// Refuses what is in the journal already and can't become an object of the `expected` size.
fn check_size(left: &Left, claimed: &Claimed, expected: u64, to: &Place) -> Outcome {
    let found = claimed.recovered();
    let has = found.checksum.covers();
    if has == expected || (has < expected && found.state.finish.is_none()) {
        return Ok(());
    }
    let (url, id, directory) = (to.url(), left.id(), directory(left));
    Err(Failure::Failed(format!(
        "{url}: nothing was published: its journal has {has} bytes, and --expect-size is {expected} \
         (`tidegate journal abort {directory} {id}` ends it)"
    )))
}

/// Reads as many bytes as the journal has, and fails where they are others.
pub(in crate::commands) async fn compare(
    left: &Left,
    claimed: &Claimed,
    input: &mut (impl AsyncRead + Unpin),
    to: &Place,
    source: &str,
) -> Outcome {
    let found = claimed.recovered();
    let (length, is_finished) = (found.checksum.covers(), found.state.finish.is_some());
    let unreadable = |error: std::io::Error| Failure::Failed(format!("{source}: {error}"));
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
    let has = text::size(length);
    let advice = if is_finished { "publish it" } else { "copy its own source once more" };
    let resume =
        if is_finished { format!(" (`tidegate journal resume {directory} {id}`)") } else { String::new() };
    Err(Failure::Failed(format!(
        "{url}: an upload to it was cut after {has}, and {source} has other bytes: {advice}{resume}, or end it \
         (`tidegate journal abort {directory} {id}`)"
    )))
}

fn directory(left: &Left) -> String {
    let directory = left.path().parent().map(|directory| directory.display().to_string());
    text::quoted(&directory.unwrap_or_default())
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
        let to = Place { store: store.clone(), key: "k".to_owned() };
        let mut writer = store.writer("k").strategy(Strategy::Journal).start().await.unwrap();
        writer.write("listed".into()).await.unwrap();
        drop(writer);
        tide.settled().await;
        let all = store.left("k").await.unwrap();
        let [left] = &all[..] else { panic!("{all:?}") };

        // Another one goes on with it meanwhile.
        let Resumed::Writer(mut other) = left.resume_on(&store).await.unwrap() else { panic!("it is cut") };
        other.write(", and more".into()).await.unwrap();
        drop(other);
        tide.settled().await;

        let Found::Ours(claimed) = claim(left, &store).await.unwrap() else { panic!("nobody has it") };
        for other in ["listed", "listed, and other bytes"] {
            let compared = compare(left, &claimed, &mut other.as_bytes(), &to, "the source").await;
            assert!(compared.is_err(), "{other}");
        }
        let mut source = &b"listed, and more, and the rest"[..];
        compare(left, &claimed, &mut source, &to, "the source").await.unwrap();
        assert_eq!(source, b", and the rest", "it is read as far as the journal goes");
    }
}
