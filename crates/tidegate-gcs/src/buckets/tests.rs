use futures::TryStreamExt;

use super::*;
use crate::{GcsCredentials, GcsSettings};
use tidegate_core::testkit::samples::raw_server;

async fn buckets(url: String) -> GcsBuckets {
    let settings = GcsSettings::default()
        .with_endpoint_url(url)
        .with_project("p-1")
        .with_credentials(GcsCredentials::anonymous());
    GcsClient::connect(&settings).await.unwrap().buckets()
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn all_pages_of_a_project_are_listed() {
    let (url, asked) = raw_server(|head| {
        assert!(head.starts_with("get /storage/v1/b?project=p-1&"), "{head}");
        let (items, more) = match head.contains("&pagetoken=t%2f1 ") {
            false => (
                r#"[{"name":"one","timeCreated":"2026-01-02T03:04:05Z"},{"name":"two"}]"#,
                r#","nextPageToken":"t/1""#,
            ),
            true => (r#"[{"name":"three"}]"#, ""),
        };
        answer("200 OK", &format!(r#"{{"kind":"storage#buckets","items":{items}{more}}}"#))
    })
    .await;
    let all: Vec<BucketEntry> = buckets(url).await.list().try_collect().await.unwrap();
    assert_eq!(all.iter().map(|bucket| bucket.name.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
    assert!(all[0].created.is_some() && all[1].created.is_none());
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[test]
fn a_page_is_read_or_refused() {
    let kind = |body: &str| {
        page(&HeaderMap::new(), body.as_bytes()).map(|(buckets, _)| buckets.len()).map_err(|f| f.kind)
    };
    assert_eq!(kind(r#"{"kind":"storage#buckets"}"#), Ok(0));
    assert_eq!(kind(r#"{"kind":"storage#buckets","items":null,"nextPageToken":null}"#), Ok(0));
    for odd in
        ["{}", r#"{"kind":"storage#objects"}"#, r#"{"kind":"storage#buckets","items":[{}]}"#, "[]", "<html/>"]
    {
        assert_eq!(kind(odd), Err(FaultKind::NotAStore), "{odd}");
    }
    assert_eq!(kind(r#"{"kind":"storage#buck"#), Err(FaultKind::Transient));
}

#[tokio::test]
async fn a_conflict_says_what_stands_in_the_way() {
    let conflict = r#"{"error":{"code":409,"message":"no","errors":[{"reason":"conflict"}]}}"#;
    let (url, _) = raw_server(move |_| answer("409 Conflict", conflict)).await;
    let store = buckets(url).await;
    assert_eq!(store.create("name", Attempt::FIRST).await.unwrap_err().kind, FaultKind::Exists);
    assert_eq!(store.remove("name", Attempt::FIRST).await.unwrap_err().kind, FaultKind::NotEmpty);
    let (url, _) = raw_server(move |_| answer("200 OK", r#"{"name":"other"}"#)).await;
    let store = buckets(url).await;
    assert_eq!(store.create("name", Attempt::FIRST).await.unwrap_err().kind, FaultKind::NotAStore);
    assert_eq!(store.remove("name", Attempt::FIRST).await.unwrap_err().kind, FaultKind::NotAStore);
    assert_eq!(store.create("a/b", Attempt::FIRST).await.unwrap_err().kind, FaultKind::Invalid);
}

#[test]
fn the_project_comes_from_settings_environment_or_credentials() {
    let variable = |value: &'static str| {
        move |name: &str| (name == PROJECT && !value.is_empty()).then(|| OsString::from(value))
    };
    let found = |set, value, file: Option<&str>| project(set, variable(value), || file.map(str::to_owned));
    assert_eq!(found(Some(" set "), "env", Some("file")).unwrap(), "set");
    assert_eq!(found(Some(""), "env\n", Some("file")).unwrap(), "env");
    assert_eq!(found(None, "", Some("file")).unwrap(), "file");
    let unknown = found(None, "", None).unwrap_err();
    assert!(unknown.kind == FaultKind::Invalid && unknown.message.contains(PROJECT), "{unknown}");
    assert_eq!(found(None, "two words", None).unwrap_err().kind, FaultKind::Invalid);
}

#[tokio::test]
async fn an_emulator_needs_no_project() {
    let (url, _) = raw_server(|head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let project = path.split(['?', '&']).find_map(|pair| pair.strip_prefix("project="));
        assert!(project.is_some_and(|project| !project.is_empty()), "{path}");
        answer("200 OK", r#"{"name":"new"}"#)
    })
    .await;
    let settings =
        GcsSettings::default().with_endpoint_url(url).with_credentials(GcsCredentials::anonymous());
    let buckets = GcsClient::connect(&settings).await.unwrap().buckets();
    buckets.create("new", Attempt::FIRST).await.unwrap();
}
