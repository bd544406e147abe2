//! Resumable writes, except for sending bytes: starts sessions, reports their status, cancels them.

use proto::query_write_status_response::WriteStatus;
use tonic::Status;

use super::convert::{add_checksums, object, signed, target};
use super::{CallContext, proto};
use crate::catalog::session::{SessionFault, SessionState};
use crate::gcs::refusal::GcsRefusal;

pub(super) async fn start(
    context: CallContext,
    request: proto::StartResumableWriteRequest,
) -> Result<proto::StartResumableWriteResponse, Status> {
    let spec =
        request.write_object_spec.ok_or_else(|| Status::invalid_argument("The request has no spec."))?;
    let (bucket, target, mut expected) = target(spec)?;
    add_checksums(&mut expected, request.object_checksums.as_ref())?;
    context.admit("storage.v2.StartResumableWrite", &bucket, &target.key).await?;
    let upload_id = context.store().start_session(bucket, target, expected)?;
    Ok(proto::StartResumableWriteResponse { upload_id })
}

pub(super) async fn query(
    context: CallContext,
    request: proto::QueryWriteStatusRequest,
) -> Result<proto::QueryWriteStatusResponse, Status> {
    context.admit_to_session("storage.v2.QueryWriteStatus", &request.upload_id).await?;
    let catalog = context.store().lock();
    let session = catalog.session(&request.upload_id).map_err(GcsRefusal::from)?;
    let status = match &session.state {
        SessionState::Open => WriteStatus::PersistedSize(signed(session.persisted())),
        SessionState::Finished(finished) => WriteStatus::Resource(object(&session.bucket, finished)),
        SessionState::Cancelled => return Err(GcsRefusal::from(SessionFault::Cancelled).into()),
    };
    Ok(proto::QueryWriteStatusResponse { write_status: Some(status) })
}

pub(super) async fn cancel(
    context: CallContext,
    request: proto::CancelResumableWriteRequest,
) -> Result<proto::CancelResumableWriteResponse, Status> {
    context.admit_to_session("storage.v2.CancelResumableWrite", &request.upload_id).await?;
    context.store().lock().cancel_session(&request.upload_id).map_err(GcsRefusal::from)?;
    Ok(proto::CancelResumableWriteResponse {})
}
