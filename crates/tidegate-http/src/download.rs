//! Reads an answer that carries an object's bytes.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, StatusCode, Version, header};

use super::{Response, pieces, proof};
use tidegate_core::backend::{Body, Fault, FaultKind, same_or_replaced};
use tidegate_core::types::object::Object;

/// Stores read offsets as signed 64-bit numbers; a range with a larger number is ignored (MinIO, versitygw) or
/// refused. No object reaches this offset, so a range that ends here or beyond is sent without an end.
const FARTHEST: u64 = i64::MAX as u64;

/// The `Range` header for `range`, which must not be empty.
pub fn header(range: &Range<u64>) -> String {
    match range.end {
        FARTHEST.. => format!("bytes={}-", range.start),
        end => format!("bytes={}-{}", range.start, end - 1),
    }
}

/// The bytes that an answer carries, according to its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// These bytes of an object of this size.
    Of(Range<u64>, u64),
    /// These bytes of an object of unknown size (`Content-Range: bytes 4-9/*`).
    Part(Range<u64>),
    /// All bytes, but their number is unknown: chunked, or until the connection ends.
    All,
}

/// The bytes of `asked`, or all bytes, of the `object` that the answer's headers describe. If the headers do not give
/// its size, `described` is awaited for it.
pub async fn body(
    object: Object,
    response: Response,
    asked: Option<Range<u64>>,
    same: Option<&Object>,
    described: impl Future<Output = Result<Object, Fault>> + Send,
) -> Result<Body, Fault> {
    let extent = Extent::of(response.status(), response.headers())?;
    let size = match &extent {
        Extent::Of(_, size) => *size,
        Extent::Part(_) | Extent::All => size_told_elsewhere(&object, same, described).await?,
    };
    let sent = match extent {
        Extent::Of(sent, _) | Extent::Part(sent) => sent,
        Extent::All => 0..size,
    };
    let object = same_or_replaced(Object { size, ..object }, same)?;
    let whole = sent == (0..size);
    let range = within(asked.unwrap_or(0..u64::MAX), size)?;
    let stream = exactly(sent.end.saturating_sub(sent.start), pieces(response));
    if sent == range {
        return Ok(Body { object, range, ignored_range: false, stream });
    }
    if !whole {
        let told =
            |range: &Range<u64>| format!("bytes {}-{} of {size}", range.start, range.end.saturating_sub(1));
        let message = format!("the store sent {} where {} were asked for", told(&sent), told(&range));
        // A proxy, or one of several servers, may have caused this: a retry may get the right range.
        return Err(Fault::new(FaultKind::Transient, message));
    }
    Ok(Body { object, stream: cut(stream, range.clone()), ignored_range: true, range })
}

/// The size of an object, from `same` or from another request, if the answer with its bytes does not give it.
async fn size_told_elsewhere(
    object: &Object,
    same: Option<&Object>,
    described: impl Future<Output = Result<Object, Fault>>,
) -> Result<u64, Fault> {
    if let Some(same) = same.filter(|same| same.has_tag_of(object) == Some(true)) {
        return Ok(same.size);
    }
    let there = described.await?;
    not_replaced(object, &there)?;
    Ok(there.size)
}

/// Fails if two answers are about different objects; the size comes from `there`.
pub fn not_replaced(object: &Object, there: &Object) -> Result<(), Fault> {
    if object.has_tag_of(there) == Some(false) {
        let message = "the object was replaced while the store was asked for its size";
        return Err(Fault::new(FaultKind::Transient, message));
    }
    Ok(())
}

/// The size of an object, as told by the answer to a request for its first byte.
#[derive(Debug, PartialEq, Eq)]
pub enum ToldSize {
    /// The size of the object.
    Size(u64),
    /// The answer carries all bytes, so that they can be counted.
    Counted,
    /// Nothing: the store has left the size out.
    Nothing,
    /// The answer is a refusal.
    Refused,
}

/// Reads the size of an object from the answer to a request for its first byte.
pub fn size_told(response: &Response) -> Result<ToldSize, Fault> {
    let (status, headers) = (response.status(), response.headers());
    if status == StatusCode::RANGE_NOT_SATISFIABLE {
        // Only an empty object has no first byte (RFC 9110, 15.5.17).
        let text = headers.get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let size = text.and_then(|text| text.trim().strip_prefix("bytes */")?.parse().ok());
        return Ok(size.or(proof::is_stores(headers).then_some(0)).map_or(ToldSize::Refused, ToldSize::Size));
    }
    if !status.is_success() {
        return Ok(ToldSize::Refused);
    }
    // If the body ends with the connection, a cut body looks complete.
    let is_framed = response.version() >= Version::HTTP_2 || headers.contains_key(header::TRANSFER_ENCODING);
    Ok(match Extent::of(status, headers)? {
        Extent::Of(_, size) => ToldSize::Size(size),
        Extent::All if is_framed => ToldSize::Counted,
        Extent::All | Extent::Part(_) => ToldSize::Nothing,
    })
}

/// The size of the whole object, if the headers give it (also when the answer carries only a range).
pub fn total(response: &Response) -> Option<u64> {
    match Extent::of(response.status(), response.headers()) {
        Ok(Extent::Of(_, size)) => Some(size),
        _ => None,
    }
}

/// Counts the bytes of an answer.
pub async fn count(response: Response) -> Result<u64, Fault> {
    pieces(response).try_fold(0, async |size: u64, piece| Ok(size + piece.len() as u64)).await
}

/// The fault if no answer gives the object's size.
pub fn no_size() -> Fault {
    Fault::new(FaultKind::Unsupported, "the store does not say how long the object is")
}

/// `range`, cut to an object of this size. Fails if it begins at or past the end, except at 0 in an empty object.
pub fn within(range: Range<u64>, size: u64) -> Result<Range<u64>, Fault> {
    let range = range.start..range.end.min(size);
    if range.start > range.end || (range.is_empty() && size > 0) {
        return Err(past_the_end(&range, size));
    }
    Ok(range)
}

/// The body of an empty range, which no request can express: `object` was described instead.
pub fn nothing(object: Object, range: Range<u64>, same: Option<&Object>) -> Result<Body, Fault> {
    let object = same_or_replaced(object, same)?;
    if range.start > object.size {
        return Err(past_the_end(&range, object.size));
    }
    Ok(Body { object, range, ignored_range: false, stream: stream::empty().boxed() })
}

fn past_the_end(range: &Range<u64>, size: u64) -> Fault {
    let message = format!("the range begins at {}, and the object has {size} bytes", range.start);
    Fault::new(FaultKind::Invalid, message)
}

/// Cuts `range` out of the whole object's bytes, for servers that ignore ranges. Pieces before the range become empty
/// ones, so that the reader sees progress.
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

impl Extent {
    /// The bytes that a response has, by its status and headers.
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Result<Self, Fault> {
        let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
        let length: Option<u64> = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let named = headers.get(header::CONTENT_RANGE);
        if status != StatusCode::PARTIAL_CONTENT && named.is_none() {
            return Ok(length.map_or(Self::All, |size| Self::Of(0..size, size)));
        }
        // Google's storage-testbench says `bytes 0--1/0` of an empty object.
        let is_of_nothing = || text(header::CONTENT_RANGE).is_some_and(|range| range.ends_with("/0"));
        if status != StatusCode::PARTIAL_CONTENT && length == Some(0) && is_of_nothing() {
            return Ok(Self::Of(0..0, 0));
        }
        let odd = || {
            let named = named.map(|range| range.to_str().unwrap_or("?")).unwrap_or("nothing");
            let message = format!("the store sent a part of the object, and says {named:?} of which it is");
            Fault::new(FaultKind::Unsupported, message)
        };
        let (range, size) = text(header::CONTENT_RANGE).and_then(range_of).ok_or_else(odd)?;
        match length {
            // Despite the `Content-Range`, the answer carries the whole object.
            Some(length) if Some(length) == size && status != StatusCode::PARTIAL_CONTENT => {
                Ok(Self::Of(0..length, length))
            }
            Some(length) if length != range.end - range.start => Err(odd()),
            _ => Ok(size.map_or(Self::Part(range.clone()), |size| Self::Of(range, size))),
        }
    }
}

/// Parses `Content-Range`: the range, and the object's size if it is given.
fn range_of(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let range: Range<u64> = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    let size: Option<u64> = if size.trim() == "*" { None } else { Some(size.trim().parse().ok()?) };
    (range.start < range.end && size.is_none_or(|size| range.end <= size)).then_some((range, size))
}

/// Exactly `left` bytes of an answer; fewer or more are a fault.
pub fn exactly(
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
        let told = |status, pairs: &[(header::HeaderName, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            Extent::of(status, &HeaderMap::from_iter(pairs)).ok()
        };
        let (whole, part) = (StatusCode::OK, StatusCode::PARTIAL_CONTENT);
        let ranged = |status, value| told(status, &[(header::CONTENT_RANGE, value)]);
        assert_eq!(ranged(part, "bytes 5-9/20"), Some(Extent::Of(5..10, 20)));
        assert_eq!(ranged(part, "bytes 5-9/*"), Some(Extent::Part(5..10)));
        for wrong in ["bytes 9-5/20", "bytes 5-20/20", "items 5-9/20", "bytes 5", "bytes */20", "bytes 5-9/x"]
        {
            assert_eq!(ranged(part, wrong), None, "{wrong}");
        }
        // Which bytes they are is not guessed: of many ranges, or where nothing is said.
        assert_eq!(told(part, &[(header::CONTENT_LENGTH, "7")]), None);
        assert_eq!(told(whole, &[(header::CONTENT_LENGTH, "7")]), Some(Extent::Of(0..7, 7)));
        assert_eq!(told(whole, &[(header::ETAG, "7")]), Some(Extent::All));
        // A part that is sent as if it were the whole.
        let both = |status, length| {
            told(status, &[(header::CONTENT_RANGE, "bytes 5-9/20"), (header::CONTENT_LENGTH, length)])
        };
        assert_eq!(ranged(whole, "bytes 5-9/20"), Some(Extent::Of(5..10, 20)));
        assert_eq!(both(whole, "5"), Some(Extent::Of(5..10, 20)));
        assert_eq!(both(whole, "20"), Some(Extent::Of(0..20, 20)));
        assert_eq!((both(whole, "7"), both(part, "20")), (None, None));
        let empty = [(header::CONTENT_RANGE, "bytes 0--1/0"), (header::CONTENT_LENGTH, "0")];
        assert_eq!((told(whole, &empty), told(part, &empty)), (Some(Extent::Of(0..0, 0)), None));
    }
}
