use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::*;
use crate::Server;

async fn ask(server: &Server, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::builder().method(method).uri(format!("{}{path}", server.endpoint()));
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let answer = client.request(request).await.unwrap();
    let (status, body) = (answer.status(), answer.into_body().collect().await.unwrap().to_bytes());
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn objects_of_no_bytes_are_made_many_at_once() {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let keys: Vec<String> = (0..2500).map(|number| format!("k/{number:04}")).collect();
    let fill = json!({"bucket": "bucket", "keys": keys});
    let (status, answer) = ask(&server, Method::POST, "/_tidegate/objects", fill).await;
    assert_eq!((status, &answer["objects"]), (StatusCode::OK, &json!(2500)));
    assert_eq!(server.counts().total(), 0);

    let list = "/storage/v1/b/bucket/o?prefix=k/1&maxResults=1000";
    let (status, listed) = ask(&server, Method::GET, list, Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["name"], &items[0]["size"]), (1000, &json!("k/1000"), &json!("0")));
    assert_ne!(items[0]["etag"], items[1]["etag"]);
}

#[tokio::test]
async fn what_cannot_be_made_is_refused() {
    let server = Server::builder().start().await.unwrap();
    let nowhere = json!({"bucket": "nowhere", "keys": ["k"]});
    let (status, answer) = ask(&server, Method::POST, "/_tidegate/objects", nowhere).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"], "NoSuchBucket: The specified bucket does not exist");
    let (status, _) = ask(&server, Method::POST, "/_tidegate/objects", json!({"keys": ["k"]})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) = ask(&server, Method::GET, "/_tidegate/objects", Value::Null).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
