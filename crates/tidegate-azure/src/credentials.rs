//! Adds credentials to requests.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method};

use super::identity::IdentitySources;
use super::sign;
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::access_token::{AccessToken, RenewedTokens, TokenHeaders};
use tidegate_http::provider::Provider;

/// The credentials of one account.
pub(super) struct AzureKeyring {
    account: String,
    credential: AzureCredential,
}

/// The credentials of an account.
#[expect(clippy::large_enum_variant, reason = "there is one for each account, and it is not moved")]
pub(super) enum AzureCredential {
    /// Nothing, as the settings say.
    Anonymous,
    /// Nothing, because nothing was found; the texts say what was looked for.
    Nothing(Vec<String>),
    /// The account's key signs each request.
    Key(Vec<u8>),
    /// A shared access signature is part of each URL.
    Sas(String),
    /// Access tokens of Microsoft Entra ID.
    Tokens(TokensOf),
}

/// Where access tokens come from.
pub(super) enum TokensOf {
    /// The settings have one token.
    Fixed(TokenHeaders),
    /// The caller's own code gives them.
    Provided(RenewedTokens<Provider<AccessToken>>),
    /// The identity of the process, the machine or the user; `looked` says why no key is used.
    Found { tokens: Box<RenewedTokens<IdentitySources>>, looked: Vec<String> },
}

/// The credentials that one request was sent with.
#[derive(Clone, Debug, Default)]
pub(super) struct AzureIdentity {
    /// The headers of an access token.
    token: TokenHeaders,
    /// What was looked for, if nothing was found and the request was sent without credentials.
    missing: Option<Arc<str>>,
}

/// The account's key. `origin` says where it comes from.
pub(super) fn account_key(key: &str, origin: &str) -> Result<AzureCredential, Fault> {
    let decoded = STANDARD.decode(key.trim());
    let key = decoded.ok().filter(|key| !key.is_empty()).ok_or_else(|| {
        let message = format!("{origin} has no account's key: a key is base64, as the Azure portal shows it");
        Fault::new(FaultKind::Credentials, message)
    })?;
    Ok(AzureCredential::Key(key))
}

/// A shared access signature, with or without a `?` before it.
pub(super) fn shared_access_signature(query: &str, origin: &str) -> Result<AzureCredential, Fault> {
    let query = query.trim().trim_start_matches(['?', '&']);
    let is_signed = query.split('&').any(|pair| pair.starts_with("sig="));
    let is_query = query.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>`".contains(&byte));
    if is_signed && is_query {
        return Ok(AzureCredential::Sas(query.to_owned()));
    }
    let message =
        format!("{origin} has no shared access signature: one is the query of a signed URL, with sig=");
    Err(Fault::new(FaultKind::Credentials, message))
}

impl AzureKeyring {
    pub(super) fn new(account: &str, credential: AzureCredential) -> Self {
        Self { account: account.to_owned(), credential }
    }

    /// The account's key, if that is the credential.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match &self.credential {
            AzureCredential::Key(key) => Some(key),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn credential(&self) -> &AzureCredential {
        &self.credential
    }

    /// Whether requests carry access tokens.
    pub(super) fn has_tokens(&self) -> bool {
        matches!(self.credential, AzureCredential::Tokens(_))
    }

    /// Signs a request whose headers are complete. A shared access signature is appended to `url`.
    pub(super) async fn sign(
        &self,
        method: &Method,
        url: &mut String,
        headers: &mut HeaderMap,
    ) -> Result<AzureIdentity, Fault> {
        match &self.credential {
            AzureCredential::Anonymous => Ok(AzureIdentity::default()),
            AzureCredential::Nothing(looked) => {
                Ok(AzureIdentity { missing: Some(looked.join("; ").into()), ..Default::default() })
            }
            AzureCredential::Key(key) => {
                sign::with_key(&self.account, key, method, url, headers)?;
                Ok(AzureIdentity::default())
            }
            AzureCredential::Sas(query) => {
                append(url, query);
                Ok(AzureIdentity::default())
            }
            AzureCredential::Tokens(tokens) => {
                let identity = tokens.identity().await?;
                headers.extend(identity.token.clone());
                Ok(identity)
            }
        }
    }

    /// Lets the store read the blob at `url`, which is of this account, as the source of a copy: appends the shared
    /// access signature, or adds the token for the source to the request's headers. A key can sign such a URL.
    pub(super) async fn sign_source(&self, url: &mut String, headers: &mut HeaderMap) -> Result<(), Fault> {
        match &self.credential {
            AzureCredential::Anonymous | AzureCredential::Nothing(_) | AzureCredential::Key(_) => {}
            AzureCredential::Sas(query) => append(url, query),
            AzureCredential::Tokens(tokens) => {
                let identity = tokens.identity().await?;
                if let Some(token) = identity.token.get(http::header::AUTHORIZATION) {
                    headers.insert("x-ms-copy-source-authorization", token.clone());
                }
            }
        }
        Ok(())
    }

    /// Takes in that the store refused these credentials; sets the final kind of the fault.
    pub(super) fn refused(&self, mut fault: Fault, identity: &AzureIdentity) -> Fault {
        if fault.kind == FaultKind::Skewed {
            // The date is refused, not the credentials, although the code is the same.
            return fault;
        }
        let is_code = |codes: &[&str]| codes.contains(&fault.code.as_str());
        let is_unauthentic = fault.kind == FaultKind::Credentials
            || is_code(&["AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"])
            // Azurite gives this the code of refusals of another kind.
            || fault.message.contains("failed to authenticate");
        if let Some(looked) = &identity.missing {
            // A private container does not exist for requests without credentials.
            let is_private = is_code(&["ResourceNotFound", "PublicAccessNotPermitted"]);
            if is_unauthentic || is_private || fault.kind == FaultKind::Denied {
                if let AzureCredential::Tokens(TokensOf::Found { tokens, .. }) = &self.credential {
                    tokens.source().look_again();
                }
                fault.kind = FaultKind::Credentials;
                fault.message = format!(
                    "no credentials found ({looked}), and the store refuses anonymous requests: {}",
                    fault.message
                );
            }
            return fault;
        }
        if !is_unauthentic {
            return fault;
        }
        fault.kind = FaultKind::Credentials;
        let ours = match &self.credential {
            AzureCredential::Anonymous | AzureCredential::Nothing(_) => {
                "the store wants credentials, and was sent none"
            }
            AzureCredential::Key(_) => "the store does not take the account's key",
            AzureCredential::Sas(_) => {
                "the store does not take the shared access signature, which may have expired"
            }
            AzureCredential::Tokens(tokens) => {
                if tokens.refused(&identity.token) {
                    fault.kind = FaultKind::Expired;
                }
                "the store does not take the access token"
            }
        };
        fault.message = format!("{ours}: {}", fault.message);
        fault
    }
}

/// Appends a query to a URL that may have one.
fn append(url: &mut String, query: &str) {
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(query);
}

impl TokensOf {
    async fn identity(&self) -> Result<AzureIdentity, Fault> {
        let of = |token| AzureIdentity { token, missing: None };
        match self {
            Self::Fixed(headers) => Ok(of(headers.clone())),
            Self::Provided(tokens) => Ok(of(tokens.identity().await?)),
            Self::Found { tokens, looked } => {
                let nothing = |sources: String| {
                    let looked: Vec<&str> = looked.iter().map(String::as_str).chain([&*sources]).collect();
                    AzureIdentity { missing: Some(looked.join("; ").into()), ..Default::default() }
                };
                if let Some(sources) = tokens.source().missing() {
                    return Ok(nothing(sources));
                }
                match tokens.identity().await {
                    Ok(token) => Ok(of(token)),
                    Err(fault) => tokens.source().missing().map(nothing).ok_or(fault),
                }
            }
        }
    }

    /// The store refused the token in `given`. True if the next request may get another one.
    fn refused(&self, given: &TokenHeaders) -> bool {
        match self {
            Self::Fixed(_) => return false,
            Self::Provided(tokens) => tokens.refused(given),
            Self::Found { tokens, .. } => tokens.refused(given),
        }
        true
    }
}

impl fmt::Debug for AzureKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credential = match &self.credential {
            AzureCredential::Anonymous | AzureCredential::Nothing(_) => "none",
            AzureCredential::Key(_) => "key",
            AzureCredential::Sas(_) => "shared access signature",
            AzureCredential::Tokens(_) => "tokens",
        };
        f.debug_struct("AzureKeyring")
            .field("account", &self.account)
            .field("credential", &credential)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
