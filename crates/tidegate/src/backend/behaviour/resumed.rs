//! Points of uploads: persisted by one engine, and continued or given up by another, as by another process.

use std::time::Duration;

use bytes::Bytes;

use super::pending::{kind_of, part, process, records, sweep};
use super::*;
use crate::upload::{Pending, Resumable};
use crate::{ErrorKind, Writer};

async fn begin(store: &TestStore, key: &str, create_only: bool) -> Writer {
    let builder = process(store).writer(store.key(key));
    let builder = if create_only { builder.create_only() } else { builder };
    builder.await.unwrap()
}

async fn write(writer: &mut Writer, bytes: &[u8]) {
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await.unwrap();
}

/// Persists a point, and sends it to another process. `None` if nobody could ask the server how much it has.
async fn persist(writer: &mut Writer) -> Option<Resumable> {
    match writer.persist().await {
        Ok(point) => {
            let read = Resumable::from_json(&point.to_json()).unwrap();
            assert_eq!(read, point);
            assert_eq!(read.size(), writer.position());
            Some(read)
        }
        Err(error) if error.to_string().contains("does not tell how much it has") => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

async fn assert_nothing_but(store: &TestStore, keys: &[&str]) {
    assert_eq!(store.keys("", true).await, keys);
    assert_eq!(records(store).await, Vec::<String>::new());
    if store.capabilities().aborts {
        assert_eq!(store.open_sessions("").await, []);
    }
}

pub(super) async fn an_upload_is_continued_by_another_process(store: &TestStore) {
    let grain = store.capabilities().append.unwrap_or(256 << 10) as usize;
    let full = part(store).max(grain);
    for (create_only, first, second) in [
        (false, 0, 0),
        (false, 5, 9),
        (false, full, 1),
        (false, full + 9000, 2 * full),
        (true, 0, 7),
        (true, 9000, 0),
        (true, grain + 3, full),
        (true, 2 * full + 17, 5000),
    ] {
        let (key, data) = (format!("r/{create_only}-{first}-{second}"), bytes_of(first + second));
        let mut writer = begin(store, &key, create_only).await;
        write(&mut writer, &data[..first]).await;
        let Some(point) = persist(&mut writer).await else { return writer.abort().await.unwrap() };
        drop(writer);
        assert_eq!(kind(store.head(&key)).await.0, FaultKind::NotFound, "{key}");
        assert!(!store.keys("", true).await.contains(&key), "{key}");
        let mut writer = process(store).resume(&point).await.unwrap();
        write(&mut writer, &data[first..]).await;
        let object = if second % 2 == 0 {
            writer.finish().await.unwrap()
        } else {
            let pending = writer.prepare().await.unwrap();
            let pending = Pending::from_json(&pending.to_json()).unwrap();
            process(store).commit(&pending).await.unwrap()
        };
        assert_eq!((object.size, &*object.key), (data.len() as u64, &*store.key(&key)));
        assert!(store.read(&key).await == data, "{key}");
        assert_nothing_but(store, &[&key]).await;
        store.delete(&key, None).await.unwrap();
    }
}

/// What was written behind a point does not count: its process may have gone on, or another may have resumed from it.
pub(super) async fn an_old_point_is_continued_after_its_writer_went_on(store: &TestStore) {
    let full = part(store).max(store.capabilities().append.unwrap_or_default() as usize);
    for create_only in [false, true] {
        let key = format!("r/{create_only}");
        let data = bytes_of(6 * full);
        let mut writer = begin(store, &key, create_only).await;
        write(&mut writer, &data[..full + 6000]).await;
        let Some(old) = persist(&mut writer).await else { return writer.abort().await.unwrap() };
        write(&mut writer, &data[full + 6000..4 * full + 11]).await;
        persist(&mut writer).await.unwrap();
        drop(writer);
        // A stream that is resumed may write other bytes than before. A session that only goes forward has the first
        // ones: then the object is refused.
        let mut writer = process(store).resume(&old).await.unwrap();
        let is_appended = old.to_json().contains("\"append\"");
        let other: Vec<u8> = data[full + 6000..5 * full].iter().map(|byte| !byte).collect();
        let whole = if is_appended { data.clone() } else { [&data[..full + 6000], &other].concat() };
        if is_appended {
            writer.persist().await.unwrap();
            drop(writer);
            writer = process(store).resume(&old).await.unwrap();
        }
        write(&mut writer, &whole[full + 6000..]).await;
        assert_eq!(writer.finish().await.unwrap().size, whole.len() as u64);
        assert!(store.read(&key).await == whole, "{key}");
        assert_nothing_but(store, &[&key]).await;
        let (refused, said) = kind_of(process(store).resume(&old).await);
        assert_eq!(refused, ErrorKind::SessionLost, "{said}");
        // Without tokens nothing tells whose the object is.
        if store.capabilities().tokens {
            let (refused, said) = kind_of(process(store).abandon(&old).await);
            assert_eq!(refused, ErrorKind::Closed, "{said}");
        }
        store.delete(&key, None).await.unwrap();
    }
}

/// A session that only goes forward, whose resumed writer writes other bytes, or fewer.
pub(super) async fn other_bytes_behind_an_old_point_are_not_published(store: &TestStore) {
    let Some(grain) = store.capabilities().append else { return };
    let full = part(store).max(grain as usize);
    let data = bytes_of(6 * full);
    for size in [2 * full, 6 * full] {
        let mut writer = begin(store, "k", true).await;
        write(&mut writer, &data[..full + 5]).await;
        let Some(old) = persist(&mut writer).await else { return writer.abort().await.unwrap() };
        write(&mut writer, &data[full + 5..5 * full]).await;
        persist(&mut writer).await.unwrap();
        drop(writer);
        let mut writer = process(store).resume(&old).await.unwrap();
        write(&mut writer, &vec![7; size - full - 5]).await;
        let (refused, said) = kind_of(writer.finish().await);
        assert!(matches!(refused, ErrorKind::Integrity | ErrorKind::SessionLost), "{refused}: {said}");
        assert_eq!(kind(store.head("k")).await.0, FaultKind::NotFound, "{said}");
        process(store).abandon(&old).await.unwrap();
        assert_nothing_but(store, &[]).await;
    }
}

pub(super) async fn a_point_is_spared_by_sweeps_and_can_be_given_up(store: &TestStore) {
    for (create_only, size) in [(false, 100), (true, 300_000), (false, 2 * part(store) + 9000)] {
        let (key, data) = (format!("r/{create_only}-{size}"), bytes_of(size));
        let mut writer = begin(store, &key, create_only).await;
        write(&mut writer, &data).await;
        let Some(point) = persist(&mut writer).await else { return writer.abort().await.unwrap() };
        // Parts that come behind the point do not end its protection.
        write(&mut writer, &bytes_of(2 * part(store))).await;
        drop(writer);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let swept = sweep(store).await;
        assert_eq!((swept.ended, swept.failed), (0, 0), "{swept:?}");
        let writer = process(store).resume(&point).await.unwrap();
        assert_eq!(writer.position(), size as u64);
        drop(writer);
        for _ in 0..2 {
            process(store).abandon(&point).await.unwrap();
        }
        let (refused, said) = kind_of(process(store).resume(&point).await);
        assert_eq!(refused, ErrorKind::SessionLost, "{said}");
        assert_eq!(kind(store.head(&key)).await.0, FaultKind::NotFound, "{key}");
        assert_nothing_but(store, &[]).await;
    }
}

pub(super) async fn a_process_that_continues_renews_the_lifetime(store: &TestStore) {
    for create_only in [false, true] {
        let (key, data) = (format!("r/{create_only}"), bytes_of(2 * part(store) + 9000));
        let mut writer = begin(store, &key, create_only).await;
        write(&mut writer, &data).await;
        let point = match writer.persist().lifetime(Duration::from_secs(1)).await {
            Ok(point) => point,
            Err(error) if error.to_string().contains("does not tell how much it has") => {
                println!("skipped: {error}");
                return writer.abort().await.unwrap();
            }
            Err(error) => panic!("{error}"),
        };
        drop(writer);
        while std::time::SystemTime::now() <= point.until() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // No sweep came in between. A lifetime of a second would end in the middle of this test.
        let mut longer: serde_json::Value = serde_json::from_str(&point.to_json()).unwrap();
        assert_eq!(longer["lifetime"], 1);
        longer["lifetime"] = 3600.into();
        let point = Resumable::from_json(&longer.to_string()).unwrap();
        drop(process(store).resume(&point).await.unwrap());
        let swept = sweep(store).await;
        assert_eq!((swept.ended, swept.failed), (0, 0), "{swept:?}");
        let mut kept = records(store).await;
        kept.retain(|key| key.starts_with(".tidegate/pending/"));
        assert_eq!(kept.len(), usize::from(!store.is_local()), "one record is over, one is new");
        let writer = process(store).resume(&point).await.unwrap();
        assert_eq!(writer.finish().await.unwrap().size, data.len() as u64);
        assert!(store.read(&key).await == data, "{key}");
        assert_nothing_but(store, &[&key]).await;
        store.delete(&key, None).await.unwrap();
    }
}
