//! The requests that a migration makes.

use std::mem::take;
use std::sync::Mutex;

use async_trait::async_trait;

use super::changes::changed;
use super::late::copied;
use super::*;
use crate::Progress;

/// Records the requests for one key, under any prefix.
#[derive(Debug)]
struct Noted {
    key: &'static str,
    /// True if the first request of each kind is throttled.
    refuses: bool,
    asked: Mutex<Vec<&'static str>>,
}

impl Noted {
    fn new(below: Memory, key: &'static str, refuses: bool) -> Arc<Scripted<Self>> {
        Scripted::new(below, Self { key, refuses, asked: Mutex::default() })
    }

    fn note(&self, request: &'static str, place: &str) -> Result<(), Fault> {
        if !place.ends_with(self.key) {
            return Ok(());
        }
        let mut asked = self.asked.lock().unwrap();
        let is_first = !asked.contains(&request);
        asked.push(request);
        match is_first && self.refuses {
            true => Err(Fault::new(FaultKind::Throttled, "slow down").with_answered(true)),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Script for Noted {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match &call {
            Call::Put { key, .. } => self.note("put", key)?,
            Call::Head { key } => self.note("head", key)?,
            Call::Get { key, .. } => self.note("get", key)?,
            Call::Tags { key } => self.note("tags", key)?,
            Call::Copy { key, .. } => self.note("copy", key)?,
            _ => {}
        }
        below.send(call).await
    }
}

#[tokio::test]
async fn an_object_is_moved_in_as_few_requests_as_can_be() {
    for (copies, expected) in [(true, &["head", "copy"][..]), (false, &["get", "tags", "head", "put"])] {
        let memory = memory_that(copies);
        changed(&memory, base2(4), base2(64), &["k/a"]).await;
        let noted = Noted::new(memory, "/k/a", false);
        let store = attentive(&engine().store(noted.clone()).within("root")).await;
        assert_eq!(copied(&store).await, 1);
        assert_eq!(take(&mut *noted.asked.lock().unwrap()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_prefixes_refuse_of_a_migration_slows_down_no_others() {
    for (copies, requests) in [(true, 4), (false, 8)] {
        let memory = memory_that(copies);
        changed(&memory, base2(4), base2(64), &["k/a"]).await;
        let noted = Noted::new(memory, "/k/a", true);
        let root = engine().store(noted.clone()).within("root");
        let store = attentive(&root).await;
        assert_eq!(copied(&store).await, 1);
        let asked = take(&mut *noted.asked.lock().unwrap());
        assert_eq!(asked.len(), requests, "{asked:?}");
        let (endpoint, ever) =
            (root.context().requests("", Progress::default()).endpoint, Duration::from_secs(3600));
        for layout in [base2(4), base2(64)] {
            let lane = endpoint.lanes.lane(&format!("memory://m/root/{}", layout.name("k/a")));
            assert!(lane.was_refused(ever), "{layout}");
        }
        assert!(!endpoint.limiter.was_overloaded(ever));
    }
}
