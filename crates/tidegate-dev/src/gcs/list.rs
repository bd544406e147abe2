//! Lists objects: `storage.objects.list`.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Response, StatusCode};
use s3s::Body;
use serde_json::json;
use std::sync::Arc;

use super::answer_json;
use super::call::Call;
use super::refusal::GcsRefusal;
use super::resource::ObjectResource;
use crate::catalog::CatalogObject;
use crate::s3::ServerStore;
use crate::s3::page::Query;

/// The parameters of a listing.
#[derive(Debug, Default)]
pub(super) struct ListParameters<'a> {
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
    pub(super) token: Option<&'a str>,
    pub(super) limit: Option<usize>,
    /// Only names from `start` on and before `end`.
    pub(super) start: &'a str,
    pub(super) end: Option<&'a str>,
    /// Objects named exactly like a common prefix are listed among the items as well.
    pub(super) includes_prefixes: bool,
}

/// One page of a listing.
#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) objects: Vec<Arc<CatalogObject>>,
    pub(super) prefixes: Vec<String>,
    pub(super) next: Option<String>,
}

impl ServerStore {
    pub(super) fn list_google(
        &self,
        bucket: &str,
        wanted: &ListParameters<'_>,
    ) -> Result<ListPage, GcsRefusal> {
        let after = match wanted.token {
            None => String::new(),
            Some(token) => {
                let bytes = URL_SAFE_NO_PAD.decode(token).ok();
                let after = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                after.ok_or_else(|| GcsRefusal::invalid("Invalid page token."))?
            }
        };
        let longest = self.faults.knobs().longest_page();
        let query = Query {
            prefix: wanted.prefix,
            delimiter: wanted.delimiter.filter(|text| !text.is_empty()),
            after: &after,
            limit: wanted.limit.unwrap_or(longest).clamp(1, longest),
        };
        let start = query.start().max(wanted.start);
        let start =
            if start == after && !after.is_empty() { Bound::Excluded(start) } else { Bound::Included(start) };
        let end = wanted.end.filter(|end| !end.is_empty());
        let catalog = self.lock();
        let all = &catalog.bucket(bucket)?.objects;
        let objects = all
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(key, object)| (key.as_str(), object))
            .take_while(|(key, _)| end.is_none_or(|end| *key < end));
        let page = query.page(objects);
        let mut objects: Vec<Arc<CatalogObject>> = page.items.into_iter().cloned().collect();
        if wanted.includes_prefixes {
            objects.extend(page.prefixes.iter().filter_map(|prefix| all.get(prefix).cloned()));
            objects.sort_by(|one, other| one.key.cmp(&other.key));
        }
        let next = page.last.filter(|_| page.is_truncated).map(|last| URL_SAFE_NO_PAD.encode(last));
        Ok(ListPage { objects, prefixes: page.prefixes, next })
    }
}

pub(super) fn list(store: &ServerStore, origin: &str, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    let parameters = &call.parameters;
    // Google's Go client sends an empty glob if it has none.
    if parameters.match_glob.as_ref().is_some_and(|glob| !glob.is_empty()) {
        return Err(GcsRefusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "notImplemented",
            "matchGlob is not implemented here.",
        ));
    }
    let listing = store.list_google(
        &call.bucket,
        &ListParameters {
            prefix: parameters.prefix.as_deref().unwrap_or_default(),
            delimiter: parameters.delimiter.as_deref(),
            token: parameters.page_token.as_deref(),
            limit: parameters.max_results,
            start: parameters.start_offset.as_deref().unwrap_or_default(),
            end: parameters.end_offset.as_deref(),
            includes_prefixes: parameters.includes_trailing_delimiter(),
        },
    )?;
    let items: Vec<_> =
        listing.objects.iter().map(|object| ObjectResource::new(origin, &call.bucket, object)).collect();
    let mut answer = json!({ "kind": "storage#objects" });
    // Empty lists are omitted.
    if !items.is_empty() {
        answer["items"] = json!(items);
    }
    if !listing.prefixes.is_empty() {
        answer["prefixes"] = json!(listing.prefixes);
    }
    if let Some(next) = listing.next {
        answer["nextPageToken"] = json!(next);
    }
    answer_json(&answer)
}
