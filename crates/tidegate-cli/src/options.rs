//! Options that several commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tidegate::TidegateBuilder;
use tidegate::backend::azure::{AzureCredentials, AzureSettings};
use tidegate::backend::gcs::{GcsCredentials, GcsSettings, GcsTransport};
use tidegate::backend::s3::{Addressing, Credentials, S3Settings};
use tidegate::checksum::Algorithm;
use tidegate::settings::RetryPolicy;

use crate::values;

mod source;

pub(crate) use source::SourceOptions;

/// How to connect to stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionOptions {
    /// Connect to the S3 store at this address, http[s]://HOST[:PORT]. Default: AWS_ENDPOINT_URL, then the profile's,
    /// then AWS. For gs://, STORAGE_EMULATOR_HOST and STORAGE_EMULATOR_HOST_GRPC name an emulator. For az://, the
    /// address has the account in it, as in http://127.0.0.1:10000/devstoreaccount1; default:
    /// AZURE_STORAGE_CONNECTION_STRING, then Azure.
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,

    /// Sign requests for this region. Default: AWS_REGION, or the profile's.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,

    /// Use this profile of the AWS configuration files. Default: AWS_PROFILE.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Reach az:// in this storage account. Default: AZURE_STORAGE_CONNECTION_STRING, then AZURE_STORAGE_ACCOUNT.
    #[arg(long, value_name = "NAME")]
    azure_account: Option<String>,

    /// Ignore the checksum that Tidegate put in the metadata of az:// blobs. Reads a blob whose bytes another program
    /// has changed without changing the entry tidegate_crc64nvme.
    #[arg(long)]
    no_metadata_checksum: bool,

    /// Send requests without credentials, as for public buckets.
    #[arg(long)]
    no_sign_request: bool,

    /// Pay for requests to Requester Pays buckets. For gs://, the project in GOOGLE_CLOUD_PROJECT pays, or the
    /// credentials' own.
    #[arg(long)]
    request_payer: bool,

    /// Trust the authorities in this file (PEM), besides the system's. Default: AWS_CA_BUNDLE.
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,

    /// Ask again for the rest of a response that is slower than this. The rate, such as 50KB/s, is measured over a
    /// minute, and a response is resumed after the last byte received. 0 turns this off. Default: 1KiB.
    #[arg(long, value_parser = values::rate, value_name = "RATE")]
    min_rate: Option<u64>,

    /// Put the bucket into the host or the path of addresses.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    addressing: Where,

    /// Use this protocol for objects of gs://.
    #[arg(long, value_enum, default_value_t, value_name = "PROTOCOL")]
    gcs_transport: Transport,

    /// Upload an object in at most this many parts. For S3 stores that take fewer than 10,000: parts grow where an
    /// object would need more.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    max_parts: Option<u32>,

    /// Sign the SHA-256 of each request body, for stores that demand it. It costs much processor time.
    #[arg(long)]
    payload_sha256: bool,
}

/// Where the bucket's name goes in request addresses.
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

/// The protocol for objects of Google Cloud Storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// The JSON API.
    #[default]
    Http,
    /// The google.storage.v2 API; uploads in parts still use HTTP.
    Grpc,
}

/// The users whose local files are trusted: journals, records, notes of partial downloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Owners {
    /// Trust journals, records and partial downloads of this user too. This is for a service whose user has changed.
    /// Repeat it for several users. Files of other users are refused.
    #[arg(long = "owner", value_parser = values::user, value_name = "USER|UID")]
    owners: Vec<u32>,
}

impl Owners {
    /// Makes the engine trust files of these users.
    pub(crate) fn trusted(&self, engine: TidegateBuilder) -> TidegateBuilder {
        self.owners.iter().fold(engine, |engine, uid| engine.owner(*uid))
    }
}

impl ConnectionOptions {
    pub(crate) fn settings(&self) -> S3Settings {
        let addressing = match self.addressing {
            Where::Auto => Addressing::Auto,
            Where::Path => Addressing::Path,
            Where::Virtual => Addressing::VirtualHost,
        };
        let mut settings = S3Settings::default()
            .with_payload_sha256(self.payload_sha256)
            .with_addressing(addressing)
            .with_request_payer(self.request_payer);
        if let Some(url) = &self.endpoint_url {
            settings = settings.with_endpoint_url(url);
        }
        if let Some(parts) = self.max_parts {
            settings = settings.with_max_parts(parts);
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

    /// Applies the connection settings to an engine.
    pub(crate) fn reached(&self, engine: TidegateBuilder) -> TidegateBuilder {
        engine.retry(self.retry()).s3(self.settings()).gcs(self.gcs_settings()).azure(self.azure_settings())
    }

    /// The policy for retries.
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
        settings = settings.with_request_payer(self.request_payer);
        if self.no_sign_request {
            settings = settings.with_credentials(GcsCredentials::anonymous());
        }
        if let Some(file) = &self.ca_bundle {
            settings = settings.with_ca_bundle(file);
        }
        settings
    }

    pub(crate) fn azure_settings(&self) -> AzureSettings {
        let mut settings = AzureSettings::default().with_metadata_checksums(!self.no_metadata_checksum);
        if let Some(account) = &self.azure_account {
            settings = settings.with_account(account);
        }
        // An address that names no account is that of an S3 store.
        let names_account = |url: &&String| self.azure_account.is_some() || AzureSettings::names_account(url);
        if let Some(url) = self.endpoint_url.as_ref().filter(names_account) {
            settings = settings.with_endpoint_url(url);
        }
        if self.no_sign_request {
            settings = settings.with_credentials(AzureCredentials::anonymous());
        }
        if let Some(file) = &self.ca_bundle {
            settings = settings.with_ca_bundle(file);
        }
        settings
    }

    pub(crate) fn settings_with(&self, checksum: Algorithm) -> S3Settings {
        self.settings().with_checksum(checksum)
    }
}
