//! How many bytes a session that is appended to has, as the store says, and the journal's record of that.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::sleep;
use tracing::debug;

use super::appending::{Again, AppendSender, FailedAppends};
use crate::backend::{self, Fault, FaultKind};
use crate::journal::JournalError;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;
use crate::types::telemetry;
use crate::upload::sink::append::FINISHED;

impl AppendSender {
    /// Asks the store how many bytes the session has. Returns the object where it is published.
    pub(super) async fn ask(&mut self) -> Result<Option<Object>> {
        let (upload, source) = (self.link.upload().clone(), self.link.source.clone());
        let session = upload.session().await?;
        let mut low = 0;
        let stands = loop {
            let is_last = source.is_finished();
            let (upload, session) = (&upload, &session);
            let question =
                |attempt| async move { upload.backend.need_append()?.position(session, attempt).await };
            match upload.requests.send(Operation::Part, None, None, question).await {
                // The server that answered may not be up to date: it is asked as often as a failed request is
                // retried.
                Ok(backend::Appended::Open(at)) if at < self.stored => {
                    low += 1;
                    let fault =
                        Fault::new(FaultKind::Transient, "the store has less of the session than before");
                    let Some(pause) = upload.requests.retry.pause(&fault, low) else {
                        break backend::Appended::Open(at);
                    };
                    let _waiting = upload.requests.progress.waiting(Waiting::Backoff);
                    sleep(pause).await;
                }
                Ok(stands) => break stands,
                Err(failure) => {
                    let error = upload.failed(failure, self.operation());
                    if !source.goes_on(&error, is_last).await {
                        return Err(error);
                    }
                }
            }
        };
        match stands {
            backend::Appended::Open(at) => {
                self.link.is_unpublished();
                self.stands_at(at).await?;
                self.is_sure = true;
                Ok(None)
            }
            backend::Appended::Published(object) => self.published(*object).await.map(Some),
        }
    }

    /// Takes in how many bytes the store says that the session has.
    pub(super) async fn stands_at(&mut self, at: u64) -> Result<()> {
        // At most what was read to be sent, not what the producer has written since: more may be somebody
        // else's bytes.
        let most = self.found.max(self.read.load(Relaxed));
        if !(self.stored..=most).contains(&at) {
            let message = format!(
                "the store has {at} bytes of the session, where it had {} and was sent {most}",
                self.stored
            );
            return Err(self.link.upload().error(ErrorKind::SessionLost, self.operation(), message));
        }
        // What this process has not read was sent by an earlier one.
        telemetry::written(at.min(self.read.load(Relaxed)).saturating_sub(self.stored));
        let more = at - mem::replace(&mut self.stored, at);
        if more > 0 {
            let requests = &self.link.upload().requests;
            requests.progress.acknowledged(more);
            requests.endpoint.allowance.succeeded(self.row.failed > 0);
            self.row = FailedAppends::default();
            self.link.sessions.stored(more);
            self.link.source.disk.moves();
        }
        let keep = if self.link.feed.borrow().full { 1 } else { self.link.keep };
        self.write_down(keep).await
    }

    /// Records the acknowledged bytes in the journal, unless that is done, then gives back their space. An
    /// earlier call may not have done it, or not to its end: the disk may have been full, and a question
    /// beside a stream is dropped with the stream.
    pub(super) async fn write_down(&mut self, keep: u64) -> Result<()> {
        if !self.link.takes_records() || self.stored == 0 {
            return Ok(());
        }
        let written = self.try_to_write_down(keep).await;
        self.link.written_down(written)
    }

    async fn try_to_write_down(&mut self, keep: u64) -> Result<(), JournalError> {
        if self.recorded < self.stored {
            self.link.journal().committed(self.stored).await?;
            self.recorded = self.stored;
        }
        self.link.give_back(keep).await
    }

    /// Takes in the answer of a request that was sent bytes from `began` on.
    pub(super) async fn answered(
        &mut self,
        began: u64,
        answer: Result<backend::Appended, Fault>,
    ) -> Result<()> {
        let upload = self.link.upload();
        match answer {
            Ok(backend::Appended::Open(at)) if at > began && at >= self.stored => {
                self.stands_at(at).await?;
                self.is_sure = true;
                Ok(())
            }
            // The store took nothing, or has less than it had acknowledged: the session is asked, and that
            // answer counts.
            Ok(backend::Appended::Open(at)) => {
                let message = if at > began {
                    "the store has less of the session than before"
                } else {
                    "the store took none of the bytes that it was sent"
                };
                self.failed(Fault::new(FaultKind::Transient, message).with_answered(true)).await
            }
            // This request has no end, so it has not published the object: the session is asked.
            Ok(backend::Appended::Published(_)) => Ok(()),
            // Late bytes of an earlier stream may have arrived, so that the session ends elsewhere: it is
            // asked.
            Err(fault) if fault.kind == FaultKind::Invalid && self.refused_at != Some(began) => {
                debug!(object = upload.requests.object, began, %fault, "asking where the session stands");
                self.refused_at = Some(began);
                self.again = Some(Again { is_broken: false });
                Ok(())
            }
            Err(fault) => self.failed(fault).await,
        }
    }

    /// Takes in that the session is finished: by an earlier request of ours, if the object is whole.
    pub(super) async fn published(&mut self, object: Object) -> Result<Object> {
        let upload = self.link.upload();
        let Some(whole) = self.link.feed.borrow().finish else {
            return Err(upload.error(ErrorKind::SessionLost, Operation::Part, FINISHED));
        };
        upload.session_ended().await;
        let verified = upload.verify(object, whole.covers(), Some(whole), Operation::Complete);
        self.is_wrong = verified.is_err();
        let object = verified?;
        upload.requests.progress.acknowledged(whole.covers().saturating_sub(self.stored));
        Ok(object)
    }
}
