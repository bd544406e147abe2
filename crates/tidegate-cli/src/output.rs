//! Standard output and standard error.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exit::{Failure, Outcome};
use crate::standard;

/// Says a line on standard error. That nobody may be there to read it is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Standard output for text: gathered, and written in large pieces.
///
/// Not [`io::stdout`], which writes at every line's end.
pub(crate) fn text() -> Outcome<BufWriter<File>> {
    Ok(BufWriter::with_capacity(64 << 10, standard::output()?))
}

/// A place that takes bytes one after another: standard output, a device, a named pipe.
///
/// A thread writes, so that a reader that is slow holds up this and nothing else; a few pieces wait
/// for it, and are not copied.
#[derive(Debug)]
pub(crate) struct Output {
    pieces: mpsc::Sender<Bytes>,
    /// `None` once it has been asked how it ended.
    written: Option<JoinHandle<io::Result<()>>>,
}

impl Output {
    /// Pieces that wait to be written.
    const WAITING: usize = 8;

    pub(crate) fn stdout() -> Outcome<Self> {
        Ok(Self::new(standard::output()?))
    }

    pub(crate) fn new(mut file: File) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<Bytes>(Self::WAITING);
        let written = tokio::task::spawn_blocking(move || {
            while let Some(piece) = waiting.blocking_recv() {
                file.write_all(&piece)?;
            }
            Ok(())
        });
        Self { pieces, written: Some(written) }
    }

    /// Gives the next bytes.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Outcome {
        if self.pieces.send(piece).await.is_ok() {
            return Ok(());
        }
        // The thread ends before its last piece only with an error.
        self.ended().await?;
        Err(Failure::Failed("writing the output ended early".to_owned()))
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self) -> Outcome {
        // The end of the pieces, for the thread.
        self.pieces = mpsc::channel(1).0;
        self.ended().await
    }

    async fn ended(&mut self) -> Outcome {
        match self.written.take() {
            Some(written) => match written.await {
                Ok(written) => Ok(written?),
                Err(ended) => Err(Failure::Failed(format!("writing the output failed: {ended}"))),
            },
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        let mut output = Output::new(file.try_clone().unwrap());
        for number in 0..100 {
            output.write(format!("{number},").into()).await.unwrap();
        }
        output.finish().await.unwrap();
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("0,1,2,") && text.ends_with("98,99,"));
    }

    #[tokio::test]
    async fn a_reader_that_leaves_ends_it_quietly() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut output = Output::new(File::from(std::os::fd::OwnedFd::from(writer)));
        let failure = loop {
            if let Err(failure) = output.write(Bytes::from_static(b"tide")).await {
                break failure;
            }
        };
        assert!(matches!(failure, Failure::NobodyReads), "{failure:?}");
        assert!(output.finish().await.is_ok());
    }
}
