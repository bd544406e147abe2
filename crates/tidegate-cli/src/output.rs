//! Standard output and standard error. All text for people passes through here: control characters, line ends and
//! characters that reorder text are escaped, very long lines are cut, and passwords in URLs are removed. With `--json`,
//! each line is a JSON object: see [`lines`](crate::ui::lines) and [`messages`](crate::messages).

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use tidegate::text::{printable, printable_bytes};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exit::{CommandFailure, Outcome};
use crate::interrupt::Signal;
use crate::invocation::OutputFormat;
use crate::messages::{Message, causes};
use crate::shared_output::SharedPiece;
use crate::ui::lines::OutputLine;
use crate::{label, shared_output, standard};

/// The longest line for people, and the longest message in JSON, in bytes.
pub(crate) const LONGEST: usize = 8 << 10;

/// Text for people, as one escaped line of at most `LONGEST` bytes.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST { printable(text) } else { printable_bytes(text.as_bytes(), LONGEST).into() }
}

/// Sets how messages are written, before the first one. With `is_quiet`, notices are not.
pub(crate) fn set_messages(format: OutputFormat, is_quiet: bool) {
    // A second call, which tests make, has no effect.
    let _ = Stderr::get().mode.set(StderrMode { format, is_quiet });
}

/// Prints a notice: what a command did, or what it waits for.
pub(crate) fn say(text: &str) {
    tell(&Message::notice(text));
}

/// Prints a warning: something was done, and not all of it as the user may expect.
pub(crate) fn warn(text: &str) {
    tell(&Message::warning(text));
}

/// Prints a failure: of a command, or of one object among many. Prints nothing if there is nothing to say of it.
pub(crate) fn fail(failure: &CommandFailure) {
    Message::of_failure(failure).iter().for_each(tell);
}

/// Prints an error of the library, as [`fail`].
pub(crate) fn fail_with(error: &tidegate::Error) {
    tell(&Message::of_error(error));
}

/// Prints the underlying causes of a failure. In JSON they are part of the error itself.
pub(crate) fn because(failure: &CommandFailure) {
    if let (CommandFailure::Store(error), OutputFormat::Text) = (failure, Stderr::get().mode().format) {
        causes(error).iter().for_each(|cause| tell(&Message::log(&format!("  because: {cause}"))));
    }
}

/// Prints that a signal ends the command.
pub(crate) fn interrupted(signal: Signal, text: &str) {
    tell(&Message::interrupted(signal, text));
}

/// Prints a line on standard error, above the progress bar. A closed standard error is not a failure.
///
/// A thread writes the lines in order. A reader that has stopped blocks only that thread, until
/// [`WAITING`](Stderr::WAITING) lines wait.
fn tell(message: &Message) {
    let stderr = Stderr::get();
    let StderrMode { format, is_quiet } = stderr.mode();
    if !(is_quiet && matches!(message, Message::Notice { .. })) {
        let line = match label::current() {
            Some(label) => message.line_with_label(format, &label),
            None => message.line(format),
        };
        stderr.send(Said::Line(line));
    }
}

/// Waits until every line said so far is written.
pub(crate) fn flush() {
    let (written, is_written) = sync_channel(1);
    Stderr::get().send(Said::Flush(written));
    // An error means that the thread has ended, so no line is left to wait for.
    let _ = is_written.recv();
}

/// Sets the progress bar on standard error, if any: lines are written above it.
pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    *Stderr::get().bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// The process's standard error.
struct Stderr {
    /// `None` if the system gives no thread: then the caller writes each line itself.
    lines: Option<SyncSender<Said>>,
    bar: Mutex<Option<ProgressBar>>,
    /// How messages are written: a property of the whole process, as the stream is.
    mode: OnceLock<StderrMode>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StderrMode {
    format: OutputFormat,
    is_quiet: bool,
}

enum Said {
    Line(String),
    Flush(SyncSender<()>),
}

impl Stderr {
    /// The most lines that wait to be written.
    const WAITING: usize = 1000;

    fn get() -> &'static Self {
        static STDERR: OnceLock<Stderr> = OnceLock::new();
        STDERR.get_or_init(|| {
            let (lines, waiting) = sync_channel(Self::WAITING);
            let thread = std::thread::Builder::new().name("stderr".to_owned()).stack_size(256 << 10);
            let writing = thread.spawn(move || Self::get().write_all(&waiting));
            Self { lines: writing.is_ok().then_some(lines), bar: Mutex::default(), mode: OnceLock::new() }
        })
    }

    fn mode(&self) -> StderrMode {
        self.mode.get().copied().unwrap_or_default()
    }

    fn send(&self, said: Said) {
        let unsent = match &self.lines {
            Some(lines) => lines.send(said).err().map(|unsent| unsent.0),
            None => Some(said),
        };
        if let Some(said) = unsent {
            self.write(said);
        }
    }

    fn write_all(&self, waiting: &Receiver<Said>) {
        while let Ok(said) = waiting.recv() {
            self.write(said);
        }
    }

    fn write(&self, said: Said) {
        match said {
            Said::Line(line) => {
                let write = || drop(io::stderr().write_all(format!("{line}\n").as_bytes()));
                let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match bar {
                    Some(bar) => bar.suspend(write),
                    None => write(),
                }
            }
            // The caller of `flush` may have stopped waiting.
            Said::Flush(written) => drop(written.send(())),
        }
    }
}

/// The writer for the log: each event is one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        tell(&Message::log(String::from_utf8_lossy(event).trim_end_matches('\n')));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output for text: gathers lines, and a thread writes them in large pieces.
///
/// `writeln!` writes exactly one line, even if its arguments have line ends.
#[derive(Debug)]
pub(crate) struct TextOutput {
    output: ByteOutput,
    gathered: Vec<u8>,
    format: OutputFormat,
}

/// Opens standard output for lines of text or JSON. [`io::stdout`] would write at the end of every line.
pub(crate) fn text(format: OutputFormat) -> Outcome<TextOutput> {
    let output = match shared_output::writer()? {
        Some(writer) => ByteOutput::shared(writer),
        None => ByteOutput::stdout()?,
    };
    Ok(TextOutput { output, gathered: Vec::new(), format })
}

impl TextOutput {
    /// How many bytes are gathered before they are written.
    const PIECE: usize = 64 << 10;

    /// Whether lines are JSON objects.
    pub(crate) fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// Writes a line in the format of this output.
    pub(crate) fn print(&mut self, line: &impl OutputLine) -> Outcome {
        if self.is_json() {
            return self.json(line);
        }
        Ok(writeln!(self, "{}", line.text())?)
    }

    /// Writes a JSON document as one line. Characters that a terminal acts on become ASCII escapes; the rest stays as
    /// it is.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome {
        let json = serde_json::to_string(value).map_err(io::Error::from)?;
        self.gathered.extend_from_slice(escaped(&json).as_bytes());
        self.gathered.push(b'\n');
        Ok(())
    }

    /// Passes the gathered text to the writing thread once it reaches `PIECE` bytes. Call it between lines.
    pub(crate) async fn flow(&mut self) -> Outcome {
        if self.gathered.len() < Self::PIECE {
            return Ok(());
        }
        self.output.write(std::mem::take(&mut self.gathered).into()).await
    }

    /// Passes the gathered text on at once. While several pieces wait for a slow reader, as [`flow`](Self::flow).
    pub(crate) async fn flow_soon(&mut self) -> Outcome {
        if self.output.is_behind() {
            return self.flow().await;
        }
        self.output.write(std::mem::take(&mut self.gathered).into()).await
    }

    /// Waits until all text is written.
    pub(crate) async fn finish(mut self) -> Outcome {
        if !self.gathered.is_empty() {
            self.output.write(std::mem::take(&mut self.gathered).into()).await?;
        }
        self.output.finish().await
    }
}

impl Write for TextOutput {
    /// Takes bytes as they are, for example those of a script.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Called by `write!` and `writeln!`: at most one line. A line end at the end stays; others are escaped.
    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        let text = arguments.to_string();
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        self.gathered.extend_from_slice(line(text).as_bytes());
        self.gathered.extend_from_slice(end.as_bytes());
        Ok(())
    }
}

/// Escapes, as `\uXXXX`, the characters of a JSON text that a terminal acts on. JSON itself escapes those below the
/// space.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    let printed = printable(json);
    if matches!(printed, Cow::Borrowed(_)) {
        return printed;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    let mut character_buffer = [0; 4];
    for character in json.chars() {
        let text: &str = character.encode_utf8(&mut character_buffer);
        match printable(text) {
            Cow::Borrowed(text) => escaped.push_str(text),
            Cow::Owned(_) => {
                escaped
                    .extend(character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    escaped.into()
}

/// A destination that takes bytes in order: standard output, a device, a named pipe.
///
/// A thread writes, so that a slow reader blocks nothing else. A few pieces wait for the thread; they are not copied.
#[derive(Debug)]
pub(crate) struct ByteOutput {
    pieces: mpsc::Sender<Bytes>,
    /// `None` once the thread's result has been taken.
    written: Option<JoinHandle<io::Result<()>>>,
}

impl ByteOutput {
    /// The most pieces that wait to be written.
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

    /// Standard output that other commands write to as well. Each piece must be whole lines.
    fn shared(writer: mpsc::Sender<SharedPiece>) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<Bytes>(Self::WAITING);
        let written = tokio::spawn(async move {
            while let Some(piece) = waiting.recv().await {
                shared_output::write(&writer, piece).await?;
            }
            Ok(())
        });
        Self { pieces, written: Some(written) }
    }

    /// Whether as many pieces wait to be written as may wait.
    fn is_behind(&self) -> bool {
        self.pieces.capacity() == 0
    }

    /// Gives the next bytes.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Outcome {
        if self.pieces.send(piece).await.is_ok() {
            return Ok(());
        }
        // The thread ends before its last piece only with an error.
        self.ended().await?;
        Err(CommandFailure::Failed("writing the output ended early".to_owned()))
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self) -> Outcome {
        // Dropping the sender ends the thread's loop.
        self.pieces = mpsc::channel(1).0;
        self.ended().await
    }

    async fn ended(&mut self) -> Outcome {
        match self.written.take() {
            Some(written) => match written.await {
                Ok(written) => Ok(written?),
                Err(ended) => Err(CommandFailure::Failed(format!("writing the output failed: {ended}"))),
            },
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_line_is_one_line_and_not_too_long() {
        assert_eq!(line("a\nerror: forged\u{1b}[2J"), "a\\nerror: forged\\u{1b}[2J");
        let long = line(&"x".repeat(1 << 20)).into_owned();
        assert!(long.len() <= LONGEST + 3 && long.ends_with('…'));
    }

    #[test]
    fn json_is_exact_and_harmless() {
        let text = "a\u{1b}\u{7f}\u{9b}31m\u{202e}\n\u{e0001}é😀";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escaped(&json);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        assert_eq!(printable(&escaped), escaped, "nothing is left to escape");
        assert!(escaped.contains("é😀"));
    }

    #[tokio::test]
    async fn a_name_in_a_line_starts_no_other() {
        let mut file = tempfile::tempfile().unwrap();
        let output = ByteOutput::new(file.try_clone().unwrap());
        let mut text = TextOutput { output, gathered: Vec::new(), format: OutputFormat::Text };
        let key = "k\n   99 bytes  forged";
        writeln!(text, "12 bytes  {key}").unwrap();
        write!(text, "{key}, ").unwrap();
        writeln!(text).unwrap();
        text.json(&key).unwrap();
        text.finish().await.unwrap();
        let mut written = String::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut written).unwrap();
        let lines: Vec<_> = written.lines().collect();
        let shown = r"k\n   99 bytes  forged";
        assert_eq!(lines, [format!("12 bytes  {shown}"), format!("{shown}, "), format!("\"{shown}\"")]);
    }

    #[tokio::test]
    async fn pieces_arrive_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        let mut output = ByteOutput::new(file.try_clone().unwrap());
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
        let mut output = ByteOutput::new(File::from(std::os::fd::OwnedFd::from(writer)));
        let failure = loop {
            if let Err(failure) = output.write(Bytes::from_static(b"tide")).await {
                break failure;
            }
        };
        assert!(matches!(failure, CommandFailure::NobodyReads), "{failure:?}");
        assert!(output.finish().await.is_ok());
    }
}
