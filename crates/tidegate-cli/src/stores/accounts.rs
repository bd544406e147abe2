//! The accounts of one command: the profile that a URL names, and the source's own settings.

use std::borrow::Cow;
use std::sync::OnceLock;

use tidegate::Tidegate;
use tidegate::backend::s3::S3Settings;
use tidegate::location::Location;

use super::{ObjectPlace, Stores};

/// The URL without the profile by which its store is reached: the same for the same object.
pub(crate) fn address(url: String) -> String {
    url.parse().map_or(url, |location: Location| location.without_profile().to_string())
}

impl Stores {
    /// The engine as it reaches URLs that name this profile.
    pub(super) fn reached_by(&self, profile: Option<&str>) -> Cow<'_, Tidegate> {
        let Some(profile) = profile else { return Cow::Borrowed(&self.tide) };
        let settings = self.settings.s3_settings().clone().with_profile_only(profile);
        Cow::Owned(self.settings.clone().s3(settings).build_on(&self.tide))
    }

    /// From here on, [`source`](Self::source) reaches `s3://` by these settings. Only the first call has an effect.
    pub(crate) fn reach_source(&self, settings: S3Settings) {
        let settings = self.settings.clone().s3(settings);
        self.source.get_or_init(|| {
            Box::new(Self {
                tide: settings.clone().build_on(&self.tide),
                settings,
                dev: self.dev.clone(),
                root: self.root.clone(),
                unfinished: self.unfinished.clone(),
                source: OnceLock::new(),
                is_shared: self.is_shared,
            })
        });
    }

    /// Whether a source and a target may be reached by different accounts.
    pub(crate) fn are_apart(&self, from: &ObjectPlace, to: &ObjectPlace) -> bool {
        let profile = |place: &ObjectPlace| {
            let location = place.store.location().parse::<Location>().ok()?;
            location.profile().map(str::to_owned)
        };
        self.source.get().is_some() || profile(from) != profile(to)
    }

    /// The stores of the source, of a command with a source and a target.
    pub(crate) fn source(&self) -> &Self {
        self.source.get().map_or(self, |source| source)
    }
}
