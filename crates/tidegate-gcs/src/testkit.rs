//! Runs the same tests of Google Cloud Storage over each transport.
#![allow(missing_docs, clippy::unwrap_used, reason = "only tests use this")]

use std::fmt::Debug;

use tidegate_dev::{FaultRule, Server};

use super::{Gcs, GcsCredentials, GcsSettings, GcsTransport};

/// Makes two tests of each function, and passes it the transport: HTTP or gRPC.
#[macro_export]
macro_rules! over_both {
    ($($test:ident),+ $(,)?) => { $crate::over_both!(#[tokio::test] $($test),+); };
    (on threads: $($test:ident),+ $(,)?) => {
        $crate::over_both!(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)] $($test),+
        );
    };
    (#[$kind:meta] $($test:ident),+) => {
        $( mod $test {
            use $crate::GcsTransport;
            use $crate::testkit::Ended;

            #[$kind]
            async fn over_http() {
                super::$test(GcsTransport::Http).await.ended();
            }

            #[$kind]
            async fn over_grpc() {
                super::$test(GcsTransport::Grpc).await.ended();
            }
        } )+
    };
}
pub use crate::over_both;

/// The result of a test.
pub trait Ended {
    fn ended(self);
}

impl Ended for () {
    fn ended(self) {}
}

impl<E: Debug> Ended for Result<(), E> {
    fn ended(self) {
        self.unwrap();
    }
}

pub fn settings(server: &Server, over: GcsTransport) -> GcsSettings {
    GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous())
        .with_transport(over)
}

/// The bucket `bucket` of a test server.
pub async fn bucket(server: &Server, over: GcsTransport) -> Gcs {
    Gcs::connect("bucket", &settings(server, over)).await.unwrap()
}

/// Operations over HTTP and the matching calls over gRPC. A stream that is held open uses another call than a stream
/// that ends.
const CALLS: [(&str, &str); 10] = [
    ("storage.objects.insert", "WriteObject"),
    ("storage.objects.get", "GetObject"),
    ("storage.objects.download", "ReadObject"),
    ("storage.objects.list", "ListObjects"),
    ("storage.objects.rewrite", "RewriteObject"),
    ("storage.resumable.start", "StartResumableWrite"),
    ("storage.resumable.append", "WriteObject"),
    ("storage.resumable.append", "BidiWriteObject"),
    ("storage.resumable.query", "QueryWriteStatus"),
    ("storage.resumable.cancel", "CancelResumableWrite"),
];

/// Translates rules for HTTP operations to the given transport.
pub fn rules(rules: Vec<FaultRule>, over: GcsTransport) -> Vec<FaultRule> {
    if over == GcsTransport::Http {
        return rules;
    }
    let calls = |rule: FaultRule| {
        let calls = CALLS.iter().filter(|(http, _)| *http == rule.operation);
        let calls: Vec<String> = calls.map(|(_, call)| format!("storage.v2.{call}")).collect();
        if calls.is_empty() { rule } else { FaultRule { operation: calls.join("|"), ..rule } }
    };
    rules.into_iter().map(calls).collect()
}

/// The requests that a server received, by the last word of their HTTP names. A `WriteObject` counts as an insert
/// until the first session is opened, and as an append from then on.
pub fn asked(server: &Server) -> Vec<String> {
    let mut in_session = false;
    let word = |name: String| {
        let call = name.strip_prefix("storage.v2.");
        in_session |= call == Some("StartResumableWrite");
        let http = call.and_then(|call| match call {
            "WriteObject" if in_session => Some("storage.resumable.append"),
            call => CALLS.iter().find(|(_, grpc)| *grpc == call).map(|(http, _)| *http),
        });
        http.unwrap_or(&name).rsplit('.').next().unwrap_or_default().to_owned()
    };
    server.requests().into_iter().map(word).collect()
}
