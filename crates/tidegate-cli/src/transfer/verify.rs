//! `dev://`: reads each object back after it was written, and prints where it is.

use std::io::Write;

use futures::TryStreamExt;
use tidegate::Object;
use tidegate::checksum::{Algorithm, Hasher};
use tidegate::location::Location;

use super::job::CopyJob;
use super::report::CompletedCopy;
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::OutputFormat;
use crate::stores::ObjectPlace;
use crate::{dev, output, text};

/// Reads `object` back if it was written to `dev://`. It must have the size and the checksum that the store reported
/// to the writer.
pub(crate) async fn if_dev(
    job: &CopyJob<'_>,
    place: &ObjectPlace,
    object: &Object,
    mut done: CompletedCopy,
) -> Outcome<CompletedCopy> {
    if !place.store.location().starts_with("dev://") {
        return Ok(done);
    }
    let reader = place.store.reader(&place.key);
    let live = job.report.read(&place.key, &tidegate::Progress::default());
    let mut reader = reader.await?;
    let written = match &object.crc64nvme {
        Some(sum) => Some((Algorithm::Crc64Nvme, sum)),
        None => object.crc32c.as_ref().map(|sum| (Algorithm::Crc32c, sum)),
    };
    let mut hasher = Hasher::new(written.map_or(Algorithm::default(), |(algorithm, _)| algorithm));
    while let Some(piece) = reader.try_next().await? {
        hasher.update(&piece);
    }
    drop(live);
    let read = hasher.finish();
    let agrees = written.is_none_or(|(_, sum)| read.agrees_with(sum));
    if !agrees || read.covers() != object.size {
        let url = place.url();
        return Err(CommandFailure::Failed(format!("{url}: what is read back is not what was written")));
    }
    done.verified();
    Ok(done)
}

/// Prints where `target` is and how to read it.
pub(crate) async fn say_where(target: &str, prefixed: Option<&str>, verified: u64) -> Outcome {
    let Ok(Location::Dev { bucket, key }) = target.parse() else { return Ok(()) };
    // The program's name as the user typed it, so that the printed command works when it is pasted.
    let program = std::env::args().next().unwrap_or_else(|| "tidegate".to_owned());
    let program = text::quoted(&program);
    let directory = dev::directory();
    let is_object = !key.is_empty() && !key.ends_with('/');
    let (command, copy) = if is_object { ("cat", "") } else { ("ls -r", " --recursive") };
    let mut out = output::text(OutputFormat::Text)?;
    let objects = text::count(verified, "object");
    writeln!(out, "verified: {objects} read back, size and checksum agree")?;
    writeln!(out, "{target} is kept in {}; to read it:", directory.display())?;
    let spread = prefixed.map_or_else(String::new, |root| format!(" --prefixed {}", text::quoted(root)));
    writeln!(out, "  {program} {command} {}{spread}", text::quoted(target))?;
    if prefixed.is_some() {
        return out.finish().await;
    }
    writeln!(out, "or with any S3 client, while `{program} serve` runs:")?;
    writeln!(
        out,
        "  AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={key} AWS_REGION={region} \
         aws --endpoint-url http://127.0.0.1:9123 s3 cp{copy} {url} {to}",
        key = dev::KEY,
        region = dev::REGION,
        url = text::quoted(&format!("s3://{bucket}/{key}")),
        to = if is_object { "-" } else { "." },
    )?;
    out.finish().await
}
