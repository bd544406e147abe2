//! The checks, each by a few requests.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use tokio::time::{Instant, sleep};

use super::FindingState::{self, Broken, Missing, Untested, Works};
use super::StoreFeature;
use crate::api::Store;
use crate::backend::{Attempt, Backend, CopySource, Entry, Fault, FaultKind, Feature, WriteOptions};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

mod uploads;

use uploads::is_refused_listing;

/// Attempts of one request, and the pause before the second.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of the objects that the checks write.
pub(super) const SIZE: usize = 64 << 10;
/// The most that two clocks may differ: S3 refuses requests from clocks that differ by 15 minutes, and a sync compares
/// times of seconds.
const APART: Duration = Duration::from_secs(5);

/// A store under examination.
pub(super) struct Probe {
    store: Store,
    /// The beginning of all keys that the checks write.
    place: String,
    /// Whether objects can be written; every check after the first two needs that.
    can_write: bool,
    /// Whether a write was begun, so that something may be there.
    has_begun: bool,
    /// The first object, as the store described it last.
    first: Option<Object>,
}

fn body() -> Bytes {
    (0..SIZE).map(|at| (at ^ (at >> 8)) as u8).collect::<Vec<_>>().into()
}

/// What requests of every upload or listing use; a server that lacks one is sent something else.
const USED: [Feature; 4] =
    [Feature::Trailers, Feature::UnsignedPayload, Feature::EncodedKeys, Feature::ListV2];

impl Probe {
    /// Checks that write objects whose keys in the bucket begin with `place`.
    pub(super) fn new(store: Store, place: String) -> Self {
        Self { store, place, can_write: false, has_begun: false, first: None }
    }

    fn backend(&self) -> &dyn Backend {
        &**self.store.context().backend()
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// A write of an object that must not replace any. It has the token of the first object, so that a backend that
    /// asks for the key before takes that object for its own, and leaves the refusal to the server.
    fn create_only_options(&self) -> WriteOptions {
        let token = self.first.as_ref().and_then(|first| first.token.clone());
        WriteOptions { create_only: true, token, ..WriteOptions::default() }
    }

    pub(super) async fn check(&mut self, feature: StoreFeature) -> FindingState {
        let is_possible = match feature {
            StoreFeature::List | StoreFeature::Write | StoreFeature::Lifecycle => true,
            StoreFeature::Delete => self.has_begun,
            _ => self.can_write,
        };
        if !is_possible {
            return Untested("nothing could be written".to_owned());
        }
        let checked = match feature {
            StoreFeature::List => self.list().await,
            StoreFeature::Write => self.write().await,
            StoreFeature::Metadata => self.metadata().await,
            StoreFeature::Checksum => self.checksum().await,
            StoreFeature::Range => self.range().await,
            StoreFeature::CreateOnly => self.create_only().await,
            StoreFeature::Replace => self.replace().await,
            StoreFeature::ReadSame => self.read_same().await,
            StoreFeature::Parts => self.parts().await,
            StoreFeature::PartsCreateOnly => self.parts_create_only().await,
            StoreFeature::Sessions => self.sessions().await,
            StoreFeature::Abort => self.abort().await,
            StoreFeature::Append => self.append().await,
            StoreFeature::Copy => self.copy().await,
            StoreFeature::Keys => self.keys().await,
            StoreFeature::BulkDelete => self.bulk_delete().await,
            StoreFeature::Lifecycle => self.lifecycle().await,
            StoreFeature::Clock => self.clock(),
            StoreFeature::Delete => self.delete().await,
        };
        let is_needed = matches!(
            feature,
            StoreFeature::List | StoreFeature::Write | StoreFeature::Keys | StoreFeature::Delete
        );
        checked.unwrap_or_else(|fault| match fault.kind {
            FaultKind::Unsupported if !is_needed => Missing(format!("the store refuses: {fault}")),
            _ => Broken(format!("the store refuses: {fault}")),
        })
    }

    /// Makes a request, up to three times if a failure may pass.
    async fn ask<T, F>(&self, request: impl Fn(Attempt) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let mut number = 1;
        loop {
            match request(Attempt::nth(number)).await {
                Err(fault) if fault.kind.is_retriable() && number < ATTEMPTS => {
                    sleep(fault.retry_after.unwrap_or(PAUSE * number)).await;
                    number += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn put(&self, name: &str, bytes: Bytes, options: &WriteOptions) -> Result<Object, Fault> {
        let (backend, key) = (self.backend(), &self.key(name));
        let checksum = Checksum::of(backend.capabilities().checksum, &bytes);
        let payload = || Payload::from_memory(vec![bytes.clone()], checksum);
        self.ask(|attempt| backend.put(key, payload(), options, attempt)).await
    }

    async fn head(&self, name: &str) -> Result<Object, Fault> {
        let (backend, key) = (self.backend(), &self.key(name));
        self.ask(|attempt| backend.head(key, attempt)).await
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let (backend, key) = (self.backend(), &self.key(name));
        self.ask(|attempt| async move {
            let body = backend.get(key, None, None, attempt).await?;
            Ok(body.stream.try_collect::<Vec<Bytes>>().await?.concat())
        })
        .await
    }

    async fn list(&mut self) -> Result<FindingState, Fault> {
        let began = Instant::now();
        self.listed(&self.place).await?;
        let (took, endpoint) = (began.elapsed().as_millis(), self.backend().endpoint());
        Ok(Works(format!("answered in {took} ms by {endpoint}")))
    }

    /// Writes the first object as a command writes a file: from disk, with the checksum after the bytes where the store
    /// takes it there.
    async fn write(&mut self) -> Result<FindingState, Fault> {
        let failed =
            |error: std::io::Error| Fault::new(FaultKind::Source, error.to_string()).with_source(error);
        let file = tempfile::NamedTempFile::new().map_err(failed)?;
        std::fs::write(file.path(), body()).map_err(failed)?;
        let root = self.store.context().root();
        let key = self.key("first");
        self.has_begun = true;
        let uploaded = self.store.with(root).upload(file.path(), &key).await;
        if let Err(error) = uploaded {
            self.can_write = false;
            return Ok(Broken(error.to_string()));
        }
        self.can_write = true;
        self.first = Some(self.head("first").await?);
        Ok(match self.read("first").await? == body() {
            true => Works(self.notices()),
            false => Broken("the store returns other bytes than were written: do not use it".to_owned()),
        })
    }

    /// What is done instead of the features that the endpoint lacks.
    fn notices(&self) -> String {
        let facts = self.store.context().facts();
        let notices = USED.iter().filter(|feature| facts.lacks(**feature)).map(|feature| feature.notice());
        notices.collect::<Vec<_>>().join("; ")
    }

    async fn metadata(&mut self) -> Result<FindingState, Fault> {
        let Some(first) = &self.first else {
            return Ok(Untested("the object could not be described".to_owned()));
        };
        if first.token.is_some() {
            return Ok(Works(String::new()));
        }
        if !self.backend().capabilities().tokens {
            return Ok(Missing("a writer recognizes its own object by its bytes and its time".to_owned()));
        }
        let message = "the store drops metadata: after a lost answer, a writer cannot tell its own object from \
                       another's, and reports that the outcome is uncertain";
        Ok(Broken(message.to_owned()))
    }

    async fn checksum(&mut self) -> Result<FindingState, Fault> {
        let Some(first) = &self.first else {
            return Ok(Untested("the object could not be described".to_owned()));
        };
        let checksum = Checksum::of(self.backend().capabilities().checksum, &body());
        let facts = self.store.context().facts();
        if facts.lacks(Feature::ComparedChecksums) {
            return Ok(Broken(format!("the store {}", Feature::ComparedChecksums.notice())));
        }
        Ok(match first.matches(&checksum) {
            Some(true) => Works(checksum.algorithm().name().to_owned()),
            Some(false) => Broken("the store keeps another checksum than that of the bytes".to_owned()),
            None if facts.lacks(Feature::ChecksumMode) => {
                Missing(format!("the store {}", Feature::ChecksumMode.notice()))
            }
            None if !self.backend().capabilities().tokens => Missing(
                "files have no checksum: use `cp --verify` and `sync --checksum` to compare bytes".to_owned(),
            ),
            None => {
                let message = "the store keeps no checksum of the object: only the size of an object is compared \
                               after an upload. Use `cp --verify` to read objects back";
                Broken(message.to_owned())
            }
        })
    }

    async fn range(&mut self) -> Result<FindingState, Fault> {
        let asked = 1000..2000;
        let (backend, key, asked) = (self.backend(), &self.key("first"), &asked);
        let body_of = |attempt| async move {
            let body = backend.get(key, Some(asked.clone()), None, attempt).await?;
            let ignored = body.ignored_range;
            Ok((ignored, body.stream.try_collect::<Vec<Bytes>>().await?.concat()))
        };
        let (is_ignored, bytes) = self.ask(body_of).await?;
        Ok(if bytes != body()[1000..2000] {
            Broken("the store returns other bytes than those of the range: do not use it".to_owned())
        } else if is_ignored {
            Missing("the whole object is downloaded by one request, and other bytes are dropped".to_owned())
        } else {
            Works(String::new())
        })
    }

    async fn create_only(&mut self) -> Result<FindingState, Fault> {
        let put = self.put("first", "other".into(), &self.create_only_options()).await;
        let broken = "--create-only, and journaled uploads that must not replace, replace objects";
        let refused = self.refused_itself(put, Feature::CreateOnly, broken)?;
        if matches!(refused, Broken(_)) {
            // With the token again, so that a later check leaves the refusal to the server.
            let options = WriteOptions { create_only: false, ..self.create_only_options() };
            self.put("first", body(), &options).await?;
        }
        Ok(refused)
    }

    async fn replace(&mut self) -> Result<FindingState, Fault> {
        if !self.backend().capabilities().replaces {
            return Ok(Missing("a write that is to replace one object and no other is refused".to_owned()));
        }
        let older = self.put("replaced", "first".into(), &WriteOptions::default()).await?;
        self.put("replaced", "second".into(), &WriteOptions::default()).await?;
        let options = WriteOptions { replaces: Some(Box::new(older)), ..WriteOptions::default() };
        let put = self.put("replaced", "third".into(), &options).await;
        refused(put, "a write that is to replace one object and no other replaces any object")
    }

    async fn read_same(&mut self) -> Result<FindingState, Fault> {
        let older = self.put("read", "first".into(), &WriteOptions::default()).await?;
        self.put("read", "other".into(), &WriteOptions::default()).await?;
        let (backend, key, older) = (self.backend(), &self.key("read"), &older);
        let read = |attempt| async move {
            let body = backend.get(key, None, Some(older), attempt).await?;
            body.stream.try_collect::<Vec<Bytes>>().await
        };
        match self.ask(read).await {
            Err(fault) if fault.kind == FaultKind::Replaced => Ok(Works(String::new())),
            Err(fault) if fault.kind == FaultKind::Unsupported => {
                Ok(Missing("an object is read by one request, and a broken download begins anew".to_owned()))
            }
            Err(fault) => Err(fault),
            Ok(_) => {
                let message =
                    "an object that is replaced while it is read is not noticed: the download may mix both";
                Ok(Broken(message.to_owned()))
            }
        }
    }

    async fn copy(&mut self) -> Result<FindingState, Fault> {
        let instead = "copies are downloaded and uploaded again".to_owned();
        let Some(first) = self.first.clone() else { return Ok(Untested("nothing to copy".to_owned())) };
        let Some(copy) = self.backend().server_copy() else { return Ok(Missing(instead)) };
        let first = self.head("first").await.unwrap_or(first);
        let (location, key) = (self.backend().location().to_owned(), self.key("first"));
        let (from, to, options) =
            (CopySource::new(location, key, first), self.key("copy"), WriteOptions::default());
        match self.ask(|attempt| copy.copy(&from, &to, None, &options, attempt)).await {
            Ok(_) if self.read("copy").await? == body() => Ok(Works(String::new())),
            Ok(_) => Ok(Broken("a copy that the store made has other bytes: do not use it".to_owned())),
            Err(fault) if fault.kind == FaultKind::Unsupported => Ok(Missing(instead)),
            Err(fault) => Err(fault),
        }
    }

    async fn keys(&mut self) -> Result<FindingState, Fault> {
        let names = ["keys-a b+c%2B", "keys-é", "keys-~(1)&'"];
        for name in names {
            self.put(name, Bytes::new(), &WriteOptions::default()).await?;
        }
        let listed = self.listed(&self.key("keys-")).await?;
        let lost = names.iter().find(|name| !listed.contains(&self.key(name)));
        Ok(match lost {
            None => Works(String::new()),
            Some(name) => Broken(format!(
                "the key `{name}` is not listed as it was written: `sync` and `cp -r` miss such objects"
            )),
        })
    }

    /// The keys that begin with `prefix`.
    async fn listed(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let list = |attempt| self.backend().list(prefix, true).items(attempt).try_collect::<Vec<Entry>>();
        let keys: Vec<String> = self.ask(list).await?.iter().map(|entry| entry.key().to_owned()).collect();
        self.only_ours(keys.iter().map(String::as_str))?;
        Ok(keys)
    }

    /// Fails if a listing has a key that the checks did not write: nothing else may be removed.
    fn only_ours<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Result<(), Fault> {
        match keys.into_iter().find(|key| !key.starts_with(&self.place)) {
            None => Ok(()),
            Some(other) => {
                let message = format!("a listing of keys that begin with {} has `{other}`", self.place);
                Err(Fault::new(FaultKind::NotAStore, message))
            }
        }
    }

    async fn bulk_delete(&mut self) -> Result<FindingState, Fault> {
        let instead = "objects are removed one by one".to_owned();
        let keys: Vec<String> = ["keys-a b+c%2B", "keys-é"].iter().map(|name| self.key(name)).collect();
        let Some(bulk) = self.backend().bulk_delete() else { return Ok(Missing(instead)) };
        match self.ask(|attempt| bulk.delete_many(&keys, attempt)).await {
            Err(fault) if fault.kind == FaultKind::Unsupported => return Ok(Missing(instead)),
            removed => removed?.into_iter().collect::<Result<Vec<()>, Fault>>()?,
        };
        match self.head("keys-é").await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(Works(String::new())),
            Err(fault) => Err(fault),
            Ok(_) => {
                Ok(Broken("objects are still there after a removal that the store confirmed".to_owned()))
            }
        }
    }

    async fn lifecycle(&mut self) -> Result<FindingState, Fault> {
        let asked = match self.backend().need_admin() {
            Ok(admin) => self.ask(|attempt| admin.lifecycle(attempt)).await,
            Err(fault) => Err(fault),
        };
        match asked {
            Ok(lifecycle) if lifecycle.rules.iter().any(|rule| rule.enabled && rule.abort_after_days.is_some()) => {
                Ok(Works("the bucket aborts unfinished uploads itself".to_owned()))
            }
            Ok(_) => Ok(Missing(
                "unfinished uploads stay after a crash until `tidegate sweep`: add a rule by `tidegate lifecycle ensure`"
                    .to_owned(),
            )),
            Err(fault) if fault.kind == FaultKind::Unsupported && !self.backend().capabilities().aborts => {
                Ok(Works("the store itself removes unfinished uploads after a week".to_owned()))
            }
            Err(fault) if matches!(fault.kind, FaultKind::Unsupported | FaultKind::Denied) => {
                Ok(Missing("`tidegate sweep` aborts unfinished uploads".to_owned()))
            }
            Err(fault) => Ok(Untested(fault.to_string())),
        }
    }

    fn clock(&self) -> Result<FindingState, Fault> {
        let Some(modified) = self.first.as_ref().and_then(|first| first.modified) else {
            return Ok(Untested("the store does not say when an object was written".to_owned()));
        };
        let now = SystemTime::now();
        let apart =
            now.duration_since(modified).or_else(|_| modified.duration_since(now)).unwrap_or_default();
        // The object was written up to ten seconds ago.
        Ok(if apart <= super::LIMIT + APART {
            Works(String::new())
        } else {
            Broken(format!(
                "the store's clock and this machine's differ by about {} s: `sync` compares times, so set the clocks",
                apart.as_secs()
            ))
        })
    }

    /// Removes every object that the checks wrote, and aborts the uploads that a failed check left open.
    async fn delete(&mut self) -> Result<FindingState, Fault> {
        self.remove_objects().await?;
        let facts = self.store.context().facts();
        let lacks_parts = facts.lacks(Feature::Multipart) || facts.lacks(Feature::PartsBesideAppends);
        if self.backend().admin().is_some() && !lacks_parts {
            let left_open = match self.open_sessions().await {
                // The check of the listing says so.
                Err(fault) if is_refused_listing(&fault) => Vec::new(),
                listed => listed?,
            };
            for left in left_open {
                match self.backend().capabilities().aborts {
                    true => self.end(&left.session).await?,
                    // An object at the key ends every unfinished upload there.
                    false => {
                        let name = left.session.key.strip_prefix(&self.place).unwrap_or_default();
                        self.put(name, Bytes::new(), &WriteOptions::default()).await?;
                    }
                }
            }
            self.remove_objects().await?;
        }
        match self.listed(&self.place).await?.len() {
            0 => Ok(Works(String::new())),
            left => Ok(Broken(format!(
                "{left} objects are still listed after their removal: see {}*",
                self.place
            ))),
        }
    }

    /// As [`refused`]. A refusal counts only if it is the store's own: Tidegate itself refuses to replace an object
    /// of a store that may ignore the condition.
    fn refused_itself(
        &self,
        written: Result<Object, Fault>,
        condition: Feature,
        broken: &str,
    ) -> Result<FindingState, Fault> {
        let (facts, location) = (self.store.context().facts(), self.backend().location());
        let bucket = location.split_once("://").map_or(location, |(_, bucket)| bucket);
        if written.is_err() && facts.lacks(condition) && !facts.bucket(bucket).has(condition) {
            return Ok(Broken(format!("the store {}", condition.notice())));
        }
        refused(written, broken)
    }

    async fn remove_objects(&self) -> Result<(), Fault> {
        for key in self.listed(&self.place).await? {
            self.ask(|attempt| self.backend().delete(&key, None, attempt)).await?;
        }
        Ok(())
    }
}

/// The finding for a write whose condition is not met: the store must refuse it.
fn refused(written: Result<Object, Fault>, broken: &str) -> Result<FindingState, Fault> {
    match written {
        Err(fault) if matches!(fault.kind, FaultKind::Exists | FaultKind::Replaced) => {
            Ok(Works(String::new()))
        }
        Err(fault) if fault.kind == FaultKind::Unsupported => {
            Ok(Missing(format!("a write with this condition is refused ({fault})")))
        }
        Err(fault) => Err(fault),
        Ok(_) => Ok(Broken(format!("the store ignores the condition: {broken}"))),
    }
}
