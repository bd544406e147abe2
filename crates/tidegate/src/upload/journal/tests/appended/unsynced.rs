//! A journal whose disk fails a sync.

use fastrand::Rng;

use super::super::claimed::journal;
use super::*;
use crate::backend::{Append, Appended, Attempt, Session};
use crate::journal::Journal;
use crate::journal::testkit::SimDisk;

over_both! {
    what_was_synced_before_is_gone_on_with_after_a_loss_of_power,
    what_is_not_durable_is_published_by_a_session_of_its_own,
    a_session_that_no_record_names_takes_what_is_not_durable,
}

const SYNCED: u64 = 20 * CHUNK;

/// Begins an upload with `SYNCED` durable bytes; the store has acknowledged at least 16 chunks.
async fn begin_synced(store: &Store, bytes: &[u8]) -> Result<Writer> {
    let mut writer = begin(store).await;
    write(&mut writer, &bytes[..SYNCED as usize]).await?;
    assert_eq!(writer.sync().await?, SYNCED);
    until_acknowledged(&writer, 16 * CHUNK).await;
    Ok(writer)
}

async fn until_given_back(journal: &Journal) {
    let wait = async {
        while !journal.has_given_back().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("space is given back");
}

impl Google {
    /// The offset of the session that the remaining journal names.
    async fn stands(&self, tide: &Tidegate) -> u64 {
        let left = tide.recover().await.unwrap();
        let id = left[0].recovered().unwrap().state.session.clone().unwrap().id;
        match self
            .connect()
            .await
            .position(&Session { key: "k".to_owned(), id }, Attempt::FIRST)
            .await
            .unwrap()
        {
            Appended::Open(at) => at,
            Appended::Published(object) => panic!("it was published: {object:?}"),
        }
    }
}

async fn what_was_synced_before_is_gone_on_with_after_a_loss_of_power(over: GcsTransport) -> Result<()> {
    let bytes = data(50 * CHUNK);
    for (seed, more) in [(0, 100), (1, 20 * CHUNK), (2, 20 * CHUNK), (3, 100)] {
        let place = Google::new(over).await;
        let disk = SimDisk::under(place.folder.path(), Rng::with_seed(seed));
        let builder = || place.builder().durability(Durability::Sync).journal_keep(1);
        let (tide, store) = place.process_of(builder()).await;
        let mut writer = begin_synced(&store, &bytes).await?;
        until_given_back(journal(&writer)).await;
        disk.fail_sync();
        // The sender may sync before the writer does, so the write may already fail.
        let written = writer.write_bytes(bytes.slice(SYNCED as usize..(SYNCED + more) as usize)).await;
        let failed = journal(&writer).clone();
        until("its sync has failed", || failed.failure().is_some()).await;
        drop(failed);
        let error = writer.finish().await.unwrap_err();
        if written.is_ok() {
            assert_eq!(error.kind(), ErrorKind::Source, "{error}");
            assert!(error.to_string().contains("resume the upload"), "{error}");
        }
        tide.settled().await;
        assert!(place.stands(&tide).await <= SYNCED);

        disk.lose_power();
        let (tide, store) = place.process_of(builder()).await;
        let Resumed::Writer(mut writer) = tide.recover().await?[0].resume_on(&store).await? else {
            panic!("that it was finished is not durable")
        };
        let position = writer.position() as usize;
        assert!(position as u64 >= SYNCED, "{position}");
        // A producer may continue with other bytes than before.
        let other: Vec<u8> = bytes[position..].iter().map(|byte| byte ^ 0x55).collect();
        write(&mut writer, &other).await?;
        writer.finish().await?;
        assert_eq!(place.count("start"), 1, "{:?}", place.asked());
        place.check(&store, &[&bytes[..position], &other].concat()).await;
    }
    Ok(())
}

async fn what_is_not_durable_is_published_by_a_session_of_its_own(over: GcsTransport) -> Result<()> {
    let bytes = data(50 * CHUNK);
    let place = Google::new(over).await;
    let (_tide, store) = place.process_of(place.builder().durability(Durability::Sync)).await;
    // The open stream breaks before it carries bytes that are not durable, and no other stream can be opened.
    let cut =
        FaultAction::ErrorAfter { after_bytes: 18 * CHUNK, status: 503, code: "backendError".to_owned() };
    place.goes_wrong(vec![
        FaultRule::new(APPEND, cut).times(1),
        FaultRule::error(APPEND, 503, "backendError").skip(1),
    ]);
    let mut writer = begin_synced(&store, &bytes).await?;
    write(&mut writer, &bytes[SYNCED as usize..]).await?;
    journal(&writer).fail();
    place.goes_wrong(Vec::new());
    let progress = writer.progress();
    writer.finish().await?;
    assert_eq!((place.count("start"), place.count("cancel")), (2, 1), "{:?}", place.asked());
    assert_eq!(progress.snapshot().acknowledged, bytes.len() as u64);
    place.check(&store, &bytes).await;
    Ok(())
}

async fn a_session_that_no_record_names_takes_what_is_not_durable(over: GcsTransport) -> Result<()> {
    let bytes = data(50 * CHUNK);
    let place = Google::new(over).await;
    let (_tide, store) = place.process_of(place.builder().durability(Durability::Sync)).await;
    place.goes_wrong(vec![FaultRule::error("storage.resumable.start", 503, "backendError")]);
    let mut writer = begin(&store).await;
    write(&mut writer, &bytes).await?;
    journal(&writer).fail();
    place.goes_wrong(Vec::new());
    until_acknowledged(&writer, 16 * CHUNK).await;
    writer.finish().await?;
    place.check(&store, &bytes).await;
    Ok(())
}
