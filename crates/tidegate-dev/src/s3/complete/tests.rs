use super::*;
use crate::storage::StoredPiece;

const MIB: u64 = 1024 * 1024;

fn upload(sizes: &[u64]) -> CatalogUpload {
    let parts = (1..).zip(sizes).map(|(number, &size)| {
        let part = CatalogPart {
            number,
            etag: format!("tag-{number}"),
            modified: Moment::now(),
            checksum: None,
            piece: StoredPiece::Void(size),
        };
        (number, part)
    });
    CatalogUpload {
        key: "key".to_owned(),
        id: "id".to_owned(),
        initiated: Moment::now(),
        algorithm: None,
        is_composite: false,
        attributes: Default::default(),
        parts: parts.collect(),
    }
}

fn named(numbers: &[i32]) -> Vec<CompletedPart> {
    let parts = numbers.iter().map(|&number| CompletedPart {
        part_number: Some(number),
        e_tag: Some(ETag::Strong(format!("tag-{number}"))),
        ..Default::default()
    });
    parts.collect()
}

fn code(upload: &CatalogUpload, numbers: &[i32], knobs: &Knobs) -> String {
    match choose(upload, named(numbers), knobs) {
        Ok(parts) => format!("{} parts", parts.len()),
        Err(error) => error.code().as_str().to_owned(),
    }
}

#[test]
fn the_list_must_be_in_order_and_name_what_is_there() {
    let upload = upload(&[5 * MIB, 5 * MIB, 1]);
    let code = |numbers: &[i32]| code(&upload, numbers, &Knobs::default());
    assert_eq!(code(&[1, 2, 3]), "3 parts");
    assert_eq!(code(&[1, 3]), "2 parts");
    assert_eq!(code(&[3, 1]), "InvalidPartOrder");
    assert_eq!(code(&[1, 1]), "InvalidPartOrder");
    assert_eq!(code(&[1, 4]), "InvalidPart");
    assert_eq!(code(&[]), "MalformedXML");
}

#[test]
fn only_the_last_part_may_be_small() {
    let upload = upload(&[5 * MIB - 1, 5 * MIB]);
    assert_eq!(code(&upload, &[1, 2], &Knobs::default()), "EntityTooSmall");
    assert_eq!(code(&upload, &[1], &Knobs::default()), "1 parts");
    let lenient = Knobs { min_part_size: Some(1), ..Knobs::default() };
    assert_eq!(code(&upload, &[1, 2], &lenient), "2 parts");
}

#[test]
fn equal_parts_are_a_knob() {
    let strict = Knobs { equal_parts: true, ..Knobs::default() };
    let code = |sizes: &[u64]| {
        let numbers: Vec<i32> = (1..=sizes.len() as i32).collect();
        code(&upload(sizes), &numbers, &strict)
    };
    assert_eq!(code(&[6 * MIB, 6 * MIB, 1]), "3 parts");
    assert_eq!(code(&[6 * MIB, 5 * MIB, 1]), "InvalidPart");
    assert_eq!(code(&[5 * MIB, 5 * MIB, 6 * MIB]), "InvalidPart");
    assert_eq!(code(&[6 * MIB]), "1 parts");
}
