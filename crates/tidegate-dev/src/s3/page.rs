//! Selects one page of a listing from an ordered sequence, by prefix, delimiter, marker and limit.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A page of items and common prefixes.
#[derive(Debug, PartialEq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) is_truncated: bool,
    /// The key or prefix that the page ends with.
    pub(crate) last: Option<String>,
}

/// The parameters of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: Option<&'a str>,
    /// The end of the previous page; if that was a prefix, all keys with this prefix are done.
    pub(crate) after: &'a str,
    pub(crate) limit: usize,
}

impl Query<'_> {
    /// The first key that may belong to the page: where the sequence should start.
    pub(crate) fn start(&self) -> &str {
        self.after.max(self.prefix)
    }

    /// Builds the page from a sequence that is ordered by key and contains no items of earlier pages. Keys
    /// under the prefix that ended the previous page may remain; they are skipped.
    pub(crate) fn page<'b, T>(&self, sequence: impl Iterator<Item = (&'b str, T)>) -> Page<T> {
        let mut page = Page { items: Vec::new(), prefixes: Vec::new(), is_truncated: false, last: None };
        if self.limit == 0 {
            return page;
        }
        for (key, item) in sequence {
            let Some(rest) = key.strip_prefix(self.prefix) else {
                if key > self.prefix {
                    break;
                }
                continue;
            };
            let folded = self.delimiter.and_then(|delimiter| {
                let end = rest.find(delimiter)? + delimiter.len();
                Some(&key[..self.prefix.len() + end])
            });
            if let Some(prefix) = folded
                && (prefix == self.after || page.prefixes.last().is_some_and(|last| last == prefix))
            {
                continue;
            }
            if page.items.len() + page.prefixes.len() == self.limit {
                page.is_truncated = true;
                break;
            }
            page.last = Some(folded.unwrap_or(key).to_owned());
            match folded {
                Some(prefix) => page.prefixes.push(prefix.to_owned()),
                None => page.items.push(item),
            }
        }
        page
    }
}

/// Characters that S3 does not escape with `encoding-type=url`.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/');

/// Escapes a listing's text, if the client asked for that.
pub(crate) fn encode(is_url: bool, text: &str) -> String {
    if is_url { utf8_percent_encode(text, KEPT).to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
