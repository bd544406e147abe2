//! Settings of engines and stores, from Python's keyword arguments. They have the names that Rust and the command line
//! give them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tidegate::settings::{
    AzureCredentials, AzureSettings, Concurrency, Credentials, Durability, GcsCredentials, GcsSettings,
    RetryPolicy, S3Settings,
};
use tidegate::{Tidegate, TidegateBuilder};

use crate::arguments::Argument;

fn arguments<'a, 'py>(
    options: &'a Bound<'py, PyDict>,
) -> impl Iterator<Item = PyResult<(Bound<'py, PyString>, Bound<'py, PyAny>)>> + 'a {
    options.iter().map(|(name, value)| Ok((name.cast_into::<PyString>()?, value)))
}

/// The builder of an engine.
pub(crate) fn engine(options: &Bound<'_, PyDict>) -> PyResult<TidegateBuilder> {
    let (mut builder, mut retry) = (Tidegate::builder(), RetryPolicy::default());
    for argument in arguments(options) {
        let (name, value) = argument?;
        let name = name.to_str()?;
        let given = Argument { name, value };
        builder = match name {
            "memory" => builder.memory(given.get()?),
            "slab" => builder.slab(given.get()?),
            "spool" => builder.spool(given.paths()?),
            "journal" => builder.journal(given.paths()?),
            "durability" => builder.durability(durability(&given)?),
            "journal_keep" => builder.journal_keep(given.get()?),
            "memory_wait" => builder.memory_wait(given.duration()?),
            "idle_limit" => builder.idle_limit(given.duration()?),
            "concurrency" => builder.concurrency(concurrency(&given)?),
            "bandwidth" => builder.bandwidth(given.get()?),
            "parts_in_flight" => builder.parts_in_flight(given.get()?),
            "part_size" => builder.part_size(given.get()?),
            "hedge" => builder.hedge(given.get()?),
            "records" => builder.records(given.get::<std::path::PathBuf>()?),
            "owner" => given.get::<Vec<u32>>()?.into_iter().fold(builder, TidegateBuilder::owner),
            "attempts" => {
                retry.attempts = given.get()?;
                builder
            }
            "patience" => {
                retry.patience = given.duration()?;
                builder
            }
            "min_rate" => {
                retry.min_rate = given.get()?;
                builder
            }
            _ => return Err(given.unknown()),
        };
    }
    Ok(builder.retry(retry))
}

/// `"auto"`, or a number of requests.
fn concurrency(given: &Argument<'_, '_>) -> PyResult<Concurrency> {
    if given.value.extract::<&str>().is_ok_and(|word| word == "auto") {
        return Ok(Concurrency::Auto);
    }
    given.get().map(Concurrency::Fixed)
}

/// `"write"`, `"sync"`, or `(bytes, seconds)` for a group.
fn durability(given: &Argument<'_, '_>) -> PyResult<Durability> {
    match given.value.extract::<&str>() {
        Ok("write") => Ok(Durability::Write),
        Ok("sync") => Ok(Durability::Sync),
        Ok(word) => Err(PyTypeError::new_err(format!("durability: {word:?} is none of \"write\", \"sync\""))),
        Err(_) => {
            let (bytes, delay) = given.get::<(u64, Bound<'_, PyAny>)>()?;
            let delay = Argument { name: given.name, value: delay }.duration()?;
            Ok(Durability::Group { bytes, delay })
        }
    }
}

/// The credentials among the options of a store.
#[derive(Default)]
struct Secrets {
    anonymous: bool,
    access_key: Option<String>,
    secret_key: Option<String>,
    session_token: Option<String>,
    token: Option<String>,
    key: Option<String>,
    sas: Option<String>,
}

impl Secrets {
    /// Takes the option if it is one of these.
    fn take(&mut self, given: &Argument<'_, '_>) -> PyResult<bool> {
        match given.name {
            "anonymous" => self.anonymous = given.get()?,
            "access_key" => self.access_key = Some(given.get()?),
            "secret_key" => self.secret_key = Some(given.get()?),
            "session_token" => self.session_token = Some(given.get()?),
            "token" => self.token = Some(given.get()?),
            "account_key" => self.key = Some(given.get()?),
            "sas" => self.sas = Some(given.get()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The engine `tide`, which reaches the stores of the scheme of `url` by these options. Options that do not belong to the
/// scheme are refused.
pub(crate) fn reaching(tide: &Tidegate, url: &str, options: &Bound<'_, PyDict>) -> PyResult<Tidegate> {
    if options.is_empty() {
        return Ok(tide.clone());
    }
    let builder = Tidegate::builder();
    let builder = match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3") => builder.s3(s3(options)?),
        Some("gs") => builder.gcs(gcs(options)?),
        Some("az" | "abfs" | "abfss") => builder.azure(azure(options)?),
        _ => {
            let names: Vec<String> = options.keys().iter().map(|name| name.to_string()).collect();
            return Err(PyTypeError::new_err(format!(
                "{url} takes no options, and was given: {}",
                names.join(", ")
            )));
        }
    };
    Ok(builder.build_on(tide))
}

fn s3(options: &Bound<'_, PyDict>) -> PyResult<S3Settings> {
    let (mut settings, mut secrets) = (S3Settings::default(), Secrets::default());
    // A profile of its own forgets what was set before.
    if let Some(value) = options.get_item("profile_only")? {
        settings = settings.with_profile_only(Argument { name: "profile_only", value }.get::<String>()?);
    }
    for argument in arguments(options) {
        let (name, value) = argument?;
        let name = name.to_str()?;
        let given = Argument { name, value };
        if secrets.take(&given)? {
            continue;
        }
        settings = match name {
            "profile_only" => settings,
            "endpoint_url" => settings.with_endpoint_url(given.get::<String>()?),
            "region" => settings.with_region(given.get::<String>()?),
            "profile" => settings.with_profile(given.get::<String>()?),
            "addressing" => settings.with_addressing(given.named()?),
            "ca_bundle" => settings.with_ca_bundle(given.get::<std::path::PathBuf>()?),
            "checksum" => settings.with_checksum(given.named()?),
            "trailers" => settings.with_trailers(given.get()?),
            "payload_sha256" => settings.with_payload_sha256(given.get()?),
            "equal_parts" => settings.with_equal_parts(given.get()?),
            "max_parts" => settings.with_max_parts(given.get()?),
            "kept_conditions" => settings.with_kept_conditions(given.get()?),
            "request_payer" => settings.with_request_payer(given.get()?),
            "connect_timeout" => settings.with_connect_timeout(given.duration()?),
            _ => return Err(given.unknown()),
        };
    }
    let credentials = match secrets {
        Secrets { token: None, key: None, sas: None, anonymous, access_key, secret_key, session_token } => {
            match (anonymous, access_key, secret_key, session_token) {
                (false, None, None, None) => return Ok(settings),
                (true, None, None, None) => Credentials::anonymous(),
                (false, Some(access_key), Some(secret_key), token) => {
                    Credentials::fixed(access_key, secret_key, token)
                }
                _ => return Err(mixed("`access_key` and `secret_key`, perhaps with `session_token`")),
            }
        }
        _ => return Err(mixed("`access_key` and `secret_key`, perhaps with `session_token`")),
    };
    Ok(settings.with_credentials(credentials))
}

fn gcs(options: &Bound<'_, PyDict>) -> PyResult<GcsSettings> {
    let (mut settings, mut secrets) = (GcsSettings::default(), Secrets::default());
    for argument in arguments(options) {
        let (name, value) = argument?;
        let name = name.to_str()?;
        let given = Argument { name, value };
        if secrets.take(&given)? {
            continue;
        }
        settings = match name {
            "endpoint_url" => settings.with_endpoint_url(given.get::<String>()?),
            "ca_bundle" => settings.with_ca_bundle(given.get::<std::path::PathBuf>()?),
            "connect_timeout" => settings.with_connect_timeout(given.duration()?),
            "project" => settings.with_project(given.get::<String>()?),
            "request_payer" => settings.with_request_payer(given.get()?),
            "transport" => settings.with_transport(given.named()?),
            _ => return Err(given.unknown()),
        };
    }
    let credentials = match secrets {
        Secrets {
            anonymous,
            token,
            access_key: None,
            secret_key: None,
            session_token: None,
            key: None,
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

fn azure(options: &Bound<'_, PyDict>) -> PyResult<AzureSettings> {
    let (mut settings, mut secrets) = (AzureSettings::default(), Secrets::default());
    for argument in arguments(options) {
        let (name, value) = argument?;
        let name = name.to_str()?;
        let given = Argument { name, value };
        if secrets.take(&given)? {
            continue;
        }
        settings = match name {
            "account" => settings.with_account(given.get::<String>()?),
            "endpoint_url" => settings.with_endpoint_url(given.get::<String>()?),
            "connection_string" => settings.with_connection_string(given.get::<String>()?),
            "metadata_checksums" => settings.with_metadata_checksums(given.get()?),
            "ca_bundle" => settings.with_ca_bundle(given.get::<std::path::PathBuf>()?),
            "connect_timeout" => settings.with_connect_timeout(given.duration()?),
            _ => return Err(given.unknown()),
        };
    }
    let all = "`account_key`, `sas` and `token`";
    let credentials = match secrets {
        Secrets { anonymous, token, key, sas, access_key: None, secret_key: None, session_token: None } => {
            match (anonymous, token, key, sas) {
                (false, None, None, None) => return Ok(settings),
                (true, None, None, None) => AzureCredentials::anonymous(),
                (false, Some(token), None, None) => AzureCredentials::token(token),
                (false, None, Some(key), None) => AzureCredentials::key(key),
                (false, None, None, Some(sas)) => AzureCredentials::sas(sas),
                _ => return Err(mixed(all)),
            }
        }
        _ => return Err(mixed(all)),
    };
    Ok(settings.with_credentials(credentials))
}

fn mixed(takes: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "the credentials do not fit together: this store takes `anonymous`, or {takes}"
    ))
}
