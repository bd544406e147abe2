//! Lists a container's blobs, page by page ("List Blobs").

use std::collections::{BTreeSet, VecDeque};

use http::{HeaderMap, Method};

use super::AzureContainer;
use super::fault::no_error;
use super::request::AzureRequest;
use tidegate_core::backend::{Attempt, Entry, Fault, Listing, OtherKind};
use tidegate_core::types::object::Object;
use tidegate_http::time::time;
use tidegate_http::xml::document::{CAPITAL, ElementStep, XmlPage, filled, flag};
use tidegate_http::{Entries, Keyed, Order, PagePosition, mark_fresh, paged};

#[cfg(test)]
mod tests;

/// Elements read from a listing. Azure writes `<Name Encoded="true">` for names that XML cannot express.
const NAMES: [&str; 17] = [
    "NextMarker",
    "Blobs",
    "Blob",
    "BlobPrefix",
    "Name",
    "Name@Encoded",
    "Properties",
    "Last-Modified",
    "Etag",
    "Content-Length",
    "Content-Type",
    "AccessTier",
    "AccessTierInferred",
    "ResourceType",
    "Metadata",
    FOLDER,
    CAPITAL,
];

/// The metadata name by which blobfuse, Hadoop and others make an empty blob a directory, in accounts without a
/// hierarchical namespace.
pub(super) const FOLDER: &str = "hdi_isfolder";

/// Accounts with a hierarchical namespace list `a/b` before `a-b`, because they compare directory by directory; the
/// others compare names in UTF-16. So a page may lie before the last one in the order of bytes.
pub(super) const ORDER: Order = Order::None;

/// One page of a listing.
#[derive(Debug, Default)]
pub(super) struct BlobPage {
    pub(super) blobs: Vec<ListedBlob>,
    prefixes: Vec<String>,
    /// The position of the next page.
    pub(super) next: Option<String>,
}

/// A blob of a listing.
#[derive(Clone, Debug, Default)]
pub(super) struct ListedBlob {
    pub(super) object: Object,
    is_directory: bool,
    /// Whether the name of an entry of its metadata has a capital letter, which headers do not tell.
    has_capitals: bool,
    /// Whether its metadata says that it is a directory.
    has_folder_mark: bool,
    /// Whether the tier is the account's, and not one that was set for this blob.
    has_inferred_tier: bool,
}

/// Objects and prefixes below `prefix`, each page in key order.
pub(super) fn objects(container: AzureContainer, prefix: &str, recursive: bool) -> Listing<Entry> {
    let prefix = prefix.to_owned();
    let first = (None, BTreeSet::new());
    paged(first, ORDER, move |(marker, directories): (Option<String>, BTreeSet<String>), attempt| {
        let (container, prefix) = (container.clone(), prefix.clone());
        async move {
            let delimiter = (!recursive).then_some(("delimiter", "/"));
            let more: Vec<_> = delimiter.into_iter().chain([WITH_METADATA]).collect();
            let page = page(&container, &prefix, marker.as_deref(), &more, attempt).await?;
            let next = page.next.clone();
            let (entries, later) = match recursive {
                true => (page.into_entries(), BTreeSet::new()),
                false => page.into_entries_of_level(&prefix, directories),
            };
            let next = next.map_or(PagePosition::End, |next| PagePosition::At((Some(next), later)));
            Ok((entries, next))
        }
    })
}

/// What tells directories from blobs, and how the names of metadata are written.
const WITH_METADATA: (&str, &str) = ("include", "metadata");

/// Whether the blob has metadata whose names have capital letters. Headers do not tell, because their names have none
/// here.
pub(super) async fn has_capitals(
    container: &AzureContainer,
    key: &str,
    attempt: Attempt,
) -> Result<bool, Fault> {
    let page = page(container, key, None, &[("maxresults", "1"), WITH_METADATA], attempt).await?;
    Ok(page.blobs.iter().any(|blob| blob.object.key == key && blob.has_capitals))
}

/// Fetches one page. `more` are more parameters of the query.
pub(super) async fn page(
    container: &AzureContainer,
    prefix: &str,
    marker: Option<&str>,
    more: &[(&str, &str)],
    attempt: Attempt,
) -> Result<BlobPage, Fault> {
    let mut query = vec![("comp", "list"), ("restype", "container")];
    query.extend_from_slice(more);
    query.extend(marker.map(|marker| ("marker", marker)));
    query.extend((!prefix.is_empty()).then_some(("prefix", prefix)));
    let request = AzureRequest::new(Method::GET, container.url.container(&query), attempt);
    let (headers, body) = container.shared.ask(request).await?;
    read(&headers, &body)
}

pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<BlobPage, Fault> {
    no_error(headers, body)?;
    let (mut blobs, mut prefixes) = (Entries::<ListedBlob>::default(), Entries::<String>::default());
    let (mut next, mut blob, mut prefix) = (None, ListedBlob::default(), String::new());
    let mut has_blobs = None;
    let document = XmlPage::new(headers, body, "EnumerationResults", "")?;
    document.each(&NAMES, |path, step| {
        let ElementStep::Ends(text) = step else {
            if let ["Blobs", "Blob"] = path {
                blob = ListedBlob::default();
                blob.object.size_is_unknown = true;
            }
            return Ok(());
        };
        let object = &mut blob.object;
        match path {
            ["NextMarker"] => next = Some(filled(text)),
            ["Blobs"] => has_blobs = Some(()),
            ["Blobs", "Blob", "Name"] => text.clone_into(&mut object.key),
            ["Blobs", "Blob", "Name@Encoded"] => object.key = unencoded(text)?,
            ["Blobs", "Blob", "Properties", name] => match *name {
                "Last-Modified" => object.modified = time(text),
                "Etag" => object.etag = filled(text).map(quoted),
                "Content-Type" => object.attributes.content_type = filled(text),
                "AccessTier" => object.attributes.storage_class = filled(text),
                "AccessTierInferred" => blob.has_inferred_tier = flag(text)?,
                "ResourceType" => blob.is_directory = text.trim().eq_ignore_ascii_case("directory"),
                "Content-Length" => {
                    if let Ok(size) = text.trim().parse() {
                        (object.size, object.size_is_unknown) = (size, false);
                    }
                }
                _ => {}
            },
            ["Blobs", "Blob", "Metadata", FOLDER] => blob.has_folder_mark = is_true(text),
            ["Blobs", "Blob", "Metadata", name] => {
                blob.has_capitals |= name.bytes().any(|byte| byte.is_ascii_uppercase());
            }
            ["Blobs", "Blob"] if object.key.is_empty() => {
                return Err("it lists a blob without a name".to_owned());
            }
            ["Blobs", "Blob"] => blobs.push(std::mem::take(&mut blob))?,
            ["Blobs", "BlobPrefix", "Name"] => text.clone_into(&mut prefix),
            ["Blobs", "BlobPrefix", "Name@Encoded"] => prefix = unencoded(text)?,
            ["Blobs", "BlobPrefix"] if prefix.is_empty() => {
                return Err("it lists a prefix without a name".to_owned());
            }
            ["Blobs", "BlobPrefix"] => prefixes.push(std::mem::take(&mut prefix))?,
            _ => {}
        }
        Ok(())
    })?;
    document.promised("Blobs", has_blobs)?;
    let next = document.promised("NextMarker", next)?;
    let mut blobs = blobs.into_vec();
    mark_fresh(headers, blobs.iter_mut().map(|blob| &mut blob.object));
    Ok(BlobPage { blobs, prefixes: prefixes.into_vec(), next })
}

fn is_true(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("true")
}

/// Headers have an ETag with its quotes, listings without.
fn quoted(tag: String) -> String {
    if tag.contains('"') { tag } else { format!("\"{tag}\"") }
}

fn unencoded(name: &str) -> Result<String, String> {
    let name = percent_encoding::percent_decode_str(name).decode_utf8();
    name.map(std::borrow::Cow::into_owned).map_err(|_| "it lists a name that is not UTF-8".to_owned())
}

impl Keyed for ListedBlob {
    fn key(&self) -> &str {
        &self.object.key
    }
}

impl BlobPage {
    /// The objects and prefixes, which are each in order, merged. A directory is no object.
    fn into_entries(self) -> VecDeque<Entry> {
        let entry = |blob: ListedBlob| match blob.is_directory() {
            true => Entry::Other { key: blob.object.key, kind: OtherKind::Directory },
            false => Entry::Object(blob.into_object()),
        };
        let prefixes = self.prefixes.into_iter().map(Entry::Prefix);
        let mut entries: Vec<_> = self.blobs.into_iter().map(entry).chain(prefixes).collect();
        entries.sort_by(|a, b| a.key().cmp(b.key()));
        entries.into()
    }

    /// As [`into_entries`](Self::into_entries), for one level below `prefix`: the directory `d` is the prefix `d/`, once
    /// with what lies below it. `directories` are the prefixes whose place in the order this page has not reached; what
    /// is still to come is returned.
    fn into_entries_of_level(
        mut self,
        prefix: &str,
        mut directories: BTreeSet<String>,
    ) -> (VecDeque<Entry>, BTreeSet<String>) {
        let keys = self.blobs.iter().map(|blob| &blob.object.key).chain(&self.prefixes);
        let last = keys.max().cloned().unwrap_or_default();
        let (own, objects) = self.blobs.into_iter().partition(ListedBlob::is_directory);
        self.blobs = objects;
        directories.extend(
            Vec::into_iter(own).map(|blob: ListedBlob| format!("{}/", blob.object.key.trim_end_matches('/'))),
        );
        directories.retain(|directory| directory != prefix && !self.prefixes.contains(directory));
        let later = match self.next {
            Some(_) => directories.split_off(&last),
            None => BTreeSet::new(),
        };
        self.prefixes.extend(directories);
        (self.into_entries(), later)
    }
}

impl ListedBlob {
    /// Whether this is a directory, of a hierarchical namespace or by its metadata, and no object.
    pub(super) fn is_directory(&self) -> bool {
        self.is_directory || (self.has_folder_mark && self.object.size == 0)
    }

    fn into_object(self) -> Object {
        let mut object = self.object;
        // Listings of other stores have no type, and descriptions need not be compared with it.
        object.attributes.content_type = None;
        object.attributes.storage_class = object.attributes.storage_class.filter(|_| !self.has_inferred_tier);
        object
    }

    /// Whether this may be the name of blocks that were never committed, for a listing that has these too. They have no
    /// size and no type; on Azure no ETag either.
    pub(super) fn may_be_uncommitted(&self) -> bool {
        let object = &self.object;
        !self.is_directory()
            && object.size == 0
            && (object.etag.is_none() || object.attributes.content_type.is_none())
    }
}
