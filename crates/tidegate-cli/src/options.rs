//! Options that several commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tidegate::backend::gcs::{GcsCredentials, GcsSettings, GcsTransport};
use tidegate::backend::s3::{Addressing, Credentials, S3Settings};
use tidegate::checksum::Algorithm;
use tidegate::{Builder, RetryPolicy};

use crate::values;

/// How stores are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Address of an S3 store, as http[s]://HOST[:PORT]; default: AWS_ENDPOINT_URL, the profile, or AWS. (Of an
    /// emulator for gs://: STORAGE_EMULATOR_HOST, and STORAGE_EMULATOR_HOST_GRPC.)
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,

    /// Region to sign for; default: AWS_REGION or the profile's.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,

    /// Profile in the AWS configuration files; default: AWS_PROFILE.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Send requests without credentials, as for public buckets.
    #[arg(long)]
    no_sign_request: bool,

    /// File of certificate authorities (PEM) to trust beside the system's; default: AWS_CA_BUNDLE.
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,

    /// The least that a response body brings each second, measured over a minute. A slower response counts as stalled
    /// and is resumed after the last byte received. 0 turns this off. Default: 1KiB.
    #[arg(long, value_parser = values::size, value_name = "BYTES")]
    min_rate: Option<u64>,

    /// Where the bucket's name goes in an address.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    addressing: Where,

    /// What objects of gs:// go over.
    #[arg(long, value_enum, default_value_t, value_name = "PROTOCOL")]
    gcs_transport: Transport,

    /// Sign the SHA-256 of what is sent, for stores that demand it; it costs much processor time.
    #[arg(long)]
    payload_sha256: bool,
}

/// Where the bucket's name goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Where {
    /// In the host at AWS, in the path elsewhere.
    #[default]
    Auto,
    /// https://HOST/BUCKET/KEY
    Path,
    /// https://BUCKET.HOST/KEY
    Virtual,
}

/// What objects of Google Cloud Storage go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// The JSON API.
    #[default]
    Http,
    /// google.storage.v2; what goes in parts still goes over HTTP.
    Grpc,
}

/// Whose local files are trusted: journals, records, notes of partial downloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Owners {
    /// Also use local files (journals, records, partial downloads) that belong to this user, for a service whose user
    /// has changed; may be given again. Files of other users are refused.
    #[arg(long = "owner", value_parser = values::user, value_name = "USER|UID")]
    owners: Vec<u32>,
}

impl Owners {
    /// An engine that trusts them.
    pub(crate) fn trusted(&self, engine: Builder) -> Builder {
        self.owners.iter().fold(engine, |engine, uid| engine.owner(*uid))
    }
}

impl Connection {
    pub(crate) fn settings(&self) -> S3Settings {
        let mut settings = S3Settings::default().with_payload_sha256(self.payload_sha256).with_addressing(
            match self.addressing {
                Where::Auto => Addressing::Auto,
                Where::Path => Addressing::Path,
                Where::Virtual => Addressing::VirtualHost,
            },
        );
        if let Some(url) = &self.endpoint_url {
            settings = settings.with_endpoint_url(url);
        }
        if let Some(region) = &self.region {
            settings = settings.with_region(region);
        }
        if let Some(profile) = &self.profile {
            settings = settings.with_profile(profile);
        }
        if self.no_sign_request {
            settings = settings.with_credentials(Credentials::anonymous());
        }
        if let Some(file) = &self.ca_bundle {
            settings = settings.with_ca_bundle(file);
        }
        settings
    }

    /// An engine whose stores are reached so.
    pub(crate) fn reached(&self, engine: Builder) -> Builder {
        engine.retry(self.retry()).s3(self.settings()).gcs(self.gcs_settings())
    }

    /// How requests are made again.
    pub(crate) fn retry(&self) -> RetryPolicy {
        let mut retry = RetryPolicy::default();
        retry.min_rate = self.min_rate.unwrap_or(retry.min_rate);
        retry
    }

    pub(crate) fn gcs_settings(&self) -> GcsSettings {
        let mut settings = GcsSettings::default().with_transport(match self.gcs_transport {
            Transport::Http => GcsTransport::Http,
            Transport::Grpc => GcsTransport::Grpc,
        });
        if self.no_sign_request {
            settings = settings.with_credentials(GcsCredentials::anonymous());
        }
        if let Some(file) = &self.ca_bundle {
            settings = settings.with_ca_bundle(file);
        }
        settings
    }

    /// Whether the command line names an address.
    pub(crate) fn has_endpoint(&self) -> bool {
        self.endpoint_url.is_some()
    }

    pub(crate) fn settings_with(&self, checksum: Algorithm) -> S3Settings {
        self.settings().with_checksum(checksum)
    }
}
