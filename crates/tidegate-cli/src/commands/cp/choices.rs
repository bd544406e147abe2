//! What a copy can be told by choosing one of several words, and what its objects are to carry.

use clap::ValueEnum;
use tidegate::{Attributes, Encryption, journal};

use crate::values;

/// What the objects carry beside their bytes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What the object carries")]
pub(super) struct Carried {
    /// MIME type; default: guessed from the name.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// The Cache-Control header that readers get.
    #[arg(long, value_name = "TEXT")]
    cache_control: Option<String>,

    /// One entry of user metadata; may be given again.
    #[arg(long, value_parser = values::pair, value_name = "NAME=VALUE")]
    metadata: Vec<(String, String)>,

    /// One tag; may be given again.
    #[arg(long, value_parser = values::pair, value_name = "NAME=VALUE")]
    tag: Vec<(String, String)>,

    /// Storage class, in the store's words, such as STANDARD_IA.
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,

    /// Encryption by the store: AES256, aws:kms, or aws:kms:KEY.
    #[arg(long, value_parser = values::encryption, value_name = "HOW")]
    sse: Option<Encryption>,
}

impl From<Carried> for Attributes {
    fn from(carried: Carried) -> Self {
        let mut attributes = Self::default();
        attributes.content_type = carried.content_type;
        attributes.cache_control = carried.cache_control;
        attributes.metadata = carried.metadata.into_iter().collect();
        attributes.tags = carried.tag.into_iter().collect();
        attributes.storage_class = carried.storage_class;
        attributes.encryption = carried.sse;
        attributes
    }
}

/// When a journal is forced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Durability {
    /// At every write.
    Write,
    /// Many writes together.
    #[default]
    Group,
    /// When all is written.
    Sync,
}

impl Durability {
    const GROUP: journal::Durability =
        journal::Durability::Group { bytes: 8 << 20, delay: std::time::Duration::from_secs(1) };

    pub(super) fn setting(self) -> journal::Durability {
        match self {
            Self::Write => journal::Durability::Write,
            Self::Group => Self::GROUP,
            Self::Sync => journal::Durability::Sync,
        }
    }
}

/// Whether slow parts are sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Hedge {
    /// Where it may pay.
    #[default]
    On,
    /// Never.
    Off,
}

/// Whether to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Progress {
    /// A bar on a terminal, else a line at the end.
    #[default]
    Auto,
    /// Nothing.
    Never,
}
