use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn listed(body: &str) -> Result<(Vec<BucketEntry>, Option<String>), Fault> {
    let (containers, next) = page(&HeaderMap::new(), body.as_bytes())?;
    let next = match next {
        PagePosition::At(next) => Some(next),
        _ => None,
    };
    Ok((containers.into(), next))
}

#[test]
fn a_page_has_containers_and_the_position_of_the_next_one() {
    let (containers, next) = listed(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://a/\">\
         <MaxResults>2</MaxResults><Containers><Container><Name>$web</Name><Properties>\
         <Last-Modified>Fri, 27 Nov 2026 10:15:00 GMT</Last-Modified><Etag>\"1\"</Etag></Properties></Container>\
         <Container><Name>logs</Name><Properties/></Container></Containers><NextMarker>/a/x</NextMarker>\
         </EnumerationResults>",
    )
    .unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_795_774_500);
    assert_eq!(containers, [BucketEntry::new("$web", Some(time)), BucketEntry::new("logs", None)]);
    assert_eq!(next.as_deref(), Some("/a/x"));
    let last = listed("<EnumerationResults><Containers/><NextMarker/></EnumerationResults>").unwrap();
    assert_eq!(last, (Vec::new(), None));
}

#[test]
fn what_is_no_listing_is_refused() {
    for body in ["<html></html>", "", "<EnumerationResults><Containers><Container>", "{}"] {
        assert!(listed(body).is_err(), "{body}");
    }
    for inside in ["<Containers><Container/></Containers><NextMarker/>", "<Containers/>", "<NextMarker/>", ""]
    {
        assert!(listed(&format!("<EnumerationResults>{inside}</EnumerationResults>")).is_err(), "{inside}");
    }
}
