use super::*;
use tidegate_core::backend::FaultKind;

/// What says that no page follows.
const LAST: &str = "<IsTruncated>false</IsTruncated>";

/// Reads a page, which is the last one if `inside` does not say whether another follows.
fn uploads(inside: &str) -> Result<UploadsPage, Fault> {
    let last = if inside.contains("<IsTruncated") { "" } else { LAST };
    let body = format!("<ListMultipartUploadsResult>{last}{inside}</ListMultipartUploadsResult>");
    UploadsPage::read(&HeaderMap::new(), body.as_bytes(), "us-east-1")
}

fn parts(inside: &str) -> Result<PartsPage, Fault> {
    let last = if inside.contains("<IsTruncated") { "" } else { LAST };
    let body = format!("<ListPartsResult>{last}{inside}</ListPartsResult>");
    PartsPage::read(&HeaderMap::new(), body.as_bytes(), "us-east-1", 0)
}

const UPLOAD: &str = "<Upload><Key>a%2Bb</Key><UploadId>u-1</UploadId><Owner><ID>o</ID></Owner>\
    <Initiator><ID>i</ID><DisplayName>Ann</DisplayName></Initiator>\
    <Initiated>2026-01-02T03:04:05+00:00</Initiated></Upload>";

#[test]
fn unfinished_uploads_are_read_as_they_are() {
    let next = "<IsTruncated>true</IsTruncated><NextKeyMarker>a%2Bb</NextKeyMarker>\
        <NextUploadIdMarker>u-1</NextUploadIdMarker>";
    let page = uploads(&format!("{UPLOAD}{next}<EncodingType>url</EncodingType>")).unwrap();
    assert_eq!(page.next, Some(("a+b".to_owned(), "u-1".to_owned())));
    let open = &page.uploads[0];
    assert_eq!((open.session.key.as_str(), open.session.id.as_str()), ("a+b", "u-1"));
    assert_eq!(open.initiator.as_deref(), Some("Ann"));
    assert!(open.started.is_some());
    assert_eq!(uploads(UPLOAD).unwrap().uploads[0].session.key, "a%2Bb");
    let bare = uploads("<Upload><Key>k</Key><UploadId>u</UploadId><Initiator/></Upload>").unwrap();
    assert_eq!((&bare.uploads[0].initiator, bare.uploads[0].started), (&None, None));
    assert!(uploads("").unwrap().uploads.is_empty());
}

#[test]
fn what_is_no_listing_of_uploads_is_none() {
    for inside in [
        "<Upload/>",
        "<Upload><Key>k</Key></Upload>",
        "<Upload><UploadId>u</UploadId></Upload>",
        "<IsTruncated>true</IsTruncated>",
    ] {
        assert_eq!(uploads(inside).err().map(|fault| fault.kind), Some(FaultKind::NotAStore), "{inside}");
    }
    assert!(uploads(&UPLOAD.repeat(10_001)).err().unwrap().message.contains("10000 entries"));
    for (body, kind) in [
        ("<ListBucketResult/>", FaultKind::NotAStore),
        ("<html>", FaultKind::NotAStore),
        ("<Error><Code>SlowDown</Code></Error>", FaultKind::Throttled),
        ("<ListMultipartUploadsResult><Upload>", FaultKind::Transient),
    ] {
        let read = UploadsPage::read(&HeaderMap::new(), body.as_bytes(), "");
        assert_eq!(read.err().map(|fault| fault.kind), Some(kind), "{body}");
    }
}

#[test]
fn a_page_that_does_not_say_whether_another_follows_is_no_page() {
    for end in ["/>", "><IsTruncated/></ListMultipartUploadsResult>"] {
        let body = format!("<ListMultipartUploadsResult{end}");
        let read = UploadsPage::read(&HeaderMap::new(), body.as_bytes(), "");
        assert_eq!(read.err().map(|fault| fault.kind), Some(FaultKind::NotAStore), "{body}");
    }
    for body in ["<ListPartsResult/>".to_owned(), format!("<ListPartsResult>{}</ListPartsResult>", part(1))] {
        let read = PartsPage::read(&HeaderMap::new(), body.as_bytes(), "", 0);
        assert_eq!(read.err().map(|fault| fault.kind), Some(FaultKind::NotAStore), "{body}");
    }
}

fn part(number: u32) -> String {
    format!("<Part><PartNumber>{number}</PartNumber><Size>5</Size><ETag>\"e\"</ETag></Part>")
}

#[test]
fn parts_are_read_as_they_are() {
    let sums = "<ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME>";
    let whole = part(2).replace("</Part>", &format!("{sums}</Part>"));
    let next = "<NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>true</IsTruncated>";
    let page = parts(&format!("{}{whole}{next}", part(1))).unwrap();
    assert_eq!((page.next, page.parts.len()), (Some(2), 2));
    assert_eq!((page.parts[0].size, &page.parts[0].checksum), (5, &None));
    assert_eq!(page.parts[1].checksum.as_deref(), Some("AAAAAAAAAAA="));
    // A last page may have a marker as well.
    assert_eq!(parts("<NextPartNumberMarker>0</NextPartNumberMarker>").unwrap().next, None);
}

#[test]
fn parts_without_what_parts_have_are_none() {
    let wrong = [
        "<Part/>".to_owned(),
        "<Part><PartNumber>1</PartNumber></Part>".to_owned(),
        part(0),
        part(10_001),
        format!("{}{}", part(2), part(1)),
        "<IsTruncated>true</IsTruncated>".to_owned(),
    ];
    for inside in wrong {
        assert_eq!(parts(&inside).err().map(|fault| fault.kind), Some(FaultKind::NotAStore), "{inside}");
    }
}

/// Part 2 in a listing, with this ETag; `second` is the second of its `LastModified`, which is left out if `None`.
fn sent_again(etag: &str, second: Option<u32>) -> String {
    let modified = second.map(|second| format!("<LastModified>2026-01-02T03:04:{second:02}Z</LastModified>"));
    let modified = modified.unwrap_or_default();
    format!("<Part><PartNumber>2</PartNumber>{modified}<Size>5</Size><ETag>{etag}</ETag></Part>")
}

#[test]
fn of_a_part_that_is_listed_several_times_the_newest_counts() {
    for (entries, newest) in [
        ([("a", Some(1)), ("b", Some(3)), ("c", Some(2))], "b"),
        ([("a", Some(3)), ("b", Some(2)), ("c", Some(1))], "a"),
        ([("a", Some(1)), ("b", Some(1)), ("c", Some(1))], "c"),
        ([("a", None), ("b", None), ("c", None)], "c"),
        ([("a", Some(3)), ("b", None), ("c", Some(1))], "c"),
    ] {
        let again: String = entries.iter().map(|(etag, second)| sent_again(etag, *second)).collect();
        let page = parts(&format!("{}{again}{}", part(1), part(3))).unwrap();
        let told: Vec<_> = page.parts.iter().map(|part| (part.number, part.etag.as_str())).collect();
        assert_eq!(told, [(1, "\"e\""), (2, newest), (3, "\"e\"")], "{entries:?}");
    }
    // A page that begins with a part of the page before makes no progress.
    let body = format!("<ListPartsResult>{}</ListPartsResult>", part(2));
    let again = PartsPage::read(&HeaderMap::new(), body.as_bytes(), "us-east-1", 2);
    assert_eq!(again.err().map(|fault| fault.kind), Some(FaultKind::NotAStore));
}

#[test]
fn a_listing_of_parts_may_have_the_name_of_a_response() {
    let body =
        format!("<?xml version='1.0'?><ListPartsResponse xmlns='x'>{LAST}{}</ListPartsResponse>", part(1));
    let page = PartsPage::read(&HeaderMap::new(), body.as_bytes(), "us-east-1", 0).unwrap();
    assert_eq!(page.parts.len(), 1);
}
