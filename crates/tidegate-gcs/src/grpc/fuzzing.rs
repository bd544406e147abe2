//! Fuzz targets for gRPC: decoding arbitrary bytes, and framing messages.

use bytes::Bytes;
use googleapis_tonic_google_storage_v2::google::storage::v2::write_object_request::{Data, FirstMessage};
use googleapis_tonic_google_storage_v2::google::storage::v2::{
    self as proto, ChecksummedData, WriteObjectRequest,
};
use prost::Message;
use tonic::{Code, Status};

use super::super::fault::About;
use super::{convert, fault, frame};
use tidegate_core::types::checksum::{Algorithm, Checksum};

/// Decodes answers and statuses with details, and checks that a message framed in pieces equals the encoder's.
pub fn grpc_messages(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    if let Ok(object) = proto::Object::decode(rest) {
        let _ = convert::object(object);
    }
    if let Ok(page) = proto::ListObjectsResponse::decode(rest) {
        for object in page.objects {
            let _ = convert::object(object);
        }
    }
    let _ = proto::ReadObjectResponse::decode(rest);
    let status =
        Status::with_details(Code::from_i32(i32::from(*first) % 17), "said", Bytes::copy_from_slice(rest));
    let _ = fault::refusal(status, About::Bucket);

    let content = Bytes::copy_from_slice(rest);
    if content.is_empty() {
        return;
    }
    let offset = i64::from(*first) << (first % 40);
    let head = WriteObjectRequest {
        first_message: Some(FirstMessage::UploadId("session".repeat(usize::from(*first)))),
        write_offset: offset,
        ..WriteObjectRequest::default()
    };
    let tail = WriteObjectRequest { finish_write: first % 2 == 0, ..WriteObjectRequest::default() };
    let crc32c = Checksum::of(Algorithm::Crc32c, rest).value() as u32;
    let data = ChecksummedData { content: content.clone(), crc32c: Some(crc32c) };
    let together = WriteObjectRequest {
        data: Some(Data::ChecksummedData(data)),
        finish_write: tail.finish_write,
        ..head.clone()
    };
    let length = content.len() as u64;
    let pieces =
        [frame::lead(&head, length, tail.encoded_len()), content, frame::trail(crc32c, &tail)].concat();
    assert!(pieces == frame::whole(&together), "framed in pieces, the message differs");
}
