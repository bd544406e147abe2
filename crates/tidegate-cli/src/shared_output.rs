//! Standard output of many commands that run at the same time: one thread writes whole lines, one command after
//! another.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::exit::{CommandFailure, Outcome};
use crate::standard;

/// The most pieces that wait to be written.
const WAITING: usize = 64;

static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// The thread that writes; `None` before its first piece.
static WRITER: Mutex<Option<mpsc::Sender<SharedPiece>>> = Mutex::new(None);

/// Whole lines, and the place for the result of writing them.
#[derive(Debug)]
pub(crate) struct SharedPiece {
    lines: Bytes,
    written: oneshot::Sender<io::Result<()>>,
}

/// From here on, commands share standard output.
pub(crate) fn begin() {
    IS_SHARED.store(true, Relaxed);
}

/// The way to the thread that writes; `None` if standard output is not shared.
///
/// # Errors
/// If standard output is closed, or the system gives no thread.
pub(crate) fn writer() -> Outcome<Option<mpsc::Sender<SharedPiece>>> {
    if !IS_SHARED.load(Relaxed) {
        return Ok(None);
    }
    let mut writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(writer) = &*writer {
        return Ok(Some(writer.clone()));
    }
    let mut output = standard::output()?;
    let (pieces, mut waiting) = mpsc::channel::<SharedPiece>(WAITING);
    let thread = std::thread::Builder::new().name("stdout".to_owned()).stack_size(256 << 10);
    let writing = thread.spawn(move || {
        // After a failure, part of a line may be written: nothing may follow it.
        let mut failed = None;
        while let Some(SharedPiece { lines, written }) = waiting.blocking_recv() {
            let result = match failed {
                None => output.write_all(&lines),
                Some(kind) => Err(io::Error::from(kind)),
            };
            failed = failed.or(result.as_ref().err().map(io::Error::kind));
            // A command that has ended meanwhile takes no result.
            let _ = written.send(result);
        }
    });
    let no_thread = |error| CommandFailure::Failed(format!("the system gives no threads: {error}"));
    writing.map_err(no_thread)?;
    Ok(Some(writer.insert(pieces).clone()))
}

/// Writes whole lines, and waits until they are written.
pub(crate) async fn write(writer: &mpsc::Sender<SharedPiece>, lines: Bytes) -> io::Result<()> {
    let (written, is_written) = oneshot::channel();
    let ended = || io::Error::other("the thread that writes the output has ended");
    writer.send(SharedPiece { lines, written }).await.map_err(|_| ended())?;
    is_written.await.map_err(|_| ended())?
}
