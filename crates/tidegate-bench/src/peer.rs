//! What the peers' programs have in common: `FILE s3://BUCKET/KEY` on their command line.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::PathBuf;

/// How a peer's program ends: any error is good enough to be printed.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One file to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What to upload.
    pub file: PathBuf,
    /// Where to.
    pub bucket: String,
    /// Under which key.
    pub key: String,
}

impl Job {
    /// Reads the job from the program's own arguments.
    pub fn from_arguments() -> Result<Self> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let arguments: Vec<String> = arguments.collect();
        let [file, url] = &arguments[..] else { return Err("usage: FILE s3://BUCKET/KEY".into()) };
        let place = url.strip_prefix("s3://").and_then(|place| place.split_once('/'));
        match place {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { file: file.into(), bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err(format!("{url}: not of the form s3://BUCKET/KEY").into()),
        }
    }
}

/// The value of an environment variable that a peer cannot do without.
pub fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

/// Reads one answer, whose body a success has only with a length.
pub fn expect_success(answers: &mut BufReader<TcpStream>) -> Result<()> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let is_success = line.starts_with("HTTP/1.1 200 ");
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
    std::io::copy(&mut answers.take(length), &mut std::io::sink())?;
    if is_success { Ok(()) } else { Err(format!("the server answers: {status}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Job> {
        Job::parse(arguments.iter().map(|word| (*word).to_owned())).ok()
    }

    #[test]
    fn a_job_is_a_file_and_a_place() {
        let job = parse(&["big.tar", "s3://bucket/a/b"]).unwrap();
        assert_eq!(job, Job { file: "big.tar".into(), bucket: "bucket".into(), key: "a/b".into() });
    }

    #[test]
    fn what_is_no_job_is_refused() {
        for wrong in
            [&["f"][..], &["f", "s3://bucket"], &["f", "s3:///k"], &["f", "s3://b/"], &["f", "g://b/k"]]
        {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
