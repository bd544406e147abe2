//! Reads blobs. Ranges of up to 4 MiB come with their CRC-64/NVME ("Get Blob", `x-ms-range-get-content-crc64`).

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};

use super::attributes::{entry_of, from_headers, is_directory};
use super::compared::{is_missing_feature, told};
use super::request::AzureRequest;
use super::{Azure, AzureContainer};
use tidegate_core::backend::{Attempt, Backend as _, Body, Fault, FaultKind, Feature, replaced};
use tidegate_core::types::checksum::{Checksum, Hasher};
use tidegate_core::types::object::Object;
use tidegate_http::{Response, download, proof, set};

/// The longest range that comes with its checksum.
const LONGEST_COMPARED: u64 = 4 << 20;

pub(super) async fn get(
    azure: &Azure,
    key: &str,
    range: Option<Range<u64>>,
    same: Option<&Object>,
    attempt: Attempt,
) -> Result<Body, Fault> {
    let response = match ask(&azure.container, key, range.as_ref(), same, attempt).await {
        Ok(response) => proof::object(response).await?,
        Err(fault) if fault.kind == FaultKind::Exists && same.is_some() => {
            // Azurite says that a condition is not met where there is no blob at all.
            azure.head(key, attempt).await?;
            return Err(replaced(same)(fault));
        }
        Err(fault) => return Err(fault),
    };
    no_directory(response.headers())?;
    not_past_the_end(&response)?;
    let checksum = told(response.headers(), 0).map(|checksum| checksum.value());
    let object = from_headers(key, response.headers());
    // Only the request that begins a read asks for proof of the blob's checksum.
    let shared = &azure.container.shared;
    let begins = range.as_ref().is_none_or(|range| range.start == 0);
    let object = match same.filter(|same| !begins || same.crc64nvme.is_some()) {
        Some(same) if entry_of(response.headers()).is_some() => {
            Object { crc64nvme: same.crc64nvme.clone(), ..object }
        }
        Some(_) if shared.metadata_checksums => object,
        Some(_) => Object { crc64nvme: None, ..object },
        None => azure.container.proven(object, response.headers(), attempt).await?,
    };
    let body = download::body(object, response, range, same, azure.head(key, attempt)).await?;
    let Some(value) = checksum.filter(|_| !body.ignored_range) else { return Ok(body) };
    let size = body.range.end - body.range.start;
    let checksum = Checksum::known(tidegate_core::types::checksum::Algorithm::Crc64Nvme, value, size);
    Ok(Body { stream: compared(body.stream, checksum), ..body })
}

async fn ask(
    container: &AzureContainer,
    key: &str,
    range: Option<&Range<u64>>,
    same: Option<&Object>,
    attempt: Attempt,
) -> Result<Response, Fault> {
    let shared = &container.shared;
    let mut request = AzureRequest::new(Method::GET, container.url.blob(key, &[])?, attempt);
    set(&mut request.headers, "range", range.map(download::header))?;
    set(&mut request.headers, "if-match", same.and_then(Object::strong_tag))?;
    let is_short = range.is_some_and(|range| range.end - range.start <= LONGEST_COMPARED);
    if !is_short || shared.facts.lacks(Feature::RangeChecksums) {
        return shared.send(request).await;
    }
    let (url, headers) = (request.url.clone(), request.headers.clone());
    set(&mut request.headers, "x-ms-range-get-content-crc64", Some("true"))?;
    let answer = shared.exchange(request).await?;
    if answer.response.status().is_success() {
        return Ok(answer.response);
    }
    if !is_missing_feature(shared, answer.response.headers()) {
        return Err(shared.refused(answer).await);
    }
    let without = AzureRequest { headers, ..AzureRequest::new(Method::GET, url, attempt) };
    let response = shared.send(without).await?;
    shared.learn_lack(Feature::RangeChecksums);
    Ok(response)
}

/// Azurite answers a range that begins at the end of a blob with none of its bytes: `bytes 5-4/5`.
fn not_past_the_end(response: &Response) -> Result<(), Fault> {
    let is_nothing = response.headers().get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
    if response.status() == StatusCode::PARTIAL_CONTENT && is_nothing {
        return Err(
            Fault::new(FaultKind::Invalid, "the range begins at the end of the blob").with_answered(true)
        );
    }
    Ok(())
}

/// A directory of a hierarchical namespace is no object.
pub(super) fn no_directory(headers: &http::HeaderMap) -> Result<(), Fault> {
    if is_directory(headers) {
        return Err(Fault::new(FaultKind::NotFound, "the key is a directory").with_answered(true));
    }
    Ok(())
}

/// The same bytes, if they have this checksum. Otherwise the last piece is an error. That error is final: what was read
/// before it may be wrong, so going on behind it would hide the damage.
fn compared(
    pieces: BoxStream<'static, Result<Bytes, Fault>>,
    checksum: Checksum,
) -> BoxStream<'static, Result<Bytes, Fault>> {
    let hasher = Hasher::new(checksum.algorithm());
    stream::try_unfold((pieces, hasher), move |(mut pieces, mut hasher)| async move {
        let Some(piece) = pieces.try_next().await? else { return Ok(None) };
        hasher.update(&piece);
        let sum = hasher.finish();
        if sum.covers() == checksum.covers() && sum != checksum {
            let message =
                format!("the bytes of the range have the checksum {sum}, and the store's is {checksum}");
            return Err(Fault::new(FaultKind::Corrupted, message));
        }
        Ok(Some((piece, (pieces, hasher))))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::types::checksum::Algorithm;

    #[tokio::test]
    async fn the_last_piece_is_given_only_if_all_bytes_are_right() {
        let pieces =
            || stream::iter(["ab", "", "cd"].map(|piece| Ok(Bytes::from_static(piece.as_bytes())))).boxed();
        let right = Checksum::of(Algorithm::Crc64Nvme, b"abcd");
        let read: Vec<Bytes> = compared(pieces(), right).try_collect().await.unwrap();
        assert_eq!(read.concat(), b"abcd");
        let read: Vec<_> = compared(pieces(), Checksum::of(Algorithm::Crc64Nvme, b"abcX")).collect().await;
        let fault = read.last().unwrap().as_ref().unwrap_err();
        assert_eq!((read.len(), fault.kind, fault.kind.is_retriable()), (3, FaultKind::Corrupted, false));
    }
}
