//! Reads the tags of a blob ("Get Blob Tags").

use std::collections::BTreeMap;

use http::Method;

use super::AzureContainer;
use super::fault::no_error;
use super::request::AzureRequest;
use tidegate_core::backend::{Attempt, Fault, FaultKind};
use tidegate_http::xml::{fault, messages};

/// The tags; none where the account has a hierarchical namespace, which has no tags.
pub(super) async fn tags(
    container: &AzureContainer,
    key: &str,
    attempt: Attempt,
) -> Result<BTreeMap<String, String>, Fault> {
    let url = container.url.blob(key, &[("comp", "tags")])?;
    match container.shared.ask(AzureRequest::new(Method::GET, url, attempt)).await {
        Ok((headers, body)) => {
            no_error(&headers, &body)?;
            let tagging: messages::Tagging = fault::document(&headers, &body, "Tags", "")?;
            Ok(tagging.tag_set.tags.into_iter().map(|tag| (tag.key, tag.value)).collect())
        }
        Err(fault) if fault.kind == FaultKind::Unsupported => Ok(BTreeMap::new()),
        Err(fault) => Err(fault),
    }
}
