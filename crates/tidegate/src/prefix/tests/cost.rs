//! What a migration asks of the store.

use std::mem::take;
use std::ops::Range;
use std::sync::Mutex;

use async_trait::async_trait;

use super::changes::changed;
use super::late::copied;
use super::*;
use crate::backend::{Body, Copied, CopySource, WriteOptions};
use crate::payload::Payload;

/// Notes what is asked for one key, wherever it is.
#[derive(Debug)]
struct Noted {
    below: Memory,
    key: &'static str,
    asked: Mutex<Vec<&'static str>>,
}

impl Noted {
    fn note(&self, request: &'static str, place: &str) {
        if place.ends_with(self.key) {
            self.asked.lock().unwrap().push(request);
        }
    }
}

#[async_trait]
impl Layer for Noted {
    fn below(&self) -> &dyn Backend {
        &self.below
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        self.note("put", key);
        self.below.put(key, payload, options).await
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.note("head", key);
        self.below.head(key).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        self.note("get", key);
        self.below.get(key, range, same).await
    }

    async fn tags(&self, key: &str) -> Result<std::collections::BTreeMap<String, String>, Fault> {
        self.note("tags", key);
        self.below.tags(key).await
    }

    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
    ) -> Result<Copied, Fault> {
        self.note("copy", key);
        self.below.copy(from, key, cursor, options).await
    }
}

#[tokio::test]
async fn an_object_is_moved_in_as_few_requests_as_can_be() {
    for (copies, expected) in [(true, &["head", "copy"][..]), (false, &["get", "tags", "head", "put"])] {
        let memory = memory_that(copies);
        changed(&memory, base2(4), base2(64), &["k/a"]).await;
        let noted = Arc::new(Noted { below: memory, key: "/k/a", asked: Mutex::default() });
        let store = attentive(&engine().store(noted.clone()).within("root")).await;
        assert_eq!(copied(&store).await, 1);
        assert_eq!(take(&mut *noted.asked.lock().unwrap()), expected);
    }
}
