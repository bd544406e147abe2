//! A paused clock of tokio's, and a server that is real.

use std::time::Instant;

use tokio::runtime::Builder;

use super::*;
use tidegate::{ErrorKind, Tidegate};

/// While a runtime only waits for a socket, such a clock jumps to the next deadline: it is chance whether an answer comes
/// before that. Whatever comes, it comes soon, and the store is well once the clock goes on.
#[test]
fn deadlines_that_a_paused_clock_jumps_to_are_timeouts_and_no_more() {
    let theirs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = theirs.block_on(Server::builder().start()).unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = settings_for(&server);
    let ours = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    ours.block_on(async {
        let bucket = S3::connect("bucket", &settings).await.unwrap();
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.store(Arc::new(bucket));
        let began = Instant::now();
        match store.put("k", "one").await {
            Ok(object) => assert_eq!(object.size, 3),
            Err(error) => {
                let kinds = [ErrorKind::Unavailable, ErrorKind::Uncertain];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        tokio::time::resume();
        assert_eq!(store.put("k", "other").await.unwrap().size, 5);
        assert_eq!(store.get("k").await.unwrap(), "other");
    });
}
