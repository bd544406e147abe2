//! A store that counts its refusals.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use tidegate::backend::gcs::{Gcs, GcsSettings};
use tidegate::backend::s3::{S3, S3Settings};
use tidegate::backend::{
    Admin, Append, Attempt, Backend, Body, BulkDelete, Entry, Fault, FaultKind, Info, Listing, Parts,
    Presign, ServerCopy, WriteOptions,
};
use tidegate::location::Location;
use tidegate::payload::Payload;
use tidegate::{Object, Store, Tidegate};

use crate::Result;
use crate::embedded::Embedded;

/// The destination of requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum PrefixesDestination<'a> {
    /// The embedded server.
    Embedded(&'a Embedded),
    /// A real store, below this address; the environment has the credentials.
    Real(&'a str),
}

impl PrefixesDestination<'_> {
    /// A new client, and the prefix of its keys.
    async fn connect(self) -> Result<(Arc<dyn Backend>, String)> {
        let url = match self {
            Self::Embedded(server) => {
                return Ok((Arc::new(server.endpoint().connect().await?), String::new()));
            }
            Self::Real(url) => url,
        };
        match url.parse::<Location>()? {
            Location::S3 { bucket, key, .. } => {
                Ok((Arc::new(S3::connect(&bucket, &S3Settings::default()).await?), key))
            }
            Location::Gcs { bucket, key } => {
                Ok((Arc::new(Gcs::connect(&bucket, &GcsSettings::default()).await?), key))
            }
            _ => Err(format!("{url}: requests go to s3://BUCKET/PREFIX or gs://BUCKET/PREFIX").into()),
        }
    }
}

/// A store, and the number of refusals for too many requests that this client received.
#[derive(Debug)]
pub(super) struct Counted {
    store: Arc<dyn Backend>,
    tide: Tidegate,
    refused: AtomicU64,
}

impl Counted {
    /// The root with this name at a place, opened by `tide` with connections of its own.
    pub(super) async fn open(
        place: PrefixesDestination<'_>,
        root: &str,
        tide: &Tidegate,
    ) -> Result<(Arc<Self>, Store)> {
        let (store, below) = place.connect().await?;
        let counted = Arc::new(Self { store, tide: tide.clone(), refused: AtomicU64::new(0) });
        let root = tide.store(counted.clone()).within(&below).within(root);
        Ok((counted, root))
    }

    pub(super) fn engine(&self) -> &Tidegate {
        &self.tide
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn count<T>(&self, answer: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &answer
            && fault.kind == FaultKind::Throttled
        {
            self.refused.fetch_add(1, Relaxed);
        }
        answer
    }
}

#[async_trait]
impl Backend for Counted {
    fn info(&self) -> &Info {
        self.store.info()
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.store.check(key, options)
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.count(self.store.put(key, payload, options, attempt).await)
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        self.store.head(key, attempt).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.count(self.store.get(key, range, same, attempt).await)
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        self.store.delete(key, same, attempt).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.store.list(prefix, recursive)
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        self.store.is_one_place(location, from, key).await
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.store.parts()
    }

    fn appending(&self) -> Option<&dyn Append> {
        self.store.appending()
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.store.server_copy()
    }

    fn bulk_delete(&self) -> Option<&dyn BulkDelete> {
        self.store.bulk_delete()
    }

    fn presigning(&self) -> Option<&dyn Presign> {
        self.store.presigning()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.store.admin()
    }
}

#[cfg(test)]
mod tests {
    use tidegate::backend::memory::Memory;

    use super::*;

    /// Rejects all requests for now.
    #[derive(Debug)]
    struct Full(Info);

    #[async_trait]
    impl Backend for Full {
        fn info(&self) -> &Info {
            &self.0
        }

        async fn put(&self, _: &str, _: Payload, _: &WriteOptions, _: Attempt) -> Result<Object, Fault> {
            full()
        }

        async fn head(&self, _: &str, _: Attempt) -> Result<Object, Fault> {
            full()
        }

        async fn get(
            &self,
            _: &str,
            _: Option<Range<u64>>,
            _: Option<&Object>,
            _: Attempt,
        ) -> Result<Body, Fault> {
            full()
        }

        async fn delete(&self, _: &str, _: Option<&Object>, _: Attempt) -> Result<(), Fault> {
            full()
        }

        fn list(&self, _: &str, _: bool) -> Listing<Entry> {
            Listing::empty()
        }
    }

    fn full<T>() -> Result<T, Fault> {
        Err(Fault::new(FaultKind::Throttled, "slow down"))
    }

    #[tokio::test]
    async fn refusals_are_counted_and_other_errors_are_not() {
        let memory = Memory::new("store");
        let full = Full(memory.info().clone());
        let stores: [(Arc<dyn Backend>, u64); 2] = [(Arc::new(full), 1), (Arc::new(memory), 0)];
        for (store, expected) in stores {
            let tide = Tidegate::builder().build().unwrap();
            let counted = Counted { store, tide, refused: AtomicU64::new(0) };
            assert!(Backend::get(&counted, "missing", None, None, Attempt::FIRST).await.is_err());
            assert_eq!(counted.refused(), expected);
        }
    }

    #[tokio::test]
    async fn a_real_store_is_one_of_requests() {
        for (url, why) in
            [("memory://store", "s3://BUCKET/PREFIX"), ("/tmp", "s3://BUCKET/PREFIX"), ("s3://", "bucket")]
        {
            let error = PrefixesDestination::Real(url).connect().await.unwrap_err().to_string();
            assert!(error.contains(url) && error.contains(why), "{error}");
        }
    }
}
