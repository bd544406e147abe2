//! Decides whether every other object would fail for the same cause as one that failed.
//!
//! A command with many objects continues after a failure. It stops early only for a cause that all objects share.
//! Wrong credentials and a missing bucket are clear from the error itself. A store that was not reached is not clear:
//! perhaps only the connection of this one object broke. So the command asks the store, with a listing.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use tidegate::{ErrorKind, Operation, Progress, Store, Tidegate};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use crate::error::{Error, Reach};

/// How long a store may take to answer that listing. If bytes moved meanwhile, the store counts as reached all the
/// same: the listing may be queued behind the transfers.
const ASKING: Duration = Duration::from_secs(15);

/// The stores of one command, and what is known of each.
#[derive(Debug)]
pub(crate) struct CommonCause {
    /// The progress of all transfers together.
    progress: Progress,
    stores: Vec<(Store, Mutex<Standing>)>,
    /// Whether the command stops for a reason of its own.
    stops: watch::Sender<bool>,
}

/// What is known of a store.
#[derive(Clone, Copy, Debug, Default)]
enum Standing {
    #[default]
    NotAsked,
    /// The store answered at this time.
    Answered(Instant),
    /// The store did not answer. The command stops, so this stays.
    Silent,
}

impl CommonCause {
    pub(crate) fn of<'a>(tide: &Tidegate, stores: impl IntoIterator<Item = &'a Store>) -> Self {
        let stores = stores.into_iter().map(|store| (store.clone(), Mutex::default())).collect();
        Self { progress: tide.progress(), stores, stops: watch::Sender::new(false) }
    }

    /// Says that the command starts no more objects because its listing has failed. From here on no store is asked:
    /// the failed listing has used up its retries, and one more would show nothing new.
    pub(crate) fn no_more(&self) {
        self.stops.send_replace(true);
    }

    /// Whether every other object would fail as this one did. Sends one listing at a time per store. Skips it if the
    /// store has answered a listing since this failure.
    pub(crate) async fn is_behind(&self, failure: &Error) -> bool {
        let error = match (failure.reach(), failure) {
            (Reach::All, _) => return true,
            (Reach::AskStore, Error::Store(error)) => error,
            _ => return false,
        };
        // The failure is that of a listing of the store: the store did not answer, or not as an object store.
        if error.operation() == Operation::List {
            return true;
        }
        let failed_at = Instant::now();
        let of_it = |store: &Store| error.object().starts_with(&store.location());
        let Some((store, standing)) = self.stores.iter().find(|(store, _)| of_it(store)) else {
            return false;
        };
        let mut stops = self.stops.subscribe();
        let mut stopped = pin!(stops.wait_for(|stops| *stops));
        let mut standing = tokio::select! {
            biased;
            _ = &mut stopped => return false,
            standing = standing.lock() => standing,
        };
        match *standing {
            Standing::Silent => return true,
            Standing::Answered(at) if at >= failed_at => return false,
            _ => {}
        }
        let is_silent = tokio::select! {
            biased;
            _ = &mut stopped => return false,
            answers = self.answers(store) => !answers,
        };
        *standing = if is_silent { Standing::Silent } else { Standing::Answered(Instant::now()) };
        is_silent
    }

    /// Whether the store answers a listing. An error response counts as an answer; so do bytes that a transfer moved
    /// while the listing waited.
    async fn answers(&self, store: &Store) -> bool {
        let before = self.progress.snapshot().acknowledged;
        match timeout(ASKING, store.list("").recursive(false).try_next()).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !error.is_unreachable() && error.kind() != ErrorKind::NotAStore,
            Err(_) => self.progress.snapshot().acknowledged > before,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Error as StoreError;
    use tidegate::backend::s3::{Credentials, S3Settings};
    use tidegate::settings::RetryPolicy;
    use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};

    use super::*;

    async fn engine(endpoint: String, server: &Server, secret: Option<&str>) -> Tidegate {
        let (access, right) = server.credentials();
        let settings = S3Settings::default()
            .with_endpoint_url(endpoint)
            .with_region("us-east-1")
            .with_credentials(Credentials::fixed(access, secret.unwrap_or(right), None));
        let mut retry = RetryPolicy::default();
        retry.attempts = 1;
        Tidegate::builder().s3(settings).retry(retry).build().unwrap()
    }

    async fn read(store: &Store) -> StoreError {
        store.reader("k").await.unwrap_err()
    }

    #[tokio::test]
    async fn a_cause_is_common_only_where_the_store_says_or_shows_it() {
        let server = Server::builder().start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let tide = engine(server.endpoint(), &server, None).await;
        let store = tide.open("s3://bucket").await.unwrap();
        let cause = CommonCause::of(&tide, [&store]);
        // One object's connection breaks, and one object is denied: the other objects can be read.
        let denied = FaultAction::Error { status: 403, code: "AccessDenied".to_owned(), retry_after: None };
        for (action, is_unreachable) in [(FaultAction::CutHead, true), (denied, false)] {
            server.set_knobs(Knobs { faults: vec![FaultRule::new("GetObject", action)], ..Knobs::default() });
            let error = read(&store).await;
            assert_eq!(error.is_unreachable(), is_unreachable, "{error}");
            assert!(!cause.is_behind(&error.into()).await);
        }
        // A missing bucket, wrong credentials, or no server at the address: these concern all objects.
        server.set_knobs(Knobs::default());
        let missing = tide.open("s3://none-of-that-name").await.unwrap();
        assert!(cause.is_behind(&read(&missing).await.into()).await);
        let tide = engine(server.endpoint(), &server, Some("not-the-secret")).await;
        assert!(cause.is_behind(&read(&tide.open("s3://bucket").await.unwrap()).await.into()).await);
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let tide = engine(format!("http://{nowhere}"), &server, None).await;
        let store = tide.open("s3://bucket").await.unwrap();
        let error = read(&store).await;
        assert!(error.is_unreachable(), "{error}");
        assert!(CommonCause::of(&tide, [&store]).is_behind(&error.into()).await);
    }

    #[tokio::test]
    async fn a_store_whose_listing_has_failed_is_not_listed_again() {
        let server = Server::builder().journal(true).start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let tide = engine(server.endpoint(), &server, None).await;
        let store = tide.open("s3://bucket").await.unwrap();
        let faults = ["ListObjectsV2", "GetObject"]
            .map(|operation| FaultRule::new(operation, FaultAction::CutHead))
            .to_vec();
        server.set_knobs(Knobs { faults, ..Knobs::default() });
        let listed = || server.requests().iter().filter(|name| name.contains("ListObjects")).count();
        let cause = CommonCause::of(&tide, [&store]);
        let error = store.list("").try_next().await.unwrap_err();
        assert_eq!(listed(), 1);
        assert!(cause.is_behind(&error.into()).await);
        let read = read(&store).await.into();
        cause.no_more();
        assert!(!cause.is_behind(&read).await);
        assert_eq!(listed(), 1);
        let cause = CommonCause::of(&tide, [&store]);
        assert!(cause.is_behind(&read).await);
        assert_eq!(listed(), 2);
    }
}
