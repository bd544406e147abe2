//! Options that reach the source of a copy by another account or endpoint than the target.

use clap::Args;
use tidegate::backend::s3::{Credentials, S3Settings};
use tidegate::location::Location;

use super::ConnectionOptions;
use crate::exit::{CommandFailure, Outcome};
use crate::stores::Stores;

/// How the source is reached, if not like the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct SourceOptions {
    /// Reach the source by this profile of the AWS configuration files. The profile gives its credentials, its
    /// endpoint_url (without one: AWS) and its region. Instead, a URL may name the profile, as source or target:
    /// s3://PROFILE@BUCKET/KEY.
    ///
    /// --profile, --endpoint-url, --region and --no-sign-request hold for source and target. But if the source has a
    /// profile in its URL, or any of --source-profile, --source-endpoint-url and --source-no-sign-request is given,
    /// then those four options are for the target only: the credentials of one account are never sent to the endpoint
    /// of the other. For gs:// there is one account only, and for az:// the URL names it (abfss://).
    #[arg(long, value_name = "NAME", conflicts_with = "prefixed")]
    source_profile: Option<String>,

    /// Connect to the source at this address. Without --source-profile, the credentials are those of the environment or
    /// of the default profile.
    #[arg(long, value_name = "URL", conflicts_with = "prefixed")]
    source_endpoint_url: Option<String>,

    /// Sign requests to the source for this region. Given alone, everything else of the source is as for the target.
    #[arg(long, value_name = "NAME", conflicts_with = "prefixed")]
    source_region: Option<String>,

    /// Send requests to the source without credentials, as for public buckets.
    #[arg(long, conflicts_with = "prefixed")]
    source_no_sign_request: bool,
}

impl SourceOptions {
    /// Makes [`Stores::source`] reach the sources by these options, and the rest by `connection`. A profile in a URL
    /// comes before both.
    ///
    /// # Errors
    /// If an option of the source is given, and a source is not at `s3://`, names its profile itself, or is standard
    /// input (`reads_input`).
    pub(crate) fn reach(
        &self,
        stores: &Stores,
        connection: &ConnectionOptions,
        sources: &[&Location],
        reads_input: bool,
    ) -> Outcome {
        let is_s3 = |location: &Location| matches!(location, Location::S3 { .. });
        if let Some(option) = self.first_given() {
            let refused = |why: String| Err(CommandFailure::Usage(format!("{option}: {why}: leave it out")));
            if let Some(other) = sources.iter().find(|source| !is_s3(source)) {
                return refused(format!("it is for s3:// sources only, and {other} is not one"));
            }
            if let Some(named) = sources.iter().find(|source| source.profile().is_some()) {
                return refused(format!("the profile in {named} says how the source is reached"));
            }
            if reads_input {
                return refused("standard input has no account".to_owned());
            }
        }
        if let Some(profile) = &self.source_profile {
            let url = format!("s3://{profile}@bucket").parse::<Location>();
            if !url.is_ok_and(|url| url.profile() == Some(profile)) {
                let message =
                    format!("--source-profile {profile}: this name can't stand in a URL: rename the profile");
                return Err(CommandFailure::Usage(message));
            }
        }
        if let Some(settings) = self.settings(connection) {
            stores.reach_source(settings);
        }
        Ok(())
    }

    /// The settings of the source, if they are its own.
    fn settings(&self, connection: &ConnectionOptions) -> Option<S3Settings> {
        let is_apart = self.source_profile.is_some()
            || self.source_endpoint_url.is_some()
            || self.source_no_sign_request;
        let mut source = connection.clone();
        if is_apart {
            source.endpoint_url = None;
            source.region = None;
            source.profile = None;
            source.no_sign_request = false;
        } else if self.source_region.is_none() {
            return None;
        }
        let mut settings = source.settings();
        if let Some(profile) = &self.source_profile {
            settings = settings.with_profile_only(profile);
        }
        if let Some(url) = &self.source_endpoint_url {
            settings = settings.with_endpoint_url(url);
        }
        if let Some(region) = &self.source_region {
            settings = settings.with_region(region);
        }
        if self.source_no_sign_request {
            settings = settings.with_credentials(Credentials::anonymous());
        }
        Some(settings)
    }

    /// The first of these options that is given.
    fn first_given(&self) -> Option<&'static str> {
        [
            ("--source-profile", self.source_profile.is_some()),
            ("--source-endpoint-url", self.source_endpoint_url.is_some()),
            ("--source-region", self.source_region.is_some()),
            ("--source-no-sign-request", self.source_no_sign_request),
        ]
        .into_iter()
        .find_map(|(option, is_given)| is_given.then_some(option))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        source: SourceOptions,
        #[command(flatten)]
        connection: ConnectionOptions,
        #[arg(long)]
        prefixed: Option<String>,
    }

    fn settings(options: &str) -> Option<S3Settings> {
        let parsed = Options::try_parse_from(format!("tidegate {options}").split_whitespace()).unwrap();
        let Options { source, connection, .. } = parsed;
        source.settings(&connection)
    }

    #[test]
    fn nothing_of_the_target_reaches_a_source_of_another_account() {
        let target = "--profile t --endpoint-url http://t --region rt --payload-sha256";
        let of = |options: &str| settings(&format!("{target} {options}"));
        let plain = S3Settings::default().with_payload_sha256(true);
        assert_eq!(of(""), None);
        assert_eq!(of("--source-profile s"), Some(plain.clone().with_profile_only("s")));
        assert_eq!(
            of("--source-endpoint-url http://s --source-region rs"),
            Some(plain.clone().with_endpoint_url("http://s").with_region("rs"))
        );
        assert_eq!(
            of("--source-no-sign-request"),
            Some(plain.clone().with_credentials(Credentials::anonymous()))
        );
        let here = plain.clone().with_endpoint_url("http://t").with_profile("t");
        assert_eq!(of("--source-region rs"), Some(here.with_region("rs")));
    }
}
