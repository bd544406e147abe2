//! The XML API: multipart uploads, and whole objects as its clients write and read them.

use tidegate_dev::{Server, Storage};

use crate::client::{Answer, Client, bytes, server};

const TOKEN: (&str, &str) = ("authorization", "Bearer token");
const MIB: usize = 1024 * 1024;

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

async fn initiate(client: &Client, headers: &[(&str, &str)]) -> String {
    let headers = [&[TOKEN], headers].concat();
    let text = client.send("POST", "/bucket/k?uploads", &headers, "").await.is(200).text();
    assert_eq!((between(&text, "<Bucket>", "<"), between(&text, "<Key>", "<")), ("bucket", "k"));
    between(&text, "<UploadId>", "<").to_owned()
}

async fn part(client: &Client, id: &str, number: usize, more: &[(&str, &str)], body: bytes::Bytes) -> Answer {
    let headers = [&[TOKEN], more].concat();
    client.send("PUT", &format!("/bucket/k?partNumber={number}&uploadId={id}"), &headers, body).await
}

async fn complete(client: &Client, id: &str, etags: &[String]) -> Answer {
    let parts = etags.iter().enumerate().map(|(index, etag)| {
        format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", index + 1)
    });
    let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>());
    client.send("POST", &format!("/bucket/k?uploadId={id}"), &[TOKEN], body).await
}

#[tokio::test]
async fn parts_make_an_object_of_googles() {
    for storage in [Storage::Memory, Storage::Discard] {
        let server = Server::builder().storage(storage.clone()).start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let client = Client::of(&server);
        let body = bytes(5 * MIB + 9);
        let id = initiate(&client, &[("content-type", "text/x"), ("x-goog-meta-a", "b")]).await;
        let mut etags = Vec::new();
        for (number, range) in [(1, 0..5 * MIB), (2, 5 * MIB..body.len())] {
            let answer = part(&client, &id, number, &[], body.slice(range)).await.is(200);
            let hashes: Vec<_> = answer.headers.get_all("x-goog-hash").iter().collect();
            assert_eq!(hashes.len(), if storage == Storage::Memory { 2 } else { 1 });
            etags.push(answer.header("etag").unwrap().to_owned());
        }
        let listed =
            client.send("GET", &format!("/bucket/k?uploadId={id}"), &[TOKEN], "").await.is(200).text();
        assert_eq!(listed.matches("<Part>").count(), 2);
        client.get("/storage/v1/b/bucket/o/k").await.is(404);
        let end = complete(&client, &id, &etags).await.is(200);
        let shown = client.get("/storage/v1/b/bucket/o/k").await.is(200).json();
        assert_eq!(end.header("x-goog-generation"), shown["generation"].as_str());
        assert_eq!((&shown["contentType"], &shown["metadata"]["a"]), (&"text/x".into(), &"b".into()));
        // Objects from multipart uploads have a CRC32C and no MD5.
        assert_eq!(shown["md5Hash"], serde_json::Value::Null);
        let whole = client.put("same", body.clone()).await.is(200).json();
        assert_eq!(shown["crc32c"], whole["crc32c"]);
        let said = format!("crc32c={}", shown["crc32c"].as_str().unwrap());
        assert_eq!(end.header("x-goog-hash"), Some(said.as_str()));
        if storage == Storage::Memory {
            assert_eq!(client.read("k").await, body);
        }
        assert_eq!(server.counts().get("UploadPart"), 2);
        complete(&client, &id, &etags).await.is(404);
    }
}

#[tokio::test]
async fn hashes_of_parts_are_compared() {
    let (_server, client) = server().await;
    let id = initiate(&client, &[]).await;
    let body = || bytes::Bytes::from_static(b"123456789");
    for (hash, status) in [
        ("crc32c=4waSgw==", 200),
        ("md5=JfnnlDI7RTiF9RgfG2JNCw==", 200),
        ("crc32c=AAAAAA==", 400),
        ("md5=1B2M2Y8AsgTpgAmY7PhCfg==", 400),
        ("crc32c=?", 400),
    ] {
        part(&client, &id, 1, &[("x-goog-hash", hash)], body()).await.is(status);
    }
}

#[tokio::test]
async fn a_session_is_aborted() {
    let (_server, client) = server().await;
    let id = initiate(&client, &[]).await;
    let uri = format!("/bucket/k?uploadId={id}");
    let listed = client.send("GET", "/bucket?uploads", &[TOKEN], "").await.is(200).text();
    assert_eq!(between(&listed, "<UploadId>", "<"), id);
    client.send("DELETE", &uri, &[TOKEN], "").await.is(204);
    client.send("DELETE", &uri, &[TOKEN], "").await.is(404);
    part(&client, &id, 1, &[], bytes(10)).await.is(404);
}

#[tokio::test]
async fn preconditions_are_not_for_multipart_uploads() {
    let (_server, client) = server().await;
    let headers = [TOKEN, ("x-goog-if-generation-match", "0")];
    let refused = client.send("POST", "/bucket/k?uploads", &headers, "").await.is(400).text();
    assert_eq!(between(&refused, "<Code>", "<"), "InvalidArgument");
    client.send("POST", "/bucket/k", &[TOKEN, ("x-goog-resumable", "start")], "").await.is(501);
}

#[tokio::test]
async fn whole_objects_have_conditions_and_hashes() {
    let (_server, client) = server().await;
    let put = |condition: &'static str| {
        let client = client.clone();
        async move {
            let headers = [TOKEN, ("x-goog-if-generation-match", condition), ("x-goog-meta-a", "b")];
            client.send("PUT", "/bucket/k", &headers, "123456789").await
        }
    };
    let made = put("0").await.is(200);
    put("0").await.is(412);
    let generation = made.header("x-goog-generation").unwrap().to_owned();
    let got = client.send("GET", "/bucket/k", &[("x-goog-api-client", "x")], "").await.is(200);
    assert_eq!(got.header("x-goog-hash"), Some("crc32c=4waSgw=="));
    assert_eq!(got.header("x-goog-generation"), Some(generation.as_str()));
    assert_eq!((got.header("x-goog-meta-a"), got.text().as_str()), (Some("b"), "123456789"));
    let head = client.send("HEAD", "/bucket/k", &[TOKEN, ("x-goog-if-generation-match", "1")], "").await;
    assert_eq!(head.status, 412);
    let other = [TOKEN, ("x-goog-if-generation-match", "1")];
    client.send("DELETE", "/bucket/k", &other, "").await.is(412);
    let this = [TOKEN, ("x-goog-if-generation-match", generation.as_str())];
    client.send("DELETE", "/bucket/k", &this, "").await.is(204);
    let wrong = [TOKEN, ("x-goog-if-generation-match", "x")];
    client.send("PUT", "/bucket/k", &wrong, "1").await.is(400);
}
