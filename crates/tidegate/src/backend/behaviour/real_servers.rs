//! Real servers: how a case gets an empty bucket there, and which cases cannot pass on which server.
//!
//! `python -m stores.behaviour` starts the servers and names them in the environment.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;

use super::*;
use crate::backend::azure::{AzureScheme, AzureSettings};
use crate::backend::gcs::{GcsCredentials, GcsSettings};
use crate::backend::s3::{Credentials, S3Settings};

/// A case that fails on a server for want of something that the server should have. The case has to fail there with
/// these words: a server that has learned it is noticed.
struct Lack {
    server: &'static str,
    case: &'static str,
    says: &'static str,
    because: &'static str,
}

const LACKS: &[Lack] = &[];

/// Runs a case on an empty bucket of a server.
pub(super) async fn try_case(server: &str, case: &str, run: impl AsyncFnOnce(&TestStore)) {
    let store = empty_bucket(server).await;
    let Some(lack) = LACKS.iter().find(|lack| (lack.server, lack.case) == (server, case)) else {
        run(&store).await;
        // Sessions that cannot be aborted expire.
        let left = if store.capabilities().aborts { store.open_sessions("").await } else { Vec::new() };
        return assert_eq!(left, [], "the case left sessions behind");
    };
    let Err(panic) = AssertUnwindSafe(run(&store)).catch_unwind().await else {
        panic!("{server} passes the case, so its line in LACKS can go: {}", lack.because);
    };
    let said = message(&*panic);
    assert!(said.contains(lack.says), "another failure than {:?} ({}): {said}", lack.says, lack.because);
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// A new bucket of the server that the environment describes.
async fn empty_bucket(server: &str) -> TestStore {
    let variable = format!("TIDEGATE_TEST_{}", server.to_uppercase());
    let Ok(place) = std::env::var(&variable) else {
        panic!("{variable} is not set: `scripts/test --only stores` starts the servers and sets it");
    };
    let scheme = scheme(server, &place);
    let facts = KnownFacts::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let bucket = format!("t-{}-{now:x}", std::process::id());
    scheme.buckets(&facts).await.unwrap().create(&bucket, Attempt::FIRST).await.unwrap();
    let store = scheme.open(&bucket, &facts).await.unwrap();
    let missing = scheme.open(&format!("{bucket}-missing"), &facts).await.unwrap();
    let part = (store.capabilities().min_part as usize).max(PART);
    TestStore { store, missing: Some(missing), below: "", part, _kept: Box::new(()) }
}

/// `place` is the server's address. An S3 server's has the credentials in it, as `http://ACCESS:SECRET@HOST:PORT`; Azure's
/// is a connection string.
fn scheme(server: &str, place: &str) -> Box<dyn Scheme> {
    match server {
        "fake_gcs_server" => {
            let settings = GcsSettings::default().with_endpoint_url(place);
            Box::new(GcsScheme::new(settings.with_credentials(GcsCredentials::anonymous())))
        }
        "azurite" => Box::new(AzureScheme::new(AzureSettings::default().with_connection_string(place))),
        _ => {
            let (credentials, address) = place.strip_prefix("http://").unwrap().split_once('@').unwrap();
            let (access, secret) = credentials.split_once(':').unwrap();
            let settings = S3Settings::default()
                .with_endpoint_url(format!("http://{address}"))
                .with_region("us-east-1")
                .with_credentials(Credentials::fixed(access, secret, None));
            Box::new(S3Scheme::new(settings))
        }
    }
}
