//! Proves that a successful answer comes from an object store: a login page, a console or a proxy answers 200 as
//! well.

use futures::TryStreamExt;
use http::{HeaderMap, StatusCode, header};

use super::answer::{BodyKind, not_a_store};
use super::{Response, pieces};
use tidegate_core::backend::Fault;

/// How many bytes of an unexpected answer are read, to show them in the error.
const LOOK: usize = 1 << 10;

/// Whether an answer has a header that only object stores send.
pub fn is_stores(headers: &HeaderMap) -> bool {
    let is_own = |name: &header::HeaderName| {
        ["x-amz-", "x-goog-", "x-ms-"].iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    headers.keys().any(is_own)
}

/// The ETag of the object or part in an answer; `None` if it is empty or blank.
pub fn tag(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ETAG)?.to_str().ok().map(str::trim).filter(|tag| !tag.trim_matches('"').is_empty())
}

/// Whether an answer is an HTML page.
pub fn is_page(headers: &HeaderMap, body: &[u8]) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_html = kind.trim_start().to_ascii_lowercase().starts_with("text/html");
    let is_html_root = matches!(BodyKind::of(body), BodyKind::Xml(root) if root.eq_ignore_ascii_case("html"));
    !body.is_empty() && (is_html || is_html_root)
}

/// Accepts an answer that describes an object or carries its bytes, if it has an ETag or a header of an object store, or
/// names the range of an object that its bytes are: a page of a proxy is whole.
pub async fn object(response: Response) -> Result<Response, Fault> {
    let is_due =
        matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::NO_CONTENT);
    let is_range = response.status() == StatusCode::PARTIAL_CONTENT
        && response.headers().contains_key(header::CONTENT_RANGE);
    if is_due && (is_range || tag(response.headers()).is_some() || is_stores(response.headers())) {
        return Ok(response);
    }
    let headers = response.headers().clone();
    let (mut body, mut pieces) = (Vec::new(), pieces(response));
    while body.len() < LOOK {
        match pieces.try_next().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            // Show the bytes that arrived; the reason why no more came does not matter.
            Ok(None) | Err(_) => break,
        }
    }
    Err(not_a_store("an object with an ETag", &headers, &body))
}

/// The ETag in the answer to a write of an object or part. The caller has checked that the body is not an error
/// document.
pub fn written<'a>(headers: &'a HeaderMap, body: &[u8]) -> Result<&'a str, Fault> {
    tag(headers)
        .filter(|_| !is_page(headers, body))
        .ok_or_else(|| not_a_store("an ETag of what was written", headers, body))
}

/// Checks that the answer to a removal confirms it, by its status and an empty body. The caller has checked that the
/// body is not an error document.
pub fn removed(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(), Fault> {
    // S3 and Google answer 204. Some compatible stores answer 200 or 202, and some of these with empty JSON.
    let is_due = matches!(status, StatusCode::OK | StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
    let says_nothing = matches!(body.trim_ascii(), b"" | b"null" | b"{}");
    if is_due && says_nothing { Ok(()) } else { Err(not_a_store("word that it was removed", headers, body)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::backend::FaultKind;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const PAGE: &[u8] = b"<!doctype html>\n<html><body>Please log in</body></html>";

    #[test]
    fn a_write_is_proven_by_a_tag() {
        for tag in ["\"e\"", "e", "W/\"e\""] {
            assert_eq!(written(&headers(&[("etag", tag)]), b"").unwrap(), tag);
        }
        for (pairs, body) in [
            (&[][..], &b""[..]),
            (&[("etag", "")], b""),
            (&[("etag", "\"\"")], b""),
            (&[("etag", "\"e\"")], PAGE),
            (&[("etag", "\"e\""), ("content-type", "text/html; charset=utf-8")], b"Please log in"),
            (&[("content-type", "text/html")], PAGE),
        ] {
            let fault = written(&headers(pairs), body).unwrap_err();
            assert_eq!(fault.kind, FaultKind::NotAStore, "{pairs:?}");
        }
    }

    #[test]
    fn a_removal_is_proven_by_its_status_and_by_nothing_else_in_the_answer() {
        for (status, body) in
            [(204, &b""[..]), (200, b""), (202, b""), (200, b" \r\n"), (200, b"null\n"), (200, b"{}")]
        {
            removed(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body).unwrap();
        }
        for (status, body) in [
            (200, PAGE),
            (200, b"Please log in"),
            (201, b""),
            (206, b""),
            (202, PAGE),
            (200, b"<LoginPage/>"),
            (200, b"<Ok/>"),
            (200, br#"{"message":"login"}"#),
            (200, b"[]"),
            (200, b"{"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let fault = removed(status, &HeaderMap::new(), body).unwrap_err();
            assert_eq!(fault.kind, FaultKind::NotAStore, "{status}");
        }
    }
}
