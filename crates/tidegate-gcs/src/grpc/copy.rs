//! Copies by the store, over gRPC.

use super::convert::{object, of_copy, signed, size};
use super::{Grpc, proto};
use crate::copy::copied;
use crate::fault::About;
use crate::resource::{condition, key_name};
use tidegate_core::backend::{Attempt, Copied, CopySource, Fault, FaultKind, WriteOptions, gone};

impl Grpc {
    /// Sends one rewrite request for a copy of `from`, which is in the bucket `source`.
    pub(crate) async fn copy(
        &self,
        source: &str,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        // The request has these fields elsewhere; the description must not repeat them.
        let described = of_copy(&self.bucket, key, options).resource.map(|resource| proto::Object {
            name: String::new(),
            bucket: String::new(),
            kms_key: String::new(),
            ..resource
        });
        let generation = from.object.version.as_deref().and_then(|version| version.parse().ok());
        let request = proto::RewriteObjectRequest {
            destination_name: key.to_owned(),
            destination_bucket: self.bucket.to_string(),
            destination_kms_key: key_name(options).unwrap_or_default().to_owned(),
            destination: described,
            source_bucket: format!("projects/_/buckets/{source}"),
            source_object: from.key.clone(),
            source_generation: generation.map(signed).unwrap_or_default(),
            rewrite_token: cursor.unwrap_or_default().to_owned(),
            if_generation_match: condition(options).and_then(|generation| generation.parse().ok()),
            ..proto::RewriteObjectRequest::default()
        };
        let asked = self.caller.ask("RewriteObject", About::Object, &request, attempt).await;
        let answer: proto::RewriteResponse = asked.map_err(gone)?;
        let whole = answer.resource.filter(|_| answer.done).map(object).transpose()?;
        let bytes = size(answer.total_bytes_rewritten)?;
        copied(whole, Some(answer.rewrite_token), bytes).ok_or_else(|| {
            let message = "the store's answer does not say how far it has copied";
            Fault::new(FaultKind::Transient, message)
        })
    }
}
