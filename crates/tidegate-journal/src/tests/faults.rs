//! Journals under one fault at a time.

use std::thread;

use super::super::disk::JournalFile;
use super::super::format::HEAD;
use super::*;

fn begun(seed: u64) -> (Arc<SimFile>, Log, Vec<u8>) {
    begun_with(seed, false)
}

fn begun_with(seed: u64, no_reserve: bool) -> (Arc<SimFile>, Log, Vec<u8>) {
    let file = SimFile::new(Rng::with_seed(seed));
    file.faults(|faults| faults.no_reserve = no_reserve);
    let log = create(&file, Algorithm::Crc64Nvme);
    let object = data(20_000, seed);
    log.append(std::slice::from_ref(&object)).unwrap();
    (file, log, object.to_vec())
}

#[test]
fn an_append_for_which_there_is_no_space_leaves_all_as_it_was() {
    // Two frames, and their headers and padding.
    let more = data(140_000, 9);
    let mut refused = 0;
    let shorts = || (1..140_200).step_by(1777).chain([1, 47, 48, 49]);
    for (short, no_reserve) in shorts().flat_map(|short| [(short, false), (short, true)]) {
        let (file, log, mut object) = begun_with(1, no_reserve);
        let before = file.bytes().len();
        file.faults(|faults| faults.room = Some(before + 140_200 - short));
        // Not every shortage is too large for this append.
        if let Err(error) = log.append(&[more.slice(..7), more.slice(7..)]) {
            assert!(matches!(error, JournalError::Full { .. }), "{error}");
            assert_eq!(error.kind(), tidegate_core::types::error::ErrorKind::NoSpace);
            assert_eq!(file.bytes().len(), before, "the space is given back");
            refused += 1;
            assert_eq!(log.checksum(), Checksum::of(Algorithm::Crc64Nvme, &object));
            assert_eq!(read(&log, 0, object.len(), 4096).unwrap(), object);
            // If no space can be reserved, records are rejected as well, and accepted later.
            file.faults(|faults| faults.room = Some(before + 20));
            let reserved = log.record(Record::Committed(5));
            assert_eq!(reserved.is_ok(), !no_reserve, "{reserved:?}");
            file.faults(|faults| faults.room = None);
            log.append(std::slice::from_ref(&more)).unwrap();
        }
        file.faults(|faults| faults.room = None);
        log.record(Record::Committed(5)).unwrap();
        object.extend_from_slice(&more);
        assert!(read(&log, 0, object.len(), 100_000).unwrap() == object);
        log.sync().unwrap();
        file.lose_power();
        let (_, found) = resume(&file).unwrap();
        assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
        assert_eq!((found.state.committed, found.cut), (5, 0));
    }
    assert!(refused > 140, "{refused}");
}

#[test]
fn what_was_taken_back_never_comes_back_among_what_came_after() {
    let other = data(131_072, 11);
    for (failed, killed) in [(true, false), (true, true), (false, true)] {
        let (file, mut log, object) = begun(3);
        log.sync().unwrap();
        let from = file.time();
        if failed {
            // There is space for the first frame, but not for the second.
            file.faults(|faults| faults.no_reserve = true);
            let room = file.bytes().len() + 132_000;
            file.faults(|faults| faults.room = Some(room));
            log.append(&[other.clone(), data(131_072, 12)]).unwrap_err();
            file.faults(|faults| faults.room = None);
        } else {
            // The disk may have a frame that reads no longer return.
            log.append(std::slice::from_ref(&other)).unwrap();
            file.truncate(file.bytes().len() as u64 - 1000).unwrap();
        }
        if killed {
            drop(log);
            log = resume(&file).unwrap().0;
        }
        log.append(&[data(2000, 14)]).unwrap();
        log.append(&[data(2000, 15)]).unwrap();
        let right = [&object[..], &data(2000, 14), &data(2000, 15)].concat();
        // The power fails now, and the disk has any older state of the unsynced data.
        for time in from..=file.time() {
            let copy = file.copy();
            copy.lose_power_at(time);
            let (_, found) = resume(&copy).unwrap();
            let covers = found.checksum.covers() as usize;
            assert!((20_000..=right.len()).contains(&covers), "{covers} bytes");
            assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &right[..covers]));
        }
    }
}

#[test]
fn a_sync_that_failed_is_not_tried_again_and_another_process_makes_it_good() {
    for reverts in [false, true] {
        let (file, log, object) = begun(2);
        log.sync().unwrap();
        log.append(&[data(5000, 3)]).unwrap();
        file.faults(|faults| (faults.sync, faults.reverts) = (Some(0), reverts));
        let error = log.sync().unwrap_err();
        assert_eq!(
            error.to_string(),
            "journal /journals/one.journal: bytes from offset 20000 of the object on may be lost: the disk did \
             not take them: Input/output error (look at the disk, then resume the upload from the journal)"
        );
        // The disk works again, but that says nothing about the data it did not take.
        for result in [log.sync(), log.append(&[data(1, 1)]), log.record(Record::Committed(1))] {
            assert!(matches!(result, Err(JournalError::Lost { durable: 20_000, .. })), "{result:?}");
        }
        assert!(matches!(log.give_back(1), Err(JournalError::Lost { .. })));
        assert!(matches!(log.finish(), Err(JournalError::Lost { .. })));
        assert_eq!(read(&log, 0, object.len(), 4096).unwrap(), object, "what is durable can be read");
        drop(log);

        // Data that never reached the disk may still be readable: it counts only once it was written again.
        let (log, found) = resume(&file).unwrap();
        let length = found.checksum.covers() as usize;
        assert!(length >= 20_000 && (reverts || length == 25_000));
        drop(log);
        file.lose_power();
        let (_, again) = resume(&file).unwrap();
        assert_eq!(again.checksum, found.checksum);
    }
}

#[test]
fn a_disk_that_says_late_that_it_is_full_is_not_a_sick_one() {
    let (file, log, _) = begun(24);
    file.faults(|faults| (faults.sync, faults.late) = (Some(0), true));
    let error = log.sync().unwrap_err();
    assert_eq!(error.kind(), tidegate_core::types::error::ErrorKind::NoSpace);
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(
        log.append(&[data(1, 1)]).unwrap_err().kind(),
        tidegate_core::types::error::ErrorKind::NoSpace
    );
    drop(log);
    assert_eq!(resume(&file).unwrap().1.checksum.covers(), 20_000);
}

#[test]
fn small_frames_are_read_many_at_once() {
    let (file, log, mut object) = begun(25);
    for number in 0..200 {
        log.append(&[data(100, number)]).unwrap();
        object.extend_from_slice(&data(100, number));
    }
    let before = file.reads();
    let (mut bytes, mut near) = (vec![0; 20_000], None);
    assert_eq!(log.read(&mut bytes, 20_000, &mut near, true).unwrap(), Some(20_000));
    assert!(bytes == object[20_000..]);
    // The frames take 30,400 bytes.
    let reads = file.reads() - before;
    assert!(reads < 20, "{reads} reads of 200 frames");
}

#[test]
fn records_of_more_than_there_is_are_damage() {
    for (offset, size) in [(0, 20_001), (20_000, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let (file, log, _) = begun(26);
        log.record(Record::Part(part(1, 0, 20_000))).unwrap();
        log.record(Record::Part(part(2, offset, size))).unwrap();
        log.sync().unwrap();
        let error = scan(file.bytes(), Check::Tail).unwrap_err();
        assert!(error.to_string().contains("more bytes than it has"), "{error}");
    }
}

#[test]
fn giving_space_back_can_fail_anywhere() {
    for power in [false, true] {
        for step in 0..12 {
            let (file, log, object) = begun(4);
            log.record(Record::Session(JournaledSession { kind: SessionKind::Parts, id: "s".into() }))
                .unwrap();
            log.record(Record::Part(part(1, 0, 15_000))).unwrap();
            log.append(&[data(3000, 5)]).unwrap();
            log.append(&[data(3000, 6)]).unwrap();
            let object = [&object[..], &data(3000, 5), &data(3000, 6)].concat();
            log.record(Record::Committed(21_000)).unwrap();
            log.sync().unwrap();
            let mut state = log.state();
            file.faults(
                |faults| {
                    if power { faults.power = Some(1 + step) } else { faults.change = Some(step) }
                },
            );
            let given = log.give_back(4096);
            if !power {
                file.faults(|faults| faults.change = None);
                match given {
                    Err(JournalError::Lost { .. }) => {}
                    // The call may have failed with all of its work done: then a new session would miss bytes.
                    Err(JournalError::Io { .. }) if step % 2 == 0 => {
                        let session = JournaledSession { kind: SessionKind::Parts, id: "t".into() };
                        let replaced = log.record(Record::Session(session.clone()));
                        if replaced.is_ok() {
                            state.apply(Record::Session(session));
                        }
                        log.sync().unwrap();
                    }
                    Err(JournalError::Io { .. }) => {
                        assert!(log.give_back(4096).unwrap() >= 16_384);
                        log.append(&[data(100, 7)]).unwrap();
                    }
                    other => assert!(other.unwrap() >= 16_384),
                }
            }
            drop(log);
            file.lose_power();
            let (log, found) = resume(&file).unwrap();
            assert_eq!(found.state, state);
            assert!(found.first <= state.committed, "{} is of another session", found.first);
            // The first frame, of 20,000 bytes, is wholly acknowledged; the next frame is not.
            assert!([0, 20_000].contains(&found.first), "{}", found.first);
            let first = found.first as usize;
            assert_eq!(read(&log, first as u64, object.len() - first, 999).unwrap(), object[first..]);
            assert!(found.checksum.covers() >= object.len() as u64);
        }
    }
}

#[test]
fn to_find_that_little_can_be_given_back_nobody_waits() {
    let (file, log, _) = begun(26);
    for number in 0..100 {
        log.append(&[data(100_000, number)]).unwrap();
    }
    log.record(Record::Committed(5_000_000)).unwrap();
    log.sync().unwrap();
    let before = file.reads();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let syncing = log.turn();
        threads.spawn(|| tell.send(log.give_back(8 << 20)));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(10)).unwrap().unwrap(), 0);
        drop(syncing);
    });
    assert_eq!(file.reads(), before);
    // About as many bytes as can be freed.
    assert!(log.give_back(4_900_000).unwrap() >= 4_900_000);
}

#[test]
fn a_file_system_without_holes_only_costs_space() {
    let (file, log, object) = begun(5);
    log.record(Record::Committed(20_000)).unwrap();
    file.faults(|faults| faults.no_holes = true);
    let (syncs, length) = (file.syncs(), file.bytes().len());
    for _ in 0..3 {
        assert_eq!(log.give_back(1).unwrap(), 0);
    }
    assert_eq!((file.syncs(), file.bytes().len()), (syncs, length), "nothing was begun for nothing");
    // The session can be replaced, because all bytes are there.
    log.record(Record::Session(JournaledSession { kind: SessionKind::Parts, id: "s".into() })).unwrap();
    log.append(&[data(10, 1)]).unwrap();
    log.sync().unwrap();
    let (_, found) = resume(&file).unwrap();
    let object = [&object[..], &data(10, 1)].concat();
    assert_eq!((found.first, found.checksum), (0, Checksum::of(Algorithm::Crc64Nvme, &object)));
}

#[test]
fn what_the_state_does_not_allow_is_refused() {
    let (file, log, _) = begun(6);
    log.finish().unwrap();
    let error = log.append(&[data(1, 1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "journal /journals/one.journal: its object is finished and takes no more bytes"
    );
    // Acknowledgements are accepted until the end.
    log.record(Record::Committed(20_000)).unwrap();
    log.record(Record::End(End::Completed)).unwrap();
    assert!(matches!(log.record(Record::Committed(20_000)), Err(JournalError::Refused { .. })));
    log.sync().unwrap();
    assert_eq!(scan(file.bytes(), Check::Whole).unwrap().state.end, Some(End::Completed));
    // A record can't fill memory: its size is limited.
    let (_, log, _) = begun(7);
    let id = "x".repeat(17 << 20);
    let error = log.record(Record::Session(JournaledSession { kind: SessionKind::Parts, id })).unwrap_err();
    assert!(matches!(error, JournalError::Refused { .. }), "{error}");
}

#[test]
fn appends_syncs_reads_and_punches_go_on_beside_each_other() {
    let (file, log, first) = begun(8);
    let object = [&first[..], &data(2_000_000, 10)].concat();
    let log = &log;
    thread::scope(|scope| {
        scope.spawn(|| {
            for piece in object[first.len()..].chunks(9_999) {
                log.append(&[Bytes::copy_from_slice(piece)]).unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while log.sync().unwrap() < object.len() as u64 {
                    thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            let mut near = None;
            let (mut at, mut buffer) = (0, vec![0; 30_000]);
            while at < object.len() {
                let got = log.read(&mut buffer, at as u64, &mut near, true).unwrap().unwrap();
                assert!(buffer[..got] == object[at..at + got]);
                at += got;
                // Bytes that are not read yet must not be freed.
                log.record(Record::Committed(at as u64)).unwrap();
                log.give_back(200_000).unwrap();
            }
        });
    });
    assert!(log.view().first.object > 1_000_000);
    let (_, found) = resume(&file).unwrap();
    assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
    assert_eq!(found.state.committed, object.len() as u64);
}

/// A journal that has filled its disk.
fn filled(seed: u64) -> (Arc<SimFile>, Log, Vec<u8>) {
    let (file, log, mut object) = begun(seed);
    log.record(Record::Session(JournaledSession { kind: SessionKind::Parts, id: "s".into() })).unwrap();
    file.faults(|faults| faults.room = Some(2_000_000));
    for number in 0.. {
        let bytes = data(16_384, number);
        match log.append(std::slice::from_ref(&bytes)) {
            Ok(_) => object.extend_from_slice(&bytes),
            Err(JournalError::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(object.len() > 1_900_000);
    (file, log, object)
}

#[test]
fn on_a_full_disk_what_the_store_has_makes_room() {
    for (synced, taken) in [(false, false), (true, false), (true, true)] {
        let (file, mut log, object) = filled(20);
        file.fill();
        if synced {
            log.sync().unwrap();
        }
        if taken {
            drop(log);
            log = resume(&file).unwrap().0;
        }
        assert!(matches!(log.append(&[data(16_384, 1)]), Err(JournalError::Full { .. })));
        let (mut acknowledged, mut more) = (0, 0);
        // With parts this small, records take much of the space that is freed.
        for number in 1..=110 {
            log.record(Record::Part(part(number, acknowledged, 16_384))).unwrap();
            acknowledged += 16_384;
            log.record(Record::Committed(acknowledged)).unwrap();
            log.give_back(1).unwrap();
            log.sync().unwrap();
            more += u64::from(log.append(&[data(16_384, 1)]).is_ok());
        }
        assert!(more > 40, "{more} appends in the space of 110");
        log.record(Record::Finish(log.checksum())).unwrap();
        log.record(Record::End(End::Completed)).unwrap();
        log.sync().unwrap();
        file.lose_power();
        let found = scan(file.bytes(), Check::Whole).unwrap();
        assert_eq!(found.state.parts.len(), 110);
        assert_eq!(found.checksum.covers(), object.len() as u64 + more * 16_384);
        assert_eq!(found.state.end, Some(End::Completed));
    }
}

#[test]
fn the_last_record_has_space_when_no_other_one_has() {
    let (file, log, _) = filled(21);
    file.fill();
    let refused = (1..10_000).find(|number| match log.record(Record::Part(part(*number, 0, 1))) {
        Ok(_) => false,
        Err(JournalError::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    assert!(refused.is_some_and(|count| count > 40), "{refused:?}");
    log.record(Record::End(End::Aborted)).unwrap();
    log.sync().unwrap();
    assert_eq!(scan(file.bytes(), Check::Whole).unwrap().state.end, Some(End::Aborted));
}

#[test]
fn where_no_space_can_be_set_aside_the_disk_is_filled_all_the_same() {
    let (file, log, object) = begun(22);
    file.faults(|faults| (faults.no_reserve, faults.room) = (true, Some(100_000)));
    let refused = (0..).find(|number| log.append(&[data(1000, *number)]).is_err()).unwrap();
    assert!(refused * 1048 + 20_000 > 70_000);
    file.faults(|faults| faults.room = None);
    log.record(Record::Committed(20_000)).unwrap();
    assert!(log.give_back(1).unwrap() > 0);
    assert_eq!(resume(&file).unwrap().1.checksum.covers(), object.len() as u64 + refused * 1000);
}

#[test]
fn bytes_before_a_mark_that_lies_behind_a_torn_frame_are_not_cut_off() {
    let (file, log, object) = begun(23);
    // The object is durable, and only the last mark says so.
    log.sync().unwrap();
    let durable = log.view().synced.file as usize;
    let torn = file.bytes().len();
    log.append(&[data(1000, 1)]).unwrap();
    log.append(&[data(1000, 2)]).unwrap();
    let mut bytes = file.bytes();
    let (mark, behind) = (durable, torn);
    assert!(mark < behind);
    // The mark and the frame after it never reached the disk, but the next frame did. And a byte that was
    // durable has changed.
    bytes[mark..behind + 1000].fill(0);
    bytes[HEAD as usize + 10_000] ^= 1;
    let damaged = scan(bytes.clone(), Check::Whole).unwrap_err();
    assert!(matches!(damaged, JournalError::Damaged { .. }), "{damaged}");
    let found = scan(bytes, Check::Tail).unwrap();
    assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
}
