//! Reads each object back after it was written, if the caller asks for that.

use futures::TryStreamExt;
use tidegate::Object;
use tidegate::checksum::{Algorithm, Hasher};

use super::job::CopyJob;
use crate::error::{Error, Result};
use crate::event::CopiedObject;
use crate::place::Place;

/// Reads `object` back, if the job verifies. It must have the size and the checksum that the store reported to the
/// writer.
pub(crate) async fn read_back(
    job: &CopyJob,
    place: &Place,
    object: &Object,
    mut done: Box<CopiedObject>,
) -> Result<Box<CopiedObject>> {
    if !job.verifies {
        return Ok(done);
    }
    let mut reader = place.store.reader(&place.key).await?;
    let written = match &object.crc64nvme {
        Some(sum) => Some((Algorithm::Crc64Nvme, sum)),
        None => object.crc32c.as_ref().map(|sum| (Algorithm::Crc32c, sum)),
    };
    let mut hasher = Hasher::new(written.map_or(Algorithm::default(), |(algorithm, _)| algorithm));
    while let Some(piece) = reader.try_next().await? {
        hasher.update(&piece);
    }
    let read = hasher.finish();
    let agrees = written.is_none_or(|(_, sum)| read.agrees_with(sum));
    if !agrees || read.covers() != object.size {
        let url = place.url();
        return Err(Error::Failed(format!("{url}: what is read back is not what was written")));
    }
    done.verified = true;
    Ok(done)
}
