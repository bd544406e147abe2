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
    /// Words of the failure; ` or ` stands between those of several failures.
    says: &'static str,
    because: &'static str,
    /// Whether the case passes there at other times.
    at_times: bool,
}

const fn lack(server: &'static str, case: &'static str, says: &'static str, because: &'static str) -> Lack {
    Lack { server, case, says, because, at_times: false }
}

const EARLY: &str =
    "it refuses a body that is under way by closing the connection, before its answer can be read";

const LACKS: &[Lack] = &[
    lack(
        "minio",
        "a_listing_is_in_key_order_and_stops_at_a_slash",
        "left: [\"a\", \"a-b\", \"a.b\", \"a0\"]",
        "it does not list the prefix `a/` beside an object `a`",
    ),
    lack(
        "minio",
        "an_aborted_session_is_gone",
        "it succeeded",
        "it answers 204 to the abort of a session that it does not have",
    ),
    lack(
        "minio",
        "a_session_becomes_an_object",
        "it succeeded",
        "it answers 204 to the abort of a session that it does not have",
    ),
    lack(
        "minio",
        "only_the_same_object_is_read_or_removed",
        "it succeeded",
        "it ignores If-Match of DeleteObject; the engine compares before it removes",
    ),
    lack(
        "minio",
        "parts_that_are_no_whole_are_not_published",
        "left: PartMismatch",
        "it answers InvalidPart to a part's number that is too small",
    ),
    lack(
        "minio",
        "odd_keys_are_themselves",
        "XMinioInvalidObjectName",
        "it refuses keys that are no paths of files",
    ),
    Lack {
        at_times: true,
        ..lack("minio", "a_write_may_replace_one_object_and_no_other", "closed the connection", EARLY)
    },
    Lack { at_times: true, ..lack("minio", "create_only_never_replaces", "closed the connection", EARLY) },
    lack(
        "versitygw",
        "many_are_removed_in_one_request",
        "ObjectParentIsFile",
        "its prefixes are directories, which no object can be beside",
    ),
    lack(
        "versitygw",
        "odd_keys_are_themselves",
        "DirectoryObjectContainsData",
        "its objects are files, and a key that ends with a slash is a directory",
    ),
    lack(
        "versitygw",
        "a_session_becomes_an_object",
        "it succeeded",
        "it answers a second completion of a session as it did the first one, as Amazon does",
    ),
    Lack {
        at_times: true,
        ..lack("versitygw", "create_only_never_replaces", "closed the connection", EARLY)
    },
    lack(
        "rclone_s3",
        "a_session_becomes_an_object",
        "cannot be replaced with different contents",
        "it refuses a part that was sent again with other bytes",
    ),
    lack(
        "rclone_s3",
        "a_whole_that_is_not_that_of_its_checksum_is_found_out",
        "left: None",
        "it keeps no CRC-64/NVME of an upload in parts",
    ),
    lack(
        "rclone_s3",
        "an_aborted_session_is_gone",
        "InternalError",
        "it answers 500 to a part of a session that it does not have",
    ),
    lack(
        "rclone_s3",
        "an_object_comes_back_as_it_was_put",
        "left: None",
        "it keeps no CRC-64/NVME of some objects",
    ),
    lack(
        "rclone_s3",
        "bytes_that_are_not_those_of_the_checksum_are_refused",
        "it succeeded",
        "it compares no CRC-64/NVME",
    ),
    lack(
        "rclone_s3",
        "many_are_removed_in_one_request",
        "is the name of an object",
        "its prefixes are directories, which no object can be beside",
    ),
    lack(
        "rclone_s3",
        "odd_keys_are_themselves",
        "unsupported characters",
        "its objects are files, whose names have no empty parts",
    ),
    lack(
        "rclone_s3",
        "parts_that_are_no_whole_are_not_published",
        "left: PartMismatch",
        "it answers InvalidPart to a part's number that is too small",
    ),
    lack(
        "rclone_s3",
        "an_old_point_is_continued_after_its_writer_went_on",
        "cannot be replaced with different contents",
        "it refuses a part that was sent again with other bytes",
    ),
    Lack {
        at_times: true,
        ..lack(
            "rclone_s3",
            "two_commits_at_once_give_one_object",
            "the object is published, and it is not there or PreconditionFailed, HTTP 412",
            "it loses the object, or the object's metadata, if a session is completed twice at once",
        )
    },
    lack(
        "seaweedfs",
        "a_session_becomes_an_object",
        "checksum or left: [(1, 5242880 or BadDigest",
        "it completes a part that was sent again with the bytes that were sent first, if the completion names them",
    ),
    lack(
        "seaweedfs",
        "odd_keys_are_themselves",
        "\"two/slashes\"",
        "it makes one slash of several, and drops a leading one or a backslash",
    ),
    lack(
        "seaweedfs",
        "parts_that_are_no_whole_are_not_published",
        "NoSuchUpload, HTTP 404",
        "it answers NoSuchUpload to a completion without parts",
    ),
    lack(
        "moto",
        "a_copy_is_of_the_object_that_was_described",
        "it succeeded",
        "it ignores the conditions of a copy on its source",
    ),
    lack("moto", "a_session_becomes_an_object", "left: None", "it keeps no CRC-64/NVME"),
    lack(
        "moto",
        "a_whole_that_is_not_that_of_its_checksum_is_found_out",
        "left: None",
        "it keeps no CRC-64/NVME",
    ),
    lack("moto", "an_object_comes_back_as_it_was_put", "left: None", "it keeps no CRC-64/NVME"),
    lack(
        "moto",
        "an_aborted_session_is_gone",
        "left: Transient",
        "it answers 500 to a part of a session that it does not have",
    ),
    lack(
        "moto",
        "an_object_is_copied_in_parts",
        "left: Transient",
        "it answers 500 to a part of a session that it does not have",
    ),
    lack(
        "moto",
        "an_abandoned_upload_is_lost",
        "Internal Server Error (HTTP 500)",
        "it answers 500 to the completion of a session that it does not have",
    ),
    lack(
        "moto",
        "a_sweep_spares_a_pending_upload_for_its_lifetime",
        "Internal Server Error (HTTP 500)",
        "it answers 500 to the completion of a session that it does not have",
    ),
    lack(
        "moto",
        "conditions_of_a_pending_upload_are_decided_by_its_commit",
        "`Result::unwrap_err()` on an `Ok` value",
        "it ignores the conditions of a completion",
    ),
    lack(
        "moto",
        "odd_keys_are_themselves",
        "404 Not Found",
        "its addresses have no place for a key of only a slash or dots",
    ),
    lack(
        "moto",
        "parts_that_are_no_whole_are_not_published",
        "left: NoSession",
        "it answers NoSuchUpload to a part's number that is too small",
    ),
    lack(
        "fake_gcs_server",
        "only_the_same_object_is_read_or_removed",
        "it succeeded",
        "it ignores ifGenerationMatch of a removal; the engine compares before it removes",
    ),
    lack(
        "fake_gcs_server",
        "a_missing_bucket_is_told_from_a_missing_object",
        "left: NotFound",
        "its 404 does not tell a missing bucket from a missing object",
    ),
    lack(
        "fake_gcs_server",
        "a_listing_is_in_key_order_and_stops_at_a_slash",
        "internalError, HTTP 500",
        "its prefixes are directories, which no object can be beside",
    ),
    lack(
        "fake_gcs_server",
        "odd_keys_are_themselves",
        "the store confirms any cancellation",
        "it confirms the cancellation of an upload that it has published",
    ),
    lack(
        "fake_gcs_server",
        "bytes_are_appended_until_the_last_ones_publish_them",
        "the store does not tell how much of it there is",
        "a question for the position publishes what it has",
    ),
];

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
        assert!(lack.at_times, "{server} passes the case, so its line in LACKS can go: {}", lack.because);
        return;
    };
    let said = message(&*panic);
    let is_known = lack.says.split(" or ").any(|words| said.contains(words));
    assert!(is_known, "another failure than {:?} ({}): {said}", lack.says, lack.because);
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
        panic!("{variable} is not set: `scripts/test --only behaviour` starts the servers and sets it");
    };
    let scheme = scheme(server, &place);
    let facts = KnownFacts::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let bucket = format!("t-{}-{now:x}", std::process::id());
    scheme.buckets(&facts).await.unwrap().create(&bucket, Attempt::FIRST).await.unwrap();
    let store = scheme.open(&bucket, &facts).await.unwrap();
    let missing = scheme.open(&format!("{bucket}-missing"), &facts).await.unwrap();
    let lacks_parts = server == "fake_gcs_server";
    let part = (store.capabilities().min_part as usize).max(PART);
    TestStore { store, missing: Some(missing), below: "", lacks_parts, part, _kept: Box::new(()) }
}

/// `place` is the server's address. An S3 server's has the credentials in it, as `http://ACCESS:SECRET@HOST:PORT`;
/// Azure's is a connection string.
fn scheme(server: &str, place: &str) -> Box<dyn Scheme> {
    match server {
        "fake_gcs_server" => {
            let settings = GcsSettings::default().with_endpoint_url(place).with_project("test");
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
