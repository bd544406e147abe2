//! The journal format: written data is read back, damage is noticed, and no file content causes a panic.

use fastrand::Rng;
use proptest::prelude::*;

use super::super::format::{
    BLOCK, DATA_LIMIT, FrameHeader, FrameKind, FramePosition, HEAD, HEADER, Preamble, SECTOR, SLOTS, Slot,
    VERSION,
};
use super::*;

const SALT: [u8; 16] = *b"salt salt salt s";

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Record(Record),
    Sync,
    GiveBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = "[a-z\"\\\\é\u{0}]{0,20}";
    let size = prop_oneof![8 => 0..2000usize, 1 => DATA_LIMIT - 1..DATA_LIMIT + 2, 1 => 0..3 * DATA_LIMIT];
    let record = prop_oneof![
        (text, any::<bool>()).prop_map(|(id, parts)| {
            let kind = if parts { SessionKind::Parts } else { SessionKind::Append };
            Record::Session(JournaledSession { kind, id })
        }),
        (1..5u32, any::<u64>(), any::<u64>(), text, any::<u64>()).prop_map(
            |(number, offset, size, etag, sum)| {
                let checksum = Checksum::known(Algorithm::Crc64Nvme, sum, size);
                Record::Part(Part { number, offset, size, etag, checksum })
            }
        ),
        (0..=100u64).prop_map(Record::Committed),
    ];
    let step = prop_oneof![
        4 => size.prop_map(Step::Append),
        4 => record.prop_map(Step::Record),
        1 => Just(Step::Sync),
        1 => Just(Step::GiveBack),
    ];
    prop::collection::vec(step, 0..12)
}

/// Carries out the steps, and returns the expected object and state.
fn write(steps: Vec<Step>) -> (Arc<SimFile>, Log, Vec<u8>, JournalState) {
    let file = SimFile::new(Rng::with_seed(1));
    let log = create(&file, Algorithm::Crc64Nvme);
    let (mut object, mut state) = (Vec::new(), JournalState::new(header(Algorithm::Crc64Nvme)));
    for (seed, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append(size) => {
                let bytes = data(size, seed as u64);
                log.append(std::slice::from_ref(&bytes)).unwrap();
                object.extend_from_slice(&bytes);
            }
            // The number is hundredths of the object.
            Step::Record(Record::Committed(hundredths)) => {
                let record = Record::Committed(object.len() as u64 * hundredths / 100);
                log.record(record.clone()).unwrap();
                state.apply(record);
            }
            Step::Record(Record::Part(mut part)) => {
                let length = object.len() as u64;
                part.offset = part.offset.checked_rem(length).unwrap_or(0);
                part.size = part.size.checked_rem(length - part.offset).unwrap_or(0);
                log.record(Record::Part(part.clone())).unwrap();
                state.apply(Record::Part(part));
            }
            Step::Record(Record::Session(_)) if log.view().first.object > 0 => {}
            Step::Record(record) => {
                log.record(record.clone()).unwrap();
                state.apply(record);
            }
            Step::Sync => assert_eq!(log.sync().unwrap(), object.len() as u64),
            Step::GiveBack => {
                log.give_back(1).unwrap();
            }
        }
    }
    (file, log, object, state)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_sequence_of_frames_comes_back(steps in steps(), from in 0.0..1.0f64, piece in 1..200_000usize) {
        let (file, log, object, state) = write(steps);
        prop_assert_eq!(&log.state(), &state);
        for check in [Check::Tail, Check::Whole] {
            let found = scan(file.bytes(), check).unwrap();
            prop_assert_eq!(&found.state, &state);
            prop_assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
            prop_assert_eq!(found.cut, 0);
            let first = found.first as usize;
            let from = first + ((object.len() - first) as f64 * from) as usize;
            // Reading a large object in small pieces takes long.
            let length = (object.len() - from).min(piece.saturating_mul(20));
            prop_assert!(read(&log, from as u64, length, piece).unwrap() == object[from..from + length]);
        }
        let (resumed, recovered) = resume(&file).unwrap();
        prop_assert_eq!(&recovered.state, &state);
        resumed.append(&[data(100, 7)]).unwrap();
        let all = [&object[..], &data(100, 7)].concat();
        prop_assert_eq!(resumed.finish().unwrap(), Checksum::of(Algorithm::Crc64Nvme, &all));
    }

    #[test]
    fn headers_and_slots_come_back(
        kind in prop::sample::select(vec![FrameKind::Data, FrameKind::Record]), length in 0..=DATA_LIMIT as u32,
        numbers in any::<[u64; 5]>(), sums in any::<[u32; 3]>(), salt in any::<[u8; 16]>(), flip in 0..HEADER * 8,
    ) {
        let [object, running, at, synced, sequence] = numbers;
        let synced = synced.min(at);
        let header = FrameHeader { kind, length, payload: sums[0], object, synced, running, previous: sums[1] };
        let (mut bytes, sum) = header.encode(&salt, at);
        prop_assert_eq!(FrameHeader::decode(&bytes, &salt, at), Some((header, sum)));
        prop_assert_eq!(FrameHeader::decode(&bytes, &salt, at ^ 8), None);
        prop_assert_eq!(FrameHeader::decode(&bytes, &[!salt[0]; 16], at), None);
        bytes[flip / 8] ^= 1 << (flip % 8);
        prop_assert_eq!(FrameHeader::decode(&bytes, &salt, at), None);

        let file = HEAD + (at >> 10) * 8;
        let first = FramePosition { file, object, running, previous: sums[2] };
        let slot = Slot { sequence, first, checkpoint: file, synced: file + 8 };
        prop_assert_eq!(Slot::decode(&slot.encode(&salt), &salt), Some(slot));
    }

    #[test]
    fn anything_at_all_is_survived(
        steps in steps(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1..600usize), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (file, _, object, _) = write(steps);
        let mut bytes = file.bytes();
        bytes.truncate(cut.index(bytes.len() * 2));
        for (at, value, length) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                let end = (at + length).min(bytes.len());
                bytes[at..end].fill(value);
            }
        }
        if let Ok(found) = scan(bytes, Check::Whole) {
            let length = found.checksum.covers() as usize;
            prop_assert!(length <= object.len());
            prop_assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object[..length]));
        }
    }

    #[test]
    fn noise_is_no_journal(mut bytes in prop::collection::vec(any::<u8>(), 0..20_000), whole_head in any::<bool>()) {
        if whole_head && bytes.len() >= HEAD as usize {
            bytes[..SECTOR].copy_from_slice(&Preamble { version: VERSION, salt: SALT }.encode());
        }
        prop_assert!(scan(bytes, Check::Whole).is_err());
    }
}

/// A small synced journal with records of all kinds, its object, and the offset where the last frame that matters
/// ends.
fn small() -> (Vec<u8>, Vec<u8>, usize) {
    let file = SimFile::new(Rng::with_seed(2));
    let log = create(&file, Algorithm::Crc64Nvme);
    let mut object = Vec::new();
    for (seed, size) in [13, 200, 1].into_iter().enumerate() {
        let bytes = data(size, seed as u64);
        log.append(std::slice::from_ref(&bytes)).unwrap();
        object.extend_from_slice(&bytes);
        log.record(Record::Part(part(1, 0, 13))).unwrap();
    }
    log.record(Record::Committed(13)).unwrap();
    log.finish().unwrap();
    let end = file.bytes().len();
    log.sync().unwrap();
    (file.bytes(), object, end)
}

#[test]
fn every_flipped_bit_is_noticed_or_means_nothing() {
    let (bytes, object, end) = small();
    let sound = scan(bytes.clone(), Check::Whole).unwrap();
    for bit in 0..bytes.len() * 8 {
        // In zeros that are never read, one bit per byte is enough.
        let at = bit / 8;
        if at >= BLOCK && at < HEAD as usize && at % BLOCK >= SECTOR && bit % 8 != at % 8 {
            continue;
        }
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (bit % 8);
        // One of the two slots is enough, the name of the holder is only for people, and after the last frame
        // there is only the note that it is durable.
        let spare = (BLOCK..4 * BLOCK).contains(&(bit / 8)) || bit / 8 >= end;
        match scan(flipped.clone(), Check::Whole) {
            Ok(found) => {
                assert!(spare, "bit {bit} was not noticed");
                assert_eq!(Recovered { cut: 0, ..found }, sound);
            }
            Err(error) => assert!(!spare, "bit {bit}: {error}"),
        }
        // A resume does not check all bytes: wrong bytes are noticed when they are read.
        if bit / 8 < HEAD as usize {
            continue;
        }
        let file = SimFile::of(flipped, Rng::with_seed(3));
        if let Ok((log, found)) = resume(&file) {
            assert_eq!(Recovered { cut: 0, ..found }, sound);
            match read(&log, 0, object.len(), 1000) {
                Ok(bytes) => assert!(spare && bytes == object, "bit {bit}"),
                Err(error) => assert!(matches!(error, JournalError::Damaged { .. }), "bit {bit}: {error}"),
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_is_a_prefix() {
    let (bytes, object, end) = small();
    let mut lengths = Vec::new();
    for length in 0..=bytes.len() {
        match scan(bytes[..length].to_vec(), Check::Whole) {
            Ok(found) => {
                let covers = found.checksum.covers();
                assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object[..covers as usize]));
                assert_eq!(found.state.finish.is_some(), length >= end);
                lengths.push(covers);
            }
            Err(JournalError::Other { .. }) => assert!(length < HEAD as usize),
            // Only the head, and a part of the header record.
            Err(error) => assert!(lengths.is_empty() && length >= HEAD as usize, "{length}: {error}"),
        }
    }
    assert!(lengths.is_sorted());
    lengths.dedup();
    assert_eq!(lengths, [0, 13, 213, 214]);
}

#[test]
fn a_lost_sector_is_damage_where_it_was_durable_and_the_end_where_it_was_not() {
    let file = SimFile::new(Rng::with_seed(4));
    let log = create(&file, Algorithm::Crc64Nvme);
    let object = data(10_000, 1);
    for piece in object.chunks(700) {
        log.append(&[Bytes::copy_from_slice(piece)]).unwrap();
        if file.bytes().len() < 9000 {
            log.sync().unwrap();
        }
    }
    let bytes = file.bytes();
    let synced = log.view().synced.file as usize;
    assert!(synced > 8000 && synced + 4000 < bytes.len());
    for sector in HEAD as usize / SECTOR..bytes.len().div_ceil(SECTOR) {
        let mut torn = bytes.clone();
        let end = ((sector + 1) * SECTOR).min(torn.len());
        torn[sector * SECTOR..end].fill(0);
        match scan(torn, Check::Whole) {
            Ok(found) => {
                assert!(sector * SECTOR + SECTOR > synced, "sector {sector} was durable");
                let covers = found.checksum.covers();
                assert!(covers.is_multiple_of(700) && found.cut > 0);
                assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object[..covers as usize]));
            }
            Err(JournalError::Damaged { path, offset, .. }) => {
                assert!(sector * SECTOR < synced, "sector {sector} was not durable");
                assert_eq!(path, Path::new(NAME));
                assert!(offset < end as u64 && offset + 800 > (sector * SECTOR) as u64, "{sector}: {offset}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_journal_in_a_journal_is_only_bytes() {
    let (inner, _, _) = small();
    let file = SimFile::new(Rng::with_seed(5));
    let log = create(&file, Algorithm::Crc64Nvme);
    log.append(&[data(1000, 1)]).unwrap();
    let torn = file.bytes().len();
    // Journal bytes as object bytes, even with the same salt: their frames are at the wrong offsets.
    log.append(&[inner.into()]).unwrap();
    log.append(&[file.bytes().into()]).unwrap();
    let mut bytes = file.bytes();
    bytes[torn] ^= 1;
    let found = scan(bytes, Check::Tail).unwrap();
    assert_eq!(found.checksum.covers(), 1000);
}

#[test]
fn what_is_not_ours_is_told() {
    let (bytes, _, _) = small();
    let error = |bytes: Vec<u8>| scan(bytes, Check::Tail).unwrap_err().to_string();
    let mut newer = bytes.clone();
    newer[..SECTOR].copy_from_slice(&Preamble { version: 2, salt: SALT }.encode());
    assert_eq!(
        error(newer),
        "journal /journals/one.journal has version 2 of the format, this Tidegate reads up to 1: resume it \
         with the Tidegate that wrote it, or a later one"
    );
    assert_eq!(error(b"hello".to_vec()), "/journals/one.journal is not a journal: it is too short");
    let text = b"hello ".repeat(3000);
    assert_eq!(error(text), "/journals/one.journal is not a journal: it does not begin as one");
    let mut slots = bytes.clone();
    for slot in SLOTS {
        slots[slot as usize] = 0;
    }
    assert!(error(slots).starts_with("journal /journals/one.journal is damaged at byte 4096: both notes"));
    // Frames of another journal in the place of this one's, as in blocks that were used before.
    let other = SimFile::new(Rng::with_seed(6));
    let log = Log::create(Path::new(NAME), other.clone(), header(Algorithm::Crc64Nvme), [1; 16]).unwrap();
    log.append(&[data(13, 0)]).unwrap();
    let head = HEAD as usize;
    let mixed = [&bytes[..head], &other.bytes()[head..], &bytes[other.bytes().len()..]].concat();
    assert!(error(mixed).contains("is damaged at byte 16384"));
}

#[test]
fn a_disk_may_lose_a_block_of_the_head_while_it_writes_some_of_it() {
    let file = SimFile::new(Rng::with_seed(7));
    let log = create(&file, Algorithm::Crc64Nvme);
    for round in 1..4 {
        log.append(&[data(20_000, round)]).unwrap();
        log.record(Record::Committed(round * 20_000 - 5000)).unwrap();
        log.give_back(1).unwrap();
        log.sync().unwrap();
        let sound = scan(file.bytes(), Check::Whole).unwrap();
        assert!(round == 1 || sound.first > 0);
        // The only blocks that are ever rewritten: the two slots, and the name of the holder.
        for block in 1..4 {
            for fill in [0, 0xff] {
                let mut bytes = file.bytes();
                bytes[block * BLOCK..(block + 1) * BLOCK].fill(fill);
                assert_eq!(scan(bytes, Check::Whole).unwrap(), sound, "{block}");
            }
        }
    }
}

/// This also holds during a resume, wherever an earlier process died while it freed space.
#[test]
fn a_block_of_the_head_that_is_lost_while_it_is_written_never_was_the_only_one() {
    for (seed, died, dies) in
        (0..4).flat_map(|seed| (1..12).flat_map(move |died| (1..10).map(move |dies| (seed, died, dies))))
    {
        let file = SimFile::new(Rng::with_seed(seed));
        let log = create(&file, Algorithm::Crc64Nvme);
        for round in 1..4 {
            log.append(&[data(20_000, round)]).unwrap();
            log.record(Record::Committed(round * 20_000 - 5000)).unwrap();
            log.sync().unwrap();
            if round == 3 {
                file.faults(|faults| faults.power = Some(died));
            }
            let _ = log.give_back(1);
        }
        drop(log);
        file.lose_power_at(file.time());
        file.faults(|faults| faults.power = Some(dies));
        let _ = resume(&file);
        for block in [1, 2].map(|block| block * BLOCK..(block + 1) * BLOCK) {
            if !file.is_unsynced(block.clone()) {
                continue;
            }
            let mut bytes = file.bytes();
            bytes[block.clone()].fill(0xff);
            let found = scan(bytes, Check::Tail);
            assert!(found.is_ok(), "{block:?} of {seed}, {died}, {dies}: {}", found.unwrap_err());
        }
    }
}
