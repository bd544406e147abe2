//! Runs one writer's task: carries out the writer's plan and reports the outcome.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures::SinkExt;
use tidegate::progress::Usage;
use tidegate::upload::WriterBuilder;
use tidegate::{Error, ErrorKind, Object, Operation, Progress, Store, Tidegate, Writer};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use crate::curtain::Curtain;
use crate::scenario::{Ending, ProducerPlan, WriterPlan, WriterSource};
use crate::store::{SimStore, WRITER};
use crate::trace::RunTrace;

mod feed;
mod produce;

pub use feed::feed;

/// How a writer ended.
#[derive(Clone, Debug)]
pub enum WriterOutcome {
    /// The engine reported the commit; with the object's description where the face returns one.
    Committed(Option<Box<Object>>),
    /// The writer failed.
    Failed(WriterFailure),
    /// The producer aborted the writer; holds the error of an abort that failed.
    Aborted(Option<WriterFailure>),
    /// The writer was dropped.
    Dropped,
}

impl WriterOutcome {
    /// The outcome in a few words, for counting.
    pub fn name(&self) -> String {
        match self {
            Self::Committed(_) => "committed".to_owned(),
            Self::Failed(failed) => format!("{:?}", failed.kind),
            Self::Aborted(None) => "aborted".to_owned(),
            Self::Aborted(Some(failed)) => format!("abort failed: {:?}", failed.kind),
            Self::Dropped => "dropped".to_owned(),
        }
    }
}

/// The fields of an error that the checks need.
#[derive(Clone, Debug)]
pub struct WriterFailure {
    /// The error's kind.
    pub kind: ErrorKind,
    /// The operation that failed.
    pub operation: Operation,
    /// How many requests were made.
    pub attempts: u32,
    /// The whole message.
    pub text: String,
    /// Memory usage when the error was reported.
    pub usage: Usage,
    /// When the writer last accepted a byte, and when the error was reported, in virtual milliseconds.
    pub waited: (u64, u64),
}

impl From<Error> for WriterFailure {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            operation: error.operation(),
            attempts: error.attempts(),
            text: error.to_string(),
            usage: Usage::default(),
            waited: (0, 0),
        }
    }
}

impl From<io::Error> for WriterFailure {
    fn from(error: io::Error) -> Self {
        let text = error.to_string();
        match error.into_inner().map(|inner| inner.downcast::<Error>()) {
            Some(Ok(error)) => Self::from(*error),
            // Not an error of the engine: reported as a kind that no check allows.
            _ => Self {
                kind: ErrorKind::Unsupported,
                operation: Operation::Write,
                attempts: 0,
                text,
                usage: Usage::default(),
                waited: (0, 0),
            },
        }
    }
}

/// One writer, and everything that its task needs.
pub struct Actor {
    /// The writer's number.
    pub number: usize,
    /// The writer's plan.
    pub plan: WriterPlan,
    /// The object's content.
    pub content: Bytes,
    /// The bucket that gets the object.
    pub bucket: Store,
    /// The engine.
    pub tide: Tidegate,
    /// The simulated store behind the bucket.
    pub store: SimStore,
    /// The run's trace.
    pub trace: Arc<RunTrace>,
    /// The writer's own random stream.
    pub random: Rng,
    /// The current step, for the report of a run that is stuck.
    pub status: Arc<Mutex<&'static str>>,
    /// The writer's progress, once the writer is built.
    pub progress: Arc<Mutex<Option<Progress>>>,
    /// Falls when every writer that does not hold has ended.
    pub(crate) curtain: Arc<Curtain>,
    /// When the writer last accepted a byte, in virtual milliseconds.
    pub moved: u64,
    /// How many writes the producer has cancelled.
    pub cancelled: u32,
}

impl Actor {
    /// Carries out the plan from start to end.
    pub async fn run(mut self) -> WriterOutcome {
        self.set("not started");
        sleep(Duration::from_millis(self.plan.start_after)).await;
        let builder = self.builder();
        let ended = match self.plan.source.clone() {
            WriterSource::File { truncate_after } => self.upload(builder, truncate_after).await,
            WriterSource::Producer(producer) => self.write(builder, &producer).await,
        };
        self.ended(ended)
    }

    fn ended(&self, ended: Result<WriterOutcome, WriterFailure>) -> WriterOutcome {
        let outcome = ended.unwrap_or_else(|failed| {
            let waited = (self.moved, self.trace.now());
            WriterOutcome::Failed(WriterFailure { usage: self.tide.usage(), waited, ..failed })
        });
        self.set("ended");
        if self.plan.ending.holds().is_none() {
            self.curtain.done();
        }
        self.trace.note(format_args!("writer {} ended: {}", self.number, outcome.name()));
        outcome
    }

    fn set(&self, status: &'static str) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn builder(&mut self) -> WriterBuilder {
        self.moved = self.trace.now();
        let plan = &self.plan;
        let mut builder = self.bucket.writer(plan.key.clone()).strategy(plan.strategy);
        builder = builder.metadata(WRITER, self.number.to_string());
        if let Some(part) = plan.part_size {
            builder = builder.part_size(part);
        }
        if let Some(hint) = plan.hint {
            builder = builder.size_hint(hint);
        }
        if let Some(parts) = plan.parts_in_flight {
            builder = builder.concurrency(parts);
        }
        if let Some(limit) = plan.idle_limit {
            builder = builder.idle_limit(Duration::from_millis(limit));
        }
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(builder.progress());
        if plan.create_only { builder.create_only() } else { builder }
    }

    fn finishing(&self) {
        self.set("finishing");
        self.trace.note(format_args!("writer {} finishes", self.number));
        self.store.state().witness.seen[self.number].finishing = true;
    }

    async fn upload(
        &mut self,
        builder: WriterBuilder,
        truncate_after: Option<u64>,
    ) -> Result<WriterOutcome, WriterFailure> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(&self.content)?;
        self.finishing();
        self.set("uploading a file");
        let upload = builder.upload(file.path());
        let limit = match self.plan.ending {
            Ending::DropInFinish(after) => Duration::from_millis(after),
            _ => Duration::MAX,
        };
        let truncate = async {
            let Some(after) = truncate_after else { return std::future::pending().await };
            sleep(Duration::from_millis(after)).await;
            let len = self.content.len() as u64;
            let cut = file.as_file().set_len(len / 2);
            self.trace.note(format_args!("writer {}: its file is truncated: {cut:?}", self.number));
            std::future::pending::<()>().await;
        };
        // Polls in a fixed order, so that the trace is the same in every run.
        let (mut upload, mut truncate) = (std::pin::pin!(upload), std::pin::pin!(truncate));
        let both = std::future::poll_fn(|cx| {
            let _ = truncate.as_mut().poll(cx);
            upload.as_mut().poll(cx)
        });
        match timeout(limit, both).await {
            Ok(result) => Ok(WriterOutcome::Committed(Some(Box::new(result?)))),
            Err(_) => Ok(WriterOutcome::Dropped),
        }
    }

    async fn write(
        &mut self,
        builder: WriterBuilder,
        producer: &ProducerPlan,
    ) -> Result<WriterOutcome, WriterFailure> {
        let mut writer = builder.await?;
        self.set("writing");
        if let Err(failed) = self.produce_all(&mut writer, producer).await {
            self.check_closed(&mut writer).await;
            return Err(failed);
        }
        self.end(writer).await
    }

    async fn produce_all(
        &mut self,
        writer: &mut Writer,
        producer: &ProducerPlan,
    ) -> Result<(), WriterFailure> {
        let given = self.produce(writer, producer, 0, self.stop()).await?;
        if self.plan.ending.holds().is_some() {
            let given = self.last_word(writer, producer, given).await?;
            self.set("holding");
            self.curtain.clone().fallen().await;
            if matches!(self.plan.ending, Ending::Return(_)) {
                self.produce(writer, producer, given, self.plan.size).await?;
            }
        }
        Ok(())
    }

    /// The offset at which the producer first stops.
    fn stop(&self) -> u64 {
        match self.plan.ending {
            Ending::Abort(at) | Ending::Drop(at) | Ending::SourceFails(at) => at,
            Ending::Abandon(at) | Ending::Return(at) => at,
            Ending::Finish | Ending::DropInFinish(_) => self.plan.size,
        }
    }

    async fn end(&mut self, writer: Writer) -> Result<WriterOutcome, WriterFailure> {
        let began = self.trace.now();
        let ended = self.bring_to_end(writer).await;
        // The last piece given to a sink may have waited for memory.
        let waited = (self.number, began, self.trace.now());
        self.store.state().witness.waits.push(waited);
        ended
    }

    async fn bring_to_end(&mut self, mut writer: Writer) -> Result<WriterOutcome, WriterFailure> {
        match self.plan.ending {
            Ending::Finish | Ending::Return(_) => {
                self.finishing();
                self.finish(writer).await
            }
            Ending::DropInFinish(after) => {
                self.finishing();
                let finish = self.finish(writer);
                timeout(Duration::from_millis(after), finish).await.unwrap_or(Ok(WriterOutcome::Dropped))
            }
            Ending::Abort(_) => {
                self.set("aborting");
                self.trace.note(format_args!("writer {} is aborted", self.number));
                Ok(WriterOutcome::Aborted(writer.abort().await.err().map(WriterFailure::from)))
            }
            Ending::Drop(_) | Ending::Abandon(_) => {
                self.trace.note(format_args!("writer {} is dropped", self.number));
                Ok(WriterOutcome::Dropped)
            }
            Ending::SourceFails(_) => {
                let mut source = tokio_failing();
                match writer.read_from(&mut source).await {
                    Ok(_) => Ok(WriterOutcome::Committed(None)), // no check allows that
                    Err(error) => {
                        self.check_closed(&mut writer).await;
                        Err(error.into())
                    }
                }
            }
        }
    }

    async fn finish(&self, mut writer: Writer) -> Result<WriterOutcome, WriterFailure> {
        match self.number % 3 {
            0 => {
                writer.shutdown().await?;
                Ok(WriterOutcome::Committed(None))
            }
            1 => {
                SinkExt::<Bytes>::close(&mut writer).await?;
                Ok(WriterOutcome::Committed(None))
            }
            _ => Ok(WriterOutcome::Committed(Some(Box::new(writer.finish().await?)))),
        }
    }

    /// Checks that a failed writer rejects more bytes with `Closed`.
    async fn check_closed(&self, writer: &mut Writer) {
        let again = writer.write_bytes(Bytes::from_static(b"more")).await;
        let closed = again.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed);
        if !closed {
            let message = format!("writer {} takes bytes after it has failed: {again:?}", self.number);
            self.store.state().witness.violation(message);
        }
    }
}

/// A source whose reads fail.
fn tokio_failing() -> impl tokio::io::AsyncRead + Unpin {
    struct Failing;
    impl tokio::io::AsyncRead for Failing {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Err(io::Error::other("simulated: the source failed")))
        }
    }
    Failing
}
