//! An answer that is an object's bytes.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, StatusCode, header};

use super::{Response, pieces};
use crate::backend::same::same_or_replaced;
use crate::backend::{Body, Fault, FaultKind};
use crate::object::Object;

/// Stores read offsets as signed numbers of 64 bits, and ignore a range with a number past those (MinIO,
/// versitygw) or refuse it. An end from here on is beyond every object.
const FARTHEST: u64 = i64::MAX as u64;

/// The `Range` header that asks for `range`, which is not empty.
pub(in crate::backend) fn header(range: &Range<u64>) -> String {
    match range.end {
        FARTHEST.. => format!("bytes={}-", range.start),
        end => format!("bytes={}-{}", range.start, end - 1),
    }
}

/// The bytes that an answer carries, those of `asked` or all, of the `object` that its headers describe.
pub(in crate::backend) fn body(
    object: Object,
    response: Response,
    asked: Option<Range<u64>>,
    same: Option<&Object>,
) -> Result<Body, Fault> {
    let (sent, size) = extent(response.status(), response.headers())
        .ok_or_else(|| Fault::new(FaultKind::Unsupported, "the store does not say how long the object is"))?;
    let object = same_or_replaced(Object { size, ..object }, same)?;
    let whole = sent == (0..size);
    let range = within(asked.unwrap_or(0..u64::MAX), size)?;
    let stream = exactly(sent.end - sent.start, pieces(response));
    if sent == range {
        return Ok(Body { object, range, stream });
    }
    if !whole {
        let told = |range: &Range<u64>| format!("bytes {}-{} of {size}", range.start, range.end - 1);
        let message = format!("the store sent {} where {} were asked for", told(&sent), told(&range));
        // By what is on the way, or by one of many servers: another attempt may be understood.
        return Err(Fault::new(FaultKind::Transient, message));
    }
    Ok(Body { object, stream: cut(stream, range.clone()), range })
}

/// What there is of `range` in an object of this size; one that begins behind its end is a fault.
pub(in crate::backend) fn within(range: Range<u64>, size: u64) -> Result<Range<u64>, Fault> {
    let range = range.start..range.end.min(size);
    if range.start > range.end || (range.is_empty() && size > 0) {
        let message = format!("the range begins at {}, and the object has {size} bytes", range.start);
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    Ok(range)
}

/// The bytes of `range` from those of the whole object: not every server heeds ranges. What comes before
/// it is told as empty pieces, so that whoever waits sees that bytes move.
fn cut(
    whole: BoxStream<'static, Result<Bytes, Fault>>,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, Fault>> {
    stream::try_unfold((whole, 0), move |(mut whole, at)| {
        let Range { start, end } = range;
        async move {
            if at >= end {
                return Ok(None);
            }
            let Some(piece) = whole.try_next().await? else { return Ok(None) };
            let in_piece = |offset: u64| offset.saturating_sub(at).min(piece.len() as u64) as usize;
            let wanted = piece.slice(in_piece(start)..in_piece(end));
            Ok(Some((wanted, (whole, at + piece.len() as u64))))
        }
    })
    .boxed()
}

/// Which bytes an answer carries, and of how many: from `Content-Range`, or all of `Content-Length`.
fn extent(status: StatusCode, headers: &HeaderMap) -> Option<(Range<u64>, u64)> {
    let text = |name| headers.get(name)?.to_str().ok();
    if status != StatusCode::PARTIAL_CONTENT {
        let size = text(header::CONTENT_LENGTH)?.parse().ok()?;
        return Some((0..size, size));
    }
    let (range, size) = text(header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range: Range<u64> = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    let size = size.parse().ok()?;
    (range.start <= range.end && range.end <= size).then_some((range, size))
}

/// The `left` bytes of an answer; fewer or more are a fault.
pub(in crate::backend) fn exactly(
    left: u64,
    pieces: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
) -> BoxStream<'static, Result<Bytes, Fault>> {
    let odd = |message| Fault::new(FaultKind::Transient, message);
    stream::try_unfold((Box::pin(pieces), left), move |(mut pieces, left)| async move {
        match pieces.try_next().await? {
            Some(piece) => match left.checked_sub(piece.len() as u64) {
                Some(left) => Ok(Some((piece, (pieces, left)))),
                None => Err(odd("the store sent more bytes than it said")),
            },
            None if left > 0 => Err(odd("the store sent fewer bytes than it said")),
            None => Ok(None),
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_is_read_from_the_headers() {
        let told = |status, name: header::HeaderName, value: &str| {
            extent(status, &HeaderMap::from_iter([(name, value.parse().unwrap())]))
        };
        let part = |value| told(StatusCode::PARTIAL_CONTENT, header::CONTENT_RANGE, value);
        assert_eq!(part("bytes 5-9/20"), Some((5..10, 20)));
        for wrong in ["bytes 5-9/*", "bytes 9-5/20", "bytes 5-20/20", "items 5-9/20", "bytes 5"] {
            assert_eq!(part(wrong), None, "{wrong}");
        }
        assert_eq!(told(StatusCode::OK, header::CONTENT_LENGTH, "7"), Some((0..7, 7)));
        assert_eq!(told(StatusCode::OK, header::ETAG, "7"), None);
    }
}
