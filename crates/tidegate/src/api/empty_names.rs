//! Keys with empty names, as `a//b`. S3 keeps them as they are. Some servers that speak its protocol drop empty names:
//! MinIO slashes at the beginning of a key, versitygw every empty name. There `a//b` is the object `a/b`.

use std::borrow::Cow;

use super::Store;
use crate::backend::Feature;
use crate::types::error::Result;

impl Store {
    /// The URL by which the store keeps an object of this key, if that is another one than the key's own: without the
    /// empty names of the key, if the server drops these.
    ///
    /// Of the first such key at an endpoint, the server is asked: an empty object `.tidegate-probe-…` is beside the key for
    /// a moment. Amazon's S3, Google Cloud Storage, Azure and memory are known to keep such keys.
    ///
    /// # Errors
    /// Those of a write, of a description and of a removal. If the removal fails, the empty object may stay.
    pub async fn kept_elsewhere(&self, key: &str) -> Result<Option<String>> {
        if self.context().keys().is_some() {
            return Ok(None);
        }
        let full = self.context().prefixed(key);
        let root = self.with(self.context().root());
        let kept = root.kept_key(&full).await?;
        Ok((kept != full).then(|| root.context().url(&kept)))
    }

    /// Whether the store has one object for two different keys, because it drops empty names in keys: see
    /// [`kept_elsewhere`](Self::kept_elsewhere). `to` may be another store.
    ///
    /// # Errors
    /// As [`kept_elsewhere`](Self::kept_elsewhere).
    pub async fn keeps_as_one(&self, key: &str, to: &Self, to_key: &str) -> Result<bool> {
        if self.context().keys().is_some() || to.context().keys().is_some() {
            return Ok(false);
        }
        let (from, to_full) = (self.context().prefixed(key), to.context().prefixed(to_key));
        let root = self.with(self.context().root());
        let is_one_bucket =
            self.shares_endpoint_with(to) && root.location() == to.with(to.context().root()).location();
        if from == to_full || !is_one_bucket || !names(&from).eq(names(&to_full)) {
            return Ok(false);
        }
        Ok(root.kept_key(&from).await? == root.kept_key(&to_full).await?)
    }

    /// The key by which a whole bucket keeps an object of `key`.
    async fn kept_key<'a>(&self, key: &'a str) -> Result<Cow<'a, str>> {
        if self.context().capabilities().keeps_empty_names {
            return Ok(key.into());
        }
        let below = key.trim_start_matches('/');
        let has_leading = below != key;
        let key = match has_leading && self.drops(Feature::LeadingSlashes, key).await? {
            true => below,
            false => key,
        };
        if !below.contains("//") || !self.drops(Feature::EmptyNames, below).await? {
            return Ok(key.into());
        }
        Ok(without_empty_names(key).into())
    }

    /// Whether the server lacks the feature, asked with a key beside `key`, which needs it.
    async fn drops(&self, feature: Feature, key: &str) -> Result<bool> {
        let facts = self.context().facts();
        // One question for all that wait for the answer.
        let _asked = facts.empty_names.lock().await;
        if facts.lacks(feature) || facts.has(feature) {
            return Ok(facts.lacks(feature));
        }
        let of_key = |error: crate::Error| error.of_object(self.context().url(key));
        let directory = key.rfind('/').map_or("", |end| &key[..=end]);
        let name = format!(".tidegate-probe-{:016x}", fastrand::u64(..));
        let probe = match feature {
            Feature::LeadingSlashes => format!("/{}", without_empty_names(&format!("{directory}{name}"))),
            _ => format!("{directory}{name}"),
        };
        self.put(&probe, "").await.map_err(of_key)?;
        let found = self.exists(&without_empty_names(&probe)).await;
        self.delete(&probe).await.map_err(of_key)?;
        let drops = found.map_err(of_key)?;
        match drops {
            true => _ = facts.learn_lack(feature),
            false => facts.learn_has(feature),
        }
        Ok(drops)
    }
}

fn names(key: &str) -> impl Iterator<Item = &str> {
    key.split('/').filter(|name| !name.is_empty())
}

/// The key without its empty names, but with a slash at its end.
fn without_empty_names(key: &str) -> String {
    let end = if key.ends_with('/') { "/" } else { "" };
    names(key).collect::<Vec<_>>().join("/") + end
}
