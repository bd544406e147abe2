//! What the body of an answer is. A status of success proves nothing: a store can answer 200 and an error document, and
//! a login page, a console or a proxy answers 200 and HTML.

use http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::backend::{Fault, FaultKind};
use crate::{printable, printable_bytes};

/// Bytes of an unexpected answer that the error shows.
const SHOWN: usize = 200;

/// What a body is, judged by its beginning: its end may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Document {
    /// XML (or HTML); the name of the root element, without the prefix of its namespace.
    Xml(String),
    /// A JSON object.
    Json,
    /// Nothing at all.
    Empty,
    /// The body ends before it says what it is: the connection was cut.
    Cut,
    /// Something else.
    Other,
}

impl Document {
    /// Looks at a body. White space that a server sends ahead of a document, to keep the connection open, is skipped.
    pub(in crate::backend) fn of(body: &[u8]) -> Self {
        if body.is_empty() {
            return Self::Empty;
        }
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
        match body.first() {
            None => Self::Cut,
            Some(b'{') => Self::Json,
            Some(b'<') => Self::of_xml(body),
            Some(_) => Self::Other,
        }
    }

    fn of_xml(body: &[u8]) -> Self {
        use quick_xml::events::Event;
        let mut reader = quick_xml::Reader::from_reader(body);
        loop {
            match reader.read_event() {
                Ok(Event::Start(tag) | Event::Empty(tag)) => {
                    return Self::Xml(tag.local_name().as_ref().to_owned());
                }
                // A syntax error here is markup that the end of the body leaves open.
                Ok(Event::Eof) | Err(quick_xml::Error::Syntax(_)) => return Self::Cut,
                Ok(Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::DocType(_)) => {}
                Ok(Event::Text(text)) if text.trim().is_empty() => {}
                Ok(_) | Err(_) => return Self::Other,
            }
        }
    }
}

/// Whether a body is a JSON object with a member `error` (of any kind but `null`), as the stores' errors are.
pub(in crate::backend) fn is_json_error(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Probe {
        error: Option<IgnoredAny>,
    }
    Document::of(body) == Document::Json
        && serde_json::from_slice(body.trim_ascii()).is_ok_and(|probe: Probe| probe.error.is_some())
}

/// The fault of an answer that no object store gives where `promised` ("a listing", "the result of a copy") was due; with
/// the first bytes of its body. For an answer without a body, or whose body is not read, pass an empty one.
pub(in crate::backend) fn not_a_store(promised: &str, headers: &HeaderMap, body: &[u8]) -> Fault {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind
        .map(|kind| format!(" of type {}", printable(kind.get(..80).unwrap_or(kind))))
        .unwrap_or_default();
    let shown = match printable_bytes(body.trim_ascii(), SHOWN) {
        shown if shown.is_empty() => "nothing".to_owned(),
        shown => format!("`{shown}`"),
    };
    let message =
        format!("the answer is not an object store's: {promised} was due, and an answer{kind} says {shown}");
    Fault::new(FaultKind::NotAStore, message)
}

/// The fault of a document that ends in the middle, as where a connection was cut: another attempt can help.
pub(in crate::backend) fn cut(promised: &str) -> Fault {
    Fault::new(FaultKind::Transient, format!("the store's answer ends in the middle of {promised}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_beginning() {
        let root = |name: &str| Document::Xml(name.to_owned());
        let documents: [(&[u8], Document); 17] = [
            (b"", Document::Empty),
            (b" \r\n", Document::Cut),
            (b"<ListBucketResult/>", root("ListBucketResult")),
            (
                b"\n <?xml version='1.0'?>\n<!-- c --><s3:ListBucketResult xmlns:s3='x'>",
                root("ListBucketResult"),
            ),
            (b"\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>A</Code></Error>", root("Error")),
            (b"<!DOCTYPE html><html>", root("html")),
            (b"<?xml versio", Document::Cut),
            (b"<ListBucketRes", Document::Cut),
            (b"<!-- ", Document::Cut),
            (b"</a>", Document::Other),
            (b"<\xff\xfe>", Document::Other),
            (b"{", Document::Json),
            (b" {\"kind\":1}", Document::Json),
            (b"[]", Document::Other),
            (b"null", Document::Other),
            (b"OK", Document::Other),
            (b"\x1f\x8b\x08", Document::Other),
        ];
        for (body, document) in documents {
            assert_eq!(Document::of(body), document, "{}", printable_bytes(body, 80));
        }
    }

    #[test]
    fn an_error_in_json_is_known_by_its_member() {
        for error in [r#"{"error":{"code":503}}"#, r#" {"a":[1],"error":"invalid_grant"}"#, r#"{"error":{}}"#]
        {
            assert!(is_json_error(error.as_bytes()), "{error}");
        }
        for other in
            ["", "{}", r#"{"error":null}"#, r#"{"items":[{"error":1}]}"#, r#"[{"error":1}]"#, r#"{"error":"#]
        {
            assert!(!is_json_error(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_foreign_answer_is_shown_in_part_and_harmless() {
        let mut headers = HeaderMap::new();
        let fault = not_a_store("a listing", &headers, b"");
        assert_eq!(fault.kind, FaultKind::NotAStore);
        assert!(fault.message.ends_with("an answer says nothing"), "{}", fault.message);
        headers.insert("content-type", http::HeaderValue::from_static("text/html"));
        let page = ["<html>\x1b[31m".to_owned(), "x".repeat(1 << 20)].concat();
        let shown = not_a_store("a listing", &headers, page.as_bytes()).message;
        assert!(shown.contains(r"of type text/html says `<html>\u{1b}[31mxxx"), "{shown}");
        assert!(shown.len() < 400, "{}", shown.len());
    }
}
