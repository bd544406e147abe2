//! Classifies the body of an answer. A status of success proves nothing: a store can answer 200 with an error
//! document, and a login page, a console or a proxy answers 200 with HTML.

use std::fmt;

use http::{HeaderMap, StatusCode, header};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::printable::{printable, printable_bytes};

/// Bytes of an unexpected answer that the error shows.
const SHOWN: usize = 200;

/// The kind of a body, judged by its beginning: its end may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// XML (or HTML); the name of the root element, without the prefix of its namespace.
    Xml(String),
    /// A JSON object.
    Json,
    /// No bytes.
    Empty,
    /// The body ends before its kind is clear: the connection was cut.
    Cut,
    /// Something else.
    Other,
}

impl BodyKind {
    /// Classifies a body. Skips white space that a server sends ahead of a document to keep the connection open.
    pub fn of(body: &[u8]) -> Self {
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
                // A syntax error here means that the body ends inside markup.
                Ok(Event::Eof) | Err(quick_xml::Error::Syntax(_)) => return Self::Cut,
                Ok(Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::DocType(_)) => {}
                Ok(Event::Text(text)) if text.trim().is_empty() => {}
                Ok(_) | Err(_) => return Self::Other,
            }
        }
    }
}

/// Whether a body is an error document: `<Error>` or `<ErrorResponse>`, or a JSON object whose member `error` is not
/// `null`. Such a body is an error even with a status of success.
pub fn is_error(body: &[u8]) -> bool {
    match BodyKind::of(body) {
        BodyKind::Xml(root) => is_xml_error(&root),
        BodyKind::Json => serde_json::from_slice(body.trim_ascii()).is_ok_and(|Probe(has_error)| has_error),
        BodyKind::Empty | BodyKind::Cut | BodyKind::Other => false,
    }
}

/// Whether a root element belongs to an error document.
pub fn is_xml_error(root: &str) -> bool {
    matches!(root, "Error" | "ErrorResponse")
}

/// Whether a JSON object has a member `error` that is not `null`. Accepts a repeated member, and stores nothing.
struct Probe(bool);

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Probe;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Probe, A::Error> {
                let mut has_error = false;
                while let Some(name) = members.next_key::<String>()? {
                    let is_there = members.next_value::<Option<IgnoredAny>>()?.is_some();
                    has_error |= name == "error" && is_there;
                }
                Ok(Probe(has_error))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// An error in JSON: `{"error":{"code":503,"message":"…","errors":[{"reason":"…"}]}}`, `{"error":"…"}`, and forms
/// between these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonError {
    /// The status that the body names, for an answer whose own status is success.
    pub status: Option<StatusCode>,
    /// The error's name: Google's `reason`, S3's `code`.
    pub word: String,
    /// The store's own words.
    pub message: String,
}

impl JsonError {
    /// `None` if the body is not such an error.
    pub fn of(body: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(body.trim_ascii()).ok()?;
        let error = document.get("error").filter(|error| !error.is_null())?;
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let of_members = |of: &Value| {
            let numbers = ["code", "status", "statusCode"].into_iter().filter_map(|name| of.get(name));
            let status = numbers.filter_map(status_of).next();
            let word = of.pointer("/errors/0/reason").and_then(Value::as_str).map(str::to_owned);
            let word = word.or_else(|| text(of, "code").filter(|code| code.parse::<u16>().is_err()));
            // Google's storage-testbench has its message only there.
            let first = || of.pointer("/errors/0/message").and_then(Value::as_str).map(str::to_owned);
            (status, word.unwrap_or_default(), text(of, "message").or_else(first).unwrap_or_default())
        };
        let (mut status, mut word, mut message) = of_members(error);
        if !error.is_object() {
            // The details are beside the member `error`, not inside it.
            (status, word, message) = of_members(&document);
            status = status.or_else(|| status_of(error));
            let said = error.as_str().unwrap_or_default();
            let more = text(&document, "error_description").unwrap_or(message);
            message = match (said, more.as_str()) {
                ("", more) => more.to_owned(),
                (said, "") => said.to_owned(),
                (said, more) => format!("{said}: {more}"),
            };
        }
        Some(Self { status, word, message })
    }
}

/// A failure status, as a number or as text.
fn status_of(value: &Value) -> Option<StatusCode> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    let status = StatusCode::from_u16(u16::try_from(number).ok()?).ok()?;
    (!status.is_success()).then_some(status)
}

/// The fault for an answer that does not come from an object store; `promised` ("a listing", "the result of a copy")
/// was expected. The message shows the first bytes of the body. Pass an empty body if there is none or if it was not
/// read.
pub fn not_a_store(promised: &str, headers: &HeaderMap, body: &[u8]) -> Fault {
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

/// The fault for a document that ends in the middle, as after a cut connection: a retry can help.
pub fn cut(promised: &str) -> Fault {
    Fault::new(FaultKind::Transient, format!("the store's answer ends in the middle of {promised}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_beginning() {
        let root = |name: &str| BodyKind::Xml(name.to_owned());
        let documents: [(&[u8], BodyKind); 17] = [
            (b"", BodyKind::Empty),
            (b" \r\n", BodyKind::Cut),
            (b"<ListBucketResult/>", root("ListBucketResult")),
            (
                b"\n <?xml version='1.0'?>\n<!-- c --><s3:ListBucketResult xmlns:s3='x'>",
                root("ListBucketResult"),
            ),
            (b"\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>A</Code></Error>", root("Error")),
            (b"<!DOCTYPE html><html>", root("html")),
            (b"<?xml versio", BodyKind::Cut),
            (b"<ListBucketRes", BodyKind::Cut),
            (b"<!-- ", BodyKind::Cut),
            (b"</a>", BodyKind::Other),
            (b"<\xff\xfe>", BodyKind::Other),
            (b"{", BodyKind::Json),
            (b" {\"kind\":1}", BodyKind::Json),
            (b"[]", BodyKind::Other),
            (b"null", BodyKind::Other),
            (b"OK", BodyKind::Other),
            (b"\x1f\x8b\x08", BodyKind::Other),
        ];
        for (body, document) in documents {
            assert_eq!(BodyKind::of(body), document, "{}", printable_bytes(body, 80));
        }
    }

    #[test]
    fn an_error_document_is_known_by_its_root_or_member() {
        for error in [
            r#"{"error":{"code":503}}"#,
            r#" {"a":[1],"error":"invalid_grant"}"#,
            r#"{"error":{}}"#,
            r#"{"error":1,"error":null}"#,
            "<?xml version='1.0'?><Error/>",
            "<ErrorResponse xmlns='x'><Error><Code>A</Code></Error></ErrorResponse>",
        ] {
            assert!(is_error(error.as_bytes()), "{error}");
        }
        for other in [
            "",
            "{}",
            r#"{"error":null}"#,
            r#"{"items":[{"error":1}]}"#,
            r#"[{"error":1}]"#,
            r#"{"error":"#,
            "<Errors/>",
        ] {
            assert!(!is_error(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_an_error_in_json_says_is_read_in_each_form() {
        for (body, status, word, message) in [
            (r#"{"error":{"code":403,"message":"no"}}"#, Some(403), "", "no"),
            (r#"{"error":{"code":"503"}}"#, Some(503), "", ""),
            (r#"{"error":{"code":"SlowDown","message":null}}"#, None, "SlowDown", ""),
            (
                r#"{"error":{"code":429,"errors":[{"reason":"rateLimitExceeded"}]}}"#,
                Some(429),
                "rateLimitExceeded",
                "",
            ),
            (r#"{"error":{"code":null,"errors":null,"status":"UNAVAILABLE"}}"#, None, "", ""),
            (r#"{"error":{"errors":[{"domain":"global","message":"no"}]}}"#, None, "", "no"),
            (r#"{"error":"quota exceeded"}"#, None, "", "quota exceeded"),
            (r#"{"error":"Forbidden","message":"no","statusCode":403}"#, Some(403), "", "Forbidden: no"),
            (r#"{"error":"a","error_description":"b"}"#, None, "", "a: b"),
            (r#"{"error":404}"#, Some(404), "", ""),
            (r#"{"error":{"code":200}}"#, None, "", ""),
            (r#"{"error":[]}"#, None, "", ""),
        ] {
            let status = status.map(|status| StatusCode::from_u16(status).unwrap());
            let expected = JsonError { status, word: word.to_owned(), message: message.to_owned() };
            assert_eq!(JsonError::of(body.as_bytes()), Some(expected), "{body}");
        }
        for other in ["", "{}", r#"{"error":null}"#, "<Error/>"] {
            assert_eq!(JsonError::of(other.as_bytes()), None, "{other}");
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
