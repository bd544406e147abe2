use super::*;

const K: u64 = GRAIN;

fn parse(text: &str) -> Option<ContentRange> {
    ContentRange::parse(Some(text)).ok()
}

fn status(range: ContentRange, length: Option<u64>, persisted: u64) -> u16 {
    plan(range, length, persisted).unwrap_err().status.as_u16()
}

#[test]
fn ranges_are_read() {
    assert_eq!(ContentRange::parse(None).unwrap(), ContentRange::Whole);
    assert_eq!(parse("bytes */*"), Some(ContentRange::Query { total: None }));
    assert_eq!(parse("bytes */0"), Some(ContentRange::Query { total: Some(0) }));
    assert_eq!(parse("bytes 0-9/*"), Some(ContentRange::Chunk { first: 0, last: 9, total: None }));
    assert_eq!(parse("bytes 5-9/10"), Some(ContentRange::Chunk { first: 5, last: 9, total: Some(10) }));
    assert_eq!(parse("bytes 7-*/*"), Some(ContentRange::Rest { first: 7, total: None }));
    for wrong in [
        "",
        "bytes",
        "bytes 0-9",
        "0-9/10",
        "bytes 9-0/*",
        "bytes 0-9/9",
        "bytes -1-3/*",
        "bytes a-b/*",
        "bytes 1/*",
    ] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_query_finishes_only_what_is_whole() {
    let query = |total| ContentRange::Query { total };
    assert_eq!(plan(query(None), Some(0), K).unwrap(), SessionAction::Tell);
    assert_eq!(plan(query(Some(2 * K)), Some(0), K).unwrap(), SessionAction::Tell);
    let SessionAction::Take(last) = plan(query(Some(K)), Some(0), K).unwrap() else { panic!("not finished") };
    assert_eq!((last.length, last.is_last), (Some(0), true));
    assert_eq!(status(query(Some(1)), Some(0), K), 400);
    assert_eq!(status(query(None), Some(5), K), 400);
}

#[test]
fn chunks_are_large_enough_but_the_last() {
    let chunk = |first, last, total| ContentRange::Chunk { first, last, total };
    assert_eq!(status(chunk(0, K - 2, None), None, 0), 400);
    assert_eq!(status(chunk(0, K - 2, Some(K)), None, 0), 400);
    assert!(plan(chunk(0, K - 1, None), Some(K), 0).is_ok());
    assert!(
        plan(chunk(0, K, None), Some(K + 1), 0).is_ok(),
        "what is over the grain is dropped, not refused"
    );
    let SessionAction::Take(last) = plan(chunk(0, 4, Some(5)), Some(5), 0).unwrap() else {
        panic!("not taken")
    };
    assert!(last.is_last);
    assert_eq!(status(chunk(0, K - 1, None), Some(K - 1), 0), 400, "not as long as it says");
}

#[test]
fn what_is_there_is_skipped_and_a_gap_is_refused() {
    let chunk = |first, last, total| ContentRange::Chunk { first, last, total };
    let SessionAction::Take(again) = plan(chunk(K, 3 * K - 1, None), None, 2 * K).unwrap() else {
        panic!("not taken")
    };
    assert_eq!((again.skip, again.length, again.is_last), (K, Some(2 * K), false));
    let refusal = plan(chunk(3 * K, 4 * K - 1, None), None, 2 * K).unwrap_err();
    assert_eq!(refusal.status.as_u16(), 503);
    assert!(
        refusal
            .message
            .contains("the upload offset is 786432 byte(s), which exceeds already uploaded size of 524288")
    );
    assert_eq!(status(ContentRange::Rest { first: 1, total: None }, None, 0), 503);
    let SessionAction::Take(rest) = plan(ContentRange::Rest { first: 0, total: None }, None, K).unwrap()
    else {
        panic!("not taken")
    };
    assert_eq!((rest.skip, rest.length, rest.is_last), (K, None, true));
    assert_eq!(status(ContentRange::Whole, Some(5), K), 400, "an object shorter than what is there");
}
