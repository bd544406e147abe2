//! The accounts of one command: the profile that a URL names, and the source's own settings.

use std::borrow::Cow;
use std::sync::OnceLock;

use tidegate::Tidegate;
use tidegate::backend::s3::S3Settings;

use super::{Opener, Stores};

impl Opener {
    /// The engine as it reaches URLs that name this profile.
    pub(super) fn reached_by(&self, profile: Option<&str>) -> Cow<'_, Tidegate> {
        let Some(profile) = profile else { return Cow::Borrowed(&self.tide) };
        let settings = self.settings.s3_settings().clone().with_profile_only(profile);
        Cow::Owned(self.settings.clone().s3(settings).build_on(&self.tide))
    }
}

impl Stores {
    /// From here on, [`source`](Self::source) reaches `s3://` by these settings. Only the first call has an effect.
    pub(crate) fn reach_source(&self, settings: S3Settings) {
        let settings = self.opener.settings.clone().s3(settings);
        let tide = settings.clone().build_on(self.tide());
        self.source.get_or_init(|| {
            Box::new(Self {
                opener: Opener { tide, settings, ..self.opener.clone() },
                unfinished: self.unfinished.clone(),
                source: OnceLock::new(),
                is_shared: self.is_shared,
            })
        });
    }

    /// Whether the source of a command has settings of its own.
    pub(crate) fn has_source(&self) -> bool {
        self.source.get().is_some()
    }

    /// The stores of the source, of a command with a source and a target.
    pub(crate) fn source(&self) -> &Self {
        self.source.get().map_or(self, |source| source)
    }
}
