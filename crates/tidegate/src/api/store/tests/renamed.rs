//! Renames on stores and on a local disk.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use async_trait::async_trait;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Fault, FaultKind, WriteOptions};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Checksum;

async fn disk() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.open(directory.path().to_str().unwrap()).await.unwrap();
    (directory, store)
}

#[tokio::test]
async fn a_renamed_object_has_the_other_key_and_its_attributes() {
    let store = store().await;
    store.put("a", "text").content_type("text/x").metadata("by", "me").await.unwrap();
    let object = store.rename("a", "b/c").await.unwrap();
    assert_eq!((object.key.as_str(), object.size), ("b/c", 4));
    let found = store.head("b/c").await.unwrap();
    assert_eq!(found.attributes.content_type.as_deref(), Some("text/x"));
    assert_eq!(found.attributes.metadata["by"], "me");
    assert!(!store.exists("a").await.unwrap());

    store.put("a", "other").await.unwrap();
    assert_eq!(kind(store.rename("a", "b/c").create_only().await), ErrorKind::AlreadyExists);
    assert_eq!(store.get("b/c").await.unwrap(), "text");
    store.rename("a", "b/c").await.unwrap();
    assert_eq!(store.get("b/c").await.unwrap(), "other");
    let object = store.rename("b/c", "b/c").await.unwrap();
    assert_eq!((object.key.as_str(), object.size), ("b/c", 5), "onto itself");
    assert_eq!(kind(store.rename("b/c", "b/c").create_only().await), ErrorKind::AlreadyExists);
    assert_eq!(kind(store.rename("none", "none").create_only().await), ErrorKind::NotFound);
    assert_eq!(store.get("b/c").await.unwrap(), "other");
    assert_eq!(kind(store.rename("missing", "x").await), ErrorKind::NotFound);
}

/// Somebody writes the source of each copy anew once the copy is made.
#[derive(Debug)]
struct Rewritten;

#[async_trait]
impl Script for Rewritten {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let Call::Copy { from, .. } = call else { return below.send(call).await };
        let copied = below.send(call).await?;
        let bytes = Bytes::from("newer");
        let checksum = Checksum::of(below.store.capabilities().checksum, &bytes);
        let payload = Payload::from_memory(vec![bytes], checksum);
        below.store.put(&from.key, payload, &WriteOptions::default(), below.attempt).await?;
        Ok(copied)
    }
}

#[tokio::test]
async fn an_object_that_took_the_place_of_the_source_meanwhile_is_not_removed() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Scripted::new(Memory::new("m"), Rewritten));
    store.put("a", "older").await.unwrap();
    let error = store.rename("a", "b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert_eq!(store.get("a").await.unwrap(), "newer");
    assert_eq!(store.get("b").await.unwrap(), "older");
}

/// Somebody writes the source anew right before the first removal reaches the store, which then loses the removal's
/// answer.
#[derive(Debug, Default)]
struct Overtaken {
    heeds: bool,
    is_done: AtomicBool,
}

#[async_trait]
impl Script for Overtaken {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let Call::Delete { key, same } = call else { return below.send(call).await };
        if self.is_done.swap(true, Relaxed) {
            return below.send(Call::Delete { key, same: same.filter(|_| self.heeds) }).await;
        }
        if !self.heeds {
            below.send(Call::Delete { key, same: None }).await?;
        }
        let bytes = Bytes::from("newer");
        let checksum = Checksum::of(below.store.capabilities().checksum, &bytes);
        let payload = Payload::from_memory(vec![bytes], checksum);
        below.store.put(key, payload, &WriteOptions::default(), below.attempt).await?;
        if self.heeds {
            return below.send(Call::Delete { key, same }).await;
        }
        Err(Fault::new(FaultKind::Transient, "the answer was lost"))
    }
}

#[tokio::test]
async fn an_object_written_right_before_the_removal_stays_by_the_stores_condition() {
    let tide = Tidegate::builder().build().unwrap();
    let script = Overtaken { heeds: true, ..Overtaken::default() };
    let store = tide.store(Scripted::new(Memory::new("m"), script));
    store.put("a", "older").await.unwrap();
    assert_eq!(kind(store.rename("a", "b").await), ErrorKind::Replaced);
    assert_eq!(store.get("a").await.unwrap(), "newer");
    assert_eq!(store.get("b").await.unwrap(), "older");
}

#[tokio::test]
async fn a_removal_that_is_retried_takes_no_object_written_meanwhile() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Scripted::new(Memory::new("m"), Overtaken::default()));
    store.put("a", "older").await.unwrap();
    assert_eq!(kind(store.rename("a", "b").await), ErrorKind::Replaced);
    assert_eq!(store.get("a").await.unwrap(), "newer");
    assert_eq!(store.get("b").await.unwrap(), "older");
}

/// Counts the looks at objects.
#[derive(Debug, Default)]
struct Looks(AtomicUsize);

#[async_trait]
impl Script for Looks {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        self.0.fetch_add(usize::from(matches!(call, Call::Head { .. })), Relaxed);
        below.send(call).await
    }
}

#[tokio::test]
async fn what_a_store_does_not_have_takes_no_turn_of_its_requests() {
    let tide = Tidegate::builder().build().unwrap();
    let scripted = Scripted::new(Memory::new("m"), Looks::default());
    let store = tide.store(scripted.clone());
    let requests = || store.context().engine().progress.snapshot().requests;
    assert_eq!(kind(store.head("missing").await), ErrorKind::NotFound);
    assert_eq!((requests(), scripted.0.swap(0, Relaxed)), (1, 1));
    store.put("a", "text").await.unwrap();
    let before = requests();
    store.rename("a", "b").await.unwrap();
    // The description, the copy, and the removal, which looks once more.
    assert_eq!((requests() - before, scripted.0.swap(0, Relaxed)), (3, 2));
}

#[tokio::test]
async fn a_file_is_renamed_by_the_system() {
    let (directory, store) = disk().await;
    let at = |key: &str| directory.path().join(key);
    store.put("a", "text").await.unwrap();
    fs::set_permissions(at("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let inode = fs::metadata(at("a")).unwrap().ino();
    let object = store.rename("a", "new/deep/b").create_only().await.unwrap();
    assert_eq!((object.key.as_str(), object.size), ("new/deep/b", 4));
    let found = fs::metadata(at("new/deep/b")).unwrap();
    assert_eq!((found.ino(), found.mode() & 0o777), (inode, 0o640), "it is the same file");
    assert!(!at("a").exists());

    store.put("a", "other").await.unwrap();
    assert_eq!(kind(store.rename("a", "new/deep/b").create_only().await), ErrorKind::AlreadyExists);
    store.rename("a", "new/deep/b").await.unwrap();
    assert_eq!(store.get("new/deep/b").await.unwrap(), "other");
    assert!(!at("a").exists());
    assert_eq!(store.rename("new/deep/b", "new/deep/b").await.unwrap().size, 5);
    assert_eq!(kind(store.rename("missing", "made/x").await), ErrorKind::NotFound);
    assert!(!at("made").exists(), "a rename that fails leaves no directory");
    assert_eq!(kind(store.rename("new/deep/b", "new").await), ErrorKind::InvalidInput);
    assert_eq!(kind(store.rename("new/deep", "x").await), ErrorKind::NotFound);
    assert_eq!(kind(store.rename("../a", "x").await), ErrorKind::InvalidInput);
    store.put("file", "1").await.unwrap();
    assert_eq!(kind(store.rename("new/deep/b", "file/below").await), ErrorKind::InvalidInput);
    assert_eq!(store.get("new/deep/b").await.unwrap(), "other");
}

#[tokio::test]
async fn two_names_of_one_file_become_one() {
    let (directory, store) = disk().await;
    store.put("a", "text").await.unwrap();
    fs::hard_link(directory.path().join("a"), directory.path().join("b")).unwrap();
    assert_eq!(kind(store.rename("a", "b").create_only().await), ErrorKind::AlreadyExists);
    store.rename("a", "b").await.unwrap();
    assert_eq!(store.get("b").await.unwrap(), "text");
    assert!(!store.exists("a").await.unwrap());
}

#[tokio::test]
async fn links_are_written_through_and_what_they_lead_to_stays() {
    let (directory, store) = disk().await;
    let at = |key: &str| directory.path().join(key);
    store.put("real", "text").await.unwrap();
    symlink("real", at("link")).unwrap();
    // The link has the object's bytes: they get the new key, and the link goes.
    store.rename("link", "copied").await.unwrap();
    assert_eq!(store.get("copied").await.unwrap(), "text");
    assert!(!at("link").is_symlink() && at("real").exists());

    symlink("real", at("link")).unwrap();
    store.put("new", "newer").await.unwrap();
    store.rename("new", "link").await.unwrap();
    assert!(at("link").is_symlink() && !at("new").exists());
    assert_eq!(store.get("real").await.unwrap(), "newer");
    // The target is the source itself, by a link: removing it would remove all there is.
    assert_eq!(store.rename("real", "link").await.unwrap().size, 5);
    assert_eq!(kind(store.rename("real", "link").create_only().await), ErrorKind::AlreadyExists);
    assert_eq!(store.get("real").await.unwrap(), "newer");

    fs::create_dir(at("folder")).unwrap();
    store.put("folder/k", "1").await.unwrap();
    symlink("folder", at("way")).unwrap();
    assert_eq!(kind(store.rename("way/k", "x").await), ErrorKind::InvalidInput);
    assert!(at("folder/k").exists() && !at("x").exists());
}
