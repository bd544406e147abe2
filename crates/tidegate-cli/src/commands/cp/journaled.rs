//! Copies through a journal: one that was cut takes up where it stood.
//!
//! The rule: the source is read from its beginning, and must begin with the bytes that the journal has;
//! they are compared by their number and checksum. Where it does not, nothing is sent and nothing is
//! thrown away: what becomes of the journal is for its owner to say.

use tidegate::checksum::Hasher;
use tidegate::{Left, Resumed, WriterBuilder};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::job::Job;
use crate::exit::{Failure, Outcome};
use crate::stores::Place;
use crate::text;

/// How much is read at once to be compared.
const CHUNK: usize = 256 << 10;

/// A writer that goes on where an earlier copy to the same place was cut, or a new one; the object, where
/// the earlier one had read all of its source.
pub(super) async fn begin(
    job: &Job<'_>,
    builder: WriterBuilder,
    input: &mut (impl AsyncRead + Unpin),
    to: &Place,
    source: &str,
) -> Outcome<Resumed> {
    let left = job.left(to).await?;
    let left = match &left[..] {
        [] => return Ok(Resumed::Writer(builder.start().await?)),
        [left] => left,
        [first, ..] => {
            let (url, count) = (to.url(), left.len());
            let directory = directory(first);
            return Err(Failure::Failed(format!(
                "{url}: {count} uploads to it were left: end all but one (`tidegate journal ls {directory}`, \
                 `tidegate journal abort {directory} ID`)"
            )));
        }
    };
    compare(left, input, to, source).await?;
    Ok(left.resume_on(&to.store).await?)
}

/// Reads as many bytes as the journal has, and fails where they are others.
async fn compare(left: &Left, input: &mut (impl AsyncRead + Unpin), to: &Place, source: &str) -> Outcome {
    let Some(found) = left.recovered() else { return Ok(()) };
    let unreadable = |error: std::io::Error| Failure::Failed(format!("{source}: {error}"));
    let mut hasher = Hasher::new(found.checksum.algorithm());
    let mut buffer = vec![0; CHUNK];
    let mut rest = left.length();
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
    if begins && (!left.is_finished() || input.read(&mut buffer[..1]).await.map_err(unreadable)? == 0) {
        return Ok(());
    }
    let (url, id, directory) = (to.url(), left.id(), directory(left));
    let has = text::size(left.length());
    let advice = if left.is_finished() { "publish it" } else { "copy its own source once more" };
    let resume = if left.is_finished() {
        format!(" (`tidegate journal resume {directory} {id}`)")
    } else {
        String::new()
    };
    Err(Failure::Failed(format!(
        "{url}: an upload to it was cut after {has}, and {source} has other bytes: {advice}{resume}, or end it \
         (`tidegate journal abort {directory} {id}`)"
    )))
}

fn directory(left: &Left) -> String {
    let directory = left.path().parent().map(|directory| directory.display().to_string());
    text::quoted(&directory.unwrap_or_default())
}
