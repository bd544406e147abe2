//! The lifecycle rule that makes a bucket abort incomplete uploads itself.

use std::time::{Duration, SystemTime};

use crate::api::Store;
use crate::backend::{AbortRule, Lifecycle, LifecycleRule};
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// The name of the rule.
const ID: &str = "tidegate-abort-incomplete-uploads";
/// Days after which the rule aborts incomplete uploads.
const DAYS: u32 = 1;
/// Pauses, in milliseconds, before each check for a new rule: S3 shows it only after a while.
const LOOKS: [u64; 5] = [0, 250, 500, 1000, 2000];

/// The outcome of `Store::ensure_lifecycle`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LifecycleOutcome {
    /// The rule that aborts incomplete uploads.
    pub rule: LifecycleRule,
    /// Whether the rule was added now. If not, the bucket already had it and nothing was changed.
    pub added: bool,
    /// Names of other rules that read differently since the rule was added: the store does not keep all of a rule, or
    /// someone else changed them meanwhile.
    pub disturbed: Vec<String>,
}

impl Store {
    /// All lifecycle rules of the bucket; empty if it has none.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store has no such rules.
    pub async fn lifecycle(&self) -> Result<Lifecycle> {
        self.context().refuse_spread(Operation::Lifecycle, "lifecycle rules")?;
        let requests = self.context().requests("", self.context().engine().progress.clone());
        let backend = self.context().backend();
        let rules = |attempt| async move { backend.need_admin()?.lifecycle(attempt).await };
        let rules = requests.send(Operation::Lifecycle, None, None, rules).await;
        rules.map_err(|failure| failure.into_error(Operation::Lifecycle, &self.location()))
    }

    /// How many of the bucket's [pending uploads](crate::upload::Pending) and [points](crate::upload::Resumable) the rule ends
    /// before their lifetime is over. The record of an upload does not say the upload's key, so a rule for some keys counts
    /// as one for all keys. Zero for a rule that aborts no uploads. Changes nothing, also if the future is dropped.
    ///
    /// # Errors
    /// If the records below `.tidegate/` cannot be listed.
    pub async fn uploads_cut_short(&self, rule: &LifecycleRule) -> Result<u64> {
        self.context().refuse_spread(Operation::Lifecycle, "lifecycle rules")?;
        let Some(days) = rule.abort_after_days.filter(|_| rule.enabled) else { return Ok(0) };
        let pending = self.context().pending_uploads().await;
        let pending = pending.map_err(|failure| failure.into_error(Operation::List, &self.location()))?;
        // An upload that waits already has begun before now.
        Ok(pending.beyond(SystemTime::now() + Duration::from_secs(86_400) * days))
    }

    /// Makes the bucket abort incomplete uploads itself. If no active rule does so for all keys of this store, adds
    /// one that does so after a day, for the store's prefix (the whole bucket if it has no prefix). All other rules
    /// stay exactly as they were, also those that Tidegate does not understand.
    ///
    /// Stores have no condition for this: if two clients change the rules at the same time, one change may be lost.
    /// After the future is dropped, the rule may or may not have been added.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store has no such rules, refuses this one, or accepts it and drops it (the
    /// rules are read back); the message says which.
    pub async fn ensure_lifecycle(&self) -> Result<LifecycleOutcome> {
        let before = self.lifecycle().await?;
        let prefix = self.context().full_key("");
        if let Some(rule) = before.rules.iter().find(|rule| covers(rule, &prefix)) {
            return Ok(LifecycleOutcome { rule: rule.clone(), added: false, disturbed: Vec::new() });
        }
        let ours = AbortRule::new(free_id(&before), prefix, DAYS);
        let requests = self.context().requests("", self.context().engine().progress.clone());
        let (backend, to, rule) = (self.context().backend(), &before, &ours);
        let put = |attempt| async move { backend.need_admin()?.add_abort_rule(to, rule, attempt).await };
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

/// Whether the rule aborts incomplete uploads of all keys that begin with `prefix`.
fn covers(rule: &LifecycleRule, prefix: &str) -> bool {
    rule.enabled && !rule.narrowed && rule.abort_after_days.is_some() && prefix.starts_with(&rule.prefix)
}

/// A name that no rule has. A rule named `ID` may be switched off or be for other keys.
fn free_id(lifecycle: &Lifecycle) -> String {
    let taken = |id: &str| lifecycle.rules.iter().any(|rule| rule.id.as_deref() == Some(id));
    let numbered = (2..).map(|number: u32| format!("{ID}-{number}"));
    std::iter::once(ID.to_owned()).chain(numbered).find(|id| !taken(id)).unwrap_or_default()
}

/// Names of the rules of `before` that are not in `after` in the same form.
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
