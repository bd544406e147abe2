//! Programs that produce or take the bytes of an object.
//!
//! A pipe in a shell ends in the same way whether its producer succeeded or died. Here the program's exit status is known
//! before the object is published: see [`Producer`].

use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use tidegate::text::printable;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::error::{Error, Result};

mod holders;

/// The size to give a pipe, so that each read finds many bytes: Linux's default limit for unprivileged users.
const PIPE: usize = 1 << 20;
/// How long the pipe of a program that has ended may stay open before a notice says which process holds it, and how long
/// until the next notice.
const HELD: Duration = Duration::from_secs(10);

/// A source that knows whether its bytes are whole. An upload from it is published only if it says so.
pub trait Producer: AsyncRead + Send + Unpin {
    /// Called once, when the bytes have ended and before the object is published.
    ///
    /// # Errors
    /// If the bytes are not whole. Then nothing is published.
    fn complete(&mut self) -> BoxFuture<'_, Result>;
}

/// A source whose end is always the end of its bytes, such as a file.
#[derive(Debug)]
pub(crate) struct Whole<R>(pub(crate) R);

impl<R: AsyncRead + Unpin> AsyncRead for Whole<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<R: AsyncRead + Send + Unpin> Producer for Whole<R> {
    fn complete(&mut self) -> BoxFuture<'_, Result> {
        async { Ok(()) }.boxed()
    }
}

/// Why a program's bytes do not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such program.
    #[error("{program}: there is no such command")]
    Missing {
        /// The program.
        program: String,
    },
    /// The system does not start the program.
    #[error("{program}: the command could not be started: {why}")]
    NotStarted {
        /// The program.
        program: String,
        /// The system's message.
        why: String,
    },
    /// The program exited with another code than 0.
    #[error("{program}: the command failed: exit code {code}")]
    Exited {
        /// The program.
        program: String,
        /// Its exit code.
        code: u8,
    },
    /// A signal ended the program.
    #[error("{program}: the command was ended by signal {signal}")]
    Killed {
        /// The program.
        program: String,
        /// The signal's number.
        signal: u8,
    },
    /// The program has ended, and the system does not say how.
    #[error("{program}: it is not known how the command ended: {why}")]
    StatusUnknown {
        /// The program.
        program: String,
        /// The system's message.
        why: String,
    },
    /// The program did not end in the time that it had.
    #[error("{program}: the command did not end within {} seconds{holders}", limit.as_secs_f64())]
    TimedOut {
        /// The program.
        program: String,
        /// The time.
        limit: Duration,
        /// The processes that hold its output open although it has ended, in words; empty if there are none.
        holders: String,
    },
}

impl CommandError {
    /// The exit code that a shell gives: the program's own; 128 and the number of the signal that ended it; 127 if there
    /// is no such program, 126 if it could not be started; 124 if its time was up, as `timeout` has it; 1 if it is not
    /// known how it ended.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Missing { .. } => 127,
            Self::NotStarted { .. } => 126,
            Self::StatusUnknown { .. } => 1,
            Self::Exited { code, .. } => *code,
            Self::Killed { signal, .. } => signal.saturating_add(128),
            Self::TimedOut { .. } => 124,
        }
    }

    fn of_status(program: &str, status: ExitStatus) -> std::result::Result<(), Self> {
        let program = program.to_owned();
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (_, Some(signal)) => Err(Self::Killed { program, signal: u8::try_from(signal).unwrap_or(0) }),
            (code, None) => Err(Self::Exited {
                program,
                code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            }),
        }
    }

    fn of_start(program: &str, error: &io::Error) -> Self {
        let program = program.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing { program },
            _ => Self::NotStarted { program, why: error.to_string() },
        }
    }
}

/// A program with its arguments, which is run without a shell.
#[derive(Clone, Debug)]
pub struct ExternalCommand {
    program: OsString,
    arguments: Vec<OsString>,
    limit: Option<Duration>,
}

impl ExternalCommand {
    /// The program, found by the search path, and its arguments.
    pub fn new(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        Self { program: program.as_ref().to_owned(), arguments, limit: None }
    }

    /// How long the program may run. Then SIGTERM ends it, and its bytes do not count.
    #[must_use]
    pub fn timeout(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }

    /// What people call the program.
    pub fn name(&self) -> String {
        printable(&self.program.to_string_lossy()).into_owned()
    }

    fn start(&self, stdin: Stdio, stdout: Stdio) -> Result<RunningCommand> {
        let name = self.name();
        // A process that ignores SIGCHLD, as some programs start others, would never know how the child ends.
        drop(signal(SignalKind::child()).map_err(|error| CommandError::of_start(&name, &error))?);
        let child = Command::new(&self.program).args(&self.arguments).stdin(stdin).stdout(stdout).spawn();
        let child = child.map_err(|error| CommandError::of_start(&name, &error))?;
        let limit = self.limit.map(|limit| (limit, Box::pin(sleep_until(Instant::now() + limit))));
        Ok(RunningCommand { name, child, limit, ended: None })
    }

    /// Starts the program. The bytes are what it writes to its standard output; its standard input and its standard error
    /// are those of this process. Needs a tokio runtime.
    ///
    /// The bytes are whole if the program exits with 0 and nobody holds its output open any more. If it fails, they end at
    /// once. Dropping the source sends the program SIGTERM.
    ///
    /// # Errors
    /// [`Error::Command`] if the program could not be started.
    pub fn produce(&self) -> Result<CommandOutput> {
        let mut command = self.start(Stdio::inherit(), Stdio::piped())?;
        let output = command.child.stdout.take().ok_or_else(|| no_pipe(&command.name))?;
        // A pipe of the usual size works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE);
        Ok(CommandOutput { command, output, held: None })
    }

    /// Starts the program, which reads the bytes from its standard input; its standard output and its standard error are
    /// those of this process. Needs a tokio runtime.
    ///
    /// Dropping the value before [`CommandInput::finish`] sends the program SIGTERM.
    ///
    /// # Errors
    /// [`Error::Command`] if the program could not be started.
    pub fn consume(&self) -> Result<CommandInput> {
        let mut command = self.start(Stdio::piped(), Stdio::inherit())?;
        let input = command.child.stdin.take().ok_or_else(|| no_pipe(&command.name))?;
        let _ = rustix::pipe::fcntl_setpipe_size(&input, PIPE);
        Ok(CommandInput { command, input: Some(input) })
    }
}

fn no_pipe(program: &str) -> Error {
    CommandError::NotStarted { program: program.to_owned(), why: "it has no pipe".to_owned() }.into()
}

/// A program that runs.
#[derive(Debug)]
struct RunningCommand {
    name: String,
    child: Child,
    limit: Option<(Duration, Pin<Box<Sleep>>)>,
    /// How it ended, once that is known.
    ended: Option<std::result::Result<(), CommandError>>,
}

impl RunningCommand {
    /// Ready when the program has ended, or its time is up.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), CommandError>> {
        if let Some(ended) = &self.ended {
            return Poll::Ready(ended.clone());
        }
        let waited = pin!(self.child.wait()).poll(cx);
        let ended = match waited {
            Poll::Ready(Ok(status)) => CommandError::of_status(&self.name, status),
            Poll::Ready(Err(error)) => {
                Err(CommandError::StatusUnknown { program: self.name.clone(), why: error.to_string() })
            }
            Poll::Pending if self.is_time_up(cx) => self.timed_out(String::new()),
            Poll::Pending => return Poll::Pending,
        };
        self.ended = Some(ended.clone());
        Poll::Ready(ended)
    }

    fn is_time_up(&mut self, cx: &mut Context<'_>) -> bool {
        self.limit.as_mut().is_some_and(|(_, limit)| limit.as_mut().poll(cx).is_ready())
    }

    fn timed_out(&self, holders: String) -> std::result::Result<(), CommandError> {
        self.signal(Signal::TERM);
        let limit = self.limit.as_ref().map_or(Duration::ZERO, |(limit, _)| *limit);
        Err(CommandError::TimedOut { program: self.name.clone(), limit, holders })
    }

    /// Sends a signal to the program, unless it has ended.
    fn signal(&self, signal: Signal) {
        // The id is that of this program until it has been waited for, and then `None`.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::warn!(program = self.name, %error, "a command could not be ended");
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

/// What a program writes, see [`ExternalCommand::produce`].
#[derive(Debug)]
pub struct CommandOutput {
    command: RunningCommand,
    output: ChildStdout,
    /// Once the program has ended: when the next notice says which process holds its output open.
    held: Option<Pin<Box<Sleep>>>,
}

/// The processes that hold the output open, in words.
fn holders_of(output: &ChildStdout) -> String {
    match holders::of(output) {
        holders if holders.is_empty() => "a process of another user".to_owned(),
        holders => holders.join(", "),
    }
}

impl AsyncRead for CommandOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.output).poll_read(cx, into) {
            return Poll::Ready(read);
        }
        match this.command.poll_end(cx) {
            Poll::Pending => return Poll::Pending,
            // Nothing more counts.
            Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {}
        }
        // It has succeeded, and another process may still write to the pipe.
        if this.command.is_time_up(cx) {
            let holders = format!(": its output is still open in {}", holders_of(&this.output));
            this.command.ended = Some(this.command.timed_out(holders));
            return Poll::Ready(Ok(()));
        }
        let held = this.held.get_or_insert_with(|| Box::pin(sleep(HELD)));
        while held.as_mut().poll(cx).is_ready() {
            held.as_mut().reset(Instant::now() + HELD);
            let at = format!("{}, with the output of {} open", holders_of(&this.output), this.command.name);
            let pause_ms = HELD.as_millis() as u64;
            tracing::info!(target: "tidegate::answer", at, pause_ms, is_work = true, "a command's output is held open");
        }
        Poll::Pending
    }
}

impl Producer for CommandOutput {
    fn complete(&mut self) -> BoxFuture<'_, Result> {
        let ended = std::future::poll_fn(|cx| self.command.poll_end(cx));
        ended.map(|ended| ended.map_err(Error::from)).boxed()
    }
}

/// How much of the bytes a program has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// All of them.
    All,
    /// It succeeded without reading all of them.
    Part,
}

/// A program that takes bytes, see [`ExternalCommand::consume`].
#[derive(Debug)]
pub struct CommandInput {
    command: RunningCommand,
    /// `None` once the program reads no more.
    input: Option<ChildStdin>,
}

impl CommandInput {
    /// Hands the program more bytes. Returns [`Consumed::Part`] if it reads no more: then call [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`Error::Command`] if the program's time is up, [`Error::Failed`] if the pipe fails.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<Consumed> {
        let Some(input) = &mut self.input else { return Ok(Consumed::Part) };
        let limit = async {
            match &mut self.command.limit {
                Some((_, limit)) => limit.as_mut().await,
                None => pending().await,
            }
        };
        let written = tokio::select! {
            biased;
            written = input.write_all(bytes) => written,
            () = limit => {
                self.command.ended = Some(self.command.timed_out(String::new()));
                return self.end().await.map(|()| Consumed::Part);
            }
        };
        match written {
            Ok(()) => Ok(Consumed::All),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.input = None;
                Ok(Consumed::Part)
            }
            Err(error) => Err(Error::Failed(format!("{}: {error}", self.command.name))),
        }
    }

    /// Says that there are no more bytes, and waits until the program has ended.
    ///
    /// # Errors
    /// [`Error::Command`] if the program fails, or its time is up.
    pub async fn finish(mut self) -> Result<Consumed> {
        let consumed = if self.input.take().is_some() { Consumed::All } else { Consumed::Part };
        self.end().await?;
        Ok(consumed)
    }

    async fn end(&mut self) -> Result {
        Ok(std::future::poll_fn(|cx| self.command.poll_end(cx)).await?)
    }
}

#[cfg(test)]
mod tests;
