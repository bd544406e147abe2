//! The account that a URL reaches: its endpoint, and the credentials that may be used there. A key or a shared access
//! signature is used for its own account only, and tokens that were looked for are sent to Azure's hosts only.

use std::ffi::OsString;

use super::connection_string::{AZURITE_ACCOUNT, AZURITE_KEY, ConnectionString, account_of};
use super::credentials::{AzureCredential, AzureKeyring, TokensOf, account_key, shared_access_signature};
use super::identity::IdentitySources;
use super::settings::{AzureCredentialsOrigin, AzureSettings};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::azure_host::{AzureHost, is_account};
use tidegate_http::access_token::{RenewedTokens, TokenHeaders, bearer};
use tidegate_http::environment::{variable, word};
use tidegate_http::xml::address::EndpointUrl;

const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
const ACCOUNTS: [&str; 2] = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
const KEYS: [&str; 3] = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"];
const SAS: &str = "AZURE_STORAGE_SAS_TOKEN";
const ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";

/// An account with its endpoint and credentials.
pub(super) struct ResolvedAccount {
    pub(super) account: String,
    pub(super) endpoint: EndpointUrl,
    pub(super) keyring: AzureKeyring,
    /// The host that canonical URLs of this account have.
    pub(super) host: Option<AzureHost>,
    /// Whether it is the account of `az://` URLs.
    pub(super) is_own: bool,
}

/// What the settings and the environment say of one account: the one that `az://` means.
struct OwnAccount {
    account: String,
    endpoint: String,
    host: Option<AzureHost>,
}

/// What the environment has.
struct AccountVariables {
    connection: Option<ConnectionString>,
    /// Where the connection string was found.
    connection_origin: &'static str,
    account: Option<String>,
    key: Option<(&'static str, String)>,
    sas: Option<String>,
    endpoint: Option<String>,
}

impl AccountVariables {
    fn new(settings: &AzureSettings, read: &impl Fn(&str) -> Option<OsString>) -> Result<Self, Fault> {
        let (connection_origin, connection) = match &settings.connection_string {
            Some(set) => ("the connection string", Some(set.0.clone())),
            None => (CONNECTION_STRING, variable(CONNECTION_STRING, read)?),
        };
        let connection =
            connection.map(|text| ConnectionString::parse(&text, connection_origin)).transpose()?;
        let first = |names: &[&'static str]| -> Result<Option<(&'static str, String)>, Fault> {
            for name in names {
                if let Some(value) = word(name, read)? {
                    return Ok(Some((name, value)));
                }
            }
            Ok(None)
        };
        Ok(Self {
            connection,
            connection_origin,
            account: first(&ACCOUNTS)?.map(|(_, account)| account),
            key: first(&KEYS)?,
            sas: word(SAS, read)?,
            endpoint: word(ENDPOINT, read)?,
        })
    }

    /// The account of `az://` URLs, if one is named.
    fn own(&self, settings: &AzureSettings) -> Option<OwnAccount> {
        let set_url = settings.endpoint_url.as_ref().map(|url| url.0.trim().trim_end_matches('/').to_owned());
        let connection = self.connection.as_ref();
        let account = (settings.account.as_deref().map(|name| name.trim().to_owned()))
            .or_else(|| account_of(set_url.as_deref()?))
            .or_else(|| Some(connection?.account.clone()))
            .or_else(|| self.account.clone())
            .or_else(|| account_of(self.endpoint.as_deref()?))?;
        let of_connection = connection.filter(|connection| connection.account == account);
        let of_environment =
            self.endpoint.as_ref().filter(|url| account_of(url).is_none_or(|of| of == account));
        let endpoint = set_url
            .or_else(|| of_connection.map(|connection| connection.endpoint.clone()))
            .or_else(|| of_environment.map(|url| url.trim_end_matches('/').to_owned()))
            .unwrap_or_else(|| default_endpoint(&account));
        let endpoint = with_account(endpoint, &account);
        let host = host_of(&endpoint).or_else(|| AzureHost::public(&account));
        Some(OwnAccount { account, endpoint, host })
    }
}

impl AzureSettings {
    /// The account at `host`, or the one of `az://` URLs, with what the environment (`read`) has for it.
    pub(super) fn resolved(
        &self,
        host: Option<&AzureHost>,
        read: impl Fn(&str) -> Option<OsString> + Copy,
    ) -> Result<ResolvedAccount, Fault> {
        let found = AccountVariables::new(self, &read)?;
        let own = found.own(self);
        let own = match (own, host) {
            (Some(own), None) => own,
            (Some(own), Some(host)) if own.host.as_ref() == Some(host) => own,
            (own, Some(host)) => return self.other_account(host, own.map(|own| own.account), &found, read),
            (None, None) => {
                let message = "no storage account is named: set AZURE_STORAGE_ACCOUNT or \
                               AZURE_STORAGE_CONNECTION_STRING, or write \
                               abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY";
                return Err(Fault::new(FaultKind::Invalid, message));
            }
        };
        // Another host than Azure's may have accounts of other names.
        let is_azures = own.endpoint == default_endpoint(&own.account) || host_of(&own.endpoint).is_some();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if is_azures && !is_account(&own.account) && !own.account.ends_with("onelake")
            || !own.account.bytes().all(is_name)
        {
            let message = format!(
                "`{}` is not a storage account's name: 3 to 24 lower-case letters and digits make one",
                own.account.escape_debug()
            );
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let endpoint = EndpointUrl::custom(&own.endpoint)?;
        if let Some(other) = account_of(endpoint.url()).filter(|other| *other != own.account) {
            let message = format!(
                "the endpoint {} is of account `{other}`, and the settings name account `{}`: name one account",
                endpoint.url(),
                own.account
            );
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let credential = self.own_credential(&own.account, &endpoint, &found, read)?;
        let keyring = AzureKeyring::new(&own.account, credential);
        Ok(ResolvedAccount { account: own.account, endpoint, keyring, host: own.host, is_own: true })
    }

    /// An account that only the URL names: no key and no shared access signature is for it.
    fn other_account(
        &self,
        host: &AzureHost,
        own: Option<String>,
        found: &AccountVariables,
        read: impl Fn(&str) -> Option<OsString>,
    ) -> Result<ResolvedAccount, Fault> {
        let endpoint = EndpointUrl::custom(&host.blob_endpoint())?;
        let of = own.map_or("no named account".to_owned(), |own| format!("account `{own}`"));
        let credential = match &self.credentials.0 {
            AzureCredentialsOrigin::Key(_) | AzureCredentialsOrigin::Sas(_) => {
                let message = format!(
                    "the credentials in the settings are of {of}, and the URL names `{host}`: set the account \
                     with AzureSettings::with_account, or use a token"
                );
                return Err(Fault::new(FaultKind::Credentials, message));
            }
            AzureCredentialsOrigin::Default => {
                let mut looked = Vec::new();
                let set = [
                    (found.connection_origin, found.connection.is_some()),
                    (found.key.as_ref().map_or(KEYS[0], |(name, _)| name), found.key.is_some()),
                    (SAS, found.sas.is_some()),
                ];
                for (name, is_set) in set {
                    looked.push(if is_set { format!("{name} is of {of}") } else { not_set(name) });
                }
                found_tokens(self, host_of(endpoint.url()), looked, read)
            }
            given => given_tokens(given)?,
        };
        let account = host.account().to_owned();
        let keyring = AzureKeyring::new(&account, credential);
        Ok(ResolvedAccount { account, endpoint, keyring, host: Some(host.clone()), is_own: false })
    }

    fn own_credential(
        &self,
        account: &str,
        endpoint: &EndpointUrl,
        found: &AccountVariables,
        read: impl Fn(&str) -> Option<OsString>,
    ) -> Result<AzureCredential, Fault> {
        match &self.credentials.0 {
            AzureCredentialsOrigin::Key(key) => return account_key(key, "the key in the settings"),
            AzureCredentialsOrigin::Sas(sas) => {
                return shared_access_signature(sas, "the shared access signature in the settings");
            }
            AzureCredentialsOrigin::Default => {}
            given => return given_tokens(given),
        }
        let mut looked = Vec::new();
        let origin = found.connection_origin;
        match &found.connection {
            Some(connection) if connection.account != account => {
                looked.push(format!("{origin} is of account `{}`", connection.account));
            }
            Some(ConnectionString { key: Some(key), .. }) => return account_key(key, origin),
            Some(ConnectionString { sas: Some(sas), .. }) => return shared_access_signature(sas, origin),
            Some(_) => looked.push(format!("{origin} has neither a key nor a shared access signature")),
            None => looked.push(not_set(origin)),
        }
        // The environment may have a key without an account's name. Such a key is sent only to Azure's own hosts over
        // https and to this machine: another host, or a listener on plain http, must not get it.
        let unfit = match found.account.as_deref() {
            Some(named) if named == account => None,
            Some(other) => Some(format!(" is of account `{other}`")),
            None if host_of(endpoint.url()).is_some() || is_loopback(endpoint.url()) => None,
            None => {
                Some(format!(" names no account, and is not sent to {}: set {}", endpoint.url(), ACCOUNTS[0]))
            }
        };
        let (key_name, sas_name) = (found.key.as_ref().map_or(KEYS[0], |(name, _)| name), SAS);
        match (&found.key, &found.sas, &unfit) {
            (Some((name, key)), _, None) => return account_key(key, name),
            (None, Some(sas), None) => return shared_access_signature(sas, SAS),
            (key, sas, unfit) => {
                let why = unfit.as_deref().unwrap_or_default();
                for (name, is_set) in [(key_name, key.is_some()), (sas_name, sas.is_some())] {
                    looked.push(if is_set { format!("{name}{why}") } else { not_set(name) });
                }
            }
        }
        let host = host_of(endpoint.url());
        if host.is_none() && account == AZURITE_ACCOUNT {
            return account_key(AZURITE_KEY, "Azurite's own key");
        }
        Ok(found_tokens(self, host, looked, read))
    }
}

/// The credentials of an identity, which are looked for at the first request.
fn found_tokens(
    settings: &AzureSettings,
    host: Option<AzureHost>,
    mut looked: Vec<String>,
    read: impl Fn(&str) -> Option<OsString>,
) -> AzureCredential {
    let Some(host) = host else {
        looked.push("access tokens are sent to Azure's hosts only".to_owned());
        return AzureCredential::Nothing(looked);
    };
    let sources = IdentitySources::new(settings, &host, read);
    AzureCredential::Tokens(TokensOf::Found { tokens: Box::new(RenewedTokens::new(sources)), looked })
}

/// Tokens that the settings give, or none.
fn given_tokens(origin: &AzureCredentialsOrigin) -> Result<AzureCredential, Fault> {
    Ok(match origin {
        AzureCredentialsOrigin::Token(token) => {
            let headers = TokenHeaders::from_iter([(http::header::AUTHORIZATION, bearer(token.trim())?)]);
            AzureCredential::Tokens(TokensOf::Fixed(headers))
        }
        AzureCredentialsOrigin::Provider(provider) => {
            AzureCredential::Tokens(TokensOf::Provided(RenewedTokens::new(provider.clone())))
        }
        _ => AzureCredential::Anonymous,
    })
}

/// The endpoint of an account in Azure's public cloud.
fn default_endpoint(account: &str) -> String {
    format!("https://{account}.blob.core.windows.net")
}

fn not_set(name: &str) -> String {
    format!("{name} is not set")
}

/// The account's host at Azure, if the endpoint is one, over https.
pub(super) fn host_of(endpoint: &str) -> Option<AzureHost> {
    AzureHost::parse(endpoint.strip_prefix("https://")?)
}

/// Whether an endpoint is on this machine.
fn is_loopback(endpoint: &str) -> bool {
    let url = url::Url::parse(endpoint);
    url.is_ok_and(|url| match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    })
}

/// The endpoint with the account in its path, where the host is an address or a name without a dot, as of Azurite.
fn with_account(endpoint: String, account: &str) -> String {
    let is_bare = url::Url::parse(&endpoint).is_ok_and(|url| {
        let is_plain = match url.host() {
            Some(url::Host::Domain(name)) => !name.contains('.'),
            host => host.is_some(),
        };
        is_plain && url.path() == "/" && url.query().is_none()
    });
    if is_bare && is_account(account) { format!("{endpoint}/{account}") } else { endpoint }
}

#[cfg(test)]
mod tests;
