//! Keys with empty names, as `a//b`. S3 keeps them as they are. Some servers that speak its protocol drop empty names:
//! MinIO slashes at the beginning of a key, versitygw every empty name. There `a//b` is the object `a/b`.

use std::borrow::Cow;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Store;
use crate::backend::Feature;
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// How the name of a probe begins; 16 hexadecimal digits follow.
const PROBE: &str = ".tidegate-probe-";

impl Store {
    /// The URL by which the store keeps an object of this key, if that is another one than the key's own: without the
    /// empty names of the key, if the server drops these.
    ///
    /// For the first such key at an endpoint, writes an empty object `.tidegate-probe-…` beside it, looks for it by the
    /// shorter key, and removes it, also if the future is dropped. Versions of it may stay in a bucket with versions. Amazon's
    /// S3, Google Cloud Storage, Azure and memory are known to keep such keys.
    ///
    /// # Errors
    /// Those of the write and of the look. If the removal fails, the empty object stays, and a warning is logged.
    pub async fn kept_elsewhere(&self, key: &str) -> Result<Option<String>> {
        if self.context().keys().is_some() || self.context().capabilities().keeps_empty_names {
            return Ok(None);
        }
        let full = self.context().prefixed(key);
        if !full.starts_with('/') && !full.contains("//") {
            return Ok(None);
        }
        let root = self.with(self.context().root());
        // Boxed, so that other keys need no room for it.
        let kept = Box::pin(root.kept_key(&full)).await?;
        Ok((kept != full).then(|| root.context().url(&kept)))
    }

    /// Whether the store has one object for two different keys, because it drops empty names in keys: see
    /// [`kept_elsewhere`](Self::kept_elsewhere). `to` may be another store.
    ///
    /// # Errors
    /// As [`kept_elsewhere`](Self::kept_elsewhere).
    pub async fn keeps_as_one(&self, key: &str, to: &Self, to_key: &str) -> Result<bool> {
        let keeps = self.context().capabilities().keeps_empty_names;
        if keeps || self.context().keys().is_some() || to.context().keys().is_some() {
            return Ok(false);
        }
        let (from, to_full) = (self.context().prefixed(key), to.context().prefixed(to_key));
        let root = self.with(self.context().root());
        let is_one_bucket =
            self.shares_endpoint_with(to) && root.location() == to.with(to.context().root()).location();
        if from == to_full || !is_one_bucket || !names(&from).eq(names(&to_full)) {
            return Ok(false);
        }
        let (from, to) = (Box::pin(root.kept_key(&from)).await?, Box::pin(root.kept_key(&to_full)).await?);
        Ok(from == to)
    }

    /// Whether this is the key of an empty object by which [`kept_elsewhere`](Self::kept_elsewhere) asks a server. Such an
    /// object is there for a moment only, and belongs to no tree.
    pub fn is_probe(key: &str) -> bool {
        let token = key.rsplit('/').next().and_then(|name| name.strip_prefix(PROBE));
        token.is_some_and(|token| token.len() == 16 && token.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// The key by which a whole bucket keeps an object of `key`.
    async fn kept_key<'a>(&self, key: &'a str) -> Result<Cow<'a, str>> {
        let below = key.trim_start_matches('/');
        let has_leading = below != key;
        let key = match has_leading && self.drops(Feature::LeadingSlashes, key).await? {
            true => below,
            false => key,
        };
        if !below.contains("//") || !self.drops(Feature::EmptyNames, below).await? {
            return Ok(key.into());
        }
        let leading = &key[..key.len() - below.len()];
        Ok((leading.to_owned() + &without_empty_names(below)).into())
    }

    /// Whether the server lacks the feature, asked with a key beside `key`, which needs it.
    async fn drops(&self, feature: Feature, key: &str) -> Result<bool> {
        let facts = self.context().facts();
        // One question for all that wait for the answer.
        let _asked = facts.empty_names.lock().await;
        if facts.lacks(feature) || facts.has(feature) {
            return Ok(facts.lacks(feature));
        }
        let directory = key.rfind('/').map_or("", |end| &key[..=end]);
        let name = format!("{PROBE}{:016x}", fastrand::u64(..));
        let probe = match feature {
            Feature::LeadingSlashes => format!("/{}", without_empty_names(&format!("{directory}{name}"))),
            _ => format!("{directory}{name}"),
        };
        let (store, object, (answer, answered)) = (self.clone(), self.context().url(key), oneshot::channel());
        let asking = async move {
            let asked = store.ask(feature, &probe).await;
            // Nobody may wait for it any more.
            let _ = answer.send(asked.map_err(|error| {
                error.of_object(object).and("the server was asked what it does with empty names in keys")
            }));
            Ok(())
        };
        // As an abort, so that the probe is removed whatever becomes of this future.
        drop(self.context().engine().aborts.spawn(asking, None, &Handle::current()));
        let message = "the process is a fork, or its runtime ends";
        let closed = || Error::new(ErrorKind::Closed, Operation::Head, self.context().url(key), message);
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Asks the server with an empty object, `probe`, whether it lacks the feature, and keeps the answer.
    async fn ask(&self, feature: Feature, probe: &str) -> Result<bool> {
        let facts = self.context().facts();
        match self.put(probe, "").await {
            Ok(_) => {}
            // It refuses such keys, and so it never has one for another.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                facts.learn_has(feature);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let drops = self.exists(&without_empty_names(probe)).await;
        match drops {
            Ok(true) => _ = facts.learn_lack(feature),
            Ok(false) => facts.learn_has(feature),
            Err(_) => {}
        }
        if let Err(error) = self.delete(probe).await {
            tracing::warn!(%error, "an empty object that the server was asked with could not be removed");
        }
        drops
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use async_trait::async_trait;
    use futures::TryStreamExt;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::Tidegate;
    use crate::backend::memory::Memory;
    use crate::backend::{Capabilities, Fault, FaultKind};
    use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Server {
        Keeps,
        Drops,
        Refuses,
        KeepsAndDeniesRemovals,
    }

    /// A server that counts the writes that it gets. It describes an object only while the semaphore has a permit.
    #[derive(Debug)]
    struct Asked {
        server: Server,
        writes: AtomicUsize,
        descriptions: Semaphore,
    }

    #[async_trait]
    impl Script for Asked {
        async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
            match call {
                Call::Put { key, payload, options } => {
                    self.writes.fetch_add(1, Relaxed);
                    let kept = match self.server {
                        Server::Refuses => return Err(Fault::new(FaultKind::Invalid, "empty names")),
                        Server::Drops => without_empty_names(key),
                        _ => key.to_owned(),
                    };
                    below.send(Call::Put { key: &kept, payload, options }).await
                }
                Call::Head { .. } => {
                    self.descriptions.acquire().await.unwrap().forget();
                    below.send(call).await
                }
                Call::Delete { .. } if self.server == Server::KeepsAndDeniesRemovals => {
                    Err(Fault::new(FaultKind::Denied, "no removals"))
                }
                Call::Delete { key, same } => {
                    let kept =
                        if self.server == Server::Drops { without_empty_names(key) } else { key.to_owned() };
                    below.send(Call::Delete { key: &kept, same }).await
                }
                call => below.send(call).await,
            }
        }
    }

    fn store(server: Server, descriptions: usize) -> (Store, std::sync::Arc<Scripted<Asked>>) {
        let memory = Memory::new("asked").with_capabilities(Capabilities::default());
        let backend = Scripted::new(
            memory,
            Asked { server, writes: AtomicUsize::new(0), descriptions: Semaphore::new(descriptions) },
        );
        (Tidegate::builder().build().unwrap().store(backend.clone()), backend)
    }

    #[tokio::test]
    async fn a_server_is_asked_once_whatever_it_answers() -> Result<()> {
        for (server, kept, left) in [
            (Server::Keeps, None, 0),
            (Server::Drops, Some("memory://asked/a/b"), 0),
            (Server::Refuses, None, 0),
            (Server::KeepsAndDeniesRemovals, None, 1),
        ] {
            let (store, backend) = store(server, 100);
            for _ in 0..3 {
                assert_eq!(store.kept_elsewhere("a//b").await?.as_deref(), kept, "{server:?}");
                assert_eq!(store.kept_elsewhere("a/b").await?, None);
            }
            // The second question is about the slash at the beginning.
            let prefixed = store.within("/x/");
            assert_eq!(prefixed.kept_elsewhere("b").await?.is_some(), kept.is_some(), "{server:?}");
            assert_eq!(backend.writes.load(Relaxed), 2, "{server:?}");
            assert_eq!(store.list("").try_collect::<Vec<_>>().await?.len(), left * 2, "{server:?}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_leaves_nothing() -> Result<()> {
        let (store, backend) = store(Server::Keeps, 0);
        let asking = store.kept_elsewhere("a//b");
        let written = async {
            while backend.writes.load(Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = written => {}
            asked = asking => panic!("{asked:?}"),
        }
        backend.descriptions.add_permits(1);
        store.tide().settled().await;
        assert_eq!(store.list("").try_collect::<Vec<_>>().await?.len(), 0);
        assert_eq!(store.kept_elsewhere("a//b").await?, None);
        assert_eq!(backend.writes.load(Relaxed), 1, "the answer is kept");
        Ok(())
    }
}
