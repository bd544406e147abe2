//! Options of `cp` with a fixed set of values, and the options that set an object's attributes.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use tidegate::object::Encryption;
use tidegate::text::printable;
use tidegate::{Attributes, journal};

use crate::exit::{CommandFailure, Outcome};
use crate::values;

/// The attributes of uploaded objects.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What the object carries")]
pub(crate) struct Carried {
    /// Set the MIME type. Default: guessed from the name.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Set the Cache-Control header that readers get.
    #[arg(long, value_name = "TEXT")]
    cache_control: Option<String>,

    /// Set one entry of user metadata. Repeat it for several.
    #[arg(long, value_parser = values::pair, value_name = "NAME=VALUE")]
    metadata: Vec<(String, String)>,

    /// Set one tag. Repeat it for several.
    #[arg(long, value_parser = values::pair, value_name = "NAME=VALUE")]
    tag: Vec<(String, String)>,

    /// Set the storage class, in the store's words, such as STANDARD_IA.
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,

    /// Encrypt at the store: AES256, aws:kms, or aws:kms:KEY.
    #[arg(long, value_parser = values::encryption, value_name = "HOW")]
    sse: Option<Encryption>,
}

impl Carried {
    /// The attributes for an object. Refuses a name that was given twice.
    pub(crate) fn attributes(self) -> Outcome<Attributes> {
        let mut attributes = Attributes {
            content_type: self.content_type,
            cache_control: self.cache_control,
            ..Attributes::default()
        };
        // Metadata names ignore case, as header names do.
        attributes.metadata = once("--metadata", self.metadata, str::to_ascii_lowercase)?;
        attributes.tags = once("--tag", self.tag, str::to_owned)?;
        attributes.storage_class = self.storage_class;
        attributes.encryption = self.sse;
        Ok(attributes)
    }
}

/// The pairs as a map. Fails if a name is given twice; `same` normalizes names before they are compared.
fn once(
    option: &str,
    pairs: Vec<(String, String)>,
    same: impl Fn(&str) -> String,
) -> Outcome<BTreeMap<String, String>> {
    let mut names = BTreeSet::new();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !names.insert(same(name))) {
        return Err(CommandFailure::Usage(format!("{option}: `{}` is given twice", printable(name))));
    }
    Ok(pairs.into_iter().collect())
}

/// When a journal is forced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityChoice {
    /// At every write.
    Write,
    /// In groups of 8MiB or one second.
    #[default]
    Group,
    /// Once, when all bytes are written.
    Sync,
}

impl DurabilityChoice {
    const GROUP: journal::Durability =
        journal::Durability::Group { bytes: 8 << 20, delay: std::time::Duration::from_secs(1) };

    pub(crate) fn setting(self) -> journal::Durability {
        match self {
            Self::Write => journal::Durability::Write,
            Self::Group => Self::GROUP,
            Self::Sync => journal::Durability::Sync,
        }
    }
}

/// Whether slow parts are hedged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hedge {
    /// Hedge parts that are far slower than their peers.
    #[default]
    On,
    /// Never hedge.
    Off,
}

/// Whether to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressChoice {
    /// A bar on a terminal, otherwise a line at the end.
    #[default]
    Auto,
    /// Nothing.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(metadata: &[(&str, &str)], tags: &[(&str, &str)]) -> Carried {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Carried {
            content_type: None,
            cache_control: None,
            metadata: pairs(metadata),
            tag: pairs(tags),
            storage_class: None,
            sse: None,
        }
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let attributes = carried(&[("a", "1"), ("b", "1")], &[("t", "1"), ("T", "2")]).attributes().unwrap();
        assert_eq!((attributes.metadata.len(), attributes.tags.len()), (2, 2));
        for (metadata, tags, option, name) in [
            (&[("a", "1"), ("a", "2")][..], &[][..], "--metadata", "`a`"),
            (&[("a", "1"), ("A", "1")], &[], "--metadata", "`A`"),
            (&[], &[("t", "1"), ("u", "1"), ("t", "2")], "--tag", "`t`"),
        ] {
            let failure = carried(metadata, tags).attributes().unwrap_err();
            let sentence = failure.sentence().unwrap();
            assert_eq!(failure.code(), 2, "{sentence}");
            assert!(sentence.contains(option) && sentence.contains(name), "{sentence}");
        }
    }
}
