//! Continues an upload from a point that another process, or this one, has persisted.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::driver::Driver;
use super::plan::{Cut, Plan};
use super::points::PointRecord;
use super::publish::RemainingParts;
use super::resumable::{PointTail, Resumable};
use super::session::{Persistence, Upload};
use super::strategy::{Policy, Strategy};
use super::writer::Writer;
use crate::backend::{Appended, Body, FaultKind, Receipt, Session};
use crate::engine::Context;
use crate::engine::pending::list_records;
use crate::journal::Part;
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// Continues the upload; see [`Store::resume`](crate::Store::resume).
pub(crate) async fn resume(context: &Context, point: &Resumable) -> Result<Writer> {
    let root = context.root();
    let mut upload = point.write.upload(context, &root, point.checksum.algorithm(), Operation::Write)?;
    let engine = context.engine().clone();
    // The bytes of a part need no memory of the budget where they can go to the spool.
    let has_spool = engine.relief.spool().is_some();
    let memory = Some(engine.relief.budget().total()).filter(|_| !has_spool);
    let cut = point
        .cut
        .within(memory)
        .map_err(|refused| upload.error(refused.kind(), Operation::Write, refused.to_string()))?;
    upload.persists = Persistence::MayBePublished;
    upload.points.resume(PointRecord { created: point.created, until: point.until });
    let upload = Arc::new(upload.into_session_of(cut.into()));
    let stored = PointInStore { point, upload: &upload }.check().await?;
    let tail = PointInStore { point, upload: &upload }.tail().await?;
    let session = point.session.as_ref();
    let session = session.map(|session| Session { key: upload.key.clone(), id: session.id.clone() });
    let id = session.as_ref().map_or("", |session| &session.id);
    upload.keep_session(session.as_ref(), id, point.lifetime()).await?;
    if let Some(session) = &point.session {
        upload.go_on_with(session.id.clone()).await;
    }
    let sent = point.sent();
    let progress = &upload.requests.progress;
    progress.accepted(sent);
    progress.acknowledged(sent);
    progress.parts_stored(stored.len() as u64);
    let in_flight = if matches!(cut, Cut::Parts(_)) { engine.parts_in_flight.max(1) } else { 1 };
    let strategy = match cut {
        Cut::Whole { .. } => Strategy::Put,
        Cut::Parts(_) => Strategy::Parallel,
        Cut::Chunks(_) => Strategy::Chunked,
    };
    let policy = Policy { strategy, cut, in_flight, spool_first: false, least: None };
    let plan = Plan::new(upload.backend.capabilities(), cut);
    let plan = if point.session.is_some() { plan.resumed(stored) } else { plan };
    if point.is_appended() {
        upload.order().begin_behind(plan.checksum());
    }
    let line = engine.spooling.as_ref().map(|spooling| Arc::new(spooling.line()));
    let driver = Driver::buffered(upload, plan, policy, engine.relief.clone(), line, engine.idle_limit);
    let mut writer = Writer::direct(strategy, driver, engine);
    writer.key = Some(context.relative_key(point.key()));
    writer.write_bytes(tail).await?;
    Ok(writer)
}

/// Gives the upload of a point up; see [`Store::abandon`](crate::Store::abandon).
pub(crate) async fn abandon_resumable(context: &Context, point: &Resumable) -> Result<()> {
    let upload =
        point.write.upload(context, &context.root(), point.checksum.algorithm(), Operation::Abort)?;
    let upload = Arc::new(upload.into_session_of(point.cut.into()));
    let session = point.session.as_ref().map_or("", |session| &session.id);
    if !session.is_empty() && upload.backend.capabilities().aborts {
        upload.adopt(session.to_owned());
        upload.abort_session().await?;
    }
    upload.remove_points(session).await?;
    // Without tokens nothing tells whose the object is.
    let there = upload.head_now().await.map_err(|failure| upload.failed(failure, Operation::Head))?;
    match there.is_some_and(|there| there.token.as_deref() == Some(point.token())) {
        false => Ok(()),
        true => {
            let message = "the object was published before, and is there";
            Err(upload.error(ErrorKind::Closed, Operation::Abort, message))
        }
    }
}

/// Removes the tail of a point; see [`Store::forget`](crate::Store::forget).
pub(crate) async fn forget_point(context: &Context, point: &Resumable) -> Result<()> {
    let upload =
        point.write.upload(context, &context.root(), point.checksum.algorithm(), Operation::Delete)?;
    match point.tail_key() {
        Some(key) => upload.remove_own(&key).await,
        None => Ok(()),
    }
}

/// A point, and the upload that is to continue from there.
struct PointInStore<'a> {
    point: &'a Resumable,
    upload: &'a Arc<Upload>,
}

impl PointInStore<'_> {
    /// Makes sure that the store still has what comes before the point; returns the receipts of its parts.
    async fn check(&self) -> Result<Vec<Receipt>> {
        let (point, upload) = (self.point, self.upload);
        upload.points.share();
        let receipts: Vec<Receipt> = point.parts.iter().map(Part::receipt).collect();
        let session = point.session.as_ref();
        let session = session.map(|session| Session { key: upload.key.clone(), id: session.id.clone() });
        // Nothing but the record tells whether the upload was given up, where there is no session, or none that can be
        // aborted.
        if session.is_none() || !upload.backend.capabilities().aborts {
            self.check_record().await?;
        }
        match session {
            None => Ok(receipts),
            Some(session) if point.is_appended() => {
                self.check_appended(&session).await?;
                Ok(receipts)
            }
            Some(session) => self.check_parts(&session, receipts).await,
        }
    }

    async fn check_parts(&self, session: &Session, parts: Vec<Receipt>) -> Result<Vec<Receipt>> {
        let upload = self.upload;
        let failed = |failure| self.lost(upload.failed(failure, Operation::Open));
        match upload.kept(session, &parts).await.map_err(&failed)? {
            RemainingParts::Copies(kept) => return Ok(kept),
            RemainingParts::Lacks(number) => {
                let message = format!("the session does not have part {number} as the point says");
                let error = upload.error(ErrorKind::SessionLost, Operation::Open, message);
                return Err(self.lost(error));
            }
            RemainingParts::Unknown => {}
        }
        let held = |attempt| async move { upload.backend.need_admin()?.held(session, attempt).await };
        match upload.requests.send(Operation::List, None, None, held).await {
            Err(failure) if failure.fault.kind == FaultKind::NoSession => Err(failed(failure)),
            // A store that cannot tell shows it with the next part.
            _ => Ok(parts),
        }
    }

    async fn check_appended(&self, session: &Session) -> Result<()> {
        let upload = self.upload;
        let ask = |attempt| async move { upload.backend.need_append()?.position(session, attempt).await };
        let position = upload.requests.send(Operation::Open, None, None, ask).await;
        let position = position.map_err(|failure| self.lost(upload.failed(failure, Operation::Open)))?;
        match position {
            Appended::Open(at) if at >= self.point.sent() => {
                upload.points.has_appended(at);
                Ok(())
            }
            Appended::Open(at) => {
                let message =
                    format!("the store has {at} bytes of the session, where it had {}", self.point.sent());
                Err(self.lost(upload.error(ErrorKind::SessionLost, Operation::Open, message)))
            }
            Appended::Published(_) => {
                let message = "the session was finished, and the object is published";
                Err(upload.error(ErrorKind::SessionLost, Operation::Open, message))
            }
        }
    }

    async fn check_record(&self) -> Result<()> {
        let upload = self.upload;
        let session = self.point.session.as_ref().map_or("", |session| &session.id);
        let requests = Arc::new(upload.requests.again());
        let records = list_records(&requests, &*upload.backend).await;
        let records = records.map_err(|failure| upload.failed(failure, Operation::List))?;
        if records.iter().any(|(name, _)| name.is_of(session, self.point.token())) {
            return Ok(());
        }
        let error = upload.error(ErrorKind::SessionLost, Operation::Open, "its record is gone");
        Err(self.lost(error))
    }

    /// The bytes before the point that the session does not have.
    async fn tail(&self) -> Result<Bytes> {
        let (point, upload) = (self.point, self.upload);
        let bytes = match &point.tail {
            PointTail::Inline(_) => point.tail.bytes().unwrap_or_default(),
            PointTail::Object { size, .. } => {
                let read = upload.read_own(&point.tail_key().unwrap_or_default(), *size).await;
                read.map_err(|error| self.lost(error))?
            }
        };
        let sent = point.parts.iter().map(|part| part.checksum).reduce(|sum, next| sum.then(&next));
        let tail = Checksum::of(point.checksum.algorithm(), &bytes);
        if sent.map_or(tail, |sent| sent.then(&tail)) != point.checksum {
            let message = "the last bytes before the point are not those that were persisted";
            return Err(upload.error(ErrorKind::Integrity, Operation::Get, message));
        }
        Ok(bytes)
    }

    /// The error of a point that the store does not have any more.
    fn lost(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::SessionLost {
            return error;
        }
        let here = self.upload.backend.endpoint();
        let elsewhere = match self.point.endpoint() == here {
            true => String::new(),
            false => format!(" (it was persisted at {}, and this is {here})", self.point.endpoint()),
        };
        error.and(&format!(
            "nothing continues from this point any more: the upload was finished or given up, its lifetime is over, or the \
             store has ended it{elsewhere}"
        ))
    }
}

impl Upload {
    /// Reads an object of this upload's own, which has `size` bytes: a record or a tail. [`ErrorKind::SessionLost`] if it
    /// is gone, [`ErrorKind::Integrity`] if it has another size.
    pub(super) async fn read_own(&self, key: &str, size: u64) -> Result<Bytes> {
        let get = |attempt| async move {
            let Body { mut stream, .. } = self.backend.get(key, None, None, attempt).await?;
            let mut bytes = Vec::new();
            while let Some(piece) = stream.next().await {
                bytes.extend_from_slice(&piece?);
                if bytes.len() as u64 > size {
                    break;
                }
            }
            Ok(Bytes::from(bytes))
        };
        let read = self.requests.send(Operation::Get, None, None, get).await;
        let bytes = read.map_err(|mut failure| {
            if failure.fault.kind == FaultKind::NotFound {
                failure.fault.kind = FaultKind::NoSession;
                failure.fault.message = format!("`{key}` is gone");
            }
            self.failed(failure, Operation::Get)
        })?;
        if bytes.len() as u64 == size {
            return Ok(bytes);
        }
        let message = format!("`{key}` does not have the last bytes of the object");
        Err(self.error(ErrorKind::Integrity, Operation::Get, message))
    }
}
