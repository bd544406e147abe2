//! Conditional writes while an object may be in either of two places.

use super::changes::changed;
use super::late::copied;
use super::*;

#[tokio::test]
async fn create_only_holds_across_both_places() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(64), &["a"]).await;
    for bytes in [1, 3 * PART] {
        let error = create(&store, "a", &vec![7; bytes]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        create(&store, &format!("new-{bytes}"), &vec![7; bytes]).await.unwrap();
    }
    store.delete("a").await.unwrap();
    create(&store, "a", b"2").await.unwrap();
}

/// Writes `bytes` on the condition that they replace the object `replaced`.
async fn replace(store: &PrefixedStore, key: &str, bytes: &[u8], replaced: &Object) -> Result<Object> {
    let mut writer = store.writer(key).replaces(replaced.clone()).start().await?;
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await?;
    writer.finish().await
}

#[tokio::test]
async fn what_is_yet_to_be_moved_is_not_said_to_have_been_replaced() {
    let memory = memory_that(true);
    let store = changed(&memory, base2(4), base2(64), &["a"]).await;
    let first = store.head("a").await.unwrap();
    for bytes in [1, 3 * PART] {
        let error = replace(&store, "a", &vec![7; bytes], &first).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Unsupported, 1), "{error}");
        assert!(error.to_string().contains("run `tidegate prefix migrate` first"), "{error}");
    }
    assert_eq!(copied(&store).await, 1);
    let moved = store.head("a").await.unwrap();
    let second = replace(&store, "a", b"second", &moved).await.unwrap();
    assert_eq!(read(&store, "a").await.unwrap(), b"second");
    assert_eq!(kind(replace(&store, "a", b"third", &moved).await), ErrorKind::Replaced);
    assert_eq!(kind(replace(&store, "none", b"1", &second).await), ErrorKind::Replaced);
}
