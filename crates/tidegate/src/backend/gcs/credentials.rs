//! Credentials: a token for each request.

use std::fmt;

use http::HeaderValue;

use super::settings::{GcsCredentials, Origin};
use crate::backend::{Fault, FaultKind};

/// The credentials of one client.
pub(super) enum Keyring {
    /// Requests say nothing of who makes them.
    Anonymous,
    /// It never changes.
    Fixed(String),
}

impl Keyring {
    pub(super) fn new(credentials: &GcsCredentials) -> Self {
        match &credentials.0 {
            Origin::Anonymous => Self::Anonymous,
            Origin::Token(token) => Self::Fixed(token.clone()),
        }
    }

    /// The `Authorization` of a request; `None` where it has none.
    pub(super) async fn authorization(&self) -> Result<Option<HeaderValue>, Fault> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Fixed(token) => bearer(token).map(Some),
        }
    }

    /// The store does not take what it was given. The fault is of the kind `Expired` where there may be
    /// another for the next request.
    pub(super) async fn refused(&self, mut fault: Fault, _given: Option<&HeaderValue>) -> Fault {
        fault.kind = FaultKind::Credentials;
        fault.message = match self {
            Self::Anonymous => format!("the store wants credentials, and was sent none: {}", fault.message),
            Self::Fixed(_) => format!("the store does not take the access token: {}", fault.message),
        };
        fault
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Fixed(_) => "Fixed(…)",
        })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| {
        Fault::new(FaultKind::Credentials, "the access token has characters that no header can carry")
            .with_source(error)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
