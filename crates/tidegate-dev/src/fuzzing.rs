//! Entry points of the fuzz targets in `fuzz/`. Each function takes any bytes and must not panic.

use bytes::Bytes;
use futures::{FutureExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;

use crate::aws_chunked::Decoder;

/// Decodes a body in the encoding `aws-chunked`. The first byte of `input` is the size of the pieces in which
/// the rest arrives.
pub fn aws_chunked(input: &[u8]) {
    let Some((size, body)) = input.split_first() else { return };
    let pieces: Vec<_> = body
        .chunks(usize::from(*size).max(1))
        .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let mut decoder = Decoder::new(StreamBody::new(stream::iter(pieces)));
    let mut decoded = 0;
    loop {
        match decoder.next().now_or_never() {
            Some(Some(Ok(bytes))) => {
                assert!(!bytes.is_empty(), "a piece without bytes");
                decoded += bytes.len();
            }
            Some(Some(Err(_)) | None) => break,
            None => panic!("waits although the whole body is there"),
        }
    }
    assert!(decoded <= body.len(), "{decoded} bytes out of {}", body.len());
    assert!(decoder.trailers().len() <= 32);
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_aws_chunked_is_decoded_or_refused() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/aws_chunked");
        let files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 5, "the corpus is in fuzz/corpus/aws_chunked");
        for file in files {
            super::aws_chunked(&std::fs::read(file).unwrap());
        }
    }
}
