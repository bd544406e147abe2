//! Stands in for the clouds of features that a build leaves out: their settings are empty, and their URLs are refused
//! with the feature's name.

use std::future::ready;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};

macro_rules! left_out {
    ($feature:ident: $settings:ident, $scheme:ident) => {
        pub(crate) mod $feature {
            use super::*;

            /// The settings of a cloud that was left out.
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub(crate) struct $settings {}

            /// Refuses every bucket.
            #[derive(Debug)]
            pub(crate) struct $scheme {
                settings: $settings,
            }

            impl $scheme {
                const MISSING: &str = concat!(
                    "this build of Tidegate has no ",
                    stringify!($feature),
                    ": enable the feature `",
                    stringify!($feature),
                    "`"
                );

                pub(crate) fn new(settings: $settings) -> Self {
                    Self { settings }
                }

                pub(crate) fn settings(&self) -> &$settings {
                    &self.settings
                }
            }

            impl Scheme for $scheme {
                fn open<'a>(
                    &'a self,
                    _bucket: &'a str,
                    _facts: &'a KnownFacts,
                ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
                    Box::pin(ready(Err(Fault::new(FaultKind::Unsupported, Self::MISSING))))
                }

                fn buckets<'a>(
                    &'a self,
                    _facts: &'a KnownFacts,
                ) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
                    Box::pin(ready(Err(Fault::new(FaultKind::Unsupported, Self::MISSING))))
                }
            }
        }
    };
}

#[cfg(any(test, not(feature = "azure")))]
left_out!(azure: AzureSettings, AzureScheme);
#[cfg(any(test, not(feature = "s3")))]
left_out!(s3: S3Settings, S3Scheme);
#[cfg(any(test, not(feature = "gcs")))]
left_out!(gcs: GcsSettings, GcsScheme);
