//! The common part of the peers' programs: they take `FILE s3://BUCKET/KEY`, or the reverse, on the command
//! line, and [`PART_MIB`] and [`AT_ONCE`] from the environment.

use std::io::{BufRead, Read};
use std::path::PathBuf;

/// The variable that sets a peer's part size in MiB, instead of its default.
pub const PART_MIB: &str = "PEER_PART_MIB";
/// The variable that sets the number of parts in flight.
pub const AT_ONCE: &str = "PEER_AT_ONCE";

/// The result of a peer's program, which prints any error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerDirection {
    /// From the file to the store.
    Upload,
    /// From the store to the file.
    Download,
}

/// One file to upload, or one object to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerJob {
    /// The direction.
    pub direction: PeerDirection,
    /// The file.
    pub file: PathBuf,
    /// The object's bucket.
    pub bucket: String,
    /// The object's key; with a slash at its end, the prefix of many objects, for the files of a directory.
    pub key: String,
}

impl PeerJob {
    /// Reads the job from the program's own arguments.
    pub fn from_arguments() -> Result<Self> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let arguments: Vec<String> = arguments.collect();
        let (direction, file, url) = match &arguments[..] {
            [url, file] if url.starts_with("s3://") => (PeerDirection::Download, file, url),
            [file, url] => (PeerDirection::Upload, file, url),
            _ => return Err("usage: FILE s3://BUCKET/KEY, or s3://BUCKET/KEY FILE".into()),
        };
        let place = url.strip_prefix("s3://").and_then(|place| place.split_once('/'));
        match place {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { direction, file: file.into(), bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err(format!("{url}: not of the form s3://BUCKET/KEY").into()),
        }
    }
}

/// Bytes of a part, and parts in flight, if the environment sets them.
pub fn tuning() -> Result<Option<(usize, usize)>> {
    if std::env::var_os(PART_MIB).is_none() {
        return Ok(None);
    }
    let number =
        |name| -> Result<usize> { Ok(variable(name)?.parse().map_err(|why| format!("{name}: {why}"))?) };
    Ok(Some((number(PART_MIB)? << 20, number(AT_ONCE)?)))
}

/// The value of an environment variable that a peer needs.
pub fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

/// Reads one answer to its end; an error unless it is a success.
pub fn expect_success(answers: &mut impl BufRead) -> Result<()> {
    let length = success_length(answers)?;
    std::io::copy(&mut answers.by_ref().take(length), &mut std::io::sink())?;
    Ok(())
}

/// Reads the head of one answer and returns the length of its body; an error unless it is a success.
pub fn success_length(answers: &mut impl BufRead) -> Result<u64> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let is_success = line.starts_with("HTTP/1.1 20");
    let status = line.trim_end().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        answers.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    if is_success { Ok(length) } else { Err(format!("the server answers: {status}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<PeerJob> {
        PeerJob::parse(arguments.iter().map(|word| (*word).to_owned())).ok()
    }

    #[test]
    fn a_job_is_a_file_and_a_place() {
        let job = |direction| PeerJob {
            direction,
            file: "big.tar".into(),
            bucket: "bucket".into(),
            key: "a/b".into(),
        };
        assert_eq!(parse(&["big.tar", "s3://bucket/a/b"]), Some(job(PeerDirection::Upload)));
        assert_eq!(parse(&["s3://bucket/a/b", "big.tar"]), Some(job(PeerDirection::Download)));
    }

    #[test]
    fn what_is_no_job_is_refused() {
        for wrong in [
            &["f"][..],
            &["f", "s3://bucket"],
            &["f", "s3:///k"],
            &["f", "s3://b/"],
            &["f", "g://b/k"],
            &["s3://b", "f"],
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
