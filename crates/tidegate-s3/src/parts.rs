//! Uploads in parts.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};

use super::request::{self, check};
use super::{S3, complete};
use tidegate_core::backend::{
    Attempt, Fault, FaultKind, Feature, FeatureSet, PartOrigin, PartSource, Parts, Receipt, Session,
    StoredPart, WriteOptions,
};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::confirm::confirmed;
use tidegate_http::xml::complete::named;
use tidegate_http::xml::sessions;
use tidegate_http::{proof, set};

impl S3 {
    /// Learns from the answer to a part whether a completion may name the parts' checksums: a server that does not
    /// tell them does not keep them, and refuses a completion that names them.
    fn learn_part_checksums(&self, headers: &HeaderMap) {
        let shared = &self.bucket.shared;
        if headers.contains_key(request::checksum_header(self.info.capabilities.checksum)) {
            shared.facts.learn_has(Feature::PartChecksums);
        } else if !shared.endpoint.is_aws() && !shared.facts.lacks(self.kept_checksums()) {
            shared.facts.learn_lack(Feature::PartChecksums);
        }
    }

    /// The fault of part `number`, with advice if the store takes no parts of so high a number. The number that it does
    /// take is learned for the next upload, if the refusal tells it.
    pub(super) fn past_max_parts(&self, fault: Fault, number: u32) -> Fault {
        let said = fault.message.to_ascii_lowercase();
        let words = ["part number", "partnumber", "number of parts", "too many parts"];
        if fault.kind != FaultKind::Invalid || !words.iter().any(|word| said.contains(word)) {
            return fault;
        }
        // Without the code and the status at its end.
        let words = said.rsplit_once(" (").map_or(&*said, |(words, _)| words);
        let numbers =
            words.split(|letter: char| !letter.is_ascii_digit()).filter_map(|text| text.parse().ok());
        let most: Option<u32> = numbers.filter(|most| (2..number).contains(most)).max();
        if let Some(most) = most {
            self.bucket.shared.facts.learn_max_parts(most);
        }
        let most = most.unwrap_or(1000);
        let message = format!("{}: `--max-parts {most}` makes the parts larger", fault.message);
        Fault { message, ..fault }
    }

    /// The fault of a server that opens no session because it has no uploads in parts, which is remembered.
    fn without_multipart(&self, fault: Fault) -> Fault {
        if !self.bucket.shared.has_no_such_request(&fault) {
            return fault;
        }
        self.bucket.shared.facts.learn_lack(Feature::Multipart);
        let message = format!(
            "the server has no uploads in parts (strategy `put` sends one request, with the memory for it): {}",
            fault.message
        );
        Fault { kind: FaultKind::Unsupported, message, ..fault }
    }
}

#[async_trait]
impl Parts for S3 {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        let shared = &self.bucket.shared;
        let plain = self.begin(Method::POST, key, &[("uploads", "")], options, attempt)?;
        // MinIO refuses to copy parts into a session with a checksum algorithm, because it expects each part to bring
        // its checksum. So a session of copied parts has none; any checksum is the store's own.
        let kept = self.kept_checksums();
        let uses = if origin == PartOrigin::Sent { &[kept][..] } else { &[] };
        let mut with_checksum = plain.clone();
        let name = match self.info.capabilities.checksum {
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Crc32c => "CRC32C",
        };
        set(&mut with_checksum.headers, "x-amz-checksum-algorithm", Some(name))?;
        set(&mut with_checksum.headers, "x-amz-checksum-type", Some("FULL_OBJECT"))?;
        let send = |without: FeatureSet| {
            let is_plain = origin == PartOrigin::Copied || without.contains(kept);
            shared.ask(if is_plain { plain.clone() } else { with_checksum.clone() })
        };
        let (headers, body) =
            shared.adapted(uses, send).await.map_err(|fault| self.without_multipart(fault))?;
        sessions::opened(key, &headers, &body, &self.bucket.shared.region)
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        _offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        let payload = match source {
            PartSource::Bytes(payload) => payload,
            PartSource::CopyOf(from, range) => {
                return self.copy_range(session, number, from, range, attempt).await;
            }
        };
        let number_text = number.to_string();
        let query = [("partNumber", number_text.as_str()), ("uploadId", session.id.as_str())];
        let request = self.request(Method::PUT, &session.key, &query, attempt)?;
        let size = payload.len();
        let sent = self.bucket.shared.upload(request, payload).await;
        let (headers, checksum) = sent.map_err(|fault| self.past_max_parts(fault, number))?;
        check(&checksum, &headers)?;
        self.learn_part_checksums(&headers);
        let etag = proof::written(&headers, b"")?.to_owned();
        Ok(Receipt { number, size, etag, checksum: Some(checksum) })
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        sessions::parts(&self.bucket, session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let request = self.request(Method::POST, &session.key, &[("uploadId", &session.id)], attempt)?;
        let size = parts.iter().map(|part| part.size).sum();
        // A session of copied parts was opened without a checksum.
        let is_sent = parts.iter().all(|part| part.checksum.is_some());
        self.check_vacant(&session.key, Feature::CreateOnlyParts, options, attempt).await?;
        let kept = self.kept_checksums();
        let uses = if is_sent { &[kept][..] } else { &[] };
        let send = |names_sums: bool| {
            let request = &request;
            self.bucket.shared.adapted(uses, move |without: FeatureSet| {
                let with_sums = !without.contains(kept);
                // MinIO adds up no checksum of an object without bytes, and refuses any.
                let sent = checksum.filter(|_| is_sent && with_sums && size > 0);
                let request = complete::request(
                    request.clone(),
                    named(parts, with_sums && names_sums),
                    size,
                    sent,
                    with_sums,
                    options,
                );
                async move { self.bucket.shared.ask(request?).await }
            })
        };
        let completed = |(headers, body): (HeaderMap, Bytes)| {
            complete::answer(&session.key, &headers, &body, &self.bucket.shared.region)
        };
        let facts = &self.bucket.shared.facts;
        let names_sums = !facts.lacks(Feature::PartChecksums);
        let is_unknown = is_sent && names_sums && !facts.has(Feature::PartChecksums);
        let object = match send(names_sums).await.and_then(completed) {
            // An earlier process has sent the parts, and alone saw whether their answers had checksums.
            Err(fault)
                if fault.kind == FaultKind::PartMismatch
                    && is_unknown
                    && !self.bucket.shared.endpoint.is_aws() =>
            {
                let repeated = send(false).await.and_then(completed);
                if repeated.is_ok() {
                    facts.learn_lack(Feature::PartChecksums);
                }
                repeated
            }
            sent => sent,
        };
        let object = object.map_err(|fault| self.unmet(fault, Feature::CreateOnlyParts, options))?;
        let object = confirmed(self, object, size, checksum, options, attempt, || {
            if is_sent {
                self.keeps_no_checksum();
            }
        })
        .await;
        Ok(Object { token: options.token.clone(), attributes: options.attributes.clone(), ..object })
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        let query = [("uploadId", session.id.as_str())];
        self.bucket.shared.remove(self.request(Method::DELETE, &session.key, &query, attempt)?).await
    }
}
