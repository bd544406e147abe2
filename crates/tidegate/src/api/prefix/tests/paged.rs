//! A backend that lists in pages of one entry, and reads each page only on demand.

use futures::StreamExt;

use super::*;
use crate::api::prefix::record::DIRECTORY;
use crate::backend::Listing;

#[derive(Debug)]
pub(super) struct Paged;

impl Paged {
    pub(super) fn over(below: Arc<dyn Backend>) -> Arc<Scripted<Self>> {
        Scripted::over(below, Self)
    }
}

impl Script for Paged {
    fn list(&self, below: &Arc<dyn Backend>, prefix: &str, recursive: bool) -> Listing<Entry> {
        // The listing of the records has one page; otherwise each read of them would be as long as their history.
        if prefix.ends_with(DIRECTORY) {
            return below.list(prefix, recursive);
        }
        let (below, prefix) = (below.clone(), prefix.to_owned());
        futures::stream::try_unfold(None::<String>, move |last| {
            let (below, prefix) = (below.clone(), prefix.clone());
            async move {
                tokio::task::yield_now().await;
                let mut entries = below.list(&prefix, recursive);
                while let Some(entry) = entries.try_next().await? {
                    let key = entry.key();
                    if last.as_ref().is_none_or(|last| key > last.as_str()) {
                        let key = key.to_owned();
                        return Ok(Some((entry, Some(key))));
                    }
                }
                Ok(None)
            }
        })
        .boxed()
        .into()
    }
}
