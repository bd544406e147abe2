//! Which figures of reads the `metrics` facade gets.

use super::*;
use crate::testkit::figures::Figures;

/// Every attempt has ended, and counts once.
fn each_counts_once(figures: &Figures, requests: usize) {
    let counted = |name| figures.of(name);
    assert_eq!(counted("requests_total{operation=get}"), requests as f64, "{figures:?}");
    assert_eq!(counted("request_seconds{operation=get}"), requests as f64, "{figures:?}");
    assert_eq!(counted("requests_in_flight{operation=get}"), 0.0, "{figures:?}");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_read_counts_once_and_ends_with_its_body() {
    let directory = tempfile::tempdir().unwrap();
    // 2 MiB are one request, 40 MiB are several.
    for (size, path) in [(0, "none"), (200_000, "small"), (2 * MIB, "one"), (40 * MIB, "several")] {
        for way in ["reader", "blocks", "file", "hinted"] {
            let figures = Figures::default();
            let _recorder = metrics::set_default_local_recorder(&figures);
            let data = bytes_of(size, 3);
            let first = if size > 100_001 { Fate::Breaks(100_001) } else { Fate::Well };
            let odd = Odd::with(&data, vec![first].into_iter()).await;
            let store = store(&odd, |tide| tide.hedge(false));
            let path = directory.path().join(format!("{path}-{way}"));
            match way {
                "reader" => assert!(all(store.reader("k").start().await.unwrap()).await.unwrap() == data),
                "blocks" => {
                    let mut blocks = store.blocks("k", [0..size / 2, size / 2..size]).start().await.unwrap();
                    while blocks.try_next().await.unwrap().is_some() {}
                }
                "file" => drop(store.download("k", path).run().await.unwrap()),
                _ => drop(store.download("k", path).size_hint(size).run().await.unwrap()),
            }
            each_counts_once(&figures, odd.requests());
            let broken = if size > 100_001 { 1.0 } else { 0.0 };
            assert_eq!(figures.of("failures_total{operation=get,kind=unavailable}"), broken, "{figures:?}");
            assert_eq!(figures.of("bytes_read_total{}"), size as f64, "{way} of {size}: {figures:?}");
        }
    }
}

#[tokio::test]
async fn a_read_is_in_flight_for_as_long_as_its_body_is_read() {
    let figures = Figures::default();
    let _recorder = metrics::set_default_local_recorder(&figures);
    let slowly = vec![Fate::Trickles(50_000, Duration::from_millis(1))];
    let odd = Odd::with(&bytes_of(200_000, 3), slowly.into_iter()).await;
    let store = store(&odd, |tide| tide);
    let mut reader = store.reader("k").start().await.unwrap();
    reader.try_next().await.unwrap();
    assert_eq!(figures.of("requests_in_flight{operation=get}"), 1.0);
    assert_eq!(figures.of("request_seconds{operation=get}"), 0.0);
    // Its attempt is given up.
    drop(reader);
    assert_eq!(figures.of("requests_in_flight{operation=get}"), 0.0);
    assert_eq!(figures.of("request_seconds{operation=get}"), 0.0);
}

/// Without an identity of its object, a download comes over one stream, and is cut into chunks here.
#[tokio::test]
async fn a_download_over_one_stream_is_read_once() {
    #[derive(Debug)]
    struct Nameless;
    #[async_trait::async_trait]
    impl Script for Nameless {
        async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
            let mut answer = below.send(call).await?;
            if let Answer::Body(body) = &mut answer {
                (body.object.etag, body.object.version) = (None, None);
            }
            Ok(answer)
        }
    }
    let figures = Figures::default();
    let _recorder = metrics::set_default_local_recorder(&figures);
    let (directory, data) = (tempfile::tempdir().unwrap(), bytes_of(20 * MIB, 3));
    let odd = Odd::with(&data, well()).await;
    let store = Tidegate::builder().build().unwrap().store(Scripted::new(odd.memory.clone(), Nameless));
    store.download("k", directory.path().join("out")).run().await.unwrap();
    assert_eq!(figures.of("bytes_read_total{}"), data.len() as f64, "{figures:?}");
    each_counts_once(&figures, 1);
}
