//! The checks of uploads in parts, and of those that bytes are appended to.

use futures::TryStreamExt;

use super::{Probe, body};
use crate::api::examine::FindingState::{self, Broken, Missing, Untested, Works};
use crate::backend::{
    Appended, Fault, FaultKind, Feature, OpenSession, PartOrigin, Receipt, Session, WriteOptions,
};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

impl Probe {
    /// Opens a session at a key, and stores all its bytes as one part.
    pub(super) async fn session(&self, name: &str) -> Result<(Session, Receipt), Fault> {
        let (parts, key, options) = (self.backend().need_parts()?, &self.key(name), &WriteOptions::default());
        let session = self.ask(|attempt| parts.open(key, options, PartOrigin::Sent, attempt)).await?;
        let checksum = Checksum::of(self.backend().capabilities().checksum, &body());
        let payload = || Payload::from_memory(vec![body()], checksum);
        let part = |attempt| parts.part(&session, 1, 0, payload().into(), attempt);
        let receipt = self.ask(part).await?;
        Ok((session, receipt))
    }

    pub(super) async fn complete(
        &self,
        session: &Session,
        part: &Receipt,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let (parts, all) = (self.backend().need_parts()?, std::slice::from_ref(part));
        self.ask(|attempt| parts.complete(session, all, part.checksum.as_ref(), options, attempt)).await
    }

    pub(super) async fn parts(&mut self) -> Result<FindingState, Fault> {
        let instead = match self.backend().appending() {
            Some(_) => "large objects go through resumable uploads, one chunk after the other",
            None => "every object goes in one request, and a failed one is sent again from its beginning",
        };
        let (session, part) = match self.session("parts").await {
            Err(fault) if fault.kind == FaultKind::Unsupported => return Ok(Missing(instead.to_owned())),
            opened => opened?,
        };
        self.complete(&session, &part, &WriteOptions::default()).await?;
        if self.read("parts").await? != body() {
            let message = "an object that was uploaded in parts has other bytes: do not use it";
            return Ok(Broken(message.to_owned()));
        }
        let checksum = Checksum::of(self.backend().capabilities().checksum, &body());
        let is_kept = |object: &Object| object.matches(&checksum).is_some();
        // Where no object has one, the check of checksums has said so.
        if self.first.as_ref().is_some_and(is_kept) && !is_kept(&self.head("parts").await?) {
            let message = "the store keeps no checksum of an object that was uploaded in parts: only its size is compared \
                           after the upload. Use `cp --verify` to read objects back";
            return Ok(Broken(message.to_owned()));
        }
        Ok(Works(String::new()))
    }

    pub(super) async fn parts_create_only(&mut self) -> Result<FindingState, Fault> {
        let broken = "--create-only replaces objects that are uploaded in parts";
        if !self.backend().capabilities().create_only_parts && self.backend().appending().is_some() {
            let appended = self.appended("first", &self.create_only_options()).await;
            return Ok(match self.refused_itself(appended, Feature::CreateOnlyParts, broken)? {
                Works(_) => {
                    Missing("uploads with the condition are resumable uploads, which have it".to_owned())
                }
                other => other,
            });
        }
        let (session, part) = match self.session("first").await {
            Err(fault) if fault.kind == FaultKind::Unsupported => {
                return Ok(Untested("the store has no uploads in parts".to_owned()));
            }
            opened => opened?,
        };
        let completed = self.complete(&session, &part, &self.create_only_options()).await;
        if completed.is_err() {
            self.end(&session).await?;
        }
        self.refused_itself(completed, Feature::CreateOnlyParts, broken)
    }

    /// Aborts a session, unless it has ended or the store has no aborts.
    pub(super) async fn end(&self, session: &Session) -> Result<(), Fault> {
        match self.ask(|attempt| self.backend().abort(session, attempt)).await {
            Err(fault) if matches!(fault.kind, FaultKind::NoSession | FaultKind::Unsupported) => Ok(()),
            aborted => aborted,
        }
    }

    pub(super) async fn sessions(&mut self) -> Result<FindingState, Fault> {
        let (session, _) = match self.session("unfinished").await {
            Err(fault) if fault.kind == FaultKind::Unsupported => {
                return Ok(Untested("the store has no uploads in parts".to_owned()));
            }
            opened => opened?,
        };
        let listed = self.open_sessions().await;
        if let Err(left) = self.end(&session).await {
            // The next check is about this.
            tracing::debug!(key = session.key, fault = %left, "a session of a check was not ended");
        }
        let instead =
            "`sessions` and `sweep` find only the unfinished uploads that this machine's records name";
        match listed {
            Ok(listed) if listed.iter().any(|open| open.session.key == session.key) => {
                Ok(Works(String::new()))
            }
            Ok(_) => Ok(Missing(instead.to_owned())),
            Err(fault) if is_refused_listing(&fault) => Ok(Missing(format!("{instead} ({fault})"))),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn open_sessions(&self) -> Result<Vec<OpenSession>, Fault> {
        let admin = self.backend().need_admin()?;
        let open: Vec<OpenSession> =
            self.ask(|attempt| admin.sessions(&self.place).items(attempt).try_collect()).await?;
        self.only_ours(open.iter().map(|open| open.session.key.as_str()))?;
        Ok(open)
    }

    pub(super) async fn abort(&mut self) -> Result<FindingState, Fault> {
        let (session, part) = match self.session("aborted").await {
            Err(fault) if fault.kind == FaultKind::Unsupported => {
                return Ok(Untested("the store has no uploads in parts".to_owned()));
            }
            opened => opened?,
        };
        if !self.backend().capabilities().aborts {
            return Ok(Missing("the store removes unfinished uploads itself, after a week".to_owned()));
        }
        match self.ask(|attempt| self.backend().abort(&session, attempt)).await {
            Err(fault) if fault.kind != FaultKind::NoSession => {
                let message = format!(
                    "the store does not end an upload ({fault}): what a failed upload has sent stays there, until the \
                     store removes it"
                );
                return Ok(Broken(message));
            }
            _ => {}
        }
        match self.complete(&session, &part, &WriteOptions::default()).await {
            Ok(_) => Ok(Broken("an aborted upload can still publish its object".to_owned())),
            Err(_) => Ok(Works(String::new())),
        }
    }

    pub(super) async fn append(&mut self) -> Result<FindingState, Fault> {
        if self.backend().appending().is_none() {
            return Ok(Missing("uploads go in parts, which are sent again one by one".to_owned()));
        }
        self.appended("appended", &WriteOptions::default()).await?;
        let has_position = !self.store.context().facts().lacks(Feature::SessionPosition);
        Ok(match self.read("appended").await? == body() {
            true if has_position => Works(String::new()),
            true => Works(format!("the store {}", Feature::SessionPosition.notice())),
            false => {
                Broken("an object that was uploaded by appending has other bytes: do not use it".to_owned())
            }
        })
    }

    /// Uploads an object by appending all its bytes to a session.
    pub(super) async fn appended(&self, name: &str, options: &WriteOptions) -> Result<Object, Fault> {
        let (append, key) = (self.backend().need_append()?, &self.key(name));
        let session = self.ask(|attempt| append.open(key, options, attempt)).await?;
        let checksum = Checksum::of(self.backend().capabilities().checksum, &body());
        let payload = || Payload::from_memory(vec![body()], checksum);
        let sent = self.ask(|attempt| append.append(&session, 0, payload(), Some(&checksum), attempt)).await;
        match sent {
            Ok(Appended::Published(object)) => Ok(*object),
            Ok(_) => {
                let message = "the store has all bytes of an upload, and does not publish its object";
                Err(Fault::new(FaultKind::NotAStore, message))
            }
            Err(fault) => {
                if let Err(left) = self.ask(|attempt| append.abort(&session, attempt)).await {
                    tracing::debug!(key, fault = %left, "a session of a check was not ended");
                }
                Err(fault)
            }
        }
    }
}

/// Whether the store refuses to list unfinished uploads: it has no such listing, or these credentials may not see it.
pub(super) fn is_refused_listing(fault: &Fault) -> bool {
    use FaultKind::{Denied, Invalid, NotAStore, NotFound, Unsupported};
    matches!(fault.kind, Denied | Invalid | NotAStore | NotFound | Unsupported)
}
