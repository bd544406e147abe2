//! Adds credentials to requests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};

use super::sign;
use crate::backend::{Fault, FaultKind};

/// The credentials of one account.
pub(super) struct AzureKeyring {
    account: String,
    key: Option<Vec<u8>>,
}

/// The credentials that one request was sent with.
#[derive(Clone, Debug, Default)]
pub(super) struct AzureIdentity {}

impl AzureKeyring {
    pub(super) fn new(account: &str, key: Option<&str>) -> Result<Self, Fault> {
        let decoded = key.map(|key| STANDARD.decode(key)).transpose();
        let key = decoded.map_err(|_| Fault::new(FaultKind::Invalid, "the account's key is not base64"))?;
        Ok(Self { account: account.to_owned(), key })
    }

    /// Signs a request whose headers are complete. A shared access signature is appended to `url`.
    pub(super) async fn sign(
        &self,
        method: &Method,
        url: &mut String,
        headers: &mut HeaderMap,
    ) -> Result<AzureIdentity, Fault> {
        if let Some(key) = &self.key {
            sign::with_key(&self.account, key, method, url, headers)?;
        }
        Ok(AzureIdentity {})
    }

    /// Takes in that the store refused these credentials; sets the final kind of the fault.
    pub(super) fn refused(&self, fault: Fault, _identity: &AzureIdentity) -> Fault {
        fault
    }
}

impl fmt::Debug for AzureKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureKeyring").field("account", &self.account).finish_non_exhaustive()
    }
}
