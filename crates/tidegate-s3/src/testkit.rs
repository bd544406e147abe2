//! What tests of several crates stand on.
#![allow(missing_docs, clippy::unwrap_used, reason = "only tests use this")]

use tidegate_dev::Server;

use super::{Credentials, S3Settings};

/// Settings with which a test server is reached.
pub fn settings_for(server: &Server) -> S3Settings {
    let (access, secret) = server.credentials();
    S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None))
        .with_kept_conditions(true)
}
