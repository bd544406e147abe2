//! Resumable uploads, rule by rule.

use serde_json::json;
use tidegate_dev::{Server, Storage};

use crate::client::{Client, K256, bytes, server};

const OBJECT: &str = "/storage/v1/b/bucket/o/k";

#[tokio::test]
async fn chunks_make_an_object() {
    let (server, client) = server().await;
    let body = bytes(2 * K256 + 5);
    let json = json!({"contentType": "text/x", "metadata": {"a": "b"}, "cacheControl": "no-store"});
    let session = client.start("k", "", &[], &json.to_string()).await;
    assert!(session.starts_with(&server.endpoint()), "{session}");
    client.query(&session).await.has(0);
    client.chunk(&session, "bytes 0-262143/*", body.slice(..K256)).await.has(K256);
    client.chunk(&session, "bytes 262144-524287/524293", body.slice(K256..2 * K256)).await.has(2 * K256);
    client.get(OBJECT).await.is(404);
    let end =
        client.chunk(&session, "bytes 524288-524292/524293", body.slice(2 * K256..)).await.is(200).json();
    assert_eq!(end["size"], "524293");
    for field in ["contentType", "metadata", "cacheControl"] {
        assert_eq!(end[field], json[field]);
    }
    assert_eq!(client.read("k").await, body);
    let again = client.put("same", body).await.json();
    assert_eq!((&end["crc32c"], &end["md5Hash"]), (&again["crc32c"], &again["md5Hash"]));
    let counts = server.counts();
    let of = |operation| counts.get(&format!("storage.resumable.{operation}"));
    assert_eq!((of("start"), of("append"), of("query"), of("cancel")), (1, 3, 1, 0));
}

#[tokio::test]
async fn one_request_may_bring_it_all() {
    let (_server, client) = server().await;
    let body = bytes(300_000);
    let session = client.start("k", "", &[], "").await;
    client.send("PUT", &session, &[], body.clone()).await.is(200);
    assert_eq!(client.read("k").await, body);
    let session = client.start("l", "", &[], "").await;
    client.chunk(&session, "bytes 0-299999/300000", body.clone()).await.is(200);
    assert_eq!(client.read("l").await, body);
}

#[tokio::test]
async fn empty_objects() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes */0", "").await.is(200);
    assert_eq!(client.read("k").await.len(), 0);
    let session = client.start("l", "", &[], "").await;
    client.send("PUT", &session, &[("content-length", "0")], "").await.is(200);
    assert_eq!(client.read("l").await.len(), 0);
}

#[tokio::test]
async fn a_query_with_the_total_finishes_what_is_whole() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    client.chunk(&session, "bytes */524288", "").await.has(K256);
    client.chunk(&session, "bytes */1", "").await.is(400);
    client.get(OBJECT).await.is(404);
    let end = client.chunk(&session, "bytes */262144", "").await.is(200).json();
    assert_eq!(end["size"], "262144");
    assert_eq!(client.read("k").await, bytes(K256));
}

#[tokio::test]
async fn chunks_are_multiples_of_the_grain() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let small = client.chunk(&session, "bytes 0-99/*", bytes(100)).await.is(400);
    assert!(small.text().contains("equal or greater than 262144"), "{}", small.text());
    client.query(&session).await.has(0);
    // Bytes beyond a multiple of the grain are not persisted, and the answer says so.
    let body = bytes(3 * K256);
    client.chunk(&session, "bytes 0-300000/*", body.slice(..300_001)).await.has(K256);
    client.chunk(&session, "bytes 262144-786431/*", body.slice(K256..)).await.has(3 * K256);
    client.chunk(&session, "bytes */786432", "").await.is(200);
    assert_eq!(client.read("k").await, body);
}

#[tokio::test]
async fn what_is_there_already_is_ignored() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let body = bytes(3 * K256);
    client.chunk(&session, "bytes 0-524287/*", body.slice(..2 * K256)).await.has(2 * K256);
    // Different bytes for persisted ones have no effect: the server skips them.
    let mut others = vec![7; K256];
    client.chunk(&session, "bytes 0-262143/*", others.clone()).await.has(2 * K256);
    others.extend_from_slice(&body[2 * K256..]);
    let end = client.chunk(&session, "bytes 262144-786431/786432", others).await;
    assert_eq!(end.is(200).json()["size"], "786432");
    assert_eq!(client.read("k").await, body);
}

#[tokio::test]
async fn a_gap_is_refused() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    let gap = client.chunk(&session, "bytes 524288-786431/*", bytes(K256)).await.is(503);
    assert_eq!(
        gap.text(),
        "Invalid request.  According to the Content-Range header, the upload offset is 524288 byte(s), which exceeds already uploaded size of 262144 byte(s)."
    );
    assert!(gap.header("content-type").unwrap().starts_with("text/plain"));
    client.query(&session).await.has(K256);
}

#[tokio::test]
async fn ranges_that_make_no_sense_are_refused() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    for range in ["", "bytes", "bytes 5-1/*", "bytes 0-9/9", "items 0-9/10"] {
        client.chunk(&session, range, bytes(10)).await.is(400);
    }
    client.chunk(&session, "bytes 0-9/10", bytes(11)).await.is(400);
    client.chunk(&session, "bytes */*", bytes(11)).await.is(400);
    client.query(&session).await.has(0);
}

#[tokio::test]
async fn a_finished_session_answers_its_object() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let made = client.send("PUT", &session, &[], "body").await.is(200).json();
    assert_eq!(client.query(&session).await.is(200).json(), made);
    assert_eq!(client.chunk(&session, "bytes */4", "").await.is(200).json(), made);
    assert_eq!(client.chunk(&session, "bytes 0-3/4", "body").await.is(200).json(), made);
    // Also after another object has replaced the session's object: the session still answers with its own.
    let other = client.put("k", "other").await.is(200).json();
    assert_eq!(client.query(&session).await.is(200).json(), made);
    assert_eq!(client.get(OBJECT).await.json()["generation"], other["generation"]);
    client.send("DELETE", &session, &[], "").await.is(400);
}

#[tokio::test]
async fn a_cancelled_session_is_gone() {
    let (server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    client.send("DELETE", &session, &[("content-length", "0")], "").await.is(499);
    assert_eq!(server.counts().failed("storage.resumable.cancel"), 0, "that is how success looks");
    client.query(&session).await.is(410);
    client.chunk(&session, "bytes 262144-262144/262145", "x").await.is(410);
    client.send("DELETE", &session, &[], "").await.is(410);
    client.get(OBJECT).await.is(404);
}

#[tokio::test]
async fn sessions_that_never_were() {
    let (_server, client) = server().await;
    let uri = "/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id=none";
    client.query(uri).await.is(404);
    client.send("PUT", uri, &[], "x").await.is(404);
    client.send("DELETE", uri, &[], "").await.is(404);
    let start = "/upload/storage/v1/b/none/o?uploadType=resumable&name=k";
    client.send("POST", start, &[], "").await.is(404);
    let start = "/upload/storage/v1/b/bucket/o?uploadType=resumable";
    client.send("POST", start, &[], "").await.is(400);
    client.send("POST", start, &[], r#"{"name": "k"}"#).await.is(200);
    // Deleting a bucket deletes its sessions.
    let session = client.start("k", "", &[], "").await;
    client.send("DELETE", "/storage/v1/b/bucket", &[], "").await.is(204);
    client.query(&session).await.is(404);
}

#[tokio::test]
async fn conditions_are_checked_when_it_is_finished() {
    let (_server, client) = server().await;
    let session = client.start("k", "&ifGenerationMatch=0", &[], "").await;
    let other = client.put("k", "other").await.is(200).json();
    client.send("PUT", &session, &[], "body").await.is(412);
    assert_eq!(client.read("k").await, "other");
    // The session is unchanged: once the conflicting object is deleted, the end is accepted.
    client.send("DELETE", OBJECT, &[], "").await.is(204);
    client.send("PUT", &session, &[], "body").await.is(200);
    assert_eq!(client.read("k").await, "body");
    let generation = other["generation"].as_str().unwrap();
    let session = client.start("k", &format!("&ifGenerationMatch={generation}"), &[], "").await;
    client.send("PUT", &session, &[], "third").await.is(412);
    let session = client.start("k", "&ifMetagenerationMatch=1", &[], "").await;
    client.send("PUT", &session, &[], "fourth").await.is(200);
}

#[tokio::test]
async fn hashes_given_at_either_end_are_compared() {
    let (_server, client) = server().await;
    let right = ["crc32c=4waSgw==", "md5=JfnnlDI7RTiF9RgfG2JNCw=="];
    let wrong = ["crc32c=AAAAAA==", "md5=1B2M2Y8AsgTpgAmY7PhCfg=="];
    for (hashes, status) in [(right, 200), (wrong, 400)] {
        for hash in hashes {
            let session = client.start("k", "", &[], "").await;
            let headers = [("content-range", "bytes 0-8/9"), ("x-goog-hash", hash)];
            client.send("PUT", &session, &headers, "123456789").await.is(status);
            let session = client.start("l", "", &[("x-goog-hash", hash)], "").await;
            client.send("PUT", &session, &[], "123456789").await.is(status);
            for key in ["k", "l"] {
                let uri = format!("/storage/v1/b/bucket/o/{key}");
                client.send("DELETE", &uri, &[], "").await.is(if status == 200 { 204 } else { 404 });
            }
        }
    }
    let session = client.start("k", "", &[], r#"{"crc32c": "AAAAAA=="}"#).await;
    client.send("PUT", &session, &[], "123456789").await.is(400);
    client.get(OBJECT).await.is(404);
}

#[tokio::test]
async fn a_length_given_at_the_start_is_held_to() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[("x-upload-content-length", "5")], "").await;
    client.send("PUT", &session, &[], "1234").await.is(400);
    client.chunk(&session, "bytes 0-3/4", "1234").await.is(400);
    client.get(OBJECT).await.is(404);
    client.send("PUT", &session, &[], "12345").await.is(200);
}

#[tokio::test]
async fn metadata_may_come_with_the_end() {
    let (_server, client) = server().await;
    let session =
        client.start("k", "", &[("x-upload-content-type", "text/x")], r#"{"metadata": {"a": "1"}}"#).await;
    let end = client.send("PUT", &session, &[("x-goog-meta-b", "2")], "body").await.is(200).json();
    assert_eq!(end["metadata"], json!({"a": "1", "b": "2"}));
    assert_eq!(end["contentType"], "text/x");
}

#[tokio::test]
async fn a_client_may_have_200_for_308() {
    let (_server, client) = server().await;
    let session = client.start("k", "", &[], "").await;
    let headers = [("content-range", "bytes 0-262143/*"), ("x-guploader-no-308", "yes")];
    let told = client.send("PUT", &session, &headers, bytes(K256)).await.is(200);
    assert_eq!(told.header("x-http-status-code-override"), Some("308"));
    assert_eq!(told.header("range"), Some("bytes=0-262143"));
}

#[tokio::test]
async fn storage_that_keeps_nothing_has_sizes_and_hashes() {
    let server = Server::builder().storage(Storage::Discard).start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let client = Client::of(&server);
    let session = client.start("k", "", &[], "").await;
    client.chunk(&session, "bytes 0-262143/*", bytes(K256)).await.has(K256);
    let late = [("content-range", "bytes */262144"), ("x-goog-hash", "md5=1B2M2Y8AsgTpgAmY7PhCfg==")];
    client.send("PUT", &session, &late, "").await.is(400);
    let end = client.chunk(&session, "bytes */262144", "").await.is(200).json();
    assert_eq!(end["size"], "262144");
    let expected = {
        let (_server, client) = crate::client::server().await;
        client.put("k", bytes(K256)).await.json()
    };
    assert_eq!(end["crc32c"], expected["crc32c"]);
}
