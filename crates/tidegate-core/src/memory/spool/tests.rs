use std::io::ErrorKind::{StorageFull, UnexpectedEof};
use std::sync::Mutex;

use async_trait::async_trait;

use super::directory::BLOCK;
use super::sick::{Sick, Write};
use super::*;
use crate::types::owner_process::OwnerProcess;

/// A disk in memory with `size` bytes, which can fail.
#[derive(Debug)]
struct Small {
    name: &'static str,
    size: u64,
    bytes: Mutex<Vec<u8>>,
    broken: Mutex<bool>,
}

impl Small {
    fn new(name: &'static str, size: u64) -> Arc<Self> {
        Arc::new(Self { name, size, bytes: Mutex::default(), broken: Mutex::default() })
    }
}

#[async_trait]
impl Disk for Small {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    async fn write(&self, pieces: Vec<(u64, Bytes)>) -> io::Result<()> {
        if *self.broken.lock().unwrap() {
            return Err(io::Error::other("Input/output error"));
        }
        let mut bytes = self.bytes.lock().unwrap();
        for (offset, piece) in pieces {
            let end = offset as usize + piece.len();
            if end as u64 > self.size {
                return Err(StorageFull.into());
            }
            let grown = bytes.len().max(end);
            bytes.resize(grown, 0);
            bytes[offset as usize..end].copy_from_slice(&piece);
        }
        Ok(())
    }

    fn read_cached(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..).ok_or(UnexpectedEof)?;
        let length = buffer.len().min(from.len());
        buffer[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn space(&self) -> io::Result<Space> {
        let used = self.bytes.lock().unwrap().len() as u64;
        Ok(Space { free: self.size - used, total: self.size })
    }

    fn clear(&self) -> io::Result<()> {
        self.bytes.lock().unwrap().clear();
        Ok(())
    }
}

fn data(size: usize, seed: usize) -> Bytes {
    (0..size).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

fn read(stored: &Stored, wait: bool) -> Vec<u8> {
    let mut read = vec![0; stored.len() as usize];
    let mut done = 0;
    while done < read.len() {
        match stored.read(&mut read[done..], done as u64, wait).unwrap() {
            Some(0) => panic!("it ends after {done} bytes"),
            Some(more) => done += more,
            None => done += stored.read(&mut read[done..], done as u64, true).unwrap().unwrap(),
        }
    }
    read
}

#[tokio::test]
async fn what_is_stored_is_read_back_and_its_blocks_are_used_again() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let spool = Spool::new(Spool::open(&folders.each_ref().map(|folder| folder.path().to_owned())).unwrap());
    for round in 0..3 {
        let mut all = vec![(Stored::default(), Vec::new()); 5];
        for step in 0..20 {
            let index = step * 7 % all.len();
            let (stored, bytes) = &mut all[index];
            let piece = data([1, 5000, 70_000, 300_000][step % 4], step + round);
            *stored = spool.store(stored, &[piece.slice(..1), piece.slice(1..)]).await.unwrap();
            bytes.extend_from_slice(&piece);
        }
        for (stored, bytes) in &all {
            assert!(read(stored, true) == *bytes && read(stored, false) == *bytes);
        }
        let used = spool.used();
        assert!(used >= 5 * BLOCK);
        drop(all);
        assert_eq!(spool.used(), 0);
    }
    for folder in &folders {
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a spool file has no name");
    }
}

#[tokio::test]
async fn a_write_that_fails_leaves_what_was_stored() {
    let disk = Small::new("one", 4 * BLOCK);
    let spool = Spool::new(vec![disk.clone()]);
    let first = data(BLOCK as usize, 1);
    let stored = spool.store(&Stored::default(), std::slice::from_ref(&first)).await.unwrap();
    let refused = spool.store(&stored, &[data(4 * BLOCK as usize, 2)]).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no spool directory has room: one has 192.0 KiB free of 256.0 KiB and holds 64.0 KiB of spooled parts"
    );
    *disk.broken.lock().unwrap() = true;
    let failed = spool.store(&stored, &[data(10, 3)]).await.unwrap_err();
    assert_eq!(failed.to_string(), "spool directory one: Input/output error");
    assert_eq!(read(&stored, true), first);
    assert_eq!(spool.used(), BLOCK);
}

#[tokio::test]
async fn another_directory_takes_what_one_has_no_room_for() {
    let (small, large) = (Small::new("small", 2 * BLOCK), Small::new("large", 64 * BLOCK));
    let spool = Spool::new(vec![small.clone(), large.clone()]);
    let mut stored = Stored::default();
    let mut bytes = Vec::new();
    for seed in 0..10 {
        let piece = data(BLOCK as usize, seed);
        stored = spool.store(&stored, std::slice::from_ref(&piece)).await.unwrap();
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(read(&stored, true), bytes);
    assert!(large.bytes.lock().unwrap().len() as u64 >= 8 * BLOCK);
}

#[tokio::test]
async fn blocks_that_came_back_are_room_on_a_full_disk() {
    for last in [false, true] {
        let spool = Spool::new(vec![Small::new("one", 4 * BLOCK)]);
        let first = spool.store(&Stored::default(), &[data(2 * BLOCK as usize, 1)]).await.unwrap();
        let second = spool.store(&Stored::default(), &[data(2 * BLOCK as usize, 2)]).await.unwrap();
        assert!(!spool.has_room());
        let (kept, gone, seed) = if last { (first, second, 1) } else { (second, first, 2) };
        drop(gone);
        assert!(spool.has_room());
        let again = spool.store(&Stored::default(), &[data(BLOCK as usize, 3)]).await.unwrap();
        assert_eq!(read(&kept, true), data(2 * BLOCK as usize, seed));
        assert_eq!(read(&again, true), data(BLOCK as usize, 3));
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let missing = Spool::open(&["/nonexistent/spool".into()]).unwrap_err();
    assert!(missing.to_string().starts_with("spool directory /nonexistent/spool: "), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_has_not_ended_its_first_write_is_not_given_the_next() {
    let spool = Spool::new(vec![Sick::new(Write::Hangs), Small::new("well", 64 * BLOCK)]);
    let (nothing, bytes) = (Stored::default(), [data(1000, 1)]);
    let mut first = Box::pin(spool.store(&nothing, &bytes));
    assert!(futures::poll!(&mut first).is_pending(), "nothing is known of either disk");
    let second =
        tokio::time::timeout(std::time::Duration::from_secs(60), spool.store(&nothing, &bytes)).await;
    assert!(second.is_ok(), "it waits for the disk that does nothing, beside one that has nothing to do");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_failed_is_left_alone_for_a_second() {
    let (sick, well) = (Sick::new(Write::Fails), Small::new("well", 64 * BLOCK));
    let spool = Spool::new(vec![sick.clone(), well.clone()]);
    let mut stored = spool.store(&Stored::default(), &[data(10, 1)]).await.unwrap();
    assert_eq!(sick.writes(), 1);
    for (millis, writes) in [(0, 1), (990, 1), (20, 2)] {
        tokio::time::advance(std::time::Duration::from_millis(millis)).await;
        drop(std::mem::take(&mut stored));
        stored = spool.store(&Stored::default(), &[data(10, 2)]).await.unwrap();
        assert_eq!(sick.writes(), writes, "{millis} ms later");
    }
    assert_eq!(read(&stored, true), data(10, 2));
}

#[tokio::test]
async fn a_disk_that_failed_is_not_tried_twice_for_the_same_bytes() {
    let disk = Sick::new(Write::Forgets);
    let spool = Spool::new(vec![disk.clone()]);
    let stored = spool.store(&Stored::default(), &[data(10, 1)]).await.unwrap();
    disk.becomes(Write::Fails);
    spool.store(&stored, &[data(10, 2)]).await.unwrap_err();
    assert_eq!(disk.writes(), 2, "one that worked, one that failed");
}

#[tokio::test]
async fn several_disks_take_together_what_none_takes_alone() {
    let spool = Spool::new((0..4).map(|_| Small::new("small", 4 * BLOCK) as Arc<dyn Disk>).collect());
    let pieces: Vec<_> = (0..6).map(|seed| data(BLOCK as usize, seed)).collect();
    let stored = spool.store(&Stored::default(), &pieces).await.map_err(|error| error.to_string());
    assert_eq!(stored.as_ref().map(|stored| stored.len()), Ok(6 * BLOCK), "sixteen blocks are free");
    assert!(read(&stored.unwrap(), true) == pieces.concat());
}

#[tokio::test]
async fn a_forked_child_gives_back_none_of_its_parents_blocks() {
    let small = Small::new("a", 4 * BLOCK);
    let mut directory = Directory::new(small.clone(), Arc::default());
    Arc::get_mut(&mut directory).expect("nobody else has it yet").owner = OwnerProcess::another();
    let blocks = directory.allocate(BLOCK).unwrap();
    directory.write(vec![(0, Bytes::from(vec![7; 100]))]).await.unwrap();
    blocks.written();
    drop(blocks);
    assert_eq!((directory.used(), small.bytes.lock().unwrap().len()), (BLOCK, 100));
}
