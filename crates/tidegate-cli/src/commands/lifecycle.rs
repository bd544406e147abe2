//! `tidegate lifecycle`: the rules by which a bucket itself aborts unfinished uploads.

use std::io::Write;

use serde::Serialize;
use tidegate::Store;
use tidegate::backend::LifecycleRule;
use tidegate::location::Location;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::{output, text};

/// Show or add the rule by which a bucket itself aborts unfinished uploads
///
///     tidegate lifecycle show s3://BUCKET
///     tidegate lifecycle ensure s3://BUCKET
#[derive(Debug, clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum LifecycleCommand {
    Show(LifecycleShow),
    Ensure(LifecycleEnsure),
}

/// List a bucket's lifecycle rules
///
///     tidegate lifecycle show s3://BUCKET
///
/// Each line has the rule's state, its name, the keys that it applies to, and what it does.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LifecycleShow {
    /// Bucket to show.
    #[arg(value_name = "URL")]
    bucket: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Add a rule that aborts unfinished uploads after one day, unless the bucket has one
///
///     tidegate lifecycle ensure s3://BUCKET
///     tidegate lifecycle ensure s3://BUCKET/tables/
///
/// Every other rule stays exactly as it is. The rules are read back: it is an error if the
/// store refuses or drops the new rule. The rule also ends pending uploads (`cp --prepare`),
/// whose lifetime is six days: there is a warning if the bucket has such uploads.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LifecycleEnsure {
    /// Bucket, or a prefix of the keys that the rule applies to.
    #[arg(value_name = "URL")]
    bucket: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A rule as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "rule")]
struct DescribedRule<'a> {
    /// The bucket, or the prefix for which the rule was ensured.
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    enabled: bool,
    prefix: &'a str,
    narrowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    abort_after_days: Option<u32>,
    actions: &'a [String],
    /// Whether `ensure` added the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<bool>,
}

impl<'a> DescribedRule<'a> {
    fn of(url: String, rule: &'a LifecycleRule) -> Self {
        Self {
            url,
            id: rule.id.as_deref(),
            enabled: rule.enabled,
            prefix: &rule.prefix,
            narrowed: rule.narrowed,
            abort_after_days: rule.abort_after_days,
            actions: &rule.actions,
            added: None,
        }
    }
}

impl LifecycleCommand {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match self {
            Self::Show(args) => args.run(invocation).await,
            Self::Ensure(args) => args.run(invocation).await,
        }
    }
}

impl LifecycleShow {
    async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.bucket.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let (store, _) = stores.tree(&location).await?;
            let lifecycle = store.lifecycle().await?;
            let mut out = output::text(invocation.format())?;
            for rule in &lifecycle.rules {
                if out.is_json() {
                    out.json(&DescribedRule::of(store.location(), rule))?;
                } else {
                    writeln!(out, "{}", line(rule))?;
                }
            }
            out.finish().await?;
            warn_of_pending(&store, &lifecycle.rules).await;
            if lifecycle.rules.is_empty() {
                output::say(&format!("{} has no lifecycle rules", store.location()));
            }
            Ok(())
        })
        .await
    }
}

impl LifecycleEnsure {
    async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.bucket.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let (store, prefix) = stores.tree(&location).await?;
            let store = store.within(&prefix);
            let ensured = store.ensure_lifecycle().await?;
            let rule = &ensured.rule;
            let mut out = output::text(invocation.format())?;
            if out.is_json() {
                let described = DescribedRule::of(store.location(), rule);
                out.json(&DescribedRule { added: Some(ensured.added), ..described })?;
            } else {
                let id = rule.id.as_deref().unwrap_or("without a name");
                let days = text::count(rule.abort_after_days.unwrap_or_default().into(), "day");
                let said = if ensured.added { "added rule" } else { "nothing to do: there is rule" };
                let store = store.location();
                writeln!(out, "{store}: {said} {id}, which aborts incomplete uploads after {days}")?;
            }
            out.finish().await?;
            warn_of_pending(&store, std::slice::from_ref(rule)).await;
            for other in &ensured.disturbed {
                output::warn(&format!("rule {other} reads differently now: look at it"));
            }
            Ok(())
        })
        .await
    }
}

/// Warns if a lifecycle rule of the bucket aborts pending uploads that live longer than the rule allows.
async fn warn_of_pending(store: &Store, rules: &[LifecycleRule]) {
    for rule in rules {
        match store.uploads_cut_short(rule).await {
            Ok(0) => {}
            Ok(uploads) => {
                let id = rule.id.as_deref().unwrap_or("without a name");
                let days = text::count(rule.abort_after_days.unwrap_or_default().into(), "day");
                let uploads = text::count(uploads, "pending upload");
                output::warn(&format!(
                    "rule {id} ends uploads after {days}, before the lifetime of {uploads}: commit them before, or make \
                     the rule longer"
                ));
            }
            Err(error) => {
                output::warn(&format!("it is not known which pending uploads a rule ends: {error}"))
            }
        }
    }
}

/// The line for people: state, name, keys and actions.
fn line(rule: &LifecycleRule) -> String {
    let state = if rule.enabled { "on" } else { "off" };
    let id = rule.id.as_deref().unwrap_or("-");
    let scope = match &*rule.prefix {
        "" => "all keys".to_owned(),
        prefix => format!("keys that begin with {prefix}"),
    };
    let some = if rule.narrowed { ", of certain tags or sizes" } else { "" };
    let actions = if rule.actions.is_empty() { "does nothing".to_owned() } else { rule.actions.join(", ") };
    format!("{state:<3}  {id}  {scope}{some}: {actions}")
}
