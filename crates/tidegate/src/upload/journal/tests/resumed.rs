//! Uploads that a process left, resumed.

use super::*;
use crate::backend::{Attempt, Session};
use crate::journal::{End, Journal, verify};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::trusted_file::TrustedOwners;

/// Leaves an upload with `size` bytes written, as if its process had died.
async fn leave(place: &Place, size: u64) -> Result<()> {
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(size)).await?;
    drop(writer);
    tide.settled().await;
    Ok(())
}

#[tokio::test]
async fn a_writer_goes_on_where_the_journal_ends() -> Result<()> {
    for (before, after) in [(1, 0), (100, 100), (PART, PART), (7 * PART + 5, 0), (7 * PART + 5, 9 * PART)] {
        let place = Place::new();
        leave(&place, before).await?;
        let (tide, store) = place.process();
        let left = tide.recover().await?;
        let [left] = &left[..] else { panic!("{left:?}") };
        assert_eq!((left.length(), left.is_finished()), (before, false));
        let Resumed::Writer(mut writer) = left.resume_on(&store).await? else { panic!("not finished") };
        assert_eq!(writer.position(), before);
        let second = left.resume_on(&store).await.unwrap_err();
        assert_eq!(second.kind(), ErrorKind::InvalidInput, "{second}");
        let bytes = data(before + after);
        writer.write_bytes(bytes.slice(before as usize..)).await?;
        let object = writer.finish().await?;
        assert_eq!(object.size, before + after);
        assert_eq!(stored(&store, "k").await, bytes);
        assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    }
    Ok(())
}

#[tokio::test]
async fn parts_that_the_store_has_are_not_sent_again() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(10 * PART)).await?;
    while writer.progress().snapshot().acknowledged < 10 * PART {
        tokio::task::yield_now().await;
    }
    writer.sync().await?;
    drop(writer);
    tide.settled().await;
    let (tide, store) = place.process();
    let Resumed::Writer(writer) = tide.recover().await?[0].resume_on(&store).await? else {
        panic!("not finished")
    };
    let known = writer.progress().snapshot().acknowledged;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, data(10 * PART));
    let sent = place.backend.parts();
    assert_eq!(sent, 10 + (10 - known / PART), "of {known} bytes the journal knew that the store has them");
    assert!(known > 0);
    Ok(())
}

/// The process was killed before the receipts arrived.
#[tokio::test]
async fn parts_that_arrived_and_were_not_acknowledged_are_not_sent_again() -> Result<()> {
    let place = Place::new();
    leave(&place, 10 * PART).await?;
    let (tide, store) = place.process();
    let [left] = &tide.recover().await?[..] else { panic!("one upload") };
    let state = &left.recovered().unwrap().state;
    let known = state.parts.clone();
    let session = Session { key: "k".into(), id: state.session.clone().unwrap().id };
    // The store has all parts, but part 9 has other bytes, and part 10 is too short.
    for number in 1..=10_u32 {
        let from = u64::from(number - 1) * PART;
        let bytes = match number {
            9 => Bytes::from(vec![7; PART as usize]),
            10 => data(from + PART - 1).slice(from as usize..),
            _ => data(from + PART).slice(from as usize..),
        };
        if !known.contains_key(&number) {
            let checksum = Checksum::of(Algorithm::Crc64Nvme, &bytes);
            let payload = Payload::from_memory(vec![bytes], checksum);
            place
                .backend
                .below()
                .need_parts()
                .unwrap()
                .part(&session, number, from, payload.into(), Attempt::FIRST)
                .await
                .unwrap();
        }
    }
    let before = place.backend.parts();
    let Resumed::Writer(writer) = left.resume_on(&store).await? else { panic!("not finished") };
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, data(10 * PART));
    let wrong = [9, 10].iter().filter(|number| !known.contains_key(number)).count() as u64;
    assert_eq!(place.backend.parts() - before, wrong, "{known:?}");
    Ok(())
}

#[tokio::test]
async fn attributes_and_conditions_are_kept() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let builder = store.writer("a/b.txt").strategy(Strategy::Journal).create_only();
    let mut writer = builder.metadata("who", "me").tag("t", "v").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    drop(writer);
    tide.settled().await;
    let (tide, store) = place.process();
    let Resumed::Writer(writer) = tide.recover().await?[0].resume_on(&store.within("a")).await? else {
        panic!("not finished")
    };
    writer.finish().await?;
    let object = store.head("a/b.txt").await?;
    assert_eq!(object.attributes.metadata.get("who").map(String::as_str), Some("me"));
    assert_eq!(object.attributes.content_type.as_deref(), Some("text/plain"));

    let mut writer = store.writer("a/b.txt").strategy(Strategy::Journal).create_only().start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    drop(writer);
    tide.settled().await;
    let Resumed::Writer(writer) = tide.recover().await?[0].resume_on(&store).await? else {
        panic!("not finished")
    };
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_was_left_can_be_aborted() -> Result<()> {
    let place = Place::new();
    leave(&place, 5 * PART).await?;
    let (tide, store) = place.process();
    tide.recover().await?[0].abort_on(&store).await?;
    assert_eq!((place.files(), place.sessions(&store).await), (0, 0));
    assert!(store.head("k").await.is_err());
    Ok(())
}

#[tokio::test]
async fn what_is_in_use_or_of_another_store_is_said_so() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(PART)).await?;
    let left = tide.recover().await?;
    assert!(matches!(left[0].problem(), Some(JournalError::InUse { .. })), "{left:?}");
    drop(writer);
    tide.settled().await;
    let left = tide.recover().await?;
    let other = tide.open("memory://other").await?;
    let error = left[0].resume_on(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("memory://test"), "{error}");
    assert_eq!(tide.resume("nobody").await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

/// The test does not wait for `settled`, and the listing may be older than the drop.
#[tokio::test]
async fn a_writer_that_was_just_dropped_is_waited_for() -> Result<()> {
    let place = Place::new();
    for is_other_engine in [false, true] {
        for is_listed_before in [false, true] {
            let (tide, store) = place.process();
            let mut writer = place.writer(&store).await?;
            writer.write_bytes(data(2 * PART)).await?;
            let (tide, store) = if is_other_engine { place.process() } else { (tide, store) };
            let listed = tide.recover().await?;
            drop(writer);
            let left = if is_listed_before { listed } else { tide.recover().await? };
            let Resumed::Writer(writer) = left[0].resume_on(&store).await? else { panic!("not finished") };
            assert_eq!(writer.position(), 2 * PART);
            writer.finish().await?;
            assert_eq!(stored(&store, "k").await, data(2 * PART));
        }
    }
    // The same for a resume by id, an abort and a `forget`.
    for how in 0..3 {
        let tide = place.builder().memory(64 << 20).part_size(5 << 20).build()?;
        let store = tide.open("memory://named").await?;
        let mut writer = store.writer("k").strategy(Strategy::Journal).start().await?;
        writer.write_bytes(data(2 * PART)).await?;
        let left = tide.recover().await?;
        drop(writer);
        match how {
            0 => drop(tide.resume(left[0].id()).await?),
            1 => assert!(left[0].abort().await?.is_none()),
            _ => left[0].forget().await?,
        }
        tide.settled().await;
        for left in tide.recover().await? {
            left.forget().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_writer_that_this_process_has_is_named_as_its_own() -> Result<()> {
    let place = Place::new();
    // Another engine may know the directory by another name.
    let by_link = place.folder.path().with_extension("link");
    std::os::unix::fs::symlink(place.folder.path(), &by_link).unwrap();
    let other = Tidegate::builder().memory(256 * KIB).slab(4096).journal([&by_link]).build()?;
    for is_other_engine in [false, true] {
        let (tide, store) = place.process();
        let mut writer = place.writer(&store).await?;
        writer.write_bytes(data(PART)).await?;
        let tide = if is_other_engine { &other } else { &tide };
        let left = tide.recover().await?;
        let began = std::time::Instant::now();
        let error = left[0].resume_on(&store).await.unwrap_err();
        assert!(error.to_string().contains("a writer of this process has it"), "{error}");
        assert_eq!(left[0].resume().await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(left[0].abort_on(&store).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(left[0].forget().await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(began.elapsed() < Duration::from_secs(5), "it lets go of nothing");
        writer.finish().await?;
    }
    std::fs::remove_file(by_link).unwrap();
    Ok(())
}

#[tokio::test]
async fn a_damaged_journal_is_told_and_left_alone() -> Result<()> {
    let place = Place::new();
    leave(&place, 5 * PART).await?;
    let file = journal_file(place.folder.path());
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[21_000] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    place.backend.forget_sessions().await; // so that the whole journal is read again
    let (tide, store) = place.process();
    let left = tide.recover().await?;
    let error = match left[0].resume_on(&store).await {
        Ok(Resumed::Writer(writer)) => writer.finish().await.unwrap_err(),
        Ok(Resumed::Object(_)) => panic!("published"),
        Err(error) => error,
    };
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(file.exists() && store.head("k").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error_that_names_it() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(PART)).await?;
    std::fs::remove_dir_all(place.folder.path()).unwrap();
    let error = writer.write_bytes(data(PART)).await.unwrap_err();
    assert!(error.to_string().contains(".journal"), "{error}");
    let error = place.writer(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(place.folder.path().to_str().unwrap()), "{error}");
    assert!(tide.recover().await.is_err());
    Ok(())
}

/// A local disk keeps no tokens, so a published object is recognized by its bytes.
#[tokio::test]
async fn on_a_local_disk_what_was_published_is_known_by_its_bytes() -> Result<()> {
    for is_ours in [true, false] {
        let place = Place::new();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let tide = place.builder().build()?;
        let store = tide.open(root.to_str().unwrap()).await?;
        let mut writer = store.writer("k").strategy(Strategy::Journal).start().await?;
        writer.write_bytes(data(5 * PART)).await?;
        writer.sync().await?;
        while writer.progress().snapshot().acknowledged < 5 * PART {
            tokio::task::yield_now().await;
        }
        // The process dies when the object is published and nothing is removed yet.
        std::fs::rename(&root, folder.path().join("away")).unwrap();
        std::fs::write(&root, "no directory").unwrap();
        writer.finish().await.unwrap_err();
        tide.settled().await;
        std::fs::remove_file(&root).unwrap();
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("k"), data(5 * PART + u64::from(!is_ours))).unwrap();

        let left = tide.recover().await?;
        assert!(left[0].is_finished(), "{left:?}");
        let before = tide.progress().snapshot().requests;
        let resumed = left[0].resume().await;
        let requests = tide.progress().snapshot().requests - before;
        assert!(!is_ours || requests == 3, "{requests}: it looks, reads and ends the session");
        match resumed {
            Ok(resumed) => assert!(is_ours && resumed.object().unwrap().size == 5 * PART),
            Err(error) => assert!(!is_ours && error.kind() == ErrorKind::Uncertain, "{error}"),
        }
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
        assert_eq!(std::fs::read(root.join("k")).unwrap().len() as u64, 5 * PART + u64::from(!is_ours));
        assert_eq!(place.files(), usize::from(!is_ours));
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_that_can_not_be_read_does_not_hide_the_others() -> Result<()> {
    let place = Place::new();
    leave(&place, 100).await?;
    let gone = tempfile::tempdir().unwrap();
    for directories in [[gone.path(), place.folder.path()], [place.folder.path(), gone.path()]] {
        std::fs::create_dir_all(gone.path()).unwrap();
        let (tide, store) = place.process_of(place.builder().journal(directories));
        std::fs::remove_dir(gone.path()).unwrap();
        let left = tide.recover().await?;
        let (sound, bad): (Vec<_>, Vec<_>) = left.iter().partition(|left| left.problem().is_none());
        assert!(sound.iter().all(|left| left.length() == 100) && !sound.is_empty(), "{left:?}");
        assert!(bad.iter().all(|left| left.path() == gone.path()) && bad.len() == 1, "{left:?}");
        let error = store.left("k").await.expect_err("one of this key may be where nobody can look");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let Resumed::Writer(writer) = tide.resume(sound[0].id()).await? else { panic!("not finished") };
        assert_eq!(writer.position(), 100);
        drop(writer);
        tide.settled().await;
        let error = tide.resume("nobody").await.unwrap_err();
        assert!(error.to_string().contains(&gone.path().display().to_string()), "{error}");
    }
    std::fs::create_dir_all(gone.path()).unwrap();
    Ok(())
}

#[tokio::test]
async fn an_upload_that_had_ended_is_not_left() -> Result<()> {
    let place = Place::new();
    leave(&place, 100).await?;
    let path = journal_file(place.folder.path());
    let (journal, _) = Journal::resume(&path, Durability::Write, &TrustedOwners::default()).await.unwrap();
    journal.finish().await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    // The journal file comes back after a loss of power.
    let mut ending = path.clone();
    ending.set_extension("ending");
    std::fs::hard_link(&path, &ending).unwrap();
    journal.end(End::Completed).await.unwrap();
    std::fs::rename(&ending, &path).unwrap();
    assert!(std::fs::read(&path).unwrap().len() > whole.len());
    let (tide, store) = place.process();
    assert!(store.left("k").await?.is_empty() && tide.recover().await?.is_empty());
    assert_eq!(place.files(), 0);
    Ok(())
}

#[tokio::test]
async fn parts_that_can_not_be_are_refused() -> Result<()> {
    for (name, value) in [("base", 0), ("max_parts", u64::from(u32::MAX)), ("base", u64::MAX), ("growth", 1)]
    {
        let place = Place::new();
        leave(&place, 100).await?;
        let path = journal_file(place.folder.path());
        let mut header = verify(&path, &TrustedOwners::default()).unwrap().state.header;
        std::fs::remove_file(&path).unwrap();
        header.options["schedule"][name] = value.into();
        let directories = [place.folder.path().to_owned()];
        drop(Journal::create(&directories, header, Durability::Write).await.unwrap());
        let (tide, store) = place.process();
        let resumed = tide.recover().await?[0].resume_on(&store).await;
        // An odd growth is harmless: the upload is resumed.
        if name == "growth" {
            assert!(resumed.is_ok(), "{resumed:?}");
            continue;
        }
        let error = resumed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        assert!(path.exists());
    }
    Ok(())
}

#[tokio::test]
async fn journals_go_round_the_directories() -> Result<()> {
    let place = Place::new();
    let directories = ["a", "b", "c"].map(|name| place.folder.path().join(name));
    for directory in &directories {
        std::fs::create_dir(directory).unwrap();
    }
    place.backend.go_down(true);
    let (_tide, store) = place.process_of(Tidegate::builder().journal(&directories));
    let mut open = Vec::new();
    for number in 0..9 {
        let writer = store.writer(format!("{number}")).strategy(Strategy::Journal);
        open.push(writer.start().await?);
    }
    for directory in &directories {
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 3, "{}", directory.display());
    }
    Ok(())
}

#[tokio::test]
async fn what_is_appended_measures_its_disk() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let disk = tide.engine().journaling.disk(place.folder.path()).await;
    assert_eq!(disk.cost(), 0.0);
    let mut writer = place.writer(&store).await?;
    assert_eq!(disk.cost(), f64::INFINITY);
    writer.write_bytes(data(5 << 20)).await?;
    assert!(disk.cost() > 0.0 && disk.cost().is_finite(), "{}", disk.cost());
    writer.abort().await
}

/// A store that acknowledges each part after a while.
#[derive(Debug)]
struct Late;

#[async_trait::async_trait]
impl Script for Late {
    async fn answer(
        &self,
        call: Call<'_>,
        below: Below<'_>,
    ) -> std::result::Result<Answer, crate::backend::Fault> {
        let is_part = matches!(call, Call::Part { .. });
        let answer = below.send(call).await;
        if is_part {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        answer
    }
}

/// Parts in flight are acknowledged and recorded after the drop, and the object is not published.
#[tokio::test]
async fn a_finish_that_is_dropped_records_its_parts_and_publishes_nothing() -> Result<()> {
    let place = Place::new();
    let tide = place.builder().build()?;
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let store = tide.store(Scripted::new(Memory::new("late").with_capabilities(capabilities), Late));
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(3 * PART)).await?;
    let cancelled = tokio::time::timeout(Duration::from_millis(150), writer.finish()).await;
    assert!(cancelled.is_err(), "{cancelled:?}");
    tide.settled().await;
    assert_eq!(store.head("k").await.unwrap_err().kind(), ErrorKind::NotFound);
    let [left] = &tide.recover().await?[..] else { panic!("one upload") };
    assert!(left.is_finished());
    assert_eq!(left.recovered().unwrap().state.parts.len(), 3);
    left.resume_on(&store).await?;
    assert_eq!(stored(&store, "k").await, data(3 * PART));
    Ok(())
}

/// A store whose clock is ten minutes slow.
#[derive(Debug)]
struct SlowClock;

#[async_trait::async_trait]
impl crate::testkit::scripted::Script for SlowClock {
    async fn answer(
        &self,
        call: crate::testkit::scripted::Call<'_>,
        below: crate::testkit::scripted::Below<'_>,
    ) -> std::result::Result<crate::testkit::scripted::Answer, crate::backend::Fault> {
        use crate::testkit::scripted::Answer;
        Ok(match below.send(call).await? {
            Answer::Object(mut object) => {
                object.modified = object.modified.map(|modified| modified - Duration::from_secs(600));
                Answer::Object(object)
            }
            answer => answer,
        })
    }
}

/// The upload may have been published by its first process, and another writer's object is there: by the store's clock
/// it is older than the upload, and it need not be.
#[tokio::test]
async fn what_another_writer_wrote_by_a_slow_clock_is_not_replaced_by_a_resume() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(data(5 * PART)).await?;
    place.backend.lose_answers(true);
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Uncertain);
    tide.settled().await;
    place.backend.lose_answers(false);
    place.backend.go_down(false);
    store.put("k", "another's").await?;

    let slow = crate::testkit::scripted::Scripted::over(place.backend.clone(), SlowClock);
    let (tide, _) = place.process();
    let resumed = tide.recover().await?[0].resume_on(&tide.store(slow)).await;
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::Uncertain);
    assert_eq!(stored(&store, "k").await, "another's");
    Ok(())
}
