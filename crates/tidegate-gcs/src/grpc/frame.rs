//! Messages on the wire: five bytes of gRPC, then protocol buffers.
//!
//! A message with an object's bytes is never assembled. It is sent as the fields before the bytes, the bytes in their
//! own buffers, and the fields that are known only afterwards. Together these equal the output of the generated
//! encoder, without its copy.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// The most bytes of an object in one message: `ServiceConstants.Values.MAX_WRITE_CHUNK_BYTES`.
pub(super) const LARGEST: u64 = 2 << 20;

/// `checksummed_data` of `WriteObjectRequest` and of `BidiWriteObjectRequest`.
const DATA: u32 = 4;
/// `content` of `ChecksummedData`.
const CONTENT: u32 = 1;
/// `crc32c` of `ChecksummedData`.
const CRC32C: u32 = 2;

/// A message encoded as a whole.
pub(super) fn whole(message: &impl Message) -> Bytes {
    let encoded = message.encode_to_vec();
    let mut frame = prefix(encoded.len(), encoded.len());
    frame.put_slice(&encoded);
    frame.freeze()
}

/// The frame before `content` bytes of an object (at least one); `head` has all fields before the bytes. [`trail`]
/// follows the bytes; `tail` is the length of its last fields.
pub(super) fn lead(head: &impl Message, content: u64, tail: usize) -> Bytes {
    let head = head.encode_to_vec();
    let inner =
        key_len(CONTENT) as u64 + encoded_len_varint(content) as u64 + content + key_len(CRC32C) as u64 + 4;
    let outer = key_len(DATA) as u64 + encoded_len_varint(inner) as u64 + inner;
    // Little more than a message may carry, so the cast is safe.
    let mut frame = prefix(head.len() + outer as usize + tail, head.len() + 32);
    frame.put_slice(&head);
    encode_key(DATA, WireType::LengthDelimited, &mut frame);
    encode_varint(inner, &mut frame);
    encode_key(CONTENT, WireType::LengthDelimited, &mut frame);
    encode_varint(content, &mut frame);
    frame.freeze()
}

/// The frame after an object's bytes: their CRC32C, and `tail` with all fields after it.
pub(super) fn trail(crc32c: u32, tail: &impl Message) -> Bytes {
    let tail = tail.encode_to_vec();
    let mut end = BytesMut::with_capacity(8 + tail.len());
    encode_key(CRC32C, WireType::ThirtyTwoBit, &mut end);
    end.put_u32_le(crc32c);
    end.put_slice(&tail);
    end.freeze()
}

/// The prefix of a message: no compression, and the length.
fn prefix(length: usize, room: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(5 + room);
    frame.put_u8(0);
    // No message is near 4 GiB.
    frame.put_u32(length as u32);
    frame
}

#[cfg(test)]
mod tests {
    use googleapis_tonic_google_storage_v2::google::storage::v2::write_object_request::{Data, FirstMessage};
    use googleapis_tonic_google_storage_v2::google::storage::v2::{
        ChecksummedData, ObjectChecksums, WriteObjectRequest,
    };

    use super::*;

    #[test]
    fn what_is_sent_in_pieces_is_what_the_encoder_writes() {
        for length in [1, 127, 128, 300, 70_000, LARGEST as usize] {
            let content = Bytes::from(vec![7; length]);
            let head = WriteObjectRequest {
                first_message: Some(FirstMessage::UploadId("some session".into())),
                write_offset: 1 << 40,
                ..WriteObjectRequest::default()
            };
            let tail = WriteObjectRequest {
                object_checksums: Some(ObjectChecksums { crc32c: Some(0), ..ObjectChecksums::default() }),
                finish_write: true,
                ..WriteObjectRequest::default()
            };
            let data = ChecksummedData { content: content.clone(), crc32c: Some(0xfedc_ba98) };
            let together = WriteObjectRequest {
                data: Some(Data::ChecksummedData(data)),
                object_checksums: tail.object_checksums.clone(),
                finish_write: true,
                ..head.clone()
            };
            let pieces =
                [lead(&head, length as u64, tail.encoded_len()), content, trail(0xfedc_ba98, &tail)].concat();
            assert!(pieces == whole(&together), "{length}");
        }
    }
}
