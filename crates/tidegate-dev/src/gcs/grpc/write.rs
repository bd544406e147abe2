//! Writes bytes over gRPC: `WriteObject` and `BidiWriteObject`, which differ in how they answer. Each writes a
//! whole object in one stream, or resumes a session, including those of the JSON API.

use bytes::Buf;
use futures::channel::mpsc;
use futures::stream::FuturesOrdered;
use futures::{SinkExt, StreamExt};
use std::pin::pin;
use std::sync::Arc;
use tonic::{Status, Streaming};

use super::convert::{add_checksums, content, number, object, signed, target};
use super::step::{First, Step};
use super::{Answers, CallContext, proto};
use crate::catalog::session::{Expected, GRAIN, SessionFault, SessionState};
use crate::catalog::{CatalogObject, Protocol};
use crate::gcs::intake::{SessionAppender, Single, WriteTarget};
use crate::gcs::refusal::GcsRefusal;
use crate::s3::ServerStore;

/// The destination of the bytes.
#[derive(Debug)]
enum WriteDestination<'a> {
    Single(Box<(Single, WriteTarget)>),
    Session(Box<SessionAppender<'a>>),
}

/// A write in progress.
#[derive(Debug)]
struct ObjectWrite<'a> {
    store: &'a ServerStore,
    bucket: String,
    way: WriteDestination<'a>,
    expected: Expected,
    /// The stream's current offset; bytes sent again from before it are skipped.
    position: u64,
}

/// The state at the start of a stream.
enum WriteStart<'a> {
    Writing(Box<ObjectWrite<'a>>),
    /// The session is finished: its object is the answer to every request.
    Finished(String, Box<CatalogObject>),
}

/// A first message that passed the gate.
#[derive(Debug)]
enum AdmittedWrite {
    Session(String),
    Object(Box<(String, WriteTarget, Expected)>),
}

async fn admit(
    context: &CallContext,
    operation: &str,
    first: Option<First>,
) -> Result<AdmittedWrite, Status> {
    match first {
        Some(First::Session(id)) => {
            context.admit_to_session(operation, &id).await?;
            Ok(AdmittedWrite::Session(id))
        }
        Some(First::Object(spec)) => {
            let (bucket, target, expected) = target(*spec)?;
            context.admit(operation, &bucket, &target.key).await?;
            context.store().find_bucket(&bucket, Protocol::Google).map_err(GcsRefusal::from)?;
            Ok(AdmittedWrite::Object(Box::new((bucket, target, expected))))
        }
        Some(First::Append) => Err(Status::unimplemented("Appendable objects are not implemented here.")),
        None => Err(Status::invalid_argument("The first message names no upload and no object.")),
    }
}

impl<'a> ObjectWrite<'a> {
    fn open(
        store: &'a ServerStore,
        admitted: &'a AdmittedWrite,
        offset: i64,
    ) -> Result<WriteStart<'a>, Status> {
        let position = number(offset, "The offset")?;
        let id = match admitted {
            AdmittedWrite::Object(..) if position != 0 => {
                return Err(Status::out_of_range("An object begins at its offset 0."));
            }
            AdmittedWrite::Object(object) => {
                let (bucket, target, expected) = object.as_ref().clone();
                let way = WriteDestination::Single(Box::new((Single::new(store, &expected), target)));
                return Ok(WriteStart::Writing(Box::new(Self { store, bucket, way, expected, position })));
            }
            AdmittedWrite::Session(id) => id,
        };
        let mut catalog = store.lock();
        let session = catalog.session(id).map_err(GcsRefusal::from)?;
        match &session.state {
            SessionState::Finished(object) => {
                return Ok(WriteStart::Finished(session.bucket.clone(), object.clone()));
            }
            SessionState::Cancelled => return Err(GcsRefusal::from(SessionFault::Cancelled).into()),
            SessionState::Open => {}
        }
        let persisted = session.persisted();
        if position > persisted {
            return Err(GcsRefusal::gap(position, persisted).into());
        }
        let session = catalog.claim_session(id).map_err(GcsRefusal::from)?;
        let (bucket, expected) = (session.bucket.clone(), session.expected);
        let appender = Box::new(SessionAppender::new(store, id, session, persisted - position));
        let way = WriteDestination::Session(appender);
        Ok(WriteStart::Writing(Box::new(Self { store, bucket, way, expected, position })))
    }

    async fn take(&mut self, step: &mut Step) -> Result<(), Status> {
        add_checksums(&mut self.expected, step.checksums.as_ref())?;
        let offset = number(step.offset, "The offset")?;
        if offset > self.position {
            let message =
                format!("The offset {offset} is behind the end of what was sent, {}.", self.position);
            return Err(Status::out_of_range(message));
        }
        let Some(data) = step.data.take() else {
            return Ok(());
        };
        let mut bytes = content(data)?;
        let is_whole = (bytes.len() as u64).is_multiple_of(GRAIN);
        if step.is_strict && !step.is_last && !is_whole && matches!(self.way, WriteDestination::Session(_)) {
            return Err(Status::invalid_argument(format!(
                "A message has {} bytes, which is not a multiple of {GRAIN}, and is not the last.",
                bytes.len()
            )));
        }
        let known = (self.position - offset).min(bytes.len() as u64);
        // At most the bytes' own length.
        bytes.advance(known as usize);
        self.position += bytes.len() as u64;
        match &mut self.way {
            WriteDestination::Single(single) => Ok(single.0.push(bytes).await?),
            WriteDestination::Session(appender) => Ok(appender.push(bytes).await?),
        }
    }

    async fn persist(&mut self) -> Result<(), Status> {
        match &mut self.way {
            WriteDestination::Single(..) => Ok(()),
            WriteDestination::Session(appender) => Ok(appender.persist().await?),
        }
    }

    /// The persisted bytes of a session; of a whole object in one stream, the bytes received.
    fn persisted(&self) -> i64 {
        signed(match &self.way {
            WriteDestination::Single(_) => self.position,
            WriteDestination::Session(appender) => appender.persisted(),
        })
    }

    async fn publish(self) -> Result<proto::Object, Status> {
        if let Some(size) = self.expected.size.filter(|size| *size != self.position) {
            let message = format!("The object has {} bytes, and was to have {size}.", self.position);
            return Err(Status::out_of_range(message));
        }
        let published: Arc<CatalogObject> = match self.way {
            WriteDestination::Single(single) => {
                let (single, target) = *single;
                single.publish(self.store, &self.bucket, target, &self.expected).await?
            }
            WriteDestination::Session(appender) if self.position < appender.persisted() => {
                return Err(Status::out_of_range(
                    "The object is to be shorter than what is persisted of it.",
                ));
            }
            WriteDestination::Session(appender) => appender.publish(&self.expected, []).await?,
        };
        Ok(object(&self.bucket, &published))
    }

    /// Ends a stream that did not finish the object.
    async fn leave(mut self) -> Result<i64, Status> {
        if matches!(self.way, WriteDestination::Single(..)) {
            return Err(Status::invalid_argument("The stream ended without finish_write."));
        }
        self.persist().await?;
        self.store.commit_delay().await;
        Ok(self.persisted())
    }
}

/// A status sent to the client.
enum SentStatus {
    Persisted(i64),
    Resource(Box<proto::Object>),
}

/// Where to send reports of persisted bytes, if the call has any.
type Tell = Option<mpsc::Sender<Result<proto::BidiWriteObjectResponse, Status>>>;

async fn tell_one(tell: &mut Tell, persisted: i64) {
    if let Some(tell) = tell {
        // A lost client shows as the end of its stream.
        let _ = tell.send(Ok(told(SentStatus::Persisted(persisted)))).await;
    }
}

async fn tell_all(tell: &mut Tell, answers: &mut FuturesOrdered<impl Future<Output = i64>>) {
    while let Some(persisted) = answers.next().await {
        tell_one(tell, persisted).await;
    }
}

/// Runs a stream to its end, and sends reports through `tell` on the way.
async fn run<M: Into<Step>>(
    context: &CallContext,
    admitted: &AdmittedWrite,
    mut step: Step,
    mut stream: Streaming<M>,
    mut tell: Tell,
) -> Result<SentStatus, Status> {
    let mut writing = match ObjectWrite::open(context.store(), admitted, step.offset)? {
        WriteStart::Writing(writing) => writing,
        WriteStart::Finished(bucket, finished) => {
            return Ok(SentStatus::Resource(Box::new(object(&bucket, &finished))));
        }
    };
    // Reports for bytes that are being committed. The stream continues meanwhile: Google's Java client has four
    // flushes of 4 MiB in flight before it waits for one (`FlushPolicy`).
    let mut answers = FuturesOrdered::new();
    loop {
        let taken = writing.take(&mut step).await;
        let next = match taken {
            Err(status) => Err(status),
            Ok(()) if step.is_last => {
                tell_all(&mut tell, &mut answers).await;
                return Ok(SentStatus::Resource(Box::new(writing.publish().await?)));
            }
            Ok(()) => {
                if step.flush {
                    writing.persist().await?;
                }
                if step.state_lookup {
                    let (flush, persisted) = (step.flush, writing.persisted());
                    answers.push_back(async move {
                        if flush {
                            context.store().commit_delay().await;
                        }
                        persisted
                    });
                }
                let mut next = pin!(context.next(&mut stream));
                loop {
                    tokio::select! {
                        Some(persisted) = answers.next() => tell_one(&mut tell, persisted).await,
                        next = &mut next => break next,
                    }
                }
            }
        };
        match next {
            Ok(Some(message)) => step = message.into(),
            Ok(None) => {
                tell_all(&mut tell, &mut answers).await;
                return Ok(SentStatus::Persisted(writing.leave().await?));
            }
            Err(status) => {
                // The bytes before the error are still valid.
                writing.persist().await?;
                return Err(status);
            }
        }
    }
}

async fn first<M: Into<Step>>(context: &CallContext, stream: &mut Streaming<M>) -> Result<Step, Status> {
    let message = context.next(stream).await?;
    message.map(Into::into).ok_or_else(|| Status::invalid_argument("The stream has no message."))
}

fn told(told: SentStatus) -> proto::BidiWriteObjectResponse {
    use proto::bidi_write_object_response::WriteStatus;
    let status = match told {
        SentStatus::Persisted(size) => WriteStatus::PersistedSize(size),
        SentStatus::Resource(resource) => WriteStatus::Resource(*resource),
    };
    proto::BidiWriteObjectResponse { write_handle: None, write_status: Some(status) }
}

pub(super) async fn write_object(
    context: CallContext,
    mut stream: Streaming<proto::WriteObjectRequest>,
) -> Result<proto::WriteObjectResponse, Status> {
    use proto::write_object_response::WriteStatus;
    let mut step = first(&context, &mut stream).await?;
    let admitted = admit(&context, "storage.v2.WriteObject", step.first.take()).await?;
    // In a task, so that the write ends in order even after its connection has ended.
    let tasks = context.tasks.clone();
    let running = tasks.spawn(async move { run(&context, &admitted, step, stream, None).await });
    let status = match running.await.map_err(|error| Status::internal(error.to_string()))?? {
        SentStatus::Persisted(size) => WriteStatus::PersistedSize(size),
        SentStatus::Resource(resource) => WriteStatus::Resource(*resource),
    };
    Ok(proto::WriteObjectResponse { write_status: Some(status) })
}

pub(super) async fn bidi_write_object(
    context: CallContext,
    mut stream: Streaming<proto::BidiWriteObjectRequest>,
) -> Result<Answers<proto::BidiWriteObjectResponse>, Status> {
    let mut step = first(&context, &mut stream).await?;
    let admitted = admit(&context, "storage.v2.BidiWriteObject", step.first.take()).await?;
    let (mut sender, receiver) = mpsc::channel(1);
    let tasks = context.tasks.clone();
    tasks.spawn(async move {
        let end = run(&context, &admitted, step, stream, Some(sender.clone())).await;
        // The client may be gone; then the answer does not matter.
        let _ = sender.send(end.map(told)).await;
    });
    Ok(receiver.boxed())
}
