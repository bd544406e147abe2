//! Buckets and objects over the JSON API: creates, gets, lists, updates and deletes them.

use serde_json::{Value, json};

use crate::client::{Client, bytes, gzip, server};

const OBJECTS: &str = "/storage/v1/b/bucket/o";

#[tokio::test]
async fn buckets_are_made_shown_listed_and_removed() {
    let (_server, client) = server().await;
    let made = client.send("POST", "/storage/v1/b?project=p", &[], r#"{"name": "second"}"#).await.is(200);
    assert_eq!(made.json()["kind"], "storage#bucket");
    client.send("POST", "/storage/v1/b?project=p", &[], r#"{"name": "second"}"#).await.is(409);
    client.send("POST", "/storage/v1/b?project=p", &[], r#"{"name": "_no"}"#).await.is(400);
    client.send("POST", "/storage/v1/b?project=p", &[], "{").await.is(400);
    assert_eq!(client.get("/storage/v1/b/second").await.is(200).json()["name"], "second");
    let names: Vec<Value> = client.get("/storage/v1/b?project=p").await.is(200).json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["name"].clone())
        .collect();
    assert_eq!(names, ["bucket", "second"]);
    client.put("k", "x").await.is(200);
    client.send("DELETE", "/storage/v1/b/bucket", &[], "").await.is(409);
    client.send("DELETE", "/storage/v1/b/second", &[], "").await.is(204);
    let gone = client.get("/storage/v1/b/second").await.is(404).json();
    assert_eq!(gone["error"]["code"], 404);
    assert_eq!(gone["error"]["errors"][0]["reason"], "notFound");
}

#[tokio::test]
async fn an_object_is_described() {
    let (_server, client) = server().await;
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=media&name=a%2Fb%20c";
    let made = client.send("POST", uri, &[("content-type", "text/x")], "123456789").await.is(200).json();
    let shown = client.get(&format!("{OBJECTS}/a%2Fb%20c")).await.is(200).json();
    assert_eq!(made, shown);
    assert_eq!(shown["kind"], "storage#object");
    assert_eq!((&shown["name"], &shown["bucket"]), (&json!("a/b c"), &json!("bucket")));
    assert_eq!((&shown["size"], &shown["contentType"]), (&json!("9"), &json!("text/x")));
    // The check value of CRC-32C, and `printf 123456789 | md5sum`.
    assert_eq!(shown["crc32c"], "4waSgw==");
    assert_eq!(shown["md5Hash"], "JfnnlDI7RTiF9RgfG2JNCw==");
    assert_eq!((&shown["metageneration"], &shown["storageClass"]), (&json!("1"), &json!("STANDARD")));
    let generation: u64 = shown["generation"].as_str().unwrap().parse().unwrap();
    assert!(generation > 1_600_000_000_000_000, "microseconds of now: {generation}");
    assert!(shown["timeCreated"].as_str().unwrap().ends_with('Z'));
    let media = shown["mediaLink"].as_str().unwrap();
    assert_eq!(client.get(media).await.is(200).text(), "123456789");
    client.get(&format!("{OBJECTS}/none")).await.is(404);
    client.get("/storage/v1/b/none/o/k").await.is(404);
}

#[tokio::test]
async fn every_write_is_a_generation_of_its_own() {
    let (_server, client) = server().await;
    let mut last = 0;
    for body in ["1", "2", "3"] {
        let made = client.put("k", body).await.is(200).json();
        let generation: u64 = made["generation"].as_str().unwrap().parse().unwrap();
        assert!(generation > last);
        last = generation;
    }
    assert_eq!(client.get(&format!("{OBJECTS}/k?alt=media&generation={last}")).await.is(200).text(), "3");
    client.get(&format!("{OBJECTS}/k?generation={}", last - 1)).await.is(404);
}

#[tokio::test]
async fn bytes_are_read_whole_and_in_ranges() {
    let (_server, client) = server().await;
    let body = bytes(1_000_000);
    client.put("k", body.clone()).await.is(200);
    let whole = client.get(&format!("{OBJECTS}/k?alt=media")).await.is(200);
    assert_eq!(whole.body, body);
    let hashes: Vec<_> = whole.headers.get_all("x-goog-hash").iter().map(|h| h.to_str().unwrap()).collect();
    assert!(hashes[0].starts_with("crc32c=") && hashes[1].starts_with("md5="), "{hashes:?}");
    assert_eq!(whole.header("content-length"), Some("1000000"));
    assert_eq!(whole.header("x-goog-stored-content-length"), Some("1000000"));
    assert!(whole.header("x-goog-generation").is_some() && whole.header("etag").is_some());
    for (range, expected) in [
        ("bytes=10-19", 10..20),
        ("bytes=999990-", 999_990..1_000_000),
        ("bytes=-5", 999_995..1_000_000),
        ("bytes=999999-2000000", 999_999..1_000_000),
    ] {
        let uri = "/download/storage/v1/b/bucket/o/k?alt=media";
        let part = client.send("GET", uri, &[("range", range)], "").await.is(206);
        assert_eq!(part.body, body.slice(expected.clone()));
        let said = format!("bytes {}-{}/1000000", expected.start, expected.end - 1);
        assert_eq!(part.header("content-range"), Some(said.as_str()));
    }
    let past =
        client.send("GET", &format!("{OBJECTS}/k?alt=media"), &[("range", "bytes=1000000-")], "").await;
    assert_eq!(past.is(416).header("content-range"), Some("bytes */1000000"));
}

#[tokio::test]
async fn conditions_of_reads() {
    let (_server, client) = server().await;
    let made = client.put("k", "x").await.is(200).json();
    let generation = made["generation"].as_str().unwrap();
    let get = |query: String| {
        let client = client.clone();
        async move { client.get(&format!("{OBJECTS}/k?{query}")).await.status }
    };
    assert_eq!(get(format!("ifGenerationMatch={generation}")).await, 200);
    assert_eq!(get("ifGenerationMatch=1".to_owned()).await, 412);
    assert_eq!(get("ifGenerationMatch=0".to_owned()).await, 412);
    assert_eq!(get(format!("ifGenerationNotMatch={generation}")).await, 304);
    assert_eq!(get(format!("alt=media&ifGenerationNotMatch={generation}")).await, 304);
    assert_eq!(get("ifMetagenerationMatch=1".to_owned()).await, 200);
    assert_eq!(get("ifMetagenerationMatch=2".to_owned()).await, 412);
    assert_eq!(get("ifMetagenerationNotMatch=1".to_owned()).await, 304);
    assert_eq!(get("ifGenerationMatch=-1".to_owned()).await, 400);
}

#[tokio::test]
async fn removal_has_conditions() {
    let (_server, client) = server().await;
    let made = client.put("k", "x").await.is(200).json();
    let generation = made["generation"].as_str().unwrap();
    let delete = |query: String| {
        let client = client.clone();
        async move { client.send("DELETE", &format!("{OBJECTS}/k?{query}"), &[], "").await.status }
    };
    assert_eq!(delete("ifGenerationMatch=1".to_owned()).await, 412);
    assert_eq!(delete("generation=1".to_owned()).await, 404);
    assert_eq!(delete(format!("ifGenerationNotMatch={generation}")).await, 412);
    assert_eq!(delete(format!("ifGenerationMatch={generation}")).await, 204);
    assert_eq!(delete(String::new()).await, 404);
}

#[tokio::test]
async fn metadata_is_changed_and_bytes_stay() {
    let (_server, client) = server().await;
    let made = client.put("k", "bytes").await.is(200).json();
    let uri = format!("{OBJECTS}/k");
    let first = json!({"metadata": {"a": "1", "b": "2"}, "cacheControl": "no-store"}).to_string();
    let changed = client.send("PATCH", &uri, &[], first).await.is(200).json();
    assert_eq!(changed["metadata"], json!({"a": "1", "b": "2"}));
    assert_eq!(changed["generation"], made["generation"]);
    assert_eq!(changed["metageneration"], "2");
    assert_ne!(changed["etag"], made["etag"]);
    let second = json!({"metadata": {"a": null, "c": "3"}}).to_string();
    // The form that Google's Java client uses.
    let headers = [("x-http-method-override", "PATCH")];
    let changed = client.send("POST", &uri, &headers, second).await.is(200).json();
    assert_eq!(changed["metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(changed["cacheControl"], "no-store");
    let updated = client.send("PUT", &uri, &[], r#"{"contentType": "a/b"}"#).await.is(200).json();
    assert_eq!((&updated["contentType"], &updated["metadata"]), (&json!("a/b"), &Value::Null));
    assert_eq!(updated["cacheControl"], Value::Null);
    client.send("PATCH", &format!("{uri}?ifMetagenerationMatch=1"), &[], "{}").await.is(412);
    client.send("PATCH", &uri, &[], r#"{"metadata": {"a": 1}}"#).await.is(400);
    assert_eq!(client.read("k").await, "bytes");
}

#[tokio::test]
async fn json_may_be_compressed() {
    let (_server, client) = server().await;
    client.put("k", "x").await.is(200);
    let patch = |body: Vec<u8>| {
        let client = client.clone();
        async move { client.send("PATCH", &format!("{OBJECTS}/k"), &[("content-encoding", "gzip")], body).await }
    };
    let changed = patch(gzip(br#"{"cacheControl": "no-store"}"#)).await.is(200).json();
    assert_eq!(changed["cacheControl"], "no-store");
    patch(b"{}".to_vec()).await.is(400);
    let half = gzip(b"{}");
    patch(half[..half.len() - 4].to_vec()).await.is(400);
    patch(gzip(&vec![b' '; 5 << 20])).await.is(413);
}

async fn listed(client: &Client, query: &str) -> (Vec<String>, Vec<String>, Option<String>) {
    let page = client.get(&format!("{OBJECTS}?{query}")).await.is(200).json();
    let texts = |value: &Value, field: Option<&str>| -> Vec<String> {
        let items = value.as_array().cloned().unwrap_or_default();
        let text = |item: &Value| field.map_or(item, |field| &item[field]).as_str().unwrap().to_owned();
        items.iter().map(text).collect()
    };
    let next = page["nextPageToken"].as_str().map(str::to_owned);
    (texts(&page["items"], Some("name")), texts(&page["prefixes"], None), next)
}

#[tokio::test]
async fn listings() {
    let (_server, client) = server().await;
    for key in ["a", "b%2F", "b%2F1", "b%2F2", "c%2F1", "d"] {
        client.put(key, "x").await.is(200);
    }
    let none: [String; 0] = [];
    let (names, prefixes, next) = listed(&client, "").await;
    assert_eq!(names, ["a", "b/", "b/1", "b/2", "c/1", "d"]);
    assert_eq!((prefixes.len(), next), (0, None));
    let (names, prefixes, _) = listed(&client, "delimiter=%2F").await;
    assert_eq!(
        (names, prefixes),
        (vec!["a".to_owned(), "d".to_owned()], vec!["b/".to_owned(), "c/".to_owned()])
    );
    let (names, ..) = listed(&client, "delimiter=%2F&includeTrailingDelimiter=True").await;
    assert_eq!(names, ["a", "b/", "d"]);
    let (names, prefixes, _) = listed(&client, "prefix=b%2F&delimiter=%2F").await;
    assert_eq!(names, ["b/", "b/1", "b/2"]);
    assert_eq!(prefixes, none);
    let (names, ..) = listed(&client, "startOffset=b%2F1&endOffset=d").await;
    assert_eq!(names, ["b/1", "b/2", "c/1"]);
    let (names, ..) = listed(&client, "prefix=a&delimiter=&endOffset=&matchGlob=&startOffset=").await;
    assert_eq!(names, ["a"]);
    client.get(&format!("{OBJECTS}?pageToken=%21")).await.is(400);
    client.get(&format!("{OBJECTS}?matchGlob=*")).await.is(501);
}

#[tokio::test]
async fn pages_join_to_the_whole() {
    let (_server, client) = server().await;
    for number in 0..10 {
        client.put(&format!("k%2F{number}"), "x").await.is(200);
        client.put(&format!("l%2F{number}%2Fx"), "x").await.is(200);
    }
    for query in ["", "delimiter=%2F", "prefix=l%2F&delimiter=%2F"] {
        let (names, prefixes, _) = listed(&client, query).await;
        let (mut all_names, mut all_prefixes, mut token) = (Vec::new(), Vec::new(), String::new());
        loop {
            let (names, prefixes, next) = listed(&client, &format!("{query}&maxResults=3{token}")).await;
            assert!(names.len() + prefixes.len() <= 3);
            all_names.extend(names);
            all_prefixes.extend(prefixes);
            match next {
                Some(next) => token = format!("&pageToken={next}"),
                None => break,
            }
        }
        assert_eq!((all_names, all_prefixes), (names, prefixes), "{query}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let (server, client) = server().await;
    client.get("/storage/v1/b/bucket/o/k/acl").await.is(404);
    client.send("POST", "/batch/storage/v1", &[], "").await.is(404);
    assert_eq!(server.counts().failed("Refused"), 2);
}
