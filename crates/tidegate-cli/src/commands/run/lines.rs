//! Reads the lines of a list as they arrive.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use tokio::sync::mpsc;

use crate::exit::{CommandFailure, Outcome};

/// The longest line, in bytes.
const LONGEST: u64 = 1 << 20;
/// The most lines that wait to be run.
const WAITING: usize = 64;

/// A line, counted from 1. Its text is an error if it is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) text: Result<Vec<u8>, String>,
}

/// The lines of an input, without their ends. After an error of the input, none follow.
pub(super) fn read(mut input: impl BufRead) -> impl Iterator<Item = io::Result<Line>> {
    let (mut number, mut has_failed) = (0, false);
    std::iter::from_fn(move || {
        if has_failed {
            return None;
        }
        number += 1;
        match next(&mut input) {
            Ok(text) => Some(Ok(Line { number, text: text? })),
            Err(error) => {
                has_failed = true;
                Some(Err(error))
            }
        }
    })
}

/// The next line; `None` at the end.
fn next(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, String>>> {
    let mut text = Vec::new();
    if input.by_ref().take(LONGEST + 1).read_until(b'\n', &mut text)? == 0 {
        return Ok(None);
    }
    let is_whole = text.ends_with(b"\n");
    if !is_whole && text.len() as u64 > LONGEST {
        input.skip_until(b'\n')?;
        return Ok(Some(Err("the line is longer than 1 MiB".to_owned())));
    }
    if is_whole {
        text.pop();
        // Lists that were written on Windows.
        if text.ends_with(b"\r") {
            text.pop();
        }
    }
    Ok(Some(Ok(text)))
}

/// The lines of a file or pipe, which a thread reads.
#[derive(Debug)]
pub(super) struct Lines(mpsc::Receiver<io::Result<Line>>);

impl Lines {
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn of(file: File) -> Outcome<Self> {
        let (found, lines) = mpsc::channel(WAITING);
        // A thread of its own, because it may wait for the next line for ever.
        let thread = std::thread::Builder::new().name("lines".to_owned()).stack_size(256 << 10);
        let reading = thread.spawn(move || {
            for line in read(BufReader::new(file)) {
                if found.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        let no_thread = |error| CommandFailure::Failed(format!("the system gives no threads: {error}"));
        reading.map_err(no_thread)?;
        Ok(Self(lines))
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<io::Result<Line>> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<Line> {
        read(text).map(Result::unwrap).collect()
    }

    #[test]
    fn lines_have_numbers_and_no_ends() {
        let line = |number, text: &str| Line { number, text: Ok(text.into()) };
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"a\n\nb c\r\nd"), [line(1, "a"), line(2, ""), line(3, "b c"), line(4, "d")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let mut text = vec![b'x'; 2 * LONGEST as usize];
        text.extend(b"\nrm a\n");
        let read = lines(&text);
        assert!(read.len() == 2 && read[0].text.is_err(), "{} lines", read.len());
        assert_eq!(read[1], Line { number: 2, text: Ok(b"rm a".into()) });
        text.truncate(LONGEST as usize);
        text.push(b'\n');
        assert_eq!(lines(&text)[0].text.as_ref().map(Vec::len), Ok(LONGEST as usize));
    }
}
