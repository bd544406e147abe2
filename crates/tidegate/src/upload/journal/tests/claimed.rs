//! Uploads that a process left: found, resumed, aborted, forgotten.

use super::*;
use crate::journal::Journal;
use crate::upload::writer::Side;

/// Resumes an upload, or begins one, writes to it and leaves it again, as if its process had died.
async fn goes_further(place: &Place, size: u64) -> Result<()> {
    let (tide, store) = place.process();
    let mut writer = match tide.recover().await?.first() {
        Some(left) => match left.resume_on(&store).await? {
            Resumed::Writer(writer) => writer,
            Resumed::Object(_) => panic!("it was not finished"),
        },
        None => place.writer(&store).await?,
    };
    let position = writer.position() as usize;
    writer.write_bytes(data(size).slice(position..)).await?;
    drop(writer);
    tide.settled().await;
    Ok(())
}

#[tokio::test]
async fn what_was_listed_may_be_less_than_what_is_claimed() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 100).await?;
    let (tide, store) = place.process();
    let left = tide.recover().await?;
    goes_further(&place, 5 * PART).await?;
    assert_eq!(left[0].length(), 100);
    let claimed = left[0].claim_on(&store).await?;
    let found = claimed.recovered().checksum;
    assert_eq!(found.covers(), 5 * PART);
    assert_eq!(found, crate::types::checksum::Checksum::of(found.algorithm(), &data(5 * PART)));
    let second = left[0].claim_on(&store).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::InvalidInput, "{second}");
    let Resumed::Writer(writer) = claimed.resume().await? else { panic!("it was not finished") };
    assert_eq!(writer.position(), 5 * PART);
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, data(5 * PART));
    let gone = left[0].claim_on(&store).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    Ok(())
}

#[tokio::test]
async fn an_engine_without_directories_can_go_on_with_a_journal_of_another() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 5 * PART).await?;
    let (tide, _store) = place.process();
    let left = tide.recover().await?;
    let other = Tidegate::builder().memory(256 * KIB).slab(4096).build()?;
    let claimed = left[0].claim_on(&other.store(place.backend.clone())).await?;
    let Resumed::Writer(writer) = claimed.resume().await? else { panic!("it was not finished") };
    let finish = tokio::time::timeout(Duration::from_secs(20), writer.finish());
    finish.await.expect("it has no memory to send with")?;
    assert_eq!(stored(&other.store(place.backend.clone()), "k").await, data(5 * PART));
    assert!(other.usage().held == 0 && other.usage().total == 256 * KIB);
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_dropped_changes_nothing() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 5 * PART).await?;
    let (tide, store) = place.process();
    let left = tide.recover().await?;
    drop(left[0].claim_on(&store).await?);
    assert_eq!(left[0].claim_on(&store).await?.recovered().checksum.covers(), 5 * PART);
    assert!(place.sessions(&store).await <= 1);
    Ok(())
}

#[tokio::test]
async fn what_another_process_writes_is_found_by_its_key() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(100)).await?;
    let mut other = store.writer("other").strategy(Strategy::Journal).start().await?;
    other.write_bytes(data(100)).await?;
    let (_tide, store) = place.process();
    let left = store.left("k").await?;
    let [left] = &left[..] else { panic!("{left:?}") };
    assert!(matches!(left.problem(), Some(JournalError::InUse { .. })), "{left:?}");
    assert_eq!(left.path(), journal(&writer).path());
    assert!(store.left("nothing").await?.is_empty());
    assert!(store.within("k").left("k").await?.is_empty());
    Ok(())
}

/// A journal directory that is configured under several names is listed once.
#[tokio::test]
async fn a_directory_of_two_names_is_listed_once() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 5 * PART).await?;
    let folder = tempfile::tempdir().unwrap();
    let alias = folder.path().join("alias");
    std::os::unix::fs::symlink(place.folder.path(), &alias).unwrap();
    let names = [place.folder.path().to_owned(), alias, place.folder.path().join(".")];
    let (tide, store) = place.process_of(place.builder().journal(names));
    assert_eq!(tide.recover().await?.len(), 1);
    assert_eq!(store.left("k").await?.len(), 1);
    // Once the directory is gone, `recover` fails.
    std::fs::remove_dir_all(place.folder.path()).unwrap();
    assert!(tide.recover().await.is_err());
    Ok(())
}

pub(super) fn journal(writer: &Writer) -> &Journal {
    match &writer.side {
        Side::Journaled(journaled) => &journaled.appender.journal,
        Side::Direct(_) => panic!("it has no journal"),
    }
}

#[tokio::test]
async fn an_abort_of_what_was_published_says_so() -> Result<()> {
    for size in [100, 5 * PART] {
        let place = Place::new();
        let (tide, store) = place.process();
        place.backend.lose_answers(true);
        let mut writer = place.writer(&store).await?;
        writer.write_bytes(data(size)).await?;
        writer.finish().await.unwrap_err();
        tide.settled().await;
        place.backend.go_down(false);
        let (tide, store) = place.process();
        let left = tide.recover().await?;
        let object = left[0].abort_on(&store).await?;
        assert_eq!(object.expect("it was published").size, size);
        assert_eq!(stored(&store, "k").await, data(size));
        assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    }
    Ok(())
}

#[tokio::test]
async fn an_upload_whose_store_is_gone_can_be_forgotten() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 5 * PART).await?;
    place.backend.go_down(true);
    let (tide, store) = place.process();
    let left = tide.recover().await?;
    left[0].abort_on(&store).await.unwrap_err();
    assert_eq!(place.files(), 1);
    left[0].forget().await?;
    assert_eq!(place.files(), 0);
    Ok(())
}

/// Such a journal can't be resumed. But while a process holds its lock, it stays.
#[tokio::test]
async fn a_journal_that_can_not_be_read_can_be_forgotten() -> Result<()> {
    let place = Place::new();
    goes_further(&place, 5 * PART).await?;
    let (tide, _store) = place.process();
    let left = tide.recover().await?;
    let bytes = std::fs::read(left[0].path()).unwrap();
    std::fs::write(left[0].path(), vec![0; bytes.len()]).unwrap();
    let held = std::fs::File::open(left[0].path()).unwrap();
    held.lock().unwrap();
    let error = left[0].forget().await.unwrap_err();
    assert_eq!((error.kind(), place.files()), (ErrorKind::InvalidInput, 1), "{error}");
    drop(held);
    left[0].forget().await?;
    assert_eq!(place.files(), 0);
    Ok(())
}

/// As docs/JOURNAL.md promises: after a failed sync, bytes that can still be read can be sent.
#[tokio::test]
async fn after_a_failed_sync_what_is_there_is_sent() -> Result<()> {
    for early in [true, false] {
        let place = Place::new();
        let (_tide, store) = place.process_of(place.builder().durability(Durability::Sync));
        let mut writer = place.writer(&store).await?;
        place.backend.go_down(early);
        writer.write_bytes(data(10 * PART)).await?;
        while !early && writer.progress().snapshot().acknowledged < 9 * PART {
            tokio::task::yield_now().await;
        }
        journal(&writer).fail();
        place.backend.go_down(false);
        let error = writer.sync().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{error}");
        assert!(writer.finish().await.is_err(), "it was told that it has failed");

        let mut writer = place.writer(&store).await?;
        place.backend.go_down(early);
        writer.write_bytes(data(10 * PART)).await?;
        journal(&writer).fail();
        place.backend.go_down(false);
        let object = writer.finish().await?;
        assert_eq!(object.size, 10 * PART);
        assert_eq!(stored(&store, "k").await, data(10 * PART));
    }
    Ok(())
}

/// Leaves, as if a process had died, a session with parts in the store, and the journal that can resume it.
async fn leave_a_session(place: &Place) -> Result<()> {
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(5 * PART)).await?;
    while writer.progress().snapshot().acknowledged < 4 * PART {
        tokio::task::yield_now().await;
    }
    drop(writer);
    tide.settled().await;
    Ok(())
}

#[tokio::test]
async fn a_sweep_leaves_alone_what_a_journal_goes_on_with() -> Result<()> {
    let place = Place::new();
    leave_a_session(&place).await?;
    let (tide, store) = place.process();
    let report = store.sweep("").older_than(Duration::ZERO).run().await?;
    assert_eq!((report.ended, report.journaled, place.sessions(&store).await), (0, 1, 1), "{report:?}");
    tide.recover().await?[0].forget().await?;
    let report = store.sweep("").older_than(Duration::ZERO).run().await?;
    assert_eq!((report.ended, report.journaled, place.sessions(&store).await), (1, 0, 0), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn a_sweep_that_can_not_read_a_journal_directory_ends_nothing() -> Result<()> {
    let place = Place::new();
    leave_a_session(&place).await?;
    let other = tempfile::tempdir().unwrap();
    let (tide, store) = place.process_of(place.builder().journal([other.path()]));
    let away = other.path().join("away");
    std::fs::rename(place.folder.path(), &away).unwrap();
    let report = store.sweep("").older_than(Duration::ZERO).run().await?;
    let error = report.error.as_ref().expect("it can't know").to_string();
    assert!(error.contains(&place.folder.path().display().to_string()), "{error}");
    assert_eq!((report.ended, report.failed, place.sessions(&store).await), (0, 1, 1), "{report:?}");
    assert!(store.left("k").await.is_err());
    let left = tide.recover().await?;
    assert_eq!((left.len(), left[0].path()), (1, place.folder.path()), "{left:?}");
    std::fs::rename(away, place.folder.path()).unwrap();
    let report = store.sweep("").older_than(Duration::ZERO).run().await?;
    assert_eq!((report.ended, report.journaled, place.sessions(&store).await), (0, 1, 1), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn a_sweep_leaves_alone_what_a_damaged_journal_may_go_on_with() -> Result<()> {
    let place = Place::new();
    leave_a_session(&place).await?;
    let (tide, store) = place.process();
    let left = tide.recover().await?;
    std::fs::write(left[0].path(), vec![0; 1 << 16]).unwrap();
    assert!(tide.recover().await?[0].recovered().is_none());
    let report = store.sweep("").older_than(Duration::ZERO).run().await?;
    assert_eq!((report.ended, report.journaled, place.sessions(&store).await), (0, 1, 1), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn after_an_append_that_failed_nothing_is_said_to_be_in_the_journal() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(100)).await?;
    let Side::Journaled(journaled) = &mut writer.side else { panic!("it has no journal") };
    let path = journaled.appender.journal.path().to_owned();
    let full = JournalError::Full { path, source: std::io::ErrorKind::StorageFull.into() };
    journaled.gathered.lock().share(data(1));
    assert!(journaled.gathered.lock().begin(), "an append is under way");
    journaled.appending = Some(tokio::spawn(async { Err(full) }));
    let error = writer.write_bytes(data(100)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    for _ in 0..2 {
        let flushed = SinkExt::flush(&mut writer).await;
        assert_eq!(flushed.map_err(|error| error.kind()), Err(ErrorKind::Closed));
        let flushed = AsyncWriteExt::flush(&mut writer).await;
        assert_eq!(flushed.map_err(|error| error.kind()), Err(std::io::ErrorKind::BrokenPipe));
        let synced = writer.sync().await;
        assert_eq!(synced.map_err(|error| error.kind()), Err(ErrorKind::Closed));
    }
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Closed);
    Ok(())
}
