//! Appending sessions over gRPC: resumable writes. Their [`Session::id`] is `grpc:` and the store's id, so that a
//! session is resumed over the transport that began it: Google documents no way to convert ids, and its own clients
//! do not mix them (`googleapis/google-cloud-cpp` #5030).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proto::write_object_request::FirstMessage;
use tokio::sync::{mpsc, oneshot};

use super::call::Caller;
use super::convert::{object, size, spec};
use super::open_stream::{OpenStream, PendingQuestions, Question};
use super::upload::{UploadMessages, WriteEnd};
use super::{Grpc, proto};
use crate::append::GRPC_SESSION;
use crate::fault::About;
use tidegate_core::backend::{Appended, Attempt, Fault, FaultKind, Session, WriteOptions};
use tidegate_core::memory::payload::{Payload, Unending};
use tidegate_core::types::checksum::Checksum;
use tidegate_http::BodyFailure;

fn upload_id(session: &Session) -> String {
    session.id.strip_prefix(GRPC_SESSION).unwrap_or(&session.id).to_owned()
}

/// Open streams by session id; each can be asked for the offset of its session.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Arc<Mutex<HashMap<String, mpsc::Sender<Question>>>>);

/// A stream's entry in `Open`, removed when the stream ends.
struct StreamEntry<'a> {
    open: &'a Open,
    id: &'a str,
    questions: mpsc::Sender<Question>,
}

impl Open {
    fn add<'a>(&'a self, id: &'a str, questions: mpsc::Sender<Question>) -> StreamEntry<'a> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(id.to_owned(), questions.clone());
        StreamEntry { open: self, id, questions }
    }

    /// Asks the open stream of a session for the persisted bytes; `None` if there is no stream, or if it ends.
    async fn ask(&self, id: &str) -> Option<u64> {
        let questions = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        let (question, answer) = oneshot::channel();
        questions.send(question).await.ok()?;
        // Kept, this sender could hide the end of the stream.
        drop(questions);
        answer.await.ok()
    }
}

impl Drop for StreamEntry<'_> {
    fn drop(&mut self) {
        let mut open = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another stream of this session may have replaced the entry.
        if open.get(self.id).is_some_and(|there| there.same_channel(&self.questions)) {
            open.remove(self.id);
        }
    }
}

impl Grpc {
    pub(crate) async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        let request = proto::StartResumableWriteRequest {
            write_object_spec: Some(spec(&self.bucket, key, options)),
            ..proto::StartResumableWriteRequest::default()
        };
        let started: proto::StartResumableWriteResponse =
            self.caller.ask("StartResumableWrite", About::Bucket, &request, attempt).await?;
        if started.upload_id.is_empty() {
            let message = "the store's answer does not say what the session is called";
            return Err(Fault::new(FaultKind::Transient, message));
        }
        Ok(Session { key: key.to_owned(), id: format!("{GRPC_SESSION}{}", started.upload_id) })
    }

    pub(crate) async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        if payload.is_empty() && whole.is_none() {
            return self.stands(session, attempt).await;
        }
        let first = FirstMessage::UploadId(upload_id(session));
        let end = whole.map_or(WriteEnd::Open, |whole| WriteEnd::Publish(Some(*whole)));
        let upload = UploadMessages::new(first, offset, payload, end);
        let answer = write(&self.caller, About::Session, upload, attempt).await?;
        use proto::write_object_response::WriteStatus;
        match answer {
            WriteStatus::PersistedSize(persisted) => Ok(Appended::Open(size(persisted)?)),
            WriteStatus::Resource(resource) => published(session, resource),
        }
    }

    /// Sends all bytes from `offset` on in one call that stays open. The end of the call does not publish the object.
    pub(crate) async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        // Room for one: a question asked while another waits is answered soon after it.
        let (sender, questions) = mpsc::channel(1);
        let _entry = self.open.add(&session.id, sender);
        let asked = PendingQuestions::default();
        let stream = OpenStream::new(upload_id(session), offset, bytes, questions, asked.clone());
        let mut answers = self
            .caller
            .call::<proto::BidiWriteObjectResponse>(
                "BidiWriteObject",
                About::Session,
                stream,
                BodyFailure::default(),
                attempt,
            )
            .await?;
        use proto::bidi_write_object_response::WriteStatus;
        while let Some(answer) = answers.next().await? {
            match answer.write_status {
                Some(WriteStatus::PersistedSize(persisted)) => asked.answer(size(persisted)?),
                Some(WriteStatus::Resource(resource)) => return published(session, resource),
                None => {}
            }
        }
        self.stands(session, attempt).await
    }

    /// The persisted bytes of a session, asked on its open stream if there is one.
    pub(crate) async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        if !attempt.wants_new_connection()
            && let Some(persisted) = self.open.ask(&session.id).await
        {
            return Ok(Appended::Open(persisted));
        }
        self.stands(session, attempt).await
    }

    async fn stands(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        use proto::query_write_status_response::WriteStatus;
        let request = proto::QueryWriteStatusRequest {
            upload_id: upload_id(session),
            ..proto::QueryWriteStatusRequest::default()
        };
        let answer: proto::QueryWriteStatusResponse =
            self.caller.ask("QueryWriteStatus", About::Session, &request, attempt).await?;
        match answer.write_status {
            Some(WriteStatus::PersistedSize(persisted)) => Ok(Appended::Open(size(persisted)?)),
            Some(WriteStatus::Resource(resource)) => published(session, resource),
            None => Err(Fault::new(FaultKind::Transient, "the store does not say where the session stands")),
        }
    }

    /// Cancels a session. A finished session counts as missing.
    pub(crate) async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        let request = proto::CancelResumableWriteRequest { upload_id: upload_id(session) };
        let answer: Result<proto::CancelResumableWriteResponse, Fault> =
            self.caller.ask("CancelResumableWrite", About::Session, &request, attempt).await;
        match answer {
            Err(fault)
                if matches!(fault.kind, FaultKind::Invalid | FaultKind::Exists)
                    && matches!(self.stands(session, attempt).await, Ok(Appended::Published(_))) =>
            {
                Err(Fault { kind: FaultKind::NoSession, ..fault })
            }
            answer => answer.map(|_| ()),
        }
    }
}

/// Sends an upload and returns the store's answer.
pub(super) async fn write(
    caller: &Caller,
    about: About,
    (upload, failure): (UploadMessages, BodyFailure),
    attempt: Attempt,
) -> Result<proto::write_object_response::WriteStatus, Fault> {
    let mut answers =
        caller.call::<proto::WriteObjectResponse>("WriteObject", about, upload, failure, attempt).await?;
    let silent = || Fault::new(FaultKind::Transient, "the store does not say what it has of the bytes");
    answers.only().await?.write_status.ok_or_else(silent)
}

fn published(session: &Session, resource: proto::Object) -> Result<Appended, Fault> {
    let mut object = object(resource)?;
    object.key.clone_from(&session.key);
    Ok(Appended::Published(Box::new(object)))
}
