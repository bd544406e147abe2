//! Forged files: each frame is valid, but the frames contradict each other.

use super::*;
use tidegate_core::types::checksum::Algorithm::{Crc32c, Crc64Nvme};

const SIZE: u64 = 1000;

fn session(kind: SessionKind) -> Record {
    Record::Session(JournaledSession { kind, id: "id".into() })
}

/// Resumes a journal of 1,000 bytes with these records, and returns the result.
fn judge(header: Header, records: Vec<Record>) -> Result<(), JournalError> {
    let file = SimFile::new(Rng::with_seed(1));
    let log = Log::create(Path::new(NAME), file.clone(), header, *b"salt salt salt s").unwrap();
    log.append(&[data(usize::try_from(SIZE).unwrap(), 1)]).unwrap();
    for record in records {
        log.record(record).unwrap();
    }
    log.sync().unwrap();
    for check in [Check::Tail, Check::Whole] {
        scan(file.bytes(), check)?.check(Path::new(NAME))?;
    }
    Ok(())
}

#[test]
fn what_a_writer_writes_is_sound() {
    let parts = |list: &[(u32, u64, u64)]| {
        let parts = list.iter().map(|(number, offset, size)| Record::Part(part(*number, *offset, *size)));
        [session(SessionKind::Parts)].into_iter().chain(parts).collect::<Vec<_>>()
    };
    let whole = Checksum::of(Crc64Nvme, &data(1000, 1));
    let two = || parts(&[(1, 0, 400), (2, 400, 400)]);
    let sound = [
        vec![],
        vec![Record::Finish(whole)],
        two(),
        // The second of three parts is in flight, or lost.
        parts(&[(1, 0, 400), (3, 800, 200)]),
        [two(), vec![Record::Committed(800), Record::Part(part(3, 800, 200)), Record::Finish(whole)]]
            .concat(),
        vec![session(SessionKind::Append), Record::Committed(777)],
        [two(), vec![session(SessionKind::Append), Record::Committed(1)]].concat(),
    ];
    for records in sound {
        judge(header(Crc64Nvme), records.clone()).unwrap_or_else(|error| panic!("{records:?}: {error}"));
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let with = |parts: Vec<Part>| {
        let parts = parts.into_iter().map(Record::Part);
        [session(SessionKind::Parts)].into_iter().chain(parts).collect::<Vec<_>>()
    };
    let changed = |change: &dyn Fn(&mut Part)| {
        let mut part = part(1, 0, 400);
        change(&mut part);
        with(vec![part])
    };
    let other = |algorithm: Algorithm| Checksum::known(algorithm, 1, 400);
    let whole = Checksum::of(Crc64Nvme, &data(1000, 1));
    let wrong = Checksum::known(Crc64Nvme, whole.value() ^ 1, SIZE);
    let named = |id: &str| Record::Session(JournaledSession { kind: SessionKind::Parts, id: id.into() });
    let refused: Vec<(&str, Vec<Record>)> = vec![
        ("of another kind", changed(&|part| part.checksum = other(Crc32c))),
        ("another number of bytes", changed(&|part| part.size = 399)),
        ("more bytes than it has", with(vec![part(1, 900, 101)])),
        ("more bytes than it has", with(vec![part(1, u64::MAX, 2)])),
        ("more bytes than it has", with(vec![part(1, 0, u64::MAX)])),
        ("no store acknowledges", with(vec![part(0, 0, 10)])),
        ("no store acknowledges", with(vec![part(1, 0, 0)])),
        ("no store acknowledges", changed(&|part| part.etag = "\u{1b}[2J".into())),
        ("overlap", with(vec![part(1, 0, 400), part(2, 399, 400)])),
        ("overlap", with(vec![part(1, 500, 100), part(2, 0, 100)])),
        ("no session", vec![Record::Part(part(1, 0, 10))]),
        ("no session", vec![session(SessionKind::Append), Record::Part(part(1, 0, 10))]),
        ("without a session", vec![Record::Committed(1)]),
        ("than its parts have", [with(vec![part(1, 0, 400)]), vec![Record::Committed(401)]].concat()),
        ("than its parts have", [with(vec![part(2, 0, 400)]), vec![Record::Committed(1)]].concat()),
        ("more bytes than it has", vec![session(SessionKind::Append), Record::Committed(SIZE + 1)]),
        ("not that of its bytes", vec![Record::Finish(wrong)]),
        ("not that of its bytes", vec![Record::Finish(Checksum::known(Crc32c, whole.value(), SIZE))]),
        ("more bytes than it has", vec![Record::Finish(Checksum::known(Crc64Nvme, whole.value(), 999))]),
        ("its upload id is", vec![named("")]),
        ("its upload id is", vec![named("a\nb")]),
        ("its upload id is", vec![named(&"x".repeat(1 << 20))]),
    ];
    for (why, records) in refused {
        let said = judge(header(Crc64Nvme), records.clone()).expect_err(why);
        assert!(
            matches!(said, JournalError::Damaged { .. }) && said.to_string().contains(why),
            "{why}: {said}"
        );
    }
    let header = |change: &dyn Fn(&mut Header)| {
        let mut header = header(Crc64Nvme);
        change(&mut header);
        judge(header, vec![])
    };
    for (why, said) in [
        ("another upload", header(&|header| header.upload = "two".into())),
        ("control characters", header(&|header| header.url = "s3://a\u{1b}]0;x\u{7}".into())),
        ("after the year 9999", header(&|header| header.created = u64::MAX)),
        ("checksum of no bytes", header(&|header| header.checksum = whole)),
    ] {
        let said = said.expect_err(why);
        assert!(said.to_string().contains(why), "{why}: {said}");
    }
}

#[test]
fn a_checkpoint_with_one_number_twice_means_nothing() {
    let file = SimFile::new(Rng::with_seed(1));
    let log = create(&file, Crc64Nvme);
    log.append(&[data(1000, 1)]).unwrap();
    let text = serde_json::to_value({
        let mut state = log.state();
        state.parts.insert(1, part(1, 0, 10));
        state
    });
    let mut text = text.unwrap();
    let parts = text["parts"].as_array_mut().unwrap();
    parts.push(parts[0].clone());
    assert!(serde_json::from_value::<JournalState>(text).is_err());
}
