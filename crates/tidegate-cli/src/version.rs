//! What `tidegate --version` prints: what a report of a fault needs to say.

use std::sync::LazyLock;

/// The version, with the commit if the build knows it: see `build.rs`.
pub(crate) const SHORT: &str = env!("TIDEGATE_VERSION");

/// The same, and the features of the library.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> =
        LazyLock::new(|| format!("{SHORT}\nfeatures: {}", tidegate::FEATURES.join(" ")));
    &LONG
}
