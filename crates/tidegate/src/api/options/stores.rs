//! The options by which a store is reached. Each scheme has its own.

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use super::Given;
use super::{Options, refused};
use crate::api::{OpenBuilder, Tidegate};
#[cfg(feature = "azure")]
use crate::backend::azure::{AzureCredentials, AzureSettings};
#[cfg(feature = "gcs")]
use crate::backend::gcs::{GcsCredentials, GcsSettings};
#[cfg(feature = "s3")]
use crate::backend::s3::{Credentials, S3Settings};
use crate::types::error::Result;

/// The credentials among the options of a store.
#[derive(Default)]
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
struct Secrets {
    anonymous: bool,
    access_key: Option<String>,
    secret_key: Option<String>,
    session_token: Option<String>,
    token: Option<String>,
    account_key: Option<String>,
    sas: Option<String>,
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
impl Secrets {
    /// Takes the option if it is one of these.
    fn take(&mut self, given: &Given<'_>) -> Result<bool> {
        let text = || given.text().map(|text| Some(text.to_owned()));
        match given.name {
            "anonymous" => self.anonymous = given.flag()?,
            "access_key" => self.access_key = text()?,
            "secret_key" => self.secret_key = text()?,
            "session_token" => self.session_token = text()?,
            "token" => self.token = text()?,
            "account_key" => self.account_key = text()?,
            "sas" => self.sas = text()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Options {
    /// Opens a store of `tide`, reached as these options say.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for an option that stores of this scheme do not have,
    /// for a wrong value, and for credentials that do not fit together.
    pub fn open(&self, tide: &Tidegate, location: &str) -> Result<OpenBuilder> {
        let open = tide.open(location);
        if self.given.is_empty() {
            return Ok(open);
        }
        match location.split_once("://").map(|(scheme, _)| scheme) {
            #[cfg(feature = "s3")]
            Some("s3") => Ok(open.s3(self.s3()?)),
            #[cfg(feature = "gcs")]
            Some("gs") => Ok(open.gcs(self.gcs()?)),
            #[cfg(feature = "azure")]
            Some("az" | "abfs" | "abfss") => Ok(open.azure(self.azure()?)),
            _ => {
                let names: Vec<_> = self.iter().map(|given| given.name).collect();
                Err(refused(format!("{location} takes no options, and was given: {}", names.join(", "))))
            }
        }
    }

    #[cfg(feature = "s3")]
    fn s3(&self) -> Result<S3Settings> {
        let (mut settings, mut secrets) = (S3Settings::default(), Secrets::default());
        // A profile of its own forgets what was set before.
        if let Some(given) = self.last("profile_only") {
            settings = settings.with_profile_only(given.text()?);
        }
        for given in self.iter() {
            if secrets.take(&given)? {
                continue;
            }
            settings = match given.name {
                "profile_only" => settings,
                "endpoint_url" => settings.with_endpoint_url(given.text()?),
                "region" => settings.with_region(given.text()?),
                "profile" => settings.with_profile(given.text()?),
                "addressing" => settings.with_addressing(given.named()?),
                "ca_bundle" => settings.with_ca_bundle(given.text()?),
                "checksum" => settings.with_checksum(given.named()?),
                "trailers" => settings.with_trailers(given.flag()?),
                "payload_sha256" => settings.with_payload_sha256(given.flag()?),
                "equal_parts" => settings.with_equal_parts(given.flag()?),
                "max_parts" => settings.with_max_parts(given.number()?),
                "kept_conditions" => settings.with_kept_conditions(given.flag()?),
                "request_payer" => settings.with_request_payer(given.flag()?),
                "connect_timeout" => settings.with_connect_timeout(given.duration()?),
                _ => return Err(given.misplaced("a store of s3")),
            };
        }
        let takes = "`access_key` and `secret_key`, perhaps with `session_token`";
        let credentials = match secrets {
            Secrets {
                token: None,
                account_key: None,
                sas: None,
                anonymous,
                access_key,
                secret_key,
                session_token,
            } => match (anonymous, access_key, secret_key, session_token) {
                (false, None, None, None) => return Ok(settings),
                (true, None, None, None) => Credentials::anonymous(),
                (false, Some(access_key), Some(secret_key), token) => {
                    Credentials::fixed(access_key, secret_key, token)
                }
                _ => return Err(mixed(takes)),
            },
            _ => return Err(mixed(takes)),
        };
        Ok(settings.with_credentials(credentials))
    }

    #[cfg(feature = "gcs")]
    fn gcs(&self) -> Result<GcsSettings> {
        let (mut settings, mut secrets) = (GcsSettings::default(), Secrets::default());
        for given in self.iter() {
            if secrets.take(&given)? {
                continue;
            }
            settings = match given.name {
                "endpoint_url" => settings.with_endpoint_url(given.text()?),
                "ca_bundle" => settings.with_ca_bundle(given.text()?),
                "connect_timeout" => settings.with_connect_timeout(given.duration()?),
                "project" => settings.with_project(given.text()?),
                "request_payer" => settings.with_request_payer(given.flag()?),
                "transport" => settings.with_transport(given.named()?),
                _ => return Err(given.misplaced("a store of gs")),
            };
        }
        let credentials = match secrets {
            Secrets {
                anonymous,
                token,
                access_key: None,
                secret_key: None,
                session_token: None,
                account_key: None,
                sas: None,
            } => match (anonymous, token) {
                (false, None) => return Ok(settings),
                (true, None) => GcsCredentials::anonymous(),
                (false, Some(token)) => GcsCredentials::token(token),
                (true, Some(_)) => return Err(mixed("`token`")),
            },
            _ => return Err(mixed("`token`")),
        };
        Ok(settings.with_credentials(credentials))
    }

    #[cfg(feature = "azure")]
    fn azure(&self) -> Result<AzureSettings> {
        let (mut settings, mut secrets) = (AzureSettings::default(), Secrets::default());
        for given in self.iter() {
            if secrets.take(&given)? {
                continue;
            }
            settings = match given.name {
                "account" => settings.with_account(given.text()?),
                "endpoint_url" => settings.with_endpoint_url(given.text()?),
                "connection_string" => settings.with_connection_string(given.text()?),
                "metadata_checksums" => settings.with_metadata_checksums(given.flag()?),
                "ca_bundle" => settings.with_ca_bundle(given.text()?),
                "connect_timeout" => settings.with_connect_timeout(given.duration()?),
                _ => return Err(given.misplaced("a store of az")),
            };
        }
        let takes = "`account_key`, `sas` or `token`";
        let credentials = match secrets {
            Secrets {
                anonymous,
                token,
                account_key,
                sas,
                access_key: None,
                secret_key: None,
                session_token: None,
            } => match (anonymous, token, account_key, sas) {
                (false, None, None, None) => return Ok(settings),
                (true, None, None, None) => AzureCredentials::anonymous(),
                (false, Some(token), None, None) => AzureCredentials::token(token),
                (false, None, Some(key), None) => AzureCredentials::key(key),
                (false, None, None, Some(sas)) => AzureCredentials::sas(sas),
                _ => return Err(mixed(takes)),
            },
            _ => return Err(mixed(takes)),
        };
        Ok(settings.with_credentials(credentials))
    }
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn mixed(takes: &str) -> crate::Error {
    refused(format!("the credentials do not fit together: this store takes `anonymous`, or {takes}"))
}
