//! Removals of an object that is still the same.

use std::path::Path;

use async_trait::async_trait;

use super::*;

/// A store that gives its objects neither an ETag nor a version.
#[derive(Debug)]
struct Nameless;

#[async_trait]
impl Script for Nameless {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match below.send(call).await? {
            Answer::Object(object) => Ok(Answer::Object(Object { etag: None, version: None, ..object })),
            answer => Ok(answer),
        }
    }
}

#[tokio::test]
async fn an_object_without_an_etag_or_a_version_stays() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Scripted::new(Memory::new("m"), Nameless));
    store.put("a", "text").await.unwrap();
    let object = store.head("a").await.unwrap();
    assert!(!object.has_identity());
    let error = store.delete_if_unchanged("a", &object).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(store.get("a").await.unwrap(), "text");
}

#[tokio::test]
async fn a_local_file_that_was_rewritten_in_place_with_the_same_size_stays() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.open(directory.path().to_str().unwrap()).await.unwrap();
    let before = store.put("a", "older").await.unwrap();
    rewrite(&directory.path().join("a"), b"newer");
    let error = store.delete_if_unchanged("a", &before).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert_eq!(store.get("a").await.unwrap(), "newer");
    store.delete_if_unchanged("a", &store.head("a").await.unwrap()).await.unwrap();
    assert!(!store.exists("a").await.unwrap());
    store.delete_if_unchanged("a", &before).await.unwrap();
}

/// Writes the bytes until the file has another time: file systems count time in steps of some milliseconds.
fn rewrite(path: &Path, bytes: &[u8]) {
    let modified = || std::fs::metadata(path).unwrap().modified().unwrap();
    let before = modified();
    while modified() == before {
        std::fs::write(path, bytes).unwrap();
    }
}
