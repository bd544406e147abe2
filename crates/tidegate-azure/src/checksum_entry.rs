//! The checksum of a whole blob, which is an entry of its metadata because Azure itself keeps none.
//!
//! Other programs keep the metadata when they write other bytes (blobfuse2 does), so the entry also has something that
//! each write changes. Of a blob that was written in one request that is its MD5, which the service computes
//! (`Content-MD5`). The service computes none for a blob of blocks, and takes any MD5 that a commit sets, so such a blob
//! must have no blocks. The entry of a blob of blocks has the time of the commit, a blob that has an MD5 was written by
//! another program, and the ids of the blocks must give the same checksum. The list of blocks shows which it is
//! (`AzureContainer::has_written`). An entry without such a witness, or with one that contradicts, counts as none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderName, LAST_MODIFIED};

use super::AzureContainer;
use super::attributes::entry_of;
use super::block_list::{ListOf, block_list};
use super::blocks::UploadBlocks;
use tidegate_core::backend::{Attempt, Fault};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::time::time;

/// The metadata name of the entry: `base64:size:witness`, the CRC-64/NVME in base64 as S3 writes it.
pub(super) const NAME: &str = "tidegate_crc64nvme";

/// How far this machine's clock may be from the service's, which refuses requests from clocks that differ more.
const APART: Duration = Duration::from_secs(15 * 60);

/// A property of the blob that is stored with the checksum, and that changes when another program writes other bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    /// The MD5 of all bytes, in base64.
    Md5(String),
    /// The time at which the blocks were committed.
    Commit(SystemTime),
}

/// The checksum of a whole blob, as its metadata has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChecksumEntry {
    pub(super) checksum: Checksum,
    pub(super) witness: Witness,
}

impl ChecksumEntry {
    /// The entry of a blob that is committed of blocks now.
    pub(super) fn of_blocks(checksum: Checksum) -> Self {
        Self { checksum, witness: Witness::Commit(SystemTime::now()) }
    }

    /// The entry's text.
    pub(super) fn text(&self) -> String {
        let witness = match &self.witness {
            Witness::Md5(md5) => md5.clone(),
            Witness::Commit(at) => {
                format!("@{}", at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
            }
        };
        format!("{}:{}:{witness}", self.checksum.base64(), self.checksum.covers())
    }

    /// The entry `text` of the blob that `headers` describe, unless the headers contradict the entry.
    pub(super) fn read(text: &str, headers: &HeaderMap) -> Option<Self> {
        let mut fields = text.splitn(3, ':');
        let (checksum, size, witness) = (fields.next()?, fields.next()?, fields.next()?);
        let size: u64 = size.trim().parse().ok()?;
        if size_told(headers) != Some(size) {
            return None;
        }
        let checksum = Checksum::from_base64(Algorithm::Crc64Nvme, checksum, size)?;
        let md5 = md5_told(headers);
        let witness = match witness.strip_prefix('@') {
            Some(_) if md5.is_some() => return None,
            Some(seconds) => {
                let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.trim().parse().ok()?))?;
                let modified = headers.get(LAST_MODIFIED)?.to_str().ok().and_then(time)?;
                let apart = modified.duration_since(at).or_else(|_| at.duration_since(modified)).ok()?;
                if apart > APART {
                    return None;
                }
                Witness::Commit(at)
            }
            None => Witness::Md5(md5.filter(|md5| md5 == witness.trim())?),
        };
        Some(Self { checksum, witness })
    }
}

/// The MD5 of the whole blob, in base64, if the answer tells it. The answer to a range has that of the range in
/// `Content-MD5` ("Get Blob").
pub(super) fn md5_told(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let is_range = headers.contains_key(CONTENT_RANGE);
    text("x-ms-blob-content-md5").or_else(|| text("content-md5").filter(|_| !is_range))
}

/// The size of the whole object, if the answer tells it.
fn size_told(headers: &HeaderMap) -> Option<u64> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let size = match text(CONTENT_RANGE) {
        Some(range) => range.rsplit_once('/')?.1,
        None => text(CONTENT_LENGTH)?,
    };
    size.trim().parse().ok()
}

impl AzureContainer {
    /// The object that an answer's headers describe. If the list of the blob's blocks does not prove the checksum, the
    /// object has no checksum, and no MD5 either: both belong to bytes that another program has replaced.
    pub(super) async fn proven(
        &self,
        object: Object,
        headers: &HeaderMap,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        if !self.shared.metadata_checksums {
            return Ok(Object { crc64nvme: None, ..object });
        }
        let Some(entry) = entry_of(headers) else { return Ok(object) };
        if self.has_written(&entry, &object.key, object.etag.as_deref(), attempt).await? {
            return Ok(object);
        }
        let mut object = Object { crc64nvme: None, ..object };
        if let Witness::Md5(_) = entry.witness {
            object.other_checksums.remove("md5");
        }
        Ok(object)
    }

    /// Whether the blob with this ETag was written as the entry says: in one request, so that it has no blocks, or of
    /// blocks that Tidegate has sent, whose ids give the entry's checksum.
    async fn has_written(
        &self,
        entry: &ChecksumEntry,
        key: &str,
        etag: Option<&str>,
        attempt: Attempt,
    ) -> Result<bool, Fault> {
        let list = match block_list(self, key, ListOf::Committed, attempt).await {
            Ok(list) => list,
            Err(fault) if fault.kind.is_retriable() => return Err(fault),
            Err(fault) => {
                tracing::debug!(key, %fault, "the blocks of a blob are not known, so its checksum is unproven");
                return Ok(false);
            }
        };
        if let Witness::Md5(_) = entry.witness {
            // The service may tell an ETag only with blocks ("Get Block List").
            return Ok(list.blocks.is_empty() && list.etag.as_deref().is_none_or(|tag| Some(tag) == etag));
        }
        let mut all = Algorithm::Crc64Nvme.empty();
        for block in &list.blocks {
            let name = UploadBlocks::that_sent(&block.id).and_then(|upload| upload.read(&block.id));
            let Some(name) = name else { return Ok(false) };
            all = all.then(&name.checksum(block.size));
        }
        Ok(list.etag.as_deref() == etag && all == entry.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::memory::payload::Payload;
    use tidegate_http::md5_of;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[tokio::test]
    async fn an_entry_counts_only_with_the_md5_that_it_names() {
        let checksum = Checksum::of(Algorithm::Crc64Nvme, b"bytes");
        let md5 = md5_of(&Payload::from_memory(vec!["bytes".into()], checksum)).await.unwrap();
        let entry = ChecksumEntry { checksum, witness: Witness::Md5(md5.clone()) };
        let read = |pairs: &[(&'static str, &str)]| ChecksumEntry::read(&entry.text(), &headers(pairs));
        let length = ("content-length", "5");
        assert_eq!(read(&[length, ("content-md5", &md5)]), Some(entry.clone()));
        assert_eq!(read(&[length, ("content-md5", "CY9rzUYh03PK3k6DJie09g==")]), None, "other bytes");
        assert_eq!(read(&[length]), None, "blocks of another program");
        assert_eq!(read(&[("content-length", "6"), ("content-md5", &md5)]), None);
        let range = [("content-length", "2"), ("content-range", "bytes 0-1/5"), ("content-md5", &md5)];
        assert_eq!(read(&range), None, "it is that of the range");
        let range = [range[0], range[1], ("x-ms-blob-content-md5", &md5)];
        assert_eq!(read(&range), Some(entry.clone()));
        for old in
            [checksum.base64(), format!("{}:5", checksum.base64()), format!("{}:5:", checksum.base64())]
        {
            assert_eq!(ChecksumEntry::read(&old, &headers(&[length, ("content-md5", &md5)])), None, "{old}");
        }
    }

    #[test]
    fn an_entry_of_blocks_counts_only_near_the_time_of_the_commit_and_without_an_md5() {
        let checksum = Checksum::of(Algorithm::Crc64Nvme, b"bytes");
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let entry = ChecksumEntry { checksum, witness: Witness::Commit(at) };
        let read = |pairs: &[(&'static str, &str)]| ChecksumEntry::read(&entry.text(), &headers(pairs));
        let length = ("content-length", "5");
        let modified = |time| ("last-modified", time);
        assert_eq!(read(&[length, modified("Sun, 06 Nov 1994 08:50:00 GMT")]), Some(entry.clone()));
        assert_eq!(read(&[length, modified("Sun, 06 Nov 1994 09:50:00 GMT")]), None, "a later write");
        assert_eq!(read(&[length]), None);
        let md5 = ("content-md5", "CY9rzUYh03PK3k6DJie09g==");
        assert_eq!(read(&[length, modified("Sun, 06 Nov 1994 08:50:00 GMT"), md5]), None, "a Put Blob");
    }
}
