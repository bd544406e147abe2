//! Connection strings of storage accounts ("Configure Azure Storage connection strings").

use std::fmt;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::azure_host::AzureHost;

/// The account of Azurite, with the key that every Azurite has and its documentation shows.
pub(super) const AZURITE_ACCOUNT: &str = "devstoreaccount1";
pub(super) const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const AZURITE_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

/// A connection string from the settings. Its `Debug` hides it, because it has a key in it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SetConnectionString(pub(super) String);

impl fmt::Debug for SetConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The fields of a connection string that the Blob service needs.
pub(super) struct ConnectionString {
    pub(super) account: String,
    pub(super) endpoint: String,
    pub(super) key: Option<String>,
    pub(super) sas: Option<String>,
}

impl ConnectionString {
    /// `origin` names where the text comes from. No error shows the text.
    pub(super) fn parse(text: &str, origin: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| Fault::new(FaultKind::Invalid, format!("{origin} {why}"));
        let mut fields = Vec::new();
        for field in text.trim().trim_matches('"').split(';').filter(|field| !field.trim().is_empty()) {
            let (name, value) = field.split_once('=').ok_or_else(|| {
                wrong("is no connection string: its fields are NAME=VALUE, with semicolons between them")
            })?;
            fields.push((name.trim().to_ascii_lowercase(), value.trim()));
        }
        let value = |name: &str| {
            let found = fields.iter().find(|(field, _)| field == name).map(|(_, value)| *value);
            found.filter(|value| !value.is_empty())
        };
        if value("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(Self::azurite(value("developmentstorageproxyuri")));
        }
        let endpoint = value("blobendpoint").map(|url| url.trim_end_matches('/').to_owned());
        let account = value("accountname").map(str::to_owned);
        let account = account
            .or_else(|| account_of(endpoint.as_deref()?))
            .ok_or_else(|| wrong("names no account: add AccountName=NAME"))?;
        let endpoint = endpoint.unwrap_or_else(|| {
            let scheme = value("defaultendpointsprotocol").unwrap_or("https").to_ascii_lowercase();
            let suffix = value("endpointsuffix").unwrap_or("core.windows.net");
            format!("{scheme}://{account}.blob.{suffix}")
        });
        let sas = value("sharedaccesssignature").map(str::to_owned);
        Ok(Self { account, endpoint, key: value("accountkey").map(str::to_owned), sas })
    }

    /// Azurite at its usual address, or on the host of `proxy`, an address without a port.
    fn azurite(proxy: Option<&str>) -> Self {
        let endpoint = proxy.map_or_else(
            || AZURITE_ENDPOINT.to_owned(),
            |proxy| format!("{}:10000/{AZURITE_ACCOUNT}", proxy.trim_end_matches('/')),
        );
        let key = Some(AZURITE_KEY.to_owned());
        Self { account: AZURITE_ACCOUNT.to_owned(), endpoint, key, sas: None }
    }
}

/// The account that an endpoint names: in its host at Azure, as the first part of its path elsewhere.
pub(super) fn account_of(endpoint: &str) -> Option<String> {
    let url = url::Url::parse(endpoint).ok()?;
    if let Some(host) = AzureHost::parse(url.host_str()?) {
        return Some(host.account().to_owned());
    }
    let account = url.path().trim_matches('/');
    (!account.is_empty() && !account.contains('/')).then(|| account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String, Option<String>, Option<String>) {
        let ConnectionString { account, endpoint, key, sas } =
            ConnectionString::parse(text, "the setting").unwrap();
        (account, endpoint, key, sas)
    }

    #[test]
    fn a_connection_string_has_an_account_an_endpoint_and_a_secret() {
        let (account, endpoint, key, sas) = parsed(
            "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5+/==;EndpointSuffix=core.windows.net\n",
        );
        assert_eq!((account.as_str(), endpoint.as_str()), ("acc", "https://acc.blob.core.windows.net"));
        assert_eq!((key.as_deref(), sas), (Some("a2V5+/=="), None));
        let (account, endpoint, key, sas) = parsed(
            "BlobEndpoint=https://acc.blob.core.windows.net/;SharedAccessSignature=sv=2024-11-04&sig=a%3D",
        );
        assert_eq!((account.as_str(), endpoint.as_str()), ("acc", "https://acc.blob.core.windows.net"));
        assert_eq!((key, sas.as_deref()), (None, Some("sv=2024-11-04&sig=a%3D")));
        let (_, endpoint, ..) =
            parsed("accountname=acc;endpointsuffix=core.chinacloudapi.cn;accountkey=a2V5");
        assert_eq!(endpoint, "https://acc.blob.core.chinacloudapi.cn");
    }

    #[test]
    fn development_storage_is_azurite() {
        let (account, endpoint, key, _) = parsed("UseDevelopmentStorage=true");
        assert_eq!((account.as_str(), endpoint.as_str()), (AZURITE_ACCOUNT, AZURITE_ENDPOINT));
        assert_eq!(key.as_deref(), Some(AZURITE_KEY));
        let (_, endpoint, ..) =
            parsed("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite");
        assert_eq!(endpoint, "http://azurite:10000/devstoreaccount1");
        let (account, endpoint, ..) =
            parsed("AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:9999/devstoreaccount1;");
        assert_eq!(
            (account.as_str(), endpoint.as_str()),
            ("devstoreaccount1", "http://127.0.0.1:9999/devstoreaccount1")
        );
    }

    #[test]
    fn a_refusal_shows_no_secret() {
        for text in ["AccountKey=secret", "secret", "AccountName=a;secret", ""] {
            let fault = ConnectionString::parse(text, "NAME").err().unwrap();
            assert!(fault.message.starts_with("NAME ") && !fault.message.contains("secret"), "{fault:?}");
        }
    }
}
