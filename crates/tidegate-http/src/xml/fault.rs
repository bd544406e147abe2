//! Turns a store's refusal into a fault.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::messages;
use crate::answer::{BodyKind, JsonError, cut, is_error, not_a_store};
use crate::time::time;
use crate::{LONGEST_REFUSAL, NO_WORD, kind_of_status, plain, proof, retry_after, unexplained};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::date::http_date;
use tidegate_core::types::fault::PATH_STYLE_REFUSED;

#[cfg(test)]
mod tests;

/// A store refuses requests whose clock differs from its own by more than this.
const SKEW: Duration = Duration::from_secs(15 * 60);

/// The fault that an answer describes. `body` may be empty, as in the answer to a HEAD; `region` is the region that
/// the request was signed for.
pub fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], region: &str) -> Fault {
    let body = body.get(..LONGEST_REFUSAL).unwrap_or(body);
    let mut own = None;
    let said = match BodyKind::of(body) {
        BodyKind::Xml(root) if root == "Error" => {
            messages::read::<messages::ErrorDocument>(body).ok().flatten().unwrap_or_default()
        }
        BodyKind::Xml(root) if root == "ErrorResponse" => {
            let response = messages::read::<messages::ErrorResponse>(body).ok().flatten();
            response.unwrap_or_default().error
        }
        // From a proxy, or from a store that answers in JSON where it has no XML.
        BodyKind::Json => {
            let JsonError { status, word, message } = JsonError::of(body).unwrap_or_default();
            own = status;
            messages::ErrorDocument { code: word, message, ..messages::ErrorDocument::default() }
        }
        _ => messages::ErrorDocument::default(),
    };
    let status = own.filter(|_| status.is_success()).unwrap_or(status);
    if status == StatusCode::NOT_FOUND && proof::is_page(headers, body) && !proof::is_stores(headers) {
        // A web page without any header of a store does not prove that the object is missing.
        return not_a_store("word of an object", headers, body);
    }
    let kind = kind_of_code(&said.code).unwrap_or_else(|| kind_of_status(status));
    let refuses_path_style = status.is_client_error() && refuses_path_style(&said);
    let (kind, message) = if let Some(message) = elsewhere(status, headers, &said, region) {
        (FaultKind::Invalid, message)
    } else if refuses_path_style {
        let message =
            "the store takes the bucket's name only in the host of addresses: use `--addressing virtual`";
        (FaultKind::Invalid, message.to_owned())
    } else if let Some(message) = skewed(status, headers, &said) {
        (FaultKind::Skewed, message)
    } else {
        (kind, clause(&said).or_else(|| plain(body)).unwrap_or_else(|| unexplained(status).to_owned()))
    };
    let code = if said.code.is_empty() { String::new() } else { format!("{}, ", said.code) };
    if let Some(id) = headers.get("x-amz-request-id").and_then(|id| id.to_str().ok()) {
        tracing::debug!(request_id = id, %status, code = said.code, "refused");
    }
    Fault::new(kind, format!("{message} ({code}HTTP {})", status.as_u16()))
        .with_code(if refuses_path_style { PATH_STYLE_REFUSED } else { said.code.as_str() })
        .with_retry_after(retry_after(headers))
        // The answer to a HEAD has no body, so a 404 with a store's headers counts as answered too.
        .with_answered(
            !said.code.is_empty() || (status == StatusCode::NOT_FOUND && proof::is_stores(headers)),
        )
}

/// Reads the document of a successful answer, whose root must be `root`. Fails with the fault that an error document
/// describes, with a retriable fault if the document is cut off, and with `NotAStore` for anything else.
pub fn document<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
    root: &str,
    region: &str,
) -> Result<T, Fault> {
    promised(headers, body, root, region)?;
    match messages::read(body) {
        Ok(Some(document)) => Ok(document),
        Ok(None) => Err(cut(&format!("<{root}>"))),
        Err(error) => Err(not_a_store(&format!("<{root}>"), headers, body).with_source(error)),
    }
}

/// Fails if the body of a successful answer is an error document.
pub fn no_error(headers: &HeaderMap, body: &[u8], region: &str) -> Result<(), Fault> {
    if is_error(body) { Err(refusal(StatusCode::OK, headers, body, region)) } else { Ok(()) }
}

/// Like [`document`], but checks the root only: the content and the end of the document are not read.
pub fn promised(headers: &HeaderMap, body: &[u8], root: &str, region: &str) -> Result<(), Fault> {
    no_error(headers, body, region)?;
    match BodyKind::of(body) {
        BodyKind::Xml(found) if found == root => Ok(()),
        BodyKind::Cut => Err(cut(&format!("<{root}>"))),
        _ => Err(not_a_store(&format!("<{root}>"), headers, body)),
    }
}

/// The fault that an answer about many objects describes for one of them.
pub fn of_entry(code: &str, message: &str) -> Fault {
    let (code, message) = (code.to_owned(), message.to_owned());
    let said = messages::ErrorDocument { code, message, ..messages::ErrorDocument::default() };
    let message = clause(&said).unwrap_or_else(|| NO_WORD.to_owned());
    let kind = kind_of_code(&said.code).unwrap_or(FaultKind::Invalid);
    Fault::new(kind, format!("{message} ({})", said.code)).with_answered(true)
}

/// Whether a store refuses the bucket's name in the path of addresses: Alibaba's, Tencent's, Volcano's have codes for
/// it, and others say so.
fn refuses_path_style(said: &messages::ErrorDocument) -> bool {
    const CODES: [&str; 4] =
        [PATH_STYLE_REFUSED, "SecondLevelDomainForbidden", "PathStyleDomainForbidden", "InvalidPathAccess"];
    const WORDS: [&str; 6] =
        ["virtual host", "virtual-host", "virtual style", "path style", "path-style", "third level domain"];
    // Codes of other refusals may have such words too, in a key that the message repeats.
    let may_be =
        kind_of_code(&said.code).is_none() || ["AccessDenied", "InvalidRequest"].contains(&&*said.code);
    let message = said.message.to_ascii_lowercase();
    CODES.contains(&said.code.as_str()) || may_be && WORDS.iter().any(|word| message.contains(word))
}

/// What is in the way on servers that keep objects as files: they have no room for `x` beside `x/y`.
fn object_in_the_way(code: &str) -> Option<&'static str> {
    match code {
        "ObjectParentIsFile" | "ExistingObjectIsFile" | "XMinioParentIsObject" => Some(
            "an object is in the way: this server keeps keys as paths, and one above this key is an object",
        ),
        "ExistingObjectIsDirectory" | "XMinioObjectExistsAsDirectory" => Some(
            "objects are in the way: this server keeps keys as paths, and there are objects below this key",
        ),
        _ => None,
    }
}

fn clause(said: &messages::ErrorDocument) -> Option<String> {
    let ours = match said.code.as_str() {
        "ExpiredToken" | "TokenRefreshRequired" => "the credentials have expired: sign in again",
        "InvalidAccessKeyId" | "NotSignedUp" => "the store does not know the access key",
        "SignatureDoesNotMatch" => {
            "the signature is refused: the secret key is wrong, or something on the way changes requests"
        }
        "InvalidToken" => "the session token is not valid",
        "BucketAlreadyOwnedByYou" => "the bucket exists already, and is yours",
        "BucketAlreadyExists" => "a bucket of this name exists, maybe of another account",
        code if let Some(clause) = object_in_the_way(code) => clause,
        _ => said.message.trim().trim_end_matches('.'),
    };
    let named = [&said.header, &said.argument_name].into_iter().flatten().map(|name| name.trim());
    let mut clause = ours.to_owned();
    // What the refusal is about, where only an element of its own says so.
    for name in
        named.filter(|name| !name.is_empty() && !ours.to_ascii_lowercase().contains(&name.to_lowercase()))
    {
        clause = if clause.is_empty() { name.to_owned() } else { format!("{clause}: {name}") };
    }
    Some(clause).filter(|clause| !clause.is_empty())
}

/// The region that a refusal says the bucket is in, if it is another one than `region`, for which the request was
/// signed. `body` is the refusal's.
pub fn other_region(status: StatusCode, headers: &HeaderMap, body: &[u8], region: &str) -> Option<String> {
    let said = messages::read::<messages::ErrorDocument>(body).ok().flatten().unwrap_or_default();
    if !tells_place(status, &said) {
        return None;
    }
    let told = headers.get("x-amz-bucket-region").and_then(|told| told.to_str().ok()).map(str::to_owned);
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let of_host = || {
        let address = said.endpoint.as_deref().or(location).filter(|_| status.is_redirection())?;
        region_of_host(address)
    };
    let told = told.or(said.region.clone()).or_else(of_host)?;
    Some(told.trim().to_owned()).filter(|told| is_region(told) && told != region)
}

/// The region in the name of an S3 host of AWS: `bucket.s3.eu-north-1.amazonaws.com`,
/// `bucket.s3-us-west-2.amazonaws.com`.
fn region_of_host(address: &str) -> Option<String> {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest).split(['/', ':', '?']).next()?;
    let labels = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let last = labels.rsplit('.').next()?;
    let region = last.strip_prefix("s3-").unwrap_or(last);
    (region != "s3" && !region.starts_with("external")).then(|| region.to_owned())
}

/// Whether this is the name of a region, as `eu-central-1` is.
pub fn is_region(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a refusal may be about the region or the address that a request went to.
fn tells_place(status: StatusCode, said: &messages::ErrorDocument) -> bool {
    status.is_redirection()
        || matches!(
            said.code.as_str(),
            "AuthorizationHeaderMalformed" | "PermanentRedirect" | "TemporaryRedirect"
        )
        || (status == StatusCode::BAD_REQUEST && said.code.is_empty())
}

/// The message when the store says that the bucket is in another region or at another address.
fn elsewhere(
    status: StatusCode,
    headers: &HeaderMap,
    said: &messages::ErrorDocument,
    region: &str,
) -> Option<String> {
    if !tells_place(status, said) {
        return None;
    }
    let named = headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
    if let Some(named) = named.or(said.region.as_deref()).filter(|named| *named != region) {
        return Some(format!("the bucket is in region `{named}`, not in `{region}`: set AWS_REGION={named}"));
    }
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let location = said.endpoint.as_deref().or(location).filter(|_| status.is_redirection())?;
    Some(format!("the store sends requests on to {location}: set that as the endpoint"))
}

/// The message when clock skew is the reason: both times, and their difference.
fn skewed(status: StatusCode, headers: &HeaderMap, said: &messages::ErrorDocument) -> Option<String> {
    let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
    let dated = date.and_then(|date| httpdate::parse_http_date(date).ok());
    // Prefers the `Date` header, which is precise to the second.
    let theirs = dated.or_else(|| time(said.server_time.as_deref()?));
    let ours = SystemTime::now();
    let apart = theirs.map(|theirs| {
        let behind = theirs.duration_since(ours);
        behind.map_or_else(|ahead| (ahead.duration(), "ahead"), |behind| (behind, "behind"))
    });
    // The answer to a HEAD has no error code; the `Date` header shows the skew.
    let guessed = said.code.is_empty()
        && status == StatusCode::FORBIDDEN
        && apart.is_some_and(|(apart, _)| apart > SKEW);
    if said.code != "RequestTimeTooSkewed" && !guessed {
        return None;
    }
    let ours = http_date(ours);
    Some(match (theirs, apart) {
        (Some(theirs), Some((apart, side))) => {
            let theirs = http_date(theirs);
            let apart = span(apart);
            format!("this machine's clock says {ours}, the store's {theirs}: it is {apart} {side}")
        }
        _ => format!("this machine's clock says {ours}, and the store's is too far from that"),
    })
}

/// A duration in its two largest units.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        (1, ..) => format!("1 day {hours} h"),
        _ => format!("{days} days {hours} h"),
    }
}

fn kind_of_code(code: &str) -> Option<FaultKind> {
    Some(match code {
        "NoSuchKey" | "NoSuchVersion" => FaultKind::NotFound,
        "NoSuchBucket" => FaultKind::NoBucket,
        "NoSuchUpload" => FaultKind::NoSession,
        "InvalidPart" => FaultKind::PartMismatch,
        "PreconditionFailed" | "BucketAlreadyExists" | "BucketAlreadyOwnedByYou" => FaultKind::Exists,
        "BucketNotEmpty" => FaultKind::NotEmpty,
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => FaultKind::Denied,
        "InvalidAccessKeyId" | "NotSignedUp" | "SignatureDoesNotMatch" | "InvalidToken" => {
            FaultKind::Credentials
        }
        "ExpiredToken" | "TokenRefreshRequired" => FaultKind::Expired,
        "RequestTimeTooSkewed" => FaultKind::Skewed,
        "SlowDown"
        | "SlowDownRead"
        | "SlowDownWrite"
        | "ServiceUnavailable"
        | "TooManyRequests"
        | "RequestLimitExceeded" => FaultKind::Throttled,
        "InternalError" | "RequestTimeout" | "IncompleteBody" => FaultKind::Transient,
        // The store refused this request because of another one on the same key: it can be retried.
        "ConditionalRequestConflict" | "OperationAborted" => FaultKind::Undone,
        "BadDigest" | "XAmzContentChecksumMismatch" | "XAmzContentSHA256Mismatch" => FaultKind::Integrity,
        "EntityTooLarge" => FaultKind::TooLarge,
        "XMinioStorageFull" | "XMinioAdminBucketQuotaExceeded" | "QuotaExceeded" => FaultKind::NoSpace,
        "NotImplemented" => FaultKind::Unsupported,
        _ if code.starts_with("Throttling") => FaultKind::Throttled,
        "EntityTooSmall" | "KeyTooLongError" | "MethodNotAllowed" => FaultKind::Invalid,
        // With status 409, by which it would count as a conflict of two requests.
        _ if object_in_the_way(code).is_some() => FaultKind::Invalid,
        _ if code.starts_with("Invalid") || code.starts_with("Malformed") => FaultKind::Invalid,
        _ => return None,
    })
}
