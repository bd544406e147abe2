//! One page of a listing: what prefix, delimiter, marker and limit leave of an ordered sequence.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A page of items and of prefixes that stand for many.
#[derive(Debug, PartialEq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) is_truncated: bool,
    /// The key or prefix that the page ends with.
    pub(crate) last: Option<String>,
}

/// What to list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: Option<&'a str>,
    /// Where the last page ended; where that was at a prefix, all that begins so is done.
    pub(crate) after: &'a str,
    pub(crate) limit: usize,
}

impl Query<'_> {
    /// The first key that may belong to the page, to begin the sequence with.
    pub(crate) fn start(&self) -> &str {
        self.after.max(self.prefix)
    }

    /// Makes the page of a sequence that is ordered by key and contains nothing that comes before
    /// the page.
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

/// What S3 leaves as it is where a listing is asked for with `encoding-type=url`.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/');

/// Encodes the text of a listing, if that was asked for.
pub(crate) fn encode(is_url: bool, text: &str) -> String {
    if is_url { utf8_percent_encode(text, KEPT).to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
