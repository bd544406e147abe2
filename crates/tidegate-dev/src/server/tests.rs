use super::*;

#[tokio::test]
async fn it_listens_counts_and_stops() {
    let server = Server::builder().start().await.unwrap();
    let addr = server.addr();
    assert_eq!(server.endpoint(), format!("http://{addr}"));
    assert_eq!(server.credentials(), ("tidegate", "tidegate"));
    assert_eq!(server.counts(), Counts::default());
    server.stop().await;
    TcpListener::bind(addr).await.unwrap();
}

#[tokio::test]
async fn buckets_have_names_and_are_there_once() {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let again = server.create_bucket("bucket");
    assert!(matches!(again, Err(ServerError::BucketExists(_))));
    let bad = server.create_bucket("_tidegate");
    assert!(matches!(bad, Err(ServerError::BucketName(_))));
}

#[tokio::test]
async fn a_directory_takes_one_server_and_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Server::builder().storage(Storage::Disk(dir.path().to_owned()));
    let server = builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    assert!(builder().start().await.is_err());
    server.stop().await;
    let server = builder().start().await.unwrap();
    let again = server.create_bucket("bucket");
    assert!(matches!(again, Err(ServerError::BucketExists(_))));
}
