//! Lifecycle rules, on the embedded server and on stores that do not handle them well.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::backend::{
    AbortRule, Admin, Attempt, Body, Capabilities, Entry, Fault, Held, Info, Lifecycle, LifecycleRule,
    Listing,
};
use crate::types::object::Object;

#[tokio::test]
async fn a_rule_is_added_once_and_only_where_there_is_none() {
    let (_server, bucket) = s3().await;
    let store = Tidegate::builder().build().unwrap().store(bucket);
    assert!(store.lifecycle().await.unwrap().rules.is_empty());
    let first = store.ensure_lifecycle().await.unwrap();
    assert!(first.added && first.disturbed.is_empty());
    assert_eq!((first.rule.abort_after_days, first.rule.prefix.as_str()), (Some(1), ""));
    let before = store.lifecycle().await.unwrap();
    let again = store.ensure_lifecycle().await.unwrap();
    assert!(!again.added && again.rule == first.rule);
    // A rule for the whole bucket also covers a prefix of it.
    assert!(!store.within("logs").ensure_lifecycle().await.unwrap().added);
    assert_eq!(store.lifecycle().await.unwrap(), before);
}

#[tokio::test]
async fn a_rule_for_a_prefix_is_none_for_the_bucket() {
    let (_server, bucket) = s3().await;
    let store = Tidegate::builder().build().unwrap().store(bucket);
    let logs = store.within("logs");
    assert_eq!(logs.ensure_lifecycle().await.unwrap().rule.prefix, "logs/");
    let whole = store.ensure_lifecycle().await.unwrap();
    assert!(whole.added && whole.disturbed.is_empty());
    assert_eq!(whole.rule.id.as_deref(), Some("tidegate-abort-incomplete-uploads-2"));
    assert_eq!(store.lifecycle().await.unwrap().rules.len(), 2);
}

/// How a store handles a rule that it is given.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Drops,
    Forgets,
    DisturbsOthers,
    ShowsLate,
}

/// A store that only keeps lifecycle rules.
#[derive(Debug)]
struct Odd {
    manner: Manner,
    info: Info,
    rules: Mutex<Vec<LifecycleRule>>,
    late: Mutex<Vec<LifecycleRule>>,
}

fn odd(manner: Manner) -> Store {
    let other =
        LifecycleRule { id: Some("other".into()), canonical: "other".into(), ..LifecycleRule::default() };
    let info = Info::new("odd://store", "odd://", Capabilities::default());
    let rules = Mutex::new(vec![other]);
    let odd = Odd { manner, info, rules, late: Mutex::default() };
    Tidegate::builder().build().unwrap().store(Arc::new(odd))
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_keep_the_rule_is_found_out() {
    let dropped = odd(Manner::Drops).ensure_lifecycle().await.unwrap_err();
    assert_eq!(dropped.kind(), ErrorKind::Unsupported);
    assert!(dropped.to_string().contains("dropped from it"), "{dropped}");
    let forgotten = odd(Manner::Forgets).ensure_lifecycle().await.unwrap_err();
    assert!(forgotten.to_string().contains("does not have it"), "{forgotten}");
    assert!(forgotten.to_string().contains("tidegate sweep"), "{forgotten}");
    let late = odd(Manner::ShowsLate).ensure_lifecycle().await.unwrap();
    assert!(late.added && late.disturbed.is_empty());
    let disturbed = odd(Manner::DisturbsOthers).ensure_lifecycle().await.unwrap();
    assert_eq!(disturbed.disturbed, ["other"]);
}

#[tokio::test]
async fn a_store_without_rules_says_so() {
    let store = Tidegate::builder().build().unwrap().store(memory());
    let error = store.ensure_lifecycle().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("no lifecycle rules"), "{error}");
}

fn no<T>() -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Unsupported, "not asked for here"))
}

#[async_trait]
impl Backend for Odd {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn put(&self, _: &str, _: Payload, _: &WriteOptions, _: Attempt) -> Result<Object, Fault> {
        no()
    }

    async fn head(&self, _: &str, _: Attempt) -> Result<Object, Fault> {
        no()
    }

    async fn get(
        &self,
        _: &str,
        _: Option<std::ops::Range<u64>>,
        _: Option<&Object>,
        _: Attempt,
    ) -> Result<Body, Fault> {
        no()
    }

    async fn delete(&self, _: &str, _: Option<&Object>, _: Attempt) -> Result<(), Fault> {
        no()
    }

    fn list(&self, _: &str, _: bool) -> Listing<Entry> {
        stream::empty().boxed().into()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Odd {
    fn sessions(&self, _: &str) -> Listing<OpenSession> {
        stream::empty().boxed().into()
    }

    async fn held(&self, _: &Session, _: Attempt) -> Result<Held, Fault> {
        no()
    }

    async fn lifecycle(&self, _: Attempt) -> Result<Lifecycle, Fault> {
        let mut late = self.late.lock().unwrap();
        let mut rules = self.rules.lock().unwrap();
        let shown = rules.clone();
        rules.append(&mut late);
        Ok(Lifecycle { rules: shown, ..Lifecycle::default() })
    }

    async fn add_abort_rule(&self, _: &Lifecycle, rule: &AbortRule, _: Attempt) -> Result<(), Fault> {
        let mut added =
            LifecycleRule { id: Some(rule.id.clone()), enabled: true, ..LifecycleRule::default() };
        added.abort_after_days = Some(rule.days);
        let mut rules = self.rules.lock().unwrap();
        match self.manner {
            Manner::Drops => rules.push(LifecycleRule { abort_after_days: None, ..added }),
            Manner::Forgets => {}
            Manner::DisturbsOthers => {
                rules[0].canonical = "another".into();
                rules.push(added);
            }
            Manner::ShowsLate => self.late.lock().unwrap().push(added),
        }
        Ok(())
    }
}
