//! One suite for every backend: what [`Backend`] and the traits beside it promise, asked of each store.
//!
//! A case is a function over a [`TestStore`]. It learns from the store's accessors, capabilities and
//! [`check`](Backend::check) what the store has, never from its name. Where a store lacks something, the case asserts
//! the refusal, or prints that it is skipped. No case may leave a session behind.
//!
//! The same cases run on real servers, in the tests below `on_real_servers`, which `scripts/test --only behaviour`
//! runs.

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::Arc;

use futures::TryStreamExt;
use tidegate_dev::{Knobs, Server};

use super::gcs::{GcsScheme, GcsTransport};
use super::local::Local;
use super::memory::Memory;
use super::s3::S3Scheme;
use super::samples::{MIB, OnDisk, bytes_of, collect, kind, memory_of};
use super::*;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;
use tidegate_gcs::testkit as google;
use tidegate_s3::testkit::settings_for;

mod appending;
mod attributes;
mod conditions;
mod copies;
mod listings;
mod objects;
mod pending;
mod real_servers;
mod resumed;
mod sessions;

/// Makes a module for each store and each real server, with a test for each case.
macro_rules! suite {
    (
        stores { $($store:ident has $has:literal: $open:expr;)+ }
        real_servers { $($server:ident)+ }
        cases $cases:tt
    ) => {
        $(
            mod $store {
                use super::*;

                #[tokio::test]
                async fn the_store_has_what_the_table_says() {
                    let store = $open;
                    assert_eq!(store.offered(), $has);
                }

                suite!(@tests $open, $cases);
            }
        )+
        mod on_real_servers {
            use super::*;

            $(
                mod $server {
                    use super::*;

                    suite!(@ignored_tests $server, $cases);
                }
            )+
        }
    };
    (@tests $open:expr, { $($group:ident { $($case:ident,)+ })+ }) => { $($(
        #[tokio::test]
        async fn $case() {
            let store = $open;
            $group::$case(&store).await;
            assert_eq!(store.open_sessions("").await, [], "the case left sessions behind");
        }
    )+)+ };
    (@ignored_tests $server:ident, { $($group:ident { $($case:ident,)+ })+ }) => { $($(
        #[tokio::test]
        #[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
        async fn $case() {
            let run = async |store: &TestStore| $group::$case(store).await;
            real_servers::try_case(stringify!($server), stringify!($case), run).await;
        }
    )+)+ };
}

suite! {
    stores {
        memory has "parts copy admin": in_memory();
        local has "parts copy rename admin": on_disk();
        s3 has "parts copy bulk bucket-check presign admin": on_server("", |server| S3Scheme::new(settings_for(server))).await;
        s3_below_a_prefix has "parts copy bulk bucket-check presign admin": on_server("some/prefix/", |server| S3Scheme::new(settings_for(server))).await;
        gcs_over_http has "parts append copy presign admin": on_server("", |server| GcsScheme::new(google::settings(server, GcsTransport::Http))).await;
        gcs_over_grpc has "parts append copy presign admin": on_server("", |server| GcsScheme::new(google::settings(server, GcsTransport::Grpc))).await;
    }
    real_servers { minio versitygw rclone_s3 seaweedfs moto fake_gcs_server azurite }
    cases {
        objects {
            an_object_comes_back_as_it_was_put,
            a_range_is_cut_to_the_object,
            what_is_removed_is_gone,
            many_are_removed_in_one_request,
            bytes_that_are_not_those_of_the_checksum_are_refused,
            a_missing_bucket_is_told_from_a_missing_object,
        }
        conditions {
            only_the_same_object_is_read_or_removed,
            the_engine_removes_an_object_only_if_it_is_unchanged,
            create_only_never_replaces,
            a_write_may_replace_one_object_and_no_other,
            conditions_of_a_session_are_decided_at_completion,
        }
        listings {
            a_listing_is_in_key_order_and_stops_at_a_slash,
            a_listing_may_begin_behind_a_key,
            odd_keys_are_themselves,
            sessions_are_listed_below_a_prefix,
        }
        attributes {
            attributes_come_back_however_an_object_is_sent,
        }
        sessions {
            a_session_becomes_an_object,
            an_aborted_session_is_gone,
            parts_that_are_no_whole_are_not_published,
            a_whole_that_is_not_that_of_its_checksum_is_found_out,
        }
        appending {
            bytes_are_appended_until_the_last_ones_publish_them,
        }
        copies {
            an_object_is_copied_in_one_request,
            an_object_is_copied_in_parts,
            a_copy_is_of_the_object_that_was_described,
            a_copy_by_the_engine_keeps_what_its_source_has,
            an_object_is_renamed,
        }
        pending {
            a_pending_upload_becomes_an_object_once,
            two_commits_at_once_give_one_object,
            an_abandoned_upload_is_lost,
            conditions_of_a_pending_upload_are_decided_by_its_commit,
            a_pending_upload_carries_its_attributes,
            a_sweep_spares_a_pending_upload_for_its_lifetime,
            a_dropped_writer_that_was_prepared_leaves_its_session,
            a_set_is_published_whole_or_not_begun,
        }
        resumed {
            an_upload_is_continued_by_another_process,
            an_old_point_is_continued_after_its_writer_went_on,
            other_bytes_behind_an_old_point_are_not_published,
            a_point_is_spared_by_sweeps_and_can_be_given_up,
            a_process_that_continues_renews_the_lifetime,
        }
    }
}

/// A store for one test. Its methods take keys as the case writes them, and put `below` before each.
struct TestStore {
    store: Arc<dyn Backend>,
    /// A bucket that does not exist; `None` if the store makes every bucket that is named.
    missing: Option<Arc<dyn Backend>>,
    below: &'static str,
    /// The server has no uploads in parts, though its protocol does.
    lacks_parts: bool,
    /// The size in bytes of a part that is not the last one.
    part: usize,
    /// Kept for as long as the store is used: its server or its directory.
    _kept: Box<dyn Any>,
}

impl Deref for TestStore {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// The smallest part in bytes of the stores that a case starts itself, except for a disk's: a cloud's would make the
/// cases slow.
const PART: usize = 100_000;

fn in_memory() -> TestStore {
    let store = Memory::new("bucket");
    let capabilities = Capabilities { min_part: PART as u64, ..store.capabilities().clone() };
    TestStore::new(store.with_capabilities(capabilities), None, ())
}

fn on_disk() -> TestStore {
    let directory = tempfile::tempdir().unwrap();
    let root = |name| Local::new(directory.path().join(name));
    std::fs::create_dir(directory.path().join("root")).unwrap();
    TestStore::new(root("root"), Some(Arc::new(root("missing"))), directory)
}

/// A bucket of an embedded server, whose listings have two entries a page.
async fn on_server<S: Scheme>(below: &'static str, scheme: impl FnOnce(&Server) -> S) -> TestStore {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let knobs = Knobs { longest_page: Some(2), min_part_size: Some(PART as u64), ..Knobs::default() };
    server.set_knobs(knobs);
    let (scheme, facts) = (scheme(&server), KnownFacts::default());
    let missing = scheme.open("no-such-bucket", &facts).await.unwrap();
    let store = scheme.open("bucket", &facts).await.unwrap();
    TestStore {
        store,
        missing: Some(missing),
        below,
        lacks_parts: false,
        part: PART,
        _kept: Box::new(server),
    }
}

impl TestStore {
    fn new(store: impl Backend, missing: Option<Arc<dyn Backend>>, kept: impl Any) -> Self {
        Self {
            store: Arc::new(store),
            missing,
            below: "",
            lacks_parts: false,
            part: PART,
            _kept: Box::new(kept),
        }
    }

    /// The traits that the store has beside [`Backend`].
    fn offered(&self) -> String {
        let all = [
            ("parts", self.parts().is_some()),
            ("append", self.appending().is_some()),
            ("copy", self.server_copy().is_some()),
            ("rename", self.renames().is_some()),
            ("bulk", self.bulk_delete().is_some()),
            ("bucket-check", self.bucket_check().is_some()),
            ("presign", self.presigning().is_some()),
            ("admin", self.admin().is_some()),
        ];
        let names: Vec<&str> = all.into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
        names.join(" ")
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.below)
    }

    fn sum(&self, bytes: &[u8]) -> Checksum {
        Checksum::of(self.capabilities().checksum, bytes)
    }

    fn payload(&self, bytes: &[u8]) -> Payload {
        memory_of(bytes, self.capabilities().checksum)
    }

    fn payload_of(&self, file: &OnDisk, range: Range<usize>) -> Payload {
        file.payload_of(range, self.capabilities().checksum)
    }

    async fn put(&self, key: &str, bytes: &[u8]) -> Object {
        self.put_with(key, self.payload(bytes), &WriteOptions::default()).await.unwrap()
    }

    async fn put_with(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        self.store.put(&self.key(key), payload, options, Attempt::FIRST).await
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.store.head(&self.key(key), Attempt::FIRST).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        self.store.get(&self.key(key), range, same, Attempt::FIRST).await
    }

    async fn read(&self, key: &str) -> Vec<u8> {
        collect(self.get(key, None, None).await.unwrap()).await
    }

    async fn delete(&self, key: &str, same: Option<&Object>) -> Result<(), Fault> {
        self.store.delete(&self.key(key), same, Attempt::FIRST).await
    }

    /// The keys that are listed; a prefix has `…` behind it.
    async fn keys(&self, prefix: &str, recursive: bool) -> Vec<String> {
        let listed: Vec<Entry> = self.list(&self.key(prefix), recursive).try_collect().await.unwrap();
        let names = listed.iter().map(|entry| {
            let mark = if matches!(entry, Entry::Prefix(_)) { "…" } else { "" };
            format!("{}{mark}", entry.key().strip_prefix(self.below).unwrap())
        });
        names.collect()
    }

    /// The sessions that are listed; none if the store lists none.
    async fn open_sessions(&self, prefix: &str) -> Vec<Session> {
        let Some(admin) = self.admin() else { return Vec::new() };
        let open: Vec<OpenSession> = admin.sessions(&self.key(prefix)).try_collect().await.unwrap();
        assert!(open.iter().all(|open| open.started.is_some()), "{open:?}");
        open.into_iter().map(|open| open.session).collect()
    }

    /// Aborts a session. Succeeds on a store that aborts none, if it says so.
    async fn abort(&self, session: &Session) -> Result<(), Fault> {
        match self.store.abort(session, Attempt::FIRST).await {
            Err(fault) if !self.capabilities().aborts => {
                assert_eq!(fault.kind, FaultKind::Unsupported, "{fault}");
                Ok(())
            }
            aborted => aborted,
        }
    }

    /// Opens a session of parts. `None` if the store has none, and says so.
    async fn session(&self, key: &str, options: &WriteOptions) -> Option<PartsOfCase<'_>> {
        match self.need_parts() {
            Ok(parts) => {
                let opened = parts.open(&self.key(key), options, PartOrigin::Sent, Attempt::FIRST).await;
                if self.lacks_parts {
                    let refused = opened.unwrap_err();
                    assert_eq!(refused.kind, FaultKind::Unsupported, "{refused}");
                    return None;
                }
                Some(PartsOfCase { parts, store: self, session: opened.unwrap() })
            }
            Err(fault) => {
                assert_eq!(fault.kind, FaultKind::Unsupported);
                None
            }
        }
    }

    /// The object at a key as the source of a copy.
    async fn source(&self, key: &str) -> CopySource {
        let object = self.head(key).await.unwrap();
        CopySource::new(self.location(), self.key(key), object)
    }
}

/// A session of parts.
struct PartsOfCase<'a> {
    parts: &'a dyn Parts,
    store: &'a TestStore,
    session: Session,
}

impl PartsOfCase<'_> {
    async fn send(&self, number: u32, offset: usize, bytes: &[u8]) -> Result<Receipt, Fault> {
        self.part(number, offset as u64, self.store.payload(bytes).into()).await
    }

    async fn part(&self, number: u32, offset: u64, source: PartSource<'_>) -> Result<Receipt, Fault> {
        self.parts.part(&self.session, number, offset, source, Attempt::FIRST).await
    }

    async fn complete(
        &self,
        parts: &[Receipt],
        whole: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        self.parts.complete(&self.session, parts, Some(whole), options, Attempt::FIRST).await
    }

    async fn abort(&self) -> Result<(), Fault> {
        self.store.abort(&self.session).await
    }
}

fn create_only() -> WriteOptions {
    WriteOptions { create_only: true, ..WriteOptions::default() }
}

fn with_token(token: &str) -> WriteOptions {
    WriteOptions { token: Some(token.to_owned()), ..WriteOptions::default() }
}
