//! Whether a bucket keeps the versions of its objects.

use http::Method;

use super::S3Bucket;
use tidegate_core::backend::{Attempt, Fault, FaultKind, Versioning};
use tidegate_http::answer::BodyKind;
use tidegate_http::xml::fault::document;
use tidegate_http::xml::messages::VersioningConfiguration;

/// The root of S3's answer.
const ROOT: &str = "VersioningConfiguration";
/// The root of moto's answer.
const ROOT_OF_MOTO: &str = "GetBucketVersioningResponse";

pub(super) async fn get(bucket: &S3Bucket, attempt: Attempt) -> Result<Versioning, Fault> {
    let request = bucket.request(Method::GET, bucket.address.bucket(&[("versioning", "")]), attempt);
    let (headers, body) = bucket.shared.ask(request).await.map_err(|fault| match fault.kind {
        FaultKind::Unsupported => {
            let message = "the store does not say whether its buckets keep versions".to_owned();
            Fault { message, ..fault }
        }
        _ => fault,
    })?;
    let region = &bucket.shared.region;
    let root = match BodyKind::of(&body) {
        BodyKind::Xml(root) if root == ROOT_OF_MOTO => ROOT_OF_MOTO,
        _ => ROOT,
    };
    let answer: VersioningConfiguration = document(&headers, &body, root, region)?;
    match answer.status.as_deref().map(str::trim) {
        None | Some("") => Ok(Versioning::Off),
        Some("Enabled") => Ok(Versioning::Enabled),
        Some("Suspended") => Ok(Versioning::Suspended),
        Some(other) => {
            let message = format!("the store describes the versioning of its bucket as {other:?}");
            Err(Fault::new(FaultKind::Unsupported, message))
        }
    }
}
