//! Uploads whole objects in one request.

use serde_json::json;

use crate::client::{Answer, Client, bytes, gzip, server};

fn related_body(json: &str, media: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--sep\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{json}\r\n--sep\r\ncontent-type: text/y\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(media);
    body.extend_from_slice(b"\r\n--sep--");
    body
}

async fn related(client: &Client, query: &str, json: &str, media: &[u8]) -> Answer {
    let body = related_body(json, media);
    let uri = format!("/upload/storage/v1/b/bucket/o?uploadType=multipart{query}");
    client.send("POST", &uri, &[("content-type", "multipart/related; boundary=\"sep\"")], body).await
}

#[tokio::test]
async fn media_is_the_bytes_and_nothing_else() {
    let (_server, client) = server().await;
    let body = bytes(3_000_000);
    let made = client.put("k", body.clone()).await.is(200).json();
    assert_eq!(made["size"], "3000000");
    assert_eq!(client.read("k").await, body);
    assert_eq!(client.put("empty", "").await.is(200).json()["crc32c"], "AAAAAA==");
    client.send("POST", "/upload/storage/v1/b/bucket/o?uploadType=media", &[], "x").await.is(400);
    client.send("POST", "/upload/storage/v1/b/none/o?uploadType=media&name=k", &[], "x").await.is(404);
}

#[tokio::test]
async fn related_describes_the_bytes_first() {
    let (_server, client) = server().await;
    let json = json!({
        "name": "k", "contentType": "text/x", "cacheControl": "no-store", "storageClass": "NEARLINE",
        "metadata": {"Key": "value"},
    });
    let mut media = bytes(700_000).to_vec();
    media.extend_from_slice(b"\r\n--se");
    let made = related(&client, "", &json.to_string(), &media).await.is(200).json();
    for field in ["name", "contentType", "cacheControl", "storageClass", "metadata"] {
        assert_eq!(made[field], json[field], "{field}");
    }
    assert_eq!(client.read("k").await, media);
    let plain = related(&client, "&name=l", "{}", b"").await.is(200).json();
    assert_eq!((&plain["contentType"], &plain["size"]), (&json!("text/y"), &json!("0")));
}

#[tokio::test]
async fn related_may_be_compressed() {
    let (_server, client) = server().await;
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=multipart&name=k";
    let headers = [("content-type", "multipart/related; boundary=sep"), ("content-encoding", "gzip")];
    for media in [bytes(3_000_000), vec![0; 3_000_000].into()] {
        let body = gzip(&related_body("{}", &media));
        client.send("POST", uri, &headers, body[..body.len() - 1].to_vec()).await.is(400);
        client.send("POST", uri, &headers, body).await.is(200);
        assert_eq!(client.read("k").await, media);
    }
}

#[tokio::test]
async fn related_that_is_not_whole_is_nothing() {
    let (_server, client) = server().await;
    let headers = [("content-type", "multipart/related; boundary=sep")];
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=multipart&name=k";
    let head = "--sep\r\ncontent-type: application/json\r\n\r\n{}\r\n--sep\r\ncontent-type: text/y\r\n\r\n";
    for body in [
        String::new(),
        "--sep--".to_owned(),
        head.to_owned(),
        format!("{head}half of it"),
        format!("{head}bytes\r\n--sep"),
        format!("{head}bytes\r\n--sep\r\n\r\nthird\r\n--sep--"),
        head.replace("{}", "{") + "bytes\r\n--sep--",
    ] {
        client.send("POST", uri, &headers, body).await.is(400);
    }
    client.send("POST", uri, &[("content-type", "text/plain")], "x").await.is(400);
    client.get("/storage/v1/b/bucket/o/k").await.is(404);
}

#[tokio::test]
async fn hashes_given_are_compared() {
    let (_server, client) = server().await;
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=media&name=k";
    let cases = [
        ("x-goog-hash", "crc32c=4waSgw==", 200),
        ("x-goog-hash", "crc32c=4waSgw==,md5=JfnnlDI7RTiF9RgfG2JNCw==", 200),
        ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==", 200),
        ("x-goog-hash", "crc32c=AAAAAA==", 400),
        ("x-goog-hash", "md5=1B2M2Y8AsgTpgAmY7PhCfg==", 400),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", 400),
        ("x-goog-hash", "crc32c=no", 400),
    ];
    for (name, value, status) in cases {
        client.send("POST", uri, &[(name, value)], "123456789").await.is(status);
        let is_there = client.get("/storage/v1/b/bucket/o/k").await.status == 200;
        assert_eq!(is_there, status == 200, "{name}: {value}");
        client.send("DELETE", "/storage/v1/b/bucket/o/k", &[], "").await;
    }
    related(&client, "&name=l", r#"{"crc32c": "4waSgw=="}"#, b"123456789").await.is(200);
    related(&client, "&name=l", r#"{"md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="}"#, b"123456789").await.is(400);
}

#[tokio::test]
async fn conditions_are_of_the_object_that_is_replaced() {
    let (_server, client) = server().await;
    let put = |query: String| {
        let uri = format!("/upload/storage/v1/b/bucket/o?uploadType=media&name=k{query}");
        let client = client.clone();
        async move { client.send("POST", &uri, &[], "x").await }
    };
    put("&ifMetagenerationMatch=1".to_owned()).await.is(412);
    put("&ifGenerationNotMatch=0".to_owned()).await.is(412);
    let first = put("&ifGenerationMatch=0".to_owned()).await.is(200).json();
    let refused = put("&ifGenerationMatch=0".to_owned()).await.is(412).json();
    assert_eq!(refused["error"]["errors"][0]["reason"], "conditionNotMet");
    let generation = first["generation"].as_str().unwrap();
    put(format!("&ifGenerationNotMatch={generation}")).await.is(412);
    put(format!("&ifGenerationMatch={generation}")).await.is(200);
    put(format!("&ifGenerationMatch={generation}")).await.is(412);
}

#[tokio::test]
async fn what_s3_wrote_is_there_and_the_other_way_round() {
    let (server, client) = server().await;
    client.put("k", "by google").await.is(200);
    assert_eq!(server.counts().get("storage.objects.insert"), 1);
    assert_eq!(server.counts().bytes_in, 9);
    // Without Google's headers the same path belongs to S3, which refuses requests without keys.
    client.get("/bucket/k").await.is(403);
    let signed = [("authorization", "AWS4-HMAC-SHA256 Credential=x")];
    client.send("GET", "/storage/v1/b", &signed, "").await.is(400);
}
