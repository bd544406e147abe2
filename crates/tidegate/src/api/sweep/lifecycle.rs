//! The rule by which a bucket itself ends incomplete uploads.

use std::time::Duration;

use crate::api::Store;
use crate::backend::{AbortRule, Lifecycle, LifecycleRule};
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// The rule's name.
const ID: &str = "tidegate-abort-incomplete-uploads";
/// After how many days it ends them.
const DAYS: u32 = 1;
/// Pauses before a rule that was put is looked for: S3 shows one after a while.
const LOOKS: [u64; 5] = [0, 250, 500, 1000, 2000];

/// What became of a bucket's lifecycle rules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LifecycleOutcome {
    /// The rule that aborts incomplete uploads.
    pub rule: LifecycleRule,
    /// Whether it was added now; else the bucket had it, and nothing was changed.
    pub added: bool,
    /// Other rules that read differently since the rule was added, by name: a store that keeps not all of
    /// a rule, or someone else who changed them meanwhile.
    pub disturbed: Vec<String>,
}

impl Store {
    /// The bucket's lifecycle rules, all of them; a bucket without any has none.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the store knows no such rules.
    pub async fn lifecycle(&self) -> Result<Lifecycle> {
        self.context().refuse_spread(Operation::Lifecycle, "lifecycle rules")?;
        let requests = self.context().requests("", self.context().engine().progress.clone());
        let rules =
            requests.send(Operation::Lifecycle, None, None, || self.context().backend().lifecycle()).await;
        rules.map_err(|failure| failure.into_error(Operation::Lifecycle, &self.location()))
    }

    /// Makes sure that the bucket aborts incomplete uploads itself: where no rule that is on does so for
    /// all keys of this store, adds one that does after a day. The rule is about the store's prefix, the
    /// whole bucket where it has none. Every other rule stays exactly as it was, known here or not.
    ///
    /// Stores have no condition for this: of two who change the rules at the same moment one may be lost.
    /// Dropping the future leaves open whether the rule was added.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the store knows no such rules, refuses this one, or takes it and
    /// drops it (it is read back); the message says which.
    pub async fn ensure_lifecycle(&self) -> Result<LifecycleOutcome> {
        let before = self.lifecycle().await?;
        let prefix = self.context().full_key("");
        if let Some(rule) = before.rules.iter().find(|rule| covers(rule, &prefix)) {
            return Ok(LifecycleOutcome { rule: rule.clone(), added: false, disturbed: Vec::new() });
        }
        let ours = AbortRule::new(free_id(&before), prefix, DAYS);
        let requests = self.context().requests("", self.context().engine().progress.clone());
        let put = || self.context().backend().add_abort_rule(&before, &ours);
        requests
            .send(Operation::Lifecycle, None, None, put)
            .await
            .map_err(|failure| failure.into_error(Operation::Lifecycle, &self.location()))?;
        let mut after = Lifecycle::default();
        for pause in LOOKS {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            after = self.lifecycle().await?;
            match after.rules.iter().find(|rule| rule.id.as_deref() == Some(&ours.id)) {
                Some(rule) if covers(rule, &ours.prefix) => {
                    let disturbed = disturbed(&before, &after);
                    return Ok(LifecycleOutcome { rule: rule.clone(), added: true, disturbed });
                }
                Some(_) => break,
                None => {}
            }
        }
        let kept = after.rules.iter().any(|rule| rule.id.as_deref() == Some(&ours.id));
        let message = if kept {
            format!("the store took the rule `{}` and dropped from it that it aborts uploads", ours.id)
        } else {
            format!("the store took the rule `{}` and does not have it", ours.id)
        };
        Err(Error::new(ErrorKind::Unsupported, Operation::Lifecycle, self.location(), message)
            .after(1, Default::default()))
    }
}

/// Whether the rule ends incomplete uploads of all keys that begin with `prefix`.
fn covers(rule: &LifecycleRule, prefix: &str) -> bool {
    rule.enabled && !rule.narrowed && rule.abort_after_days.is_some() && prefix.starts_with(&rule.prefix)
}

/// A name that no rule has: one of that name may be switched off, or about other keys.
fn free_id(lifecycle: &Lifecycle) -> String {
    let taken = |id: &str| lifecycle.rules.iter().any(|rule| rule.id.as_deref() == Some(id));
    let numbered = (2..).map(|number: u32| format!("{ID}-{number}"));
    std::iter::once(ID.to_owned()).chain(numbered).find(|id| !taken(id)).unwrap_or_default()
}

/// The rules of `before` that are not in `after` as they were.
fn disturbed(before: &Lifecycle, after: &Lifecycle) -> Vec<String> {
    let mut rest: Vec<&str> = after.rules.iter().map(|rule| &*rule.canonical).collect();
    let mut disturbed = Vec::new();
    for rule in &before.rules {
        match rest.iter().position(|canonical| *canonical == rule.canonical) {
            Some(at) => drop(rest.swap_remove(at)),
            None => disturbed.push(rule.id.clone().unwrap_or_else(|| "(without a name)".to_owned())),
        }
    }
    disturbed
}
