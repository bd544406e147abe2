//! Journal files that another user planted or changed.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::time::Instant;

use fastrand::Rng;

use super::*;
use crate::types::trusted_file::Distrust;

const NOBODY: u32 = 65534;

/// Leaves the journal of an upload of `bytes` that was finished while the store was down.
async fn finished(place: &Place, bytes: &Bytes) -> Result<PathBuf> {
    place.backend.go_down(true);
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    writer.write_bytes(bytes.clone()).await?;
    writer.finish().await.unwrap_err();
    tide.settled().await;
    place.backend.go_down(false);
    Ok(journal_file(place.folder.path()))
}

#[tokio::test]
async fn what_is_no_file_of_ones_own_is_refused_and_the_others_go_on() -> Result<()> {
    let place = Place::new();
    let path = finished(&place, &data(3 * PART)).await?;
    let at = |name: &str| place.folder.path().join(format!("0000000000000000-{name}.journal"));
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = |to: &Path| {
        fs::copy(&path, to).unwrap();
        fs::set_permissions(to, Permissions::from_mode(0o600)).unwrap();
    };
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    copy(&elsewhere.path().join("real"));
    symlink(elsewhere.path().join("real"), at("link")).unwrap();
    symlink("/dev/zero", at("device")).unwrap();
    copy(&at("hard"));
    fs::hard_link(at("hard"), elsewhere.path().join("hard")).unwrap();
    copy(&at("writable"));
    fs::set_permissions(at("writable"), Permissions::from_mode(0o660)).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let mut refused = 6;
    if rustix::process::geteuid().is_root() {
        copy(&at("foreign"));
        chown(at("foreign"), Some(NOBODY), None).unwrap();
        refused += 1;
    } else {
        eprintln!("skipped: only root may give a journal to another user");
    }
    let (tide, store) = place.process();
    let mut objects = 0;
    for left in tide.recover().await? {
        let name = left.id().to_owned();
        if left.path() == path {
            objects += usize::from(left.resume_on(&store).await?.object().is_some());
            continue;
        }
        refused -= 1;
        assert!(matches!(left.problem(), Some(JournalError::Untrusted(_))), "{name}: {left:?}");
        for error in [
            left.claim_on(&store).await.err(),
            left.resume().await.err(),
            left.abort().await.err(),
            left.forget().await.err(),
        ] {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::PermissionDenied), "{name}");
        }
        assert!(matches!(left.verify().await, Err(JournalError::Untrusted(_))), "{name}");
        assert!(fs::symlink_metadata(left.path()).is_ok(), "{name} was removed");
    }
    assert_eq!((objects, refused), (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_trusted_users_journal_goes_on_but_does_not_say_where_this_process_writes() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may give a journal to another user");
        return Ok(());
    }
    let (journals, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let builder = || Tidegate::builder().journal([journals.path()]);
    let tide = builder().build()?;
    let store = tide.open(target.path().to_str().unwrap()).await?;
    let mut writer = store.writer("k").strategy(Strategy::Journal).start().await?;
    writer.write_bytes("bytes".into()).await?;
    fs::create_dir_all(target.path().join("k/in the way")).unwrap();
    writer.finish().await.unwrap_err();
    fs::remove_dir_all(target.path().join("k")).unwrap();
    tide.settled().await;
    let path = journal_file(journals.path());
    chown(&path, Some(NOBODY), None).unwrap();

    let left = tide.recover().await?;
    let Some(JournalError::Untrusted(refused)) = left[0].problem() else { panic!("{left:?}") };
    assert_eq!(refused.reason, Distrust::Owner(NOBODY));
    let tide = builder().owner(NOBODY).build()?;
    let left = tide.recover().await?;
    let error = left[0].resume().await.unwrap_err();
    assert!(error.to_string().contains("only the journal says that it goes to"), "{error}");
    assert!(!target.path().join("k").exists());
    let store = tide.open(target.path().to_str().unwrap()).await?;
    assert!(left[0].resume_on(&store).await?.object().is_some());
    assert_eq!(fs::read(target.path().join("k")).unwrap(), b"bytes");
    Ok(())
}

#[tokio::test]
async fn new_journals_are_private() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let _writer = place.writer(&store).await?;
    let found = fs::metadata(journal_file(place.folder.path())).unwrap();
    assert_eq!((found.mode() & 0o7777, found.nlink()), (0o600, 1));
    Ok(())
}

#[tokio::test]
async fn terabytes_of_holes_are_not_read() -> Result<()> {
    let place = Place::new();
    let bytes = data(3 * PART);
    let path = finished(&place, &bytes).await?;
    let grow = || OpenOptions::new().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
    grow();
    let (tide, store) = place.process();
    let began = Instant::now();
    let left = tide.recover().await?;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    left[0].verify().await.unwrap();
    // A file that is only a hole, of 4 TiB: its head is zeros.
    let holes = place.folder.path().join("0000000000000000-holes.journal");
    OpenOptions::new().create_new(true).write(true).open(&holes).unwrap().set_len(4 << 40).unwrap();
    let all = tide.recover().await?;
    assert!(matches!(all[0].problem(), Some(JournalError::Other { .. })), "{all:?}");
    assert!(left[0].resume_on(&store).await?.object().is_some());
    assert_eq!(stored(&store, "k").await, bytes);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    Ok(())
}

/// Returns `file` with some bytes flipped, removed, doubled, zeroed, or copied from elsewhere in the file.
fn damaged(file: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..random.usize(1..4) {
        let length = bytes.len().max(1);
        // Half of the damage hits the head or the last records; the other half is anywhere.
        let at = match random.u8(..4) {
            0 => random.usize(..length.min(17_000)),
            1 => length - 1 - random.usize(..length.min(2000)),
            _ => random.usize(..length),
        };
        let to = (at + random.usize(1..5000)).min(bytes.len());
        match random.u8(..6) {
            0 => bytes[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.u8(..8)),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..to)),
            3 => bytes.splice(at..at, std::iter::repeat_with(|| random.u8(..)).take(to - at)).for_each(drop),
            4 => bytes[at..to].fill(0),
            _ => {
                let from = random.usize(..length);
                let piece = bytes[from..(from + to - at).min(length)].to_vec();
                bytes[at..to].iter_mut().zip(piece).for_each(|(byte, other)| *byte = other);
            }
        }
    }
    bytes
}

#[tokio::test]
async fn no_damage_publishes_another_object() -> Result<()> {
    let place = Place::new();
    let bytes = data(5 * PART + 100);
    let path = finished(&place, &bytes).await?;
    let file = fs::read(&path).unwrap();
    let mut ends = [0; 3];
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        fs::write(&path, damaged(&file, &mut random)).unwrap();
        let (tide, store) = place.process();
        for left in tide.recover().await? {
            match left.resume_on(&store).await {
                Ok(Resumed::Object(_)) => {
                    assert_eq!(stored(&store, "k").await, bytes, "seed {seed}");
                    store.delete("k").await?;
                    ends[0] += 1;
                }
                Ok(Resumed::Writer(mut writer)) => {
                    // Durable bytes are verified when they are read, so a write may fail.
                    let rest = bytes.slice(usize::try_from(writer.position()).unwrap()..);
                    let written = writer.write_bytes(rest).await;
                    if written.is_err() || writer.finish().await.is_err() {
                        ends[2] += 1;
                        continue;
                    }
                    assert_eq!(stored(&store, "k").await, bytes, "seed {seed}");
                    store.delete("k").await?;
                    ends[1] += 1;
                }
                Err(_) => ends[2] += 1,
            }
        }
        tide.settled().await;
        let _ = fs::remove_file(&path);
    }
    assert!(ends.iter().all(|count| *count > 5), "{ends:?}: not every kind of end was tried");
    Ok(())
}
