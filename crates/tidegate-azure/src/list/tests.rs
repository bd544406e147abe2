use super::*;
use tidegate_core::backend::FaultKind;

fn page(body: &str) -> Result<BlobPage, Fault> {
    read(&HeaderMap::new(), body.as_bytes())
}

#[test]
fn blobs_and_prefixes_are_merged_and_directories_are_no_objects() {
    let body = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"x\"><Prefix>b/</Prefix>\
        <Blobs><Blob><Name>a</Name><Properties><Last-Modified>Fri, 27 Nov 2026 16:35:27 GMT</Last-Modified>\
        <Etag>0x1</Etag><Content-Length>5</Content-Length><Content-Type>text/x</Content-Type>\
        <AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred></Properties></Blob>\
        <Blob><Name>dir</Name><Properties><ResourceType>directory</ResourceType><Etag>0x2</Etag>\
        <Content-Length>0</Content-Length></Properties></Blob>\
        <BlobPrefix><Name>b/</Name><Properties><Etag>0x3</Etag></Properties></BlobPrefix>\
        <Blob><Name Encoded=\"true\">c%EF%BF%BE%20d</Name><Properties><AccessTier>Cool</AccessTier></Properties><OrMetadata/>\
        </Blob></Blobs><NextMarker>next</NextMarker></EnumerationResults>";
    let page = page(body).unwrap();
    assert_eq!(page.next.as_deref(), Some("next"));
    let entries = page.into_entries();
    let keys: Vec<&str> = entries.iter().map(Entry::key).collect();
    assert_eq!(keys, ["a", "b/", "c\u{fffe} d", "dir"]);
    assert!(matches!(&entries[3], Entry::Other { kind: OtherKind::Directory, .. }), "{entries:?}");
    let Entry::Object(first) = &entries[0] else { panic!("{entries:?}") };
    assert_eq!((first.known_size(), first.strong_tag()), (Some(5), Some("\"0x1\"")));
    assert!(first.modified.is_some() && first.attributes.storage_class.is_none(), "{first:?}");
    let Entry::Object(last) = &entries[2] else { panic!("{entries:?}") };
    assert_eq!((last.known_size(), last.attributes.storage_class.as_deref()), (None, Some("Cool")));
}

#[test]
fn what_is_no_page_of_a_listing_is_no_empty_one() {
    assert!(
        page("<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>")
            .unwrap()
            .into_entries()
            .is_empty()
    );
    let kind = |body: &str| page(body).map(|_| ()).map_err(|fault| fault.kind);
    assert_eq!(kind("<EnumerationResults><Blobs><Blob><Name>a"), Err(FaultKind::Transient));
    assert_eq!(kind("<ListBucketResult/>"), Err(FaultKind::NotAStore));
    assert_eq!(
        kind("<EnumerationResults><Blobs><Blob/></Blobs><NextMarker/></EnumerationResults>"),
        Err(FaultKind::NotAStore)
    );
    for without in [
        "",
        "<Blobs/>",
        "<NextMarker/>",
        "<Blobs><Blob><Name>a</Name></Blob></Blobs>",
        "<Blobs><BlobPrefix/></Blobs><NextMarker/>",
    ] {
        let body = format!("<EnumerationResults>{without}</EnumerationResults>");
        assert_eq!(kind(&body), Err(FaultKind::NotAStore), "{body}");
    }
    assert_eq!(
        kind("<Error><Code>ContainerNotFound</Code><Message>x</Message></Error>"),
        Err(FaultKind::NoBucket)
    );
}

#[test]
fn names_without_a_committed_blob_are_told_from_empty_blobs() {
    let body = "<EnumerationResults><Blobs><Blob><Name>empty</Name><Properties><Etag>0x1</Etag>\
        <Content-Length>0</Content-Length><Content-Type>a/b</Content-Type></Properties></Blob>\
        <Blob><Name>azure</Name><Properties><Content-Length>0</Content-Length><Content-Type/></Properties></Blob>\
        <Blob><Name>azurite</Name><Properties><Etag>0x1</Etag><Content-Length>0</Content-Length></Properties></Blob>\
        </Blobs><NextMarker/></EnumerationResults>";
    let uncommitted: Vec<_> = page(body).unwrap().blobs.iter().map(ListedBlob::may_be_uncommitted).collect();
    assert_eq!(uncommitted, [false, true, true]);
}

#[test]
fn an_empty_blob_with_the_mark_of_a_directory_is_one_and_names_of_metadata_keep_their_letters() {
    let blob = |name: &str, size: u32, metadata: &str| {
        format!(
            "<Blob><Name>{name}</Name><Properties><Content-Length>{size}</Content-Length></Properties>\
             <Metadata>{metadata}</Metadata></Blob>"
        )
    };
    let mark = "<hdi_isfolder>true</hdi_isfolder>";
    let blobs = [
        blob("d", 0, mark),
        blob("file", 1, mark),
        blob("no", 0, "<hdi_isfolder>false</hdi_isfolder>"),
        blob("other", 0, "<Name>x</Name>"),
        blob("small", 0, "<name>x</name><documentid>7</documentid>"),
        blob("written", 0, "<DocumentId>7</DocumentId>"),
    ];
    let body =
        format!("<EnumerationResults><Blobs>{}</Blobs><NextMarker/></EnumerationResults>", blobs.concat());
    let page = page(&body).unwrap();
    let capitals: Vec<&str> =
        page.blobs.iter().filter(|blob| blob.has_capitals).map(|blob| &*blob.object.key).collect();
    assert_eq!(capitals, ["other", "written"]);
    let entries = page.into_entries();
    let keys: Vec<&str> = entries.iter().map(Entry::key).collect();
    assert_eq!(keys, ["d", "file", "no", "other", "small", "written"]);
    assert!(matches!(&entries[0], Entry::Other { kind: OtherKind::Directory, .. }), "{entries:?}");
}

/// On one level, a directory is the prefix of what lies below it, in its place among the keys, on whatever page that is.
#[test]
fn a_directory_is_a_prefix_of_its_level_once() {
    let directory = |name: &str| ListedBlob {
        object: Object { key: name.to_owned(), ..Object::default() },
        has_folder_mark: true,
        ..ListedBlob::default()
    };
    let file = |name: &str| ListedBlob { has_folder_mark: false, ..directory(name) };
    let page = |blobs: Vec<ListedBlob>, prefixes: &[&str], next: Option<&str>| BlobPage {
        blobs,
        prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
        next: next.map(str::to_owned),
    };
    let keys = |entries: &VecDeque<Entry>| -> Vec<String> {
        entries.iter().map(|entry| entry.key().to_owned()).collect()
    };
    let first = page(vec![directory("a"), file("a-b"), directory("p/"), directory("x")], &["p/"], Some("m"));
    let (entries, later) = first.into_entries_of_level("", BTreeSet::new());
    assert_eq!(keys(&entries), ["a-b", "a/", "p/"]);
    let last = page(vec![file("x-y"), directory("z")], &["x/"], None);
    let (entries, later) = last.into_entries_of_level("", later);
    assert_eq!((keys(&entries), later.len()), (vec!["x-y".into(), "x/".into(), "z/".into()], 0));
    // The directory itself is not below itself.
    let (entries, _) = page(vec![directory("d/")], &[], None).into_entries_of_level("d/", BTreeSet::new());
    assert!(entries.is_empty());
}
