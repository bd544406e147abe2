//! The common form of the messages of `WriteObject` and `BidiWriteObject`.

use super::proto;

/// A message of either call.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) first: Option<First>,
    pub(super) offset: i64,
    pub(super) data: Option<proto::ChecksummedData>,
    pub(super) checksums: Option<proto::ObjectChecksums>,
    pub(super) is_last: bool,
    pub(super) flush: bool,
    pub(super) state_lookup: bool,
    /// In a session, every message but the last must contain whole grains.
    pub(super) is_strict: bool,
}

#[derive(Debug)]
pub(super) enum First {
    Session(String),
    Object(Box<proto::WriteObjectSpec>),
    Append,
}

impl From<proto::WriteObjectRequest> for Step {
    fn from(request: proto::WriteObjectRequest) -> Self {
        use proto::write_object_request::{Data, FirstMessage};
        Self {
            first: request.first_message.map(|first| match first {
                FirstMessage::UploadId(id) => First::Session(id),
                FirstMessage::WriteObjectSpec(spec) => First::Object(Box::new(spec)),
            }),
            offset: request.write_offset,
            data: request.data.map(|Data::ChecksummedData(data)| data),
            checksums: request.object_checksums,
            is_last: request.finish_write,
            flush: false,
            state_lookup: false,
            is_strict: true,
        }
    }
}

impl From<proto::BidiWriteObjectRequest> for Step {
    fn from(request: proto::BidiWriteObjectRequest) -> Self {
        use proto::bidi_write_object_request::{Data, FirstMessage};
        Self {
            first: request.first_message.map(|first| match first {
                FirstMessage::UploadId(id) => First::Session(id),
                FirstMessage::WriteObjectSpec(spec) => First::Object(Box::new(spec)),
                FirstMessage::AppendObjectSpec(_) => First::Append,
            }),
            offset: request.write_offset,
            data: request.data.map(|Data::ChecksummedData(data)| data),
            checksums: request.object_checksums,
            is_last: request.finish_write,
            flush: request.flush,
            state_lookup: request.state_lookup,
            is_strict: false,
        }
    }
}
