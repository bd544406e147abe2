//! The URL schemes that an engine knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::azure::{AzureScheme, AzureSettings};
use crate::backend::gcs::{GcsScheme, GcsSettings};
use crate::backend::memory::MemoryScheme;
use crate::backend::s3::{S3Scheme, S3Settings};
use crate::backend::{Fault, FaultKind, Scheme};

/// The schemes of Azure's URLs: with the account of the settings, and with an account in the URL.
pub(super) const AZURE: [&str; 2] = ["az", "abfss"];

/// Schemes by name, and those of stores that are opened with settings of their own. `file://` is not among them: a
/// local path has no bucket, and need not be text.
#[derive(Debug)]
pub(super) struct Schemes {
    named: NamedSchemes,
    s3: Arc<SchemeCache<S3Scheme>>,
    gcs: Arc<SchemeCache<GcsScheme>>,
    azure: Arc<SchemeCache<AzureScheme>>,
}

impl Schemes {
    /// The schemes that every engine knows, one line for each cloud, and `others`, which replace those of the same
    /// names.
    pub(super) fn new(s3: S3Settings, gcs: GcsSettings, azure: AzureSettings, others: NamedSchemes) -> Self {
        let (s3, gcs) = (Arc::new(S3Scheme::new(s3)), Arc::new(GcsScheme::new(gcs)));
        let azure = Arc::new(AzureScheme::new(azure));
        let mut named = NamedSchemes::default();
        named.add("s3", s3.clone());
        named.add("gs", gcs.clone());
        AZURE.into_iter().for_each(|name| named.add(name, azure.clone()));
        named.add("memory", Arc::new(MemoryScheme::default()));
        named.0.extend(others.0);
        let (s3, gcs) = (Arc::new(SchemeCache::new(s3)), Arc::new(SchemeCache::new(gcs)));
        Self { named, s3, gcs, azure: Arc::new(SchemeCache::new(azure)) }
    }

    /// The same schemes with other settings, and `others`, which replace those of the same names. Stores with equal
    /// settings share their connections with those of `self`.
    pub(super) fn with_settings(
        &self,
        s3: &S3Settings,
        gcs: &GcsSettings,
        azure: &AzureSettings,
        others: NamedSchemes,
    ) -> Self {
        let mut named = self.named.clone();
        named.add("s3", self.s3(s3));
        named.add("gs", self.gcs(gcs));
        let scheme = self.azure(azure);
        AZURE.into_iter().for_each(|name| named.add(name, scheme.clone()));
        named.0.extend(others.0);
        Self { named, s3: self.s3.clone(), gcs: self.gcs.clone(), azure: self.azure.clone() }
    }

    /// Finds a scheme by its name. The fault for an unknown name lists the known ones.
    pub(super) fn named(&self, name: &str) -> Result<Arc<dyn Scheme>, Fault> {
        self.named.0.get(&name.to_ascii_lowercase()).cloned().ok_or_else(|| {
            let mut names: Vec<&str> = self.named.0.keys().map(String::as_str).chain(["file"]).collect();
            names.sort_unstable();
            let known: Vec<String> = names.into_iter().map(|name| format!("{name}://")).collect();
            let message = format!("unknown scheme `{name}`: the known ones are {}", known.join(", "));
            Fault::new(FaultKind::Invalid, message)
        })
    }

    /// The scheme of an S3 store with settings of its own.
    pub(super) fn s3(&self, settings: &S3Settings) -> Arc<S3Scheme> {
        self.s3.get(|scheme| scheme.settings() == settings, || S3Scheme::new(settings.clone()))
    }

    /// The scheme of a store of Google's with settings of its own.
    pub(super) fn gcs(&self, settings: &GcsSettings) -> Arc<GcsScheme> {
        self.gcs.get(|scheme| scheme.settings() == settings, || GcsScheme::new(settings.clone()))
    }

    /// The scheme of a store of Azure's with settings of its own.
    pub(super) fn azure(&self, settings: &AzureSettings) -> Arc<AzureScheme> {
        self.azure.get(|scheme| scheme.settings() == settings, || AzureScheme::new(settings.clone()))
    }
}

/// Schemes by name.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedSchemes(BTreeMap<String, Arc<dyn Scheme>>);

impl NamedSchemes {
    /// Adds a scheme, or replaces the one of this name.
    pub(super) fn add(&mut self, name: &str, scheme: Arc<dyn Scheme>) {
        self.0.insert(name.to_ascii_lowercase(), scheme);
    }
}

/// The schemes of the settings that were used last: stores with equal settings share one, and so its connections.
#[derive(Debug)]
struct SchemeCache<S> {
    /// The one that was used last comes last.
    schemes: Mutex<Vec<Arc<S>>>,
}

impl<S> SchemeCache<S> {
    /// Most schemes that are kept. A program whose credentials are new for every store would keep all of them.
    const KEPT: usize = 16;

    fn new(first: Arc<S>) -> Self {
        Self { schemes: Mutex::new(vec![first]) }
    }

    fn get(&self, is_wanted: impl Fn(&S) -> bool, new: impl FnOnce() -> S) -> Arc<S> {
        let mut schemes = self.schemes.lock().unwrap_or_else(PoisonError::into_inner);
        let scheme = match schemes.iter().position(|scheme| is_wanted(scheme)) {
            Some(at) => schemes.remove(at),
            None => Arc::new(new()),
        };
        schemes.push(scheme.clone());
        if schemes.len() > Self::KEPT {
            schemes.remove(0);
        }
        scheme
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::s3::Credentials;

    fn account(name: &str) -> S3Settings {
        S3Settings::default().with_credentials(Credentials::fixed(name, "secret", None))
    }

    #[test]
    fn stores_with_equal_settings_share_a_scheme_and_few_schemes_are_kept() {
        let (gcs, azure) = (GcsSettings::default(), AzureSettings::default());
        let schemes = Schemes::new(account("engine"), gcs, azure, NamedSchemes::default());
        let kept = || schemes.s3.schemes.lock().unwrap().len();
        let of_the_engine = schemes.named("s3").unwrap();
        let wanted: Arc<dyn Scheme> = schemes.s3(&account("engine"));
        assert!(Arc::ptr_eq(&of_the_engine, &wanted));
        let ours = schemes.s3(&account("ours"));
        assert!(Arc::ptr_eq(&ours, &schemes.s3(&account("ours"))));
        assert_eq!(kept(), 2);
        for number in 0..20 {
            schemes.s3(&account(&format!("user-{number}")));
        }
        assert_eq!(kept(), SchemeCache::<S3Scheme>::KEPT);
        assert!(
            !Arc::ptr_eq(&ours, &schemes.s3(&account("ours"))),
            "the one unused for longest is forgotten"
        );
    }
}
