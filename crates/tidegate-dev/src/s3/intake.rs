//! Stores a request's body: counts and hashes the bytes, and checks them against the request's declarations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use http::{Extensions, HeaderMap, StatusCode};
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Result, StdError, TrailingHeaders, s3_error};
use std::sync::Arc;

use super::checksum::{ALGORITHMS, S3Algorithm, S3Checksum, S3Hasher};
use super::{ServerStore, custom};
use crate::aws_chunked::{Decoder, FramingError};
use crate::body::CountedBody;
use crate::catalog::Generations;
use crate::exchange::Exchange;
use crate::storage::StoredPiece;

/// The bytes of a request, by where they are decoded.
pub(super) enum BodySource {
    /// Decoded by s3s, if encoded at all.
    Decoded(StreamingBlob, Option<TrailingHeaders>),
    /// Bypasses s3s and is decoded here.
    Chunked(Box<Decoder<CountedBody>>),
    /// Read from the store itself, for a copy.
    Copied(futures::stream::BoxStream<'static, std::io::Result<Bytes>>),
    Empty,
}

impl BodySource {
    pub(super) fn new(
        body: Option<StreamingBlob>,
        trailers: Option<TrailingHeaders>,
        extensions: &Extensions,
    ) -> Self {
        let aside = extensions.get::<Arc<Exchange>>();
        if let Some(body) = aside.and_then(|exchange| exchange.take_aside()) {
            return Self::Chunked(Box::new(Decoder::new(body)));
        }
        body.map_or(Self::Empty, |body| Self::Decoded(body, trailers))
    }

    async fn next(&mut self) -> Option<S3Result<Bytes>> {
        match self {
            Self::Decoded(body, _) => Some(body.next().await?.map_err(refuse_body)),
            Self::Chunked(decoder) => Some(decoder.next().await?.map_err(|error| match error {
                FramingError::Body(error) => refuse_body(error),
                framing => s3_error!(framing, IncompleteBody, "The request body's chunks are broken"),
            })),
            Self::Copied(stream) => Some(stream.next().await?.map_err(S3Error::internal_error)),
            Self::Empty => None,
        }
    }

    fn trailer(&self, name: &str) -> Option<String> {
        let find = |headers: &HeaderMap| Some(headers.get(name)?.to_str().ok()?.to_owned());
        match self {
            Self::Decoded(_, trailers) => trailers.as_ref()?.read(find)?,
            Self::Chunked(decoder) => find(decoder.trailers()),
            Self::Copied(_) | Self::Empty => None,
        }
    }
}

/// s3s hides the types of its body errors; only their text is available.
fn refuse_body(error: StdError) -> S3Error {
    let text = error.to_string();
    let mut refusal = if text.contains("Sha256Mismatch") {
        custom(
            "XAmzContentSHA256Mismatch",
            StatusCode::BAD_REQUEST,
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )
    } else if text.contains("SignatureMismatch") {
        s3_error!(SignatureDoesNotMatch, "A chunk's signature does not match")
    } else {
        s3_error!(
            IncompleteBody,
            "You did not provide the number of bytes specified by the Content-Length HTTP header"
        )
    };
    refusal.set_source(error);
    refusal
}

/// A request's declarations about its body.
#[derive(Debug, Default)]
pub(super) struct Declared {
    length: Option<u64>,
    md5: Option<String>,
    /// A checksum from a header.
    pub(super) checksum: Option<(S3Algorithm, String)>,
    /// The algorithm of a checksum that will follow in a trailer.
    trailer: Option<S3Algorithm>,
    /// Google reports the MD5 of every body, requested or not.
    tells_md5: bool,
}

impl Declared {
    pub(super) fn new(
        headers: &HeaderMap,
        md5: Option<String>,
        checksums: impl Iterator<Item = (S3Algorithm, String)>,
        ignores_checksums: bool,
    ) -> S3Result<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let length = text("x-amz-decoded-content-length").or_else(|| text("content-length"));
        let mut declared =
            Self { length: length.and_then(|length| length.parse().ok()), md5, ..Self::default() };
        if ignores_checksums {
            return Ok(declared);
        }
        let trailers = text("x-amz-trailer").unwrap_or_default().to_ascii_lowercase();
        declared.trailer = ALGORITHMS
            .into_iter()
            .find(|algorithm| trailers.split(',').any(|name| name.trim() == algorithm.header()));
        for (algorithm, value) in checksums {
            if declared.checksum.is_some() || declared.trailer.is_some() {
                return Err(s3_error!(
                    InvalidRequest,
                    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
                ));
            }
            algorithm.check_form(&value)?;
            declared.checksum = Some((algorithm, value));
        }
        if text("x-amz-sdk-checksum-algorithm").is_some() && declared.algorithm().is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
            ));
        }
        Ok(declared)
    }

    /// Also computes the MD5 if the request came over Google's XML API.
    pub(super) fn told_to(mut self, google: Option<Generations>) -> Self {
        self.tells_md5 = google.is_some();
        self
    }

    /// The algorithm of the checksum that the client sends.
    pub(super) fn algorithm(&self) -> Option<S3Algorithm> {
        self.checksum.as_ref().map(|(algorithm, _)| *algorithm).or(self.trailer)
    }
}

/// A body that was received, checked and stored.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    pub(super) piece: StoredPiece,
    pub(super) size: u64,
    pub(super) etag: String,
    /// The checksum that the client sent, or else the one of the `kept` algorithm.
    pub(super) checksum: Option<S3Checksum>,
    /// The checksum of the `kept` algorithm.
    pub(super) kept: Option<S3Checksum>,
    /// The MD5, if computed.
    pub(super) md5: Option<[u8; 16]>,
}

impl ServerStore {
    /// Stores all bytes of `source`, and fails unless they match what was declared. `kept` is the algorithm of
    /// a checksum to keep in any case.
    pub(super) async fn take_in(
        &self,
        mut source: BodySource,
        declared: &Declared,
        kept: Option<S3Algorithm>,
    ) -> S3Result<ReceivedBody> {
        let mut hashers: Vec<S3Hasher> = Vec::new();
        for algorithm in declared.algorithm().into_iter().chain(kept) {
            if hashers.iter().all(|hasher| hasher.algorithm() != algorithm) {
                hashers.push(S3Hasher::new(algorithm));
            }
        }
        let tells_md5 = declared.tells_md5 && self.vault.keeps_bytes();
        let mut md5 = (self.has_md5_etags || declared.md5.is_some() || tells_md5).then(Md5::new);
        let mut writer = self.vault.writer();
        let mut size = 0;
        while let Some(bytes) = source.next().await {
            let bytes = bytes?;
            for hasher in &mut hashers {
                hasher.update(&bytes);
            }
            if let Some(md5) = &mut md5 {
                md5.update(&bytes);
            }
            size += bytes.len() as u64;
            writer.push(bytes).await.map_err(S3Error::internal_error)?;
        }
        if declared.length.is_some_and(|length| length != size) {
            return Err(s3_error!(
                IncompleteBody,
                "You did not provide the number of bytes specified by the Content-Length HTTP header"
            ));
        }
        let md5 = md5.map(|md5| md5.finalize());
        let checksums: Vec<S3Checksum> = hashers.into_iter().map(S3Hasher::finish).collect();
        let find = |algorithm: Option<S3Algorithm>| {
            checksums.iter().find(|checksum| Some(checksum.algorithm) == algorithm)
        };
        declared.verify(&source, find(declared.algorithm()), md5.as_ref())?;
        let piece = writer.finish().await.map_err(S3Error::internal_error)?;
        Ok(ReceivedBody {
            piece,
            size,
            etag: self.etag(md5.as_ref(), &checksums, size),
            checksum: find(declared.algorithm().or(kept)).cloned(),
            kept: find(kept).cloned(),
            md5,
        })
    }

    /// The ETag of bytes from Google's side: these always have a CRC32C and mostly an MD5.
    pub(crate) fn google_etag(&self, md5: Option<&[u8; 16]>, crc32c: u32) -> String {
        let checksum = S3Checksum::of_bytes(S3Algorithm::Crc32c, &crc32c.to_be_bytes());
        self.etag(md5, &[checksum], 0)
    }

    /// The MD5, if ETags are MD5s; otherwise a unique value that does not look like an MD5, because clients
    /// compare an ETag that looks like one.
    fn etag(&self, md5: Option<&[u8; 16]>, checksums: &[S3Checksum], size: u64) -> String {
        if let Some(md5) = md5.filter(|_| self.has_md5_etags) {
            return hex(md5);
        }
        let number = self.next();
        let hint = checksums.first().and_then(|checksum| STANDARD.decode(&checksum.value).ok());
        match hint {
            Some(bytes) => format!("tide-{}-{number:x}", hex(&bytes[..bytes.len().min(8)])),
            None => format!("tide-{size:x}-{number:x}"),
        }
    }
}

impl Declared {
    fn verify(
        &self,
        source: &BodySource,
        computed: Option<&S3Checksum>,
        md5: Option<&[u8; 16]>,
    ) -> S3Result<()> {
        let declared = match (&self.checksum, self.trailer) {
            (Some((algorithm, value)), _) => Some((*algorithm, value.clone())),
            (None, Some(algorithm)) => {
                let value = source.trailer(algorithm.header()).ok_or_else(|| {
                    custom(
                        "MalformedTrailerError",
                        StatusCode::BAD_REQUEST,
                        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
                    )
                })?;
                algorithm.check_form(&value)?;
                Some((algorithm, value))
            }
            (None, None) => None,
        };
        if let Some((algorithm, value)) = declared
            && computed.is_none_or(|computed| computed.value != value)
        {
            return Err(s3_error!(
                BadDigest,
                "The {} you specified did not match the calculated checksum.",
                algorithm.name()
            ));
        }
        let Some((declared, computed)) = self.md5.as_ref().zip(md5) else {
            return Ok(());
        };
        match STANDARD.decode(declared) {
            Ok(bytes) if bytes == computed => Ok(()),
            Ok(bytes) if bytes.len() == computed.len() => {
                Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."))
            }
            _ => Err(s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid.")),
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
