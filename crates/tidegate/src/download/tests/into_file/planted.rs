//! Files that others planted where a download keeps its own: they are left alone, and the download is right.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

impl Place {
    /// Downloads, and returns the warnings.
    async fn run_warned(&self) -> Vec<String> {
        let warned = Arc::new(Mutex::new(Vec::new()));
        let into = warned.clone();
        let download = self.store.download("k", self.path());
        let download = download.on_warning(move |warning| into.lock().unwrap().push(warning.to_owned()));
        timeout(Duration::from_secs(60), download.run()).await.expect("it waits for ever").unwrap();
        std::mem::take(&mut *warned.lock().unwrap())
    }
}

/// A download of 3 MiB that was cut after `MIB` bytes.
async fn cut(data: &[u8]) -> Place {
    cut_with(data, |tide| tide).await
}

async fn cut_with(data: &[u8], with: impl FnOnce(crate::TidegateBuilder) -> crate::TidegateBuilder) -> Place {
    let fates = vec![Fate::Stalls(MIB, Duration::from_secs(1000))];
    let with = |tide: crate::TidegateBuilder| with(tide.concurrency(Concurrency::Fixed(1)));
    let place = Place::with(data, fates.into_iter(), with).await;
    let begun = async {
        while place.names().len() < 2 || place.entries() != [MIB] {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        done = place.run() => panic!("it was not cut: {done:?}"),
        () = begun => {}
    }
    place.is_let_go().await;
    place
}

/// The text that is expected in the warning about a planted file, and a function that plants it at a path.
type Plant<'a> = (&'static str, Box<dyn Fn(&std::path::Path) + 'a>);

fn plants(victim: &std::path::Path) -> Vec<Plant<'_>> {
    let write = |path: &std::path::Path, mode| {
        fs::write(path, "planted").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut plants: Vec<Plant<'_>> = vec![
        ("symbolic link", Box::new(move |path| symlink(victim, path).unwrap())),
        ("hard link", Box::new(move |path| fs::hard_link(victim, path).unwrap())),
        ("regular", Box::new(|path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap())),
        ("regular", Box::new(|path| fs::create_dir(path).unwrap())),
        ("other users may have written", Box::new(move |path| write(path, 0o666))),
    ];
    if rustix::process::geteuid().is_root() {
        plants.push((
            "belongs to",
            Box::new(move |path| {
                write(path, 0o600);
                std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
            }),
        ));
    }
    plants
}

/// The planted file takes the place of the note, or of the file with the bytes.
#[tokio::test(start_paused = true)]
async fn a_file_of_somebody_else_is_left_alone() {
    let data = bytes_of(3 * MIB, 3);
    for is_note in [true, false] {
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        for (said, plant) in plants(&victim) {
            let place = cut(&data).await;
            let planted = if is_note { place.note() } else { place.part() };
            fs::remove_file(&planted).unwrap();
            plant(&planted);
            let before = fs::symlink_metadata(&planted).unwrap();
            let warned = place.run_warned().await;
            assert!(fs::read(place.path()).unwrap() == data, "{said}");
            assert!(matches!(&warned[..], [warning] if warning.contains(said)), "{said}: {warned:?}");
            let after = fs::symlink_metadata(&planted).unwrap();
            assert_eq!(
                (after.ino(), after.mode(), after.size()),
                (before.ino(), before.mode(), before.size())
            );
            assert_eq!(fs::read(&victim).unwrap(), b"precious", "{said}");
            assert_eq!(fs::metadata(place.path()).unwrap().uid(), rustix::process::geteuid().as_raw());
            if fs::remove_file(&planted).is_err() {
                fs::remove_dir(&planted).unwrap();
            }
        }
    }
}

/// A service that now runs as another user resumes the files of its former user, if that user is trusted.
#[tokio::test(start_paused = true)]
async fn files_of_an_owner_that_is_trusted_are_resumed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a file to another user");
        return;
    }
    let data = bytes_of(3 * MIB, 3);
    for is_trusted in [true, false] {
        let with = |tide: crate::TidegateBuilder| if is_trusted { tide.owner(65534) } else { tide };
        let place = cut_with(&data, with).await;
        for left in [place.note(), place.part()] {
            std::os::unix::fs::chown(left, Some(65534), Some(65534)).unwrap();
        }
        let warned = place.run_warned().await;
        assert_eq!(warned.is_empty(), is_trusted, "{warned:?}");
        assert!(fs::read(place.path()).unwrap() == data);
        // Files of an owner that is not trusted are left alone.
        assert_eq!(place.names().len(), if is_trusted { 1 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_finished_is_its_owners_alone_under_a_name_of_chance() {
    let data = bytes_of(3 * MIB, 3);
    let (one, other) = (cut(&data).await, cut(&data).await);
    for file in [one.part(), one.note()] {
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600, "{file:?}");
    }
    assert_ne!(one.part().file_name(), other.part().file_name());
}

/// The file of an earlier version is not resumed, and not removed either: a sweep removes it.
#[tokio::test(start_paused = true)]
async fn a_file_of_an_earlier_version_is_left_to_a_sweep() {
    let data = bytes_of(3 * MIB, 3);
    let place = cut(&data).await;
    let earlier = place.path().with_file_name(".tidegate-0123456789abcdef-out.part");
    fs::write(&earlier, "earlier").unwrap();
    assert!(place.run_warned().await.is_empty());
    assert!(fs::read(place.path()).unwrap() == data);
    assert_eq!(fs::read(&earlier).unwrap(), b"earlier");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_finds_the_file_and_its_note() {
    let place = cut(&bytes_of(3 * MIB, 3)).await;
    let tide = Tidegate::builder().build().unwrap();
    let directory =
        tide.store(Arc::new(crate::backend::local::Local::new(place.directory.path().join("new"))));
    let report = directory.sweep("").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!(report.ended, 2, "{report:?}");
    assert!(place.names().is_empty());
}

/// Whatever a damaged note says, the downloaded file is right.
#[tokio::test(start_paused = true)]
async fn a_damaged_note_makes_no_wrong_file() {
    let data = bytes_of(3 * MIB, 3);
    let place = cut(&data).await;
    let (note, part) = (place.note(), place.part());
    let (said, bytes) = (fs::read(&note).unwrap(), fs::read(&part).unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..150 {
        let mut damaged = said.clone();
        match round % 3 {
            0 => damaged[random.usize(0..said.len())] ^= 1 << random.u32(0..8),
            1 => damaged.truncate(random.usize(0..said.len())),
            _ => damaged.extend((0..random.usize(1..100)).map(|_| random.u8(..))),
        }
        for (path, content) in [(&note, &damaged), (&part, &bytes)] {
            let _ = fs::remove_file(path);
            fs::write(path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        place.run_warned().await;
        assert!(fs::read(place.path()).unwrap() == data, "round {round}");
    }
}

/// A note that is valid in itself, but does not match the file with the bytes.
#[tokio::test(start_paused = true)]
async fn a_note_that_lies_is_found_out() {
    let data = bytes_of(3 * MIB, 3);
    let place = cut(&data).await;
    // The bytes no longer match the checksum in the note.
    let part = fs::OpenOptions::new().write(true).open(place.part()).unwrap();
    part.write_all_at(&[!data[5]], 5).unwrap();
    place.run().await.unwrap();
    place.is_whole(&data);
    // The file is not as long as the object.
    let place = cut(&data).await;
    fs::OpenOptions::new().write(true).open(place.part()).unwrap().set_len(8 << 40).unwrap();
    let warned = place.run_warned().await;
    assert!(matches!(&warned[..], [warning] if warning.contains("bytes")), "{warned:?}");
    place.is_whole(&data);
    // The note is longer than any real note.
    let place = cut(&data).await;
    fs::OpenOptions::new().write(true).open(place.note()).unwrap().set_len(8 << 40).unwrap();
    place.run().await.unwrap();
    assert!(fs::read(place.path()).unwrap() == data);
}
