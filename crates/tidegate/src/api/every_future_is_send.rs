//! Each public future can move between the threads of a runtime, also inside of the `async` block of a task. There the
//! compiler asks for more than for the future alone: an `impl AsyncFn` argument, for example, is refused with
//! "implementation of `Send` is not general enough". Most of this file is compiled and never run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::local::FilesBelow;
use crate::backend::{Attempt, Backend, LifecycleRule, Session};
use crate::recover::{ClaimedUpload, LeftUpload};
use crate::store::Manifest;
use crate::upload::{PartReceipt, PartsUpload, Pending, PrepareBuilder, Resumable};
use crate::{Object, Store, Tidegate, Writer};

fn is_send(_: impl Future + Send + 'static) {}

macro_rules! sent {
    ($($future:expr),* $(,)?) => {
        $(is_send(async move { let _ = $future.await; });)*
    };
}

fn engine(tide: fn() -> Tidegate) {
    sent!(
        tide().open("memory://"),
        tide().settled(),
        tide().run_to_end(async {}, |_| async { Ok(()) }),
        tide().recover(),
        tide().resume("id"),
        tide().create_bucket("s3://b"),
        tide().remove_bucket("s3://b"),
    );
}

fn pending(
    store: fn() -> Store,
    pending: fn() -> Pending,
    set: fn() -> Manifest,
    part: fn() -> PrepareBuilder,
    point: fn() -> Resumable,
) {
    sent!(
        part(),
        store().commit(&pending()),
        store().abandon(&pending()),
        store().abandon(&point()),
        store().resume(&point()),
        store().forget(&point()),
        store().prepare_all("k", [part()]),
        store().commit_all(&set()),
        store().roll_forward("k"),
        store().abandon_all(&set()),
        store().abandon_set("k"),
        store().end_abandoning("k"),
        store().find_set("k"),
    );
}

fn in_parts(store: fn() -> Store, upload: fn() -> PartsUpload, receipts: fn() -> Vec<PartReceipt>) {
    sent!(
        store().upload_in_parts("k"),
        store().parts_upload("id"),
        upload().put_part(1, "bytes"),
        upload().complete(&receipts()),
        upload().abandon(),
    );
}

fn store(
    store: fn() -> Store,
    writer: fn() -> Writer,
    object: fn() -> Object,
    session: fn() -> Session,
    rule: fn() -> LifecycleRule,
) {
    sent!(
        store().put("k", "bytes"),
        store().get("k"),
        store().get_range("k", 1..2),
        store().writer("k"),
        store().writer("k").upload("path"),
        store().writer("k").upload_below(&Arc::new(FilesBelow::new("root", true)), "name"),
        store().upload("path", "k"),
        store().reader("k"),
        store().reader("k").bytes(),
        store().download("k", "path"),
        store().blocks("k", [0..1]),
        store().copy("k", &store(), "to"),
        store().rename("k", "to"),
        store().head("k"),
        store().hides_capitals(&object()),
        store().find("k"),
        store().exists("k"),
        store().is_directory("k"),
        store().tags("k"),
        store().delete("k"),
        store().delete_if_unchanged("k", &object()),
        store().delete_many(["k"]),
        store().is_one_place("k", &store(), "k"),
        store().keeps_as_one("k", &store(), "k"),
        store().kept_elsewhere("k"),
        store().left("k"),
        store().sweep(""),
        store().held(&session()),
        store().abort_session(&session()),
        store().lifecycle(),
        store().ensure_lifecycle(),
        store().uploads_cut_short(&rule()),
        store().versioning(),
        store().presign_get("k", Duration::ZERO),
        store().presign_put("k", Duration::ZERO),
    );
    is_send(async move {
        let mut writer = store().writer("k").start().await?;
        writer.write_bytes(Bytes::new()).await?;
        writer.write_shared(Bytes::new()).await?;
        writer.read_from(&mut tokio::io::empty()).await?;
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"").await?;
        futures::SinkExt::send(&mut writer, Bytes::new()).await?;
        writer.sync().await?;
        writer.persist().await?;
        writer.open_session(Duration::ZERO).await?;
        let object = writer.finish().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(object)
    });
    sent!(writer().abort());
}

fn recovered(left: fn() -> LeftUpload, claimed: fn() -> ClaimedUpload, store: fn() -> Store) {
    sent!(
        left().claim(),
        left().claim_on(&store()),
        left().resume(),
        left().resume_on(&store()),
        left().abort(),
        left().abort_on(&store()),
        left().forget(),
        left().verify(),
        claimed().resume(),
        claimed().abort(),
    );
}

fn backends(backend: fn() -> Box<dyn Backend>, session: fn() -> Session) {
    use crate::backend::KnownFacts;
    use crate::backend::azure::{Azure, AzureClient};
    use crate::backend::gcs::{Gcs, GcsClient};
    use crate::backend::s3::{S3, S3Client};
    use crate::settings::{AzureSettings, GcsSettings, S3Settings};

    sent!(
        backend().abort(&session(), Attempt::FIRST),
        S3::connect("b", &S3Settings::default()),
        S3Client::connect(&S3Settings::default()),
        S3Client::connect_with(&S3Settings::default(), &KnownFacts::default()),
        Gcs::connect("b", &GcsSettings::default()),
        GcsClient::connect(&GcsSettings::default()),
        GcsClient::connect_with(&GcsSettings::default(), &KnownFacts::default()),
        Azure::connect("c", &AzureSettings::default()),
        AzureClient::connect(&AzureSettings::default(), &KnownFacts::default()),
    );
}

#[cfg(feature = "prefix")]
fn prefixed(
    store: fn() -> Store,
    prefixed: fn() -> crate::prefix::PrefixedStore,
    layout: fn() -> crate::prefix::Layout,
) {
    use crate::prefix::PrefixedStore;

    sent!(
        PrefixedStore::open(&store()),
        PrefixedStore::open_with(&store(), Duration::ZERO),
        PrefixedStore::init(&store(), layout()),
        prefixed().change(layout()),
        prefixed().migrate(Duration::ZERO),
    );
}

/// The names of the `pub async fn` in a directory's sources.
#[allow(clippy::unwrap_used)] // test code as well
fn public_futures(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            public_futures(&path, names);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names_of = |line: &str| {
                let rest = line.trim().strip_prefix("pub async fn ")?;
                rest.split(['(', '<']).next().map(str::to_owned)
            };
            names.extend(text.lines().filter_map(names_of));
        }
    }
}

#[test]
fn every_public_future_is_named_in_this_file() {
    // Never called: the test is that these functions compile.
    let _ = (engine, pending, in_parts, store, recovered, backends);
    #[cfg(feature = "prefix")]
    let _ = prefixed;
    let mut names = BTreeSet::new();
    public_futures(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    assert!(names.len() > 30, "{names:?}");
    let text = include_str!("every_future_is_send.rs");
    let is_missing =
        |name: &&String| !text.contains(&format!(".{name}(")) && !text.contains(&format!("::{name}("));
    let missing: Vec<_> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "add these: {missing:?}");
}
