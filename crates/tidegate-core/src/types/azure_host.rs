//! The hosts of Azure's storage accounts.

use std::fmt;

/// The domains of Azure's clouds, without the service before them: `ACCOUNT.blob.core.windows.net`.
const SUFFIXES: [&str; 6] = [
    "core.windows.net",
    "core.chinacloudapi.cn",
    "core.usgovcloudapi.net",
    "core.cloudapi.de",
    // Accounts in a DNS zone: `ACCOUNT.zNN.blob.storage.azure.net`.
    "storage.azure.net",
    // Microsoft Fabric's OneLake: `onelake.dfs.fabric.microsoft.com`.
    FABRIC,
];
const FABRIC: &str = "fabric.microsoft.com";

/// The host of a storage account in one of Azure's clouds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AzureHost {
    /// The account, with the DNS zone if it is in one: `account`, or `account.z12`.
    name: String,
    suffix: &'static str,
}

impl AzureHost {
    /// The host of the Blob service (`account.blob.core.windows.net`) or of Data Lake Storage (`account.dfs.…`).
    pub fn parse(host: &str) -> Option<Self> {
        let host = host.to_ascii_lowercase();
        let (name, suffix) = host.split_once(".blob.").or_else(|| host.split_once(".dfs."))?;
        let suffix = SUFFIXES.into_iter().find(|known| *known == suffix)?;
        let (account, zone) =
            name.split_once('.').map_or((name, None), |(account, zone)| (account, Some(zone)));
        let is_zone = |zone: &str| zone.starts_with('z') && zone.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_named = if suffix == FABRIC {
            !account.is_empty() && account.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        } else {
            is_account(account)
        };
        (is_named && zone.is_none_or(is_zone)).then(|| Self { name: name.to_owned(), suffix })
    }

    /// The host of an account in Azure's public cloud.
    pub fn public(account: &str) -> Option<Self> {
        Self::parse(&format!("{account}.blob.{}", SUFFIXES[0]))
    }

    /// The account's name.
    pub fn account(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// The domain of the account's cloud.
    pub fn suffix(&self) -> &'static str {
        self.suffix
    }

    /// The endpoint of the Blob service.
    pub fn blob_endpoint(&self) -> String {
        format!("https://{}.blob.{}", self.name, self.suffix)
    }
}

/// The host as canonical URLs have it: that of Data Lake Storage.
impl fmt::Display for AzureHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.dfs.{}", self.name, self.suffix)
    }
}

/// Whether an account can have this name.
pub fn is_account(name: &str) -> bool {
    (3..=24).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_an_account_a_service_and_a_cloud() {
        for (host, canonical) in [
            ("acc.blob.core.windows.net", "acc.dfs.core.windows.net"),
            ("ACC.DFS.core.windows.net", "acc.dfs.core.windows.net"),
            ("acc.blob.core.chinacloudapi.cn", "acc.dfs.core.chinacloudapi.cn"),
            ("acc.dfs.core.usgovcloudapi.net", "acc.dfs.core.usgovcloudapi.net"),
            ("acc.z12.blob.storage.azure.net", "acc.z12.dfs.storage.azure.net"),
            ("onelake.dfs.fabric.microsoft.com", "onelake.dfs.fabric.microsoft.com"),
            ("eastus-onelake.blob.fabric.microsoft.com", "eastus-onelake.dfs.fabric.microsoft.com"),
        ] {
            assert_eq!(AzureHost::parse(host).unwrap().to_string(), canonical);
        }
        for other in [
            "acc.core.windows.net",
            "acc.blob.core.windows.net.example.com",
            "acc.blob.example.com",
            "blob.core.windows.net",
            ".blob.core.windows.net",
            "a.b.blob.core.windows.net",
            "acc-secondary.blob.core.windows.net",
            "acc.queue.core.windows.net",
            "acc.blob.core.windows.net:8080",
            "acc.blob.core.windows.net.",
            "localhost",
            "",
        ] {
            assert_eq!(AzureHost::parse(other), None, "{other}");
        }
    }
}
