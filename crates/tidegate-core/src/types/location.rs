//! Where bytes come from or go to, as a user writes it: a URL of a store, or a path.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use crate::types::printable::{address_without_password, printable, without_passwords};

mod azure;
#[cfg(test)]
mod tests;

/// S3 and its compatibles accept keys of up to this many bytes.
const LONGEST_KEY: usize = 1024;

/// Characters that must be percent-encoded in the path of a `file://` URL.
const PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'?');

/// An object, a prefix or a path, parsed from what a user writes.
///
/// | written | is |
/// |---|---|
/// | `s3://bucket/key` | an object (or prefix) of an S3 bucket; the key may be missing |
/// | `s3://profile@bucket/key` | the same, by this profile of the AWS configuration files |
/// | `s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/key` | the same through an access point |
/// | `gs://bucket/key` | the same of a bucket of Google Cloud Storage |
/// | `az://container/key` | a blob of Azure Blob Storage, in the account that the settings name |
/// | `abfss://container@account.dfs.core.windows.net/key` | the same in the account that the URL names |
/// | `https://account.blob.core.windows.net/container/key` | the same, with a percent-encoded key |
/// | `dev://bucket/key` | the same in the embedded server |
/// | `memory://name/key` | the same in a store in memory |
/// | `other://bucket/key` | the same in a store of a scheme that a program has added |
/// | `file:///abs/path` | a local path, percent-decoded |
/// | anything else that does not look like a URL | a local path, relative or absolute |
///
/// Keys are taken as they stand, without percent-decoding, as in s5cmd and the AWS command line; a trailing slash
/// is kept. `azure://`, `abfs://`, `wasb://` and `wasbs://` are other ways to write `az://` and `abfss://`.
///
/// A text that looks like a mistyped URL (`s3:/bucket/key`, `s3//bucket/key`, `minio:bucket/key`,
/// `localhost:9000/bucket/key`) is refused with [`NearUrl`](LocationError::NearUrl), whether there is a file of
/// this name or not: taken as a path, it would send the bytes to a local directory named `s3:`. A text that begins
/// with a name and a colon looks like a mistyped URL, as for scp and rclone. A path that looks like one is written
/// with `./` before it.
///
/// ```
/// use tidegate::location::Location;
/// let location: Location = "s3://bucket/a%20b/".parse()?;
/// assert_eq!(location, Location::S3 { profile: None, bucket: "bucket".into(), key: "a%20b/".into() });
/// assert_eq!(location.to_string(), "s3://bucket/a%20b/");
/// # Ok::<(), tidegate::location::LocationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// `s3://bucket/key`.
    S3 {
        /// The profile of the AWS configuration files in `s3://profile@bucket/key`. Only a program that reaches the
        /// store by that profile should take such a URL: `open` refuses it.
        profile: Option<String>,
        /// The bucket.
        bucket: String,
        /// The key or prefix; empty for the bucket itself.
        key: String,
    },
    /// `gs://bucket/key`.
    Gcs {
        /// The bucket.
        bucket: String,
        /// The key or prefix; empty for the bucket itself.
        key: String,
    },
    /// `az://container/key`, or `abfss://container@account.dfs.core.windows.net/key`.
    Azure {
        /// The container. If the URL names the account, its host follows:
        /// `container@account.dfs.core.windows.net`.
        container: String,
        /// The key or prefix; empty for the container itself.
        key: String,
    },
    /// A path, or `file:///path`.
    Local {
        /// The path, as written.
        path: PathBuf,
    },
    /// `memory://name/key`.
    Memory {
        /// Which store.
        name: String,
        /// The key or prefix; empty for the store itself.
        key: String,
    },
    /// `dev://bucket/key`: the embedded server.
    Dev {
        /// The bucket.
        bucket: String,
        /// The key or prefix; empty for the bucket itself.
        key: String,
    },
    /// `scheme://bucket/key` with a scheme that a program may have added.
    Other {
        /// The scheme, in lower case.
        scheme: String,
        /// The bucket.
        bucket: String,
        /// The key or prefix; empty for the bucket itself.
        key: String,
    },
}

/// Why a text is not a location; each message begins with the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// Nothing was written.
    #[error("\"\": the location is empty: write s3://bucket/key or a path")]
    Empty,
    /// An unknown scheme.
    #[error(
        "{}: unknown scheme `{scheme}`: the known ones are s3://, gs://, az://, abfss://, dev://, memory:// and \
         file://",
        quoted(location)
    )]
    UnknownScheme {
        /// The text as written.
        location: String,
        /// Its scheme.
        scheme: String,
    },
    /// A text that is nearly a URL, such as `s3:/bucket/key`.
    #[error(
        "{}: this is no URL: did you mean {}? (a local path of this name is written ./{})",
        quoted(location),
        printable(&meant_by(location, meant)),
        printable(&without_passwords(location))
    )]
    NearUrl {
        /// The text as written.
        location: String,
        /// The URL that was probably meant.
        meant: String,
    },
    /// `scheme://` with nothing, or only `/`, after it.
    #[error("{}: no {what} after `{scheme}://`: write {scheme}://{what}/key", quoted(location))]
    NoBucket {
        /// The text as written.
        location: String,
        /// Its scheme.
        scheme: &'static str,
        /// The missing piece: `bucket` or `name`.
        what: &'static str,
    },
    /// A URL with the host of a storage account that names no blob.
    #[error("{}: {reason}", quoted(location))]
    InvalidAddress {
        /// The text as written.
        location: String,
        /// What is wrong, and what to write.
        reason: &'static str,
    },
    /// A name that no bucket has.
    #[error("{}: {} is no bucket name: {reason}", quoted(location), quoted_part(location, bucket))]
    InvalidBucket {
        /// The text as written.
        location: String,
        /// The name.
        bucket: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A key that no object has.
    #[error("{}: no object has such a key: {reason}", quoted(location))]
    InvalidKey {
        /// The text as written.
        location: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A path that no file has.
    #[error("{}: no file has such a path: {reason}", quoted(location))]
    InvalidPath {
        /// The text as written.
        location: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
}

/// The written text, without passwords.
fn quoted(location: &str) -> String {
    format!("{:?}", without_passwords(location))
}

/// A part of the text; a placeholder if a password was left out, because the part may contain some of the password.
fn quoted_part(location: &str, part: &str) -> String {
    if has_password(location) { "the name".to_owned() } else { format!("{part:?}") }
}

/// The URL that was probably meant, without a password.
fn meant_by<'a>(location: &str, meant: &'a str) -> Cow<'a, str> {
    if has_password(location) { address_without_password(meant) } else { Cow::Borrowed(meant) }
}

fn has_password(location: &str) -> bool {
    matches!(without_passwords(location), Cow::Owned(_))
}

impl Location {
    /// Scheme, bucket (or name) and key; `None` for a local path.
    pub fn in_store(&self) -> Option<(&str, &str, &str)> {
        Some(match self {
            Self::S3 { bucket, key, .. } => ("s3", bucket, key),
            Self::Gcs { bucket, key } => ("gs", bucket, key),
            Self::Azure { container, key } if container.contains('@') => ("abfss", container, key),
            Self::Azure { container, key } => ("az", container, key),
            Self::Memory { name, key } => ("memory", name, key),
            Self::Dev { bucket, key } => ("dev", bucket, key),
            Self::Other { scheme, bucket, key } => (scheme, bucket, key),
            Self::Local { .. } => return None,
        })
    }

    /// The profile that an `s3://` URL names.
    pub fn profile(&self) -> Option<&str> {
        match self {
            Self::S3 { profile, .. } => profile.as_deref(),
            _ => None,
        }
    }

    /// The same location without the profile.
    #[must_use]
    pub fn without_profile(mut self) -> Self {
        if let Self::S3 { profile, .. } = &mut self {
            *profile = None;
        }
        self
    }

    /// Whether it was written with a slash at its end, so that it means a prefix or a directory.
    pub fn ends_with_slash(&self) -> bool {
        match self {
            Self::Local { path } => path.as_os_str().as_bytes().ends_with(b"/"),
            _ => self.in_store().is_some_and(|(_, _, key)| key.ends_with('/')),
        }
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let Some((scheme, rest)) = split_scheme(text) else {
            refuse_near_url(text)?;
            return local(text, PathBuf::from(text));
        };
        let scheme_of_text = scheme.to_ascii_lowercase();
        if scheme_of_text == "https"
            && let Some(blob) = azure::https_url(text, rest)
        {
            return blob;
        }
        match scheme_of_text.as_str() {
            "s3" => {
                let (profile, rest) = split_profile(rest);
                let (bucket, key) = bucket_and_key(text, "s3", rest)?;
                Ok(Self::S3 { profile: profile.map(str::to_owned), bucket, key })
            }
            "dev" => {
                let (bucket, key) = bucket_and_key(text, "dev", rest)?;
                Ok(Self::Dev { bucket, key })
            }
            "memory" => {
                let (name, key) = split_name(text, "memory", "name", rest)?;
                if name.contains('\0') || key.contains('\0') {
                    return Err(invalid_key(text, NUL));
                }
                Ok(Self::Memory { name: name.to_owned(), key: key.to_owned() })
            }
            "file" => file_url(text, rest),
            "gs" | "gcs" => {
                let (bucket, key) = bucket_and_key(text, "gs", rest)?;
                Ok(Self::Gcs { bucket, key })
            }
            "az" | "azure" | "abfs" | "abfss" | "wasb" | "wasbs" => azure::container_url(text, rest),
            known => other(known, rest).ok_or_else(|| LocationError::UnknownScheme {
                location: text.to_owned(),
                scheme: scheme.to_owned(),
            }),
        }
    }
}

/// From an argument of a command. A path may hold bytes that are not UTF-8; a URL may not.
impl TryFrom<&OsStr> for Location {
    type Error = LocationError;

    fn try_from(text: &OsStr) -> Result<Self, LocationError> {
        let path = PathBuf::from(text);
        let Some(text) = text.to_str() else {
            let text = &*text.to_string_lossy();
            if split_scheme(text).is_some() {
                return Err(invalid_key(
                    text,
                    "it is not UTF-8 (in a file:// URL, write %FF for such a byte)",
                ));
            }
            refuse_near_url(text)?;
            return local(text, path);
        };
        text.parse()
    }
}

/// Writes the location so that it parses to the same location again. (A relative path that is not UTF-8 can't be
/// written so, and is shown as well as possible.)
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((scheme, bucket, key)) = self.in_store() {
            write!(f, "{scheme}://")?;
            if let Some(profile) = self.profile() {
                write!(f, "{profile}@")?;
            }
            f.write_str(bucket)?;
            return if key.is_empty() { Ok(()) } else { write!(f, "/{key}") };
        }
        let Self::Local { path } = self else { return Ok(()) };
        match path.to_str() {
            Some(text) if split_scheme(text).is_some() || near_url(text).is_some() => write!(f, "./{text}"),
            None if path.is_absolute() => {
                write!(f, "file://{}", percent_encode(path.as_os_str().as_bytes(), PATH))
            }
            _ => path.display().fmt(f),
        }
    }
}

/// The root directory of a store on local disk, from the store's [location](crate::backend::Backend::location). The
/// location of `/` is empty, so that every location, a slash and a key together are the name of an object.
///
/// ```
/// use tidegate::backend::{Backend, local::Local};
/// use tidegate::location::local_root;
/// assert_eq!(local_root(Local::new("/").location()).as_os_str(), "/");
/// assert_eq!(local_root(Local::new("data/").location()).as_os_str(), "data");
/// ```
pub fn local_root(location: &str) -> PathBuf {
    match location.parse() {
        Ok(Location::Local { path }) => path,
        _ if location.is_empty() => PathBuf::from("/"),
        _ => PathBuf::from(location),
    }
}

/// The location of a store with this root; [`local_root`] returns the root again.
pub fn of_local_root(root: PathBuf) -> String {
    Location::Local { path: root }.to_string().trim_end_matches('/').to_owned()
}

const NUL: &str = "it holds a NUL";

/// The scheme and the text after `://`, if the text begins with a scheme as RFC 3986 defines it.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    text.split_once("://").filter(|(scheme, _)| is_scheme(scheme))
}

/// The profile before the bucket's name, if any, and the rest. A name with a colon is no profile: it would be a user
/// and a password.
fn split_profile(rest: &str) -> (Option<&str>, &str) {
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    match authority.rsplit_once('@') {
        Some((profile, _)) if is_profile(profile) => (Some(profile), &rest[profile.len() + 1..]),
        _ => (None, rest),
    }
}

fn is_profile(name: &str) -> bool {
    let is_allowed = |letter: char| !letter.is_control() && !letter.is_whitespace() && letter != ':';
    !name.is_empty() && name.chars().all(is_allowed)
}

fn is_scheme(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter))
}

fn refuse_near_url(text: &str) -> Result<(), LocationError> {
    match near_url(text) {
        Some(meant) => Err(LocationError::NearUrl { location: text.to_owned(), meant }),
        None => Ok(()),
    }
}

/// The URL that a text without `scheme://` was probably meant to be; `None` for a path. Files on disk make no
/// difference: the same command means the same everywhere.
///
/// A mistyped URL is a text that begins with
///
/// - the name of a store or its scheme and something like `://`: any colon or semicolon, or two slashes
///   (`s3:bucket`, `gs:/bucket/key`, `s3//bucket/key`, `s3 ://bucket`), also after spaces or a quotation mark;
/// - any other name and a colon, as rclone, scp and rsync name places (`backup:bucket/key`, `user@host:key`), or a
///   host and its port (`localhost:9000/bucket/key`).
///
/// A colon before a digit that is no port, or before a space, stays part of a path: `log-12:30.txt`, `Re: notes`.
fn near_url(text: &str) -> Option<String> {
    let begun = text.trim_start_matches(is_wrapping);
    let is_wrapped = begun.len() < text.len();
    begin_of_store(begun).or_else(|| begin_of_place(text).filter(|_| !is_wrapped))
}

/// Characters that a shell, a document or a configuration file may leave before a URL.
fn is_wrapping(letter: char) -> bool {
    letter.is_whitespace() || "\"'`<“”‘’„«\u{feff}\u{200b}\u{200e}\u{2060}".contains(letter)
}

fn is_colon(letter: char) -> bool {
    // Also in the forms of other keyboards and typesetters.
    ":;：；﹕︰∶ː꞉\u{37e}".contains(letter)
}

fn is_slash(letter: char) -> bool {
    "/\\／＼⁄∕".contains(letter)
}

/// The URL meant by a text that begins with the name of a store.
fn begin_of_store(text: &str) -> Option<String> {
    let (name, rest) =
        text.split_at(text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len()));
    let scheme = match name.to_ascii_lowercase().as_str() {
        "s3" | "s3a" | "s3n" | "minio" | "r2" | "b2" | "wasabi" | "ceph" | "oss" | "cos" | "obs" => "s3",
        "gs" | "gcs" => "gs",
        "az" | "azure" | "abfs" | "abfss" | "wasb" | "wasbs" | "http" | "https" => "az",
        "dev" => "dev",
        "memory" => "memory",
        "file" => "file",
        _ => return None,
    };
    let place = rest
        .trim_start_matches(|letter: char| letter.is_whitespace() || is_colon(letter) || is_slash(letter));
    let between = &rest[..rest.len() - place.len()];
    let slashes = between.chars().filter(|letter| is_slash(*letter)).count();
    if slashes < 2 && !between.contains(is_colon) {
        return None;
    }
    Some(match scheme {
        "file" => format!("file:///{place}"),
        "az" => format!("{}://{place}", azure::meant(&name.to_ascii_lowercase(), place)),
        scheme => format!("{scheme}://{place}"),
    })
}

/// The URL meant by a text that begins with another name and a colon.
fn begin_of_place(text: &str) -> Option<String> {
    // Not a time of day: its minutes end at 59.
    const FIRST_PORT: u32 = 60;
    if let Some((_, place)) = text.strip_prefix("arn:").and_then(|arn| arn.split_once(":::")) {
        return Some(format!("s3://{place}"));
    }
    let (name, rest) = match text.strip_prefix('[').and_then(|text| text.split_once("]:")) {
        Some((address, rest)) if address.parse::<IpAddr>().is_ok() => (address, rest),
        _ => text.split_once(':')?,
    };
    let is_host = name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost");
    let of_a_name = |letter: char| letter.is_alphanumeric() || "_-.+@".contains(letter);
    let is_name = name.chars().all(of_a_name) && name.contains(char::is_alphabetic);
    if !is_host && !is_name {
        return None;
    }
    let place = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = &rest[..rest.len() - place.len()];
    let is_place = match (digits.is_empty(), place.chars().next()) {
        (true, first) => !first.is_some_and(char::is_whitespace),
        (false, Some('/')) => is_host || digits.parse().is_ok_and(|port: u32| port >= FIRST_PORT),
        (false, None) => is_host,
        (false, Some(_)) => false,
    };
    let place = match place.trim_start_matches(is_slash) {
        "" => "BUCKET/KEY",
        place => place,
    };
    is_place.then(|| format!("s3://{place}"))
}

fn split_name<'a>(
    text: &str,
    scheme: &'static str,
    what: &'static str,
    rest: &'a str,
) -> Result<(&'a str, &'a str), LocationError> {
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(LocationError::NoBucket { location: text.to_owned(), scheme, what });
    }
    Ok((name, key))
}

/// A bucket and a key of a scheme that a program may have added; `None` if the text after the scheme cannot be those.
fn other(scheme: &str, rest: &str) -> Option<Location> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bucket = bucket_fault(bucket).is_none() && !key.contains('\0');
    is_bucket.then(|| Location::Other {
        scheme: scheme.to_owned(),
        bucket: bucket.to_owned(),
        key: key.to_owned(),
    })
}

fn bucket_and_key(text: &str, scheme: &'static str, rest: &str) -> Result<(String, String), LocationError> {
    if scheme == "s3" && rest.starts_with("arn:") {
        let (bucket, key) = arn_and_key(rest);
        return checked_key(text, key).map(|key| (bucket.to_owned(), key));
    }
    let (bucket, key) = split_name(text, scheme, "bucket", rest)?;
    if let Some(reason) = bucket_fault(bucket) {
        let (location, bucket) = (text.to_owned(), bucket.to_owned());
        return Err(LocationError::InvalidBucket { location, bucket, reason });
    }
    checked_key(text, key).map(|key| (bucket.to_owned(), key))
}

fn checked_key(text: &str, key: &str) -> Result<String, LocationError> {
    if key.contains('\0') {
        return Err(invalid_key(text, NUL));
    }
    if key.len() > LONGEST_KEY {
        return Err(invalid_key(text, "it is longer than 1024 bytes"));
    }
    Ok(key.to_owned())
}

/// Splits the ARN of an access point from the key. Such an ARN contains a slash or a colon before the access point's
/// name: `arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME`.
fn arn_and_key(text: &str) -> (&str, &str) {
    let resource = text.match_indices(':').nth(4).map_or(text.len(), |(colon, _)| colon + 1);
    let mut slashes = text.match_indices('/').map(|(slash, _)| slash).filter(|slash| *slash > resource);
    let is_typed = ["accesspoint/", "outpost/"].iter().any(|kind| text[resource..].starts_with(kind));
    match slashes.nth(usize::from(is_typed)) {
        Some(slash) => (&text[..slash], &text[slash + 1..]),
        None => (text, ""),
    }
}

/// The rule that a bucket's name breaks. Capitals, underscores and up to 255 characters are accepted: old buckets
/// and S3's compatibles have them.
fn bucket_fault(bucket: &str) -> Option<&'static str> {
    let of_its_letters = |letter: u8| letter.is_ascii_alphanumeric() || b".-_".contains(&letter);
    let at_its_ends = |letter: Option<&u8>| letter.is_some_and(u8::is_ascii_alphanumeric);
    if !bucket.bytes().all(of_its_letters) {
        Some("it may hold letters, digits, dots, hyphens and underscores")
    } else if !(3..=255).contains(&bucket.len()) {
        Some("it must have 3 to 255 characters")
    } else if !at_its_ends(bucket.as_bytes().first()) || !at_its_ends(bucket.as_bytes().last()) {
        Some("it must begin and end with a letter or a digit")
    } else if bucket.contains("..") {
        Some("it may not hold two dots in a row")
    } else {
        None
    }
}

fn file_url(text: &str, rest: &str) -> Result<Location, LocationError> {
    let Some(slash) = rest.find('/') else {
        return Err(invalid_path(text, "a file URL needs an absolute path, as in file:///path"));
    };
    let (host, path) = rest.split_at(slash);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(invalid_path(text, "a file URL names no host: write file:///path, with three slashes"));
    }
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    local(text, PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

fn local(text: &str, path: PathBuf) -> Result<Location, LocationError> {
    if path.as_os_str().is_empty() {
        return Err(LocationError::Empty);
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(invalid_path(text, NUL));
    }
    Ok(Location::Local { path })
}

fn invalid_key(text: &str, reason: &'static str) -> LocationError {
    LocationError::InvalidKey { location: text.to_owned(), reason }
}

fn invalid_path(text: &str, reason: &'static str) -> LocationError {
    LocationError::InvalidPath { location: text.to_owned(), reason }
}
