//! Any sequence of chunks, queries, breaks and cancels, against Google's documented promises: the persisted
//! bytes are a prefix in whole grains, and the object is published at most once.

use proptest::prelude::*;
use tidegate_dev::{Server, Storage};

use crate::client::{Client, K256, bytes, until_received};

/// The object's size: a few grains and a rest.
const TOTAL: usize = 5 * K256 + 1000;

#[derive(Clone, Debug)]
enum Step {
    /// A chunk that begins this many grains before or after the persisted end.
    Chunk {
        back: i64,
        grains: usize,
        odd: usize,
        says_total: bool,
    },
    /// All remaining bytes as a stream; broken off after this many bytes, if the stream is longer.
    Stream {
        back: usize,
        breaks_after: Option<usize>,
    },
    /// Stops the server and starts it again.
    Restart,
    Finish,
    Cancel,
}

fn step() -> impl Strategy<Value = Step> {
    let odd = prop_oneof![3 => Just(0_usize), 1 => 1..K256];
    prop_oneof![
        6 => (-2..2_i64, 0..4_usize, odd, any::<bool>())
            .prop_map(|(back, grains, odd, says_total)| Step::Chunk { back, grains, odd, says_total }),
        2 => (0..3_usize, proptest::option::weighted(0.8, 0..TOTAL))
            .prop_map(|(back, breaks_after)| Step::Stream { back, breaks_after }),
        2 => Just(Step::Restart),
        1 => Just(Step::Finish),
        1 => Just(Step::Cancel),
    ]
}

/// The expected state of the session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Model {
    Open(usize),
    Finished,
    Cancelled,
}

async fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Server::builder().storage(Storage::Disk(dir.path().to_owned()));
    let mut server = builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let mut client = Client::of(&server);
    let body = bytes(TOTAL);
    let session = client.start("k", "", &[], "").await;
    let session = session.strip_prefix(&server.endpoint()).unwrap().to_owned();
    let mut model = Model::Open(0);
    let mut generation = None;
    for step in steps {
        model = match (&step, model) {
            (Step::Restart, before) => {
                server.stop().await;
                server = builder().start().await.unwrap();
                client = Client::of(&server);
                before
            }
            (Step::Cancel, before) => {
                let status = client.send("DELETE", &session, &[], "").await.status;
                match before {
                    Model::Open(_) => assert_eq!(status, 499),
                    Model::Finished => assert_eq!(status, 400),
                    Model::Cancelled => assert_eq!(status, 410),
                }
                if before == Model::Finished { before } else { Model::Cancelled }
            }
            (Step::Finish, Model::Open(persisted)) if persisted > 0 => {
                // The total tells the server that the object is complete.
                let end = client.chunk(&session, &format!("bytes */{persisted}"), "").await.is(200).json();
                assert_eq!(end["size"], persisted.to_string());
                Model::Finished
            }
            (Step::Chunk { back, grains, odd, says_total }, Model::Open(persisted)) => {
                let first = persisted as i64 + back * K256 as i64;
                let first = usize::try_from(first).unwrap_or(0).min(TOTAL - 1);
                let end = (first + grains * K256 + odd).clamp(first + 1, TOTAL);
                let total = if *says_total { TOTAL.to_string() } else { "*".to_owned() };
                let range = format!("bytes {first}-{}/{total}", end - 1);
                let answer = client.chunk(&session, &range, body.slice(first..end)).await;
                let is_last = *says_total && end == TOTAL;
                if first > persisted {
                    answer.is(503);
                    model
                } else if is_last {
                    answer.is(200);
                    Model::Finished
                } else if end - first < K256 {
                    answer.is(400);
                    model
                } else {
                    let after = persisted.max(end - (end - persisted.min(end)) % K256);
                    answer.has(after);
                    Model::Open(after)
                }
            }
            (Step::Stream { back, breaks_after }, Model::Open(persisted)) => {
                let first = persisted.saturating_sub(back * K256);
                let mut stream = client.stream(&session, &[("content-range", &format!("bytes {first}-*/*"))]);
                match breaks_after {
                    Some(length) if first + length < TOTAL => {
                        let before = server.counts().bytes_in;
                        stream.push(body.slice(first..first + length)).await;
                        until_received(&server, before + *length as u64).await;
                        stream.break_off().await;
                        // The server notices the end of a connection some time later.
                        let least = persisted.max((first + length) / K256 * K256);
                        let after = settled(&client, &session, least).await;
                        assert_eq!(after, least);
                        Model::Open(after)
                    }
                    _ => {
                        stream.push(body.slice(first..)).await;
                        stream.end().await.unwrap().is(200);
                        Model::Finished
                    }
                }
            }
            (_, before) => before,
        };
        check(&client, &session, model, &body, &mut generation).await;
    }
    server.stop().await;
}

/// Waits until at least `least` bytes are persisted after a stream broke off; returns the number persisted.
async fn settled(client: &Client, session: &str, least: usize) -> usize {
    for _ in 0..2000 {
        let answer = client.query(session).await.is(308);
        let last = answer.header("range").and_then(|range| range.strip_prefix("bytes=0-")?.parse().ok());
        let persisted = last.map_or(0, |last: usize| last + 1);
        if persisted >= least {
            return persisted;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{least} bytes are not persisted");
}

async fn check(client: &Client, session: &str, model: Model, body: &[u8], generation: &mut Option<String>) {
    let query = client.query(session).await;
    let object = client.get("/storage/v1/b/bucket/o/k").await;
    match model {
        Model::Open(persisted) => {
            assert_eq!(persisted % K256, 0);
            query.has(persisted);
            object.is(404);
        }
        Model::Cancelled => {
            query.is(410);
            object.is(404);
        }
        Model::Finished => {
            let shown = object.is(200).json();
            assert_eq!(query.is(200).json(), shown);
            let now = shown["generation"].as_str().unwrap().to_owned();
            let first = generation.get_or_insert_with(|| now.clone());
            assert_eq!(*first, now, "published twice");
            let read = client.read("k").await;
            assert!(body.starts_with(&read), "not a prefix: {} bytes", read.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_keeps_the_promises(steps in proptest::collection::vec(step(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
