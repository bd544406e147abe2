//! Removes up to 1,000 objects in one request (DeleteObjects).

use std::collections::HashMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use md5::{Digest as _, Md5};
use quick_xml::escape::escape;

use super::S3;
use super::request::{S3Content, checksum_header};
use tidegate_core::backend::{Attempt, BulkDelete, Fault, FaultKind, Feature};
use tidegate_core::types::checksum::Checksum;
use tidegate_http::answer::not_a_store;
use tidegate_http::xml::complete::NAMESPACE;
use tidegate_http::xml::document::{ElementStep, XmlPage};
use tidegate_http::xml::fault;
use tidegate_http::{LONGEST, Order, read, set};

#[cfg(test)]
mod tests;

/// "A list of up to 1,000 keys that you want to delete" (DeleteObjects).
const MOST_KEYS: usize = 1_000;

/// Elements read from an answer.
const NAMES: [&str; 5] = ["Deleted", "Error", "Key", "Code", "Message"];

#[async_trait]
impl BulkDelete for S3 {
    fn max_keys(&self) -> usize {
        MOST_KEYS
    }

    fn takes(&self, key: &str) -> bool {
        is_exact_in_xml(key)
    }

    async fn delete_many(&self, keys: &[String], attempt: Attempt) -> Result<Vec<Result<(), Fault>>, Fault> {
        let (shared, address) = (&self.bucket.shared, &self.bucket.address);
        let mut request = self.bucket.request(Method::POST, address.bucket(&[("delete", "")]), attempt);
        let document = document(keys);
        // S3 requires a checksum of this request's body. Every compatible store accepts an MD5; directory buckets take
        // none.
        let (name, sum) = match self.bucket.order {
            Order::ByKey => ("content-md5", STANDARD.encode(Md5::digest(document.as_bytes()))),
            Order::None => {
                let algorithm = shared.settings.checksum;
                (checksum_header(algorithm), Checksum::of(algorithm, document.as_bytes()).base64())
            }
        };
        set(&mut request.headers, name, Some(sum))?;
        set(&mut request.headers, "content-type", Some("application/xml"))?;
        let request = request.of_much_work().with(S3Content::Text(Bytes::from(document)));
        let answer = shared.exchange(request).await;
        let status = answer.as_ref().map_or(StatusCode::BAD_REQUEST, |answer| answer.response.status());
        let outcomes = match answer {
            Ok(answer) if status.is_success() => {
                let mut response = answer.response;
                let headers = std::mem::take(response.headers_mut());
                outcomes(keys, &headers, &read(response, LONGEST).await?, &shared.region)
            }
            Ok(answer) => Err(shared.refused(answer).await),
            Err(fault) => Err(fault),
        };
        outcomes.map_err(|fault| {
            if !shared.has_no_such_request(&fault) {
                return fault;
            }
            shared.facts.learn_lack(Feature::BulkDelete);
            Fault { kind: FaultKind::Unsupported, ..fault }
        })
    }
}

/// Whether every XML parser reads the key as it was written. XML 1.0 can't express most control characters, parsers
/// turn one line break into another, and some servers trim white space: such a key might name another object.
fn is_exact_in_xml(key: &str) -> bool {
    let is_safe =
        |letter: char| !letter.is_control() && !matches!(letter, '\u{2028}' | '\u{fffe}' | '\u{ffff}');
    key.chars().all(is_safe) && key.trim().len() == key.len()
}

/// The request's document. It asks for the keys that were not removed: "in quiet mode the response includes only keys
/// where the delete action encountered an error" (DeleteObjects).
fn document(keys: &[String]) -> String {
    let mut document = format!("<Delete xmlns=\"{NAMESPACE}\">");
    for key in keys {
        document.push_str("<Object><Key>");
        document.push_str(&escape(key.as_str()));
        document.push_str("</Key></Object>");
    }
    document.push_str("<Quiet>true</Quiet></Delete>");
    document
}

/// The answer's entry for one key.
#[derive(Clone, Debug)]
enum KeyAnswer {
    None,
    Removed,
    Failed { code: String, message: String },
}

/// What an answer says of the keys that it reports no failure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherKeys {
    /// All are removed: the answer names failures only (quiet mode).
    Removed,
    /// Those are removed that the answer names as removed.
    Named,
    /// Nothing: it reports a failure of no key that was asked for. That key is missing, or is written in another way, so
    /// that any key may be meant.
    Undecided,
}

/// Returns the outcome of each key. A server that lists removed keys must list all of them.
pub(super) fn outcomes(
    keys: &[String],
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<Vec<Result<(), Fault>>, Fault> {
    let mut answers: HashMap<&str, KeyAnswer> =
        keys.iter().map(|key| (key.as_str(), KeyAnswer::None)).collect();
    let (mut key, mut code, mut message) = (String::new(), String::new(), String::new());
    let mut others = OtherKeys::Removed;
    let document = XmlPage::new(headers, body, "DeleteResult", region)?;
    document.each(&NAMES, |path, step| {
        match (path, step) {
            (["Deleted" | "Error"], ElementStep::Begins) => {
                key.clear();
                code.clear();
                message.clear();
            }
            (["Deleted" | "Error", "Key"], ElementStep::Ends(text)) => text.clone_into(&mut key),
            (["Error", "Code"], ElementStep::Ends(text)) => text.trim().clone_into(&mut code),
            (["Error", "Message"], ElementStep::Ends(text)) => text.clone_into(&mut message),
            (["Deleted"], ElementStep::Ends(_)) => {
                if others == OtherKeys::Removed {
                    others = OtherKeys::Named;
                }
                // A failure counts where an answer names a key twice.
                if let Some(answer @ KeyAnswer::None) = answers.get_mut(key.as_str()) {
                    *answer = KeyAnswer::Removed;
                }
            }
            (["Error"], ElementStep::Ends(_)) => match answers.get_mut(key.as_str()) {
                Some(answer) => {
                    *answer = KeyAnswer::Failed { code: code.clone(), message: message.clone() };
                }
                None => others = OtherKeys::Undecided,
            },
            _ => {}
        }
        Ok(())
    })?;
    let outcome = |key: &String| match (answers.get(key.as_str()), others) {
        (Some(KeyAnswer::Failed { code, message }), _) => match fault::of_entry(code, message) {
            fault if fault.kind == FaultKind::NotFound => Ok(()),
            fault => Err(fault),
        },
        (Some(KeyAnswer::Removed), OtherKeys::Removed | OtherKeys::Named)
        | (Some(KeyAnswer::None), OtherKeys::Removed) => Ok(()),
        (Some(KeyAnswer::Removed | KeyAnswer::None) | None, _) => {
            Err(not_a_store("word of each key in <DeleteResult>", headers, body))
        }
    };
    Ok(keys.iter().map(outcome).collect())
}
