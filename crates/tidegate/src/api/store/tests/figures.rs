//! The figures of the `metrics` facade and the spans of `tracing`.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::*;
use crate::backend::samples::{raw_server, said};
use crate::settings::{Credentials, RetryPolicy, S3Settings};
use crate::testkit::figures::Figures;

#[tokio::test]
async fn what_is_written_read_failed_and_held_is_counted_apart() {
    let figures = Figures::default();
    let _recorder = metrics::set_default_local_recorder(&figures);
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).build().unwrap();
    let store = tide.open("memory://figures").await.unwrap();
    let mut writer = store.writer("k").await.unwrap();
    writer.write_bytes(Bytes::from(vec![7; 100])).await.unwrap();
    assert_eq!(figures.of("memory_held_bytes{}"), tide.usage().held as f64);
    writer.write_bytes(Bytes::from(vec![7; 900])).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(store.get("k").await.unwrap().len(), 1000);
    assert!(store.head("missing").await.is_err());
    let counted = |name, count: f64| assert_eq!(figures.of(name), count, "{name} of {figures:?}");
    counted("bytes_written_total{}", 1000.0);
    counted("bytes_read_total{}", 1000.0);
    counted("bytes_acknowledged_total{}", 2000.0);
    counted("requests_total{operation=put}", 1.0);
    counted("request_seconds{operation=put}", 1.0);
    counted("request_seconds{operation=head}", 1.0);
    counted("failures_total{operation=head,kind=not_found}", 1.0);
    counted("failures_total{operation=put,kind=not_found}", 0.0);
    for at_rest in
        ["memory_held_bytes{}", "requests_in_flight{operation=put}", "requests_in_flight{operation=get}"]
    {
        counted(at_rest, 0.0);
    }
    for wait in ["memory", "disk", "requests", "backoff"] {
        counted(&*format!("waits{{for={wait}}}").leak(), 0.0);
    }
}

/// The spans, each with those around it, and the store's ids of requests.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct RequestId(Option<String>);

impl Visit for RequestId {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "request_id" {
            self.0 = Some(format!("{value:?}").trim_matches('"').to_owned());
        }
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, _: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let scope = context.span_scope(id).unwrap().from_root();
        let names: Vec<_> = scope.map(|span| span.name()).collect();
        self.0.lock().unwrap().push(names.join("/"));
    }

    fn on_record(&self, _: &span::Id, values: &span::Record<'_>, _: Context<'_, S>) {
        let mut id = RequestId::default();
        values.record(&mut id);
        self.0.lock().unwrap().extend(id.0);
    }
}

impl Spans {
    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().iter().any(|span| span == name)
    }
}

#[tokio::test]
async fn requests_are_within_the_spans_of_what_they_are_for() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).part_size(1 << 14).build().unwrap();
    let capabilities = crate::backend::Capabilities { min_part: 4096, ..Default::default() };
    let store = tide.store(Arc::new(Memory::new("spans").with_capabilities(capabilities)));
    store.put("k", vec![7; 100_000]).await.unwrap();
    store.get("k").await.unwrap();
    for span in ["upload", "upload/part/request", "upload/request", "download/request"] {
        assert!(spans.has(span), "{span} of {spans:?}");
    }

    let (url, _) = raw_server(|_| said("404 Not Found", "x-amz-request-id: 4711ABC\r\n", "")).await;
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let tide = Tidegate::builder().s3(settings).retry(retry).build().unwrap();
    let store = tide.open("s3://bucket").await.unwrap();
    assert!(store.head("k").await.is_err());
    assert!(spans.has("request") && spans.has("4711ABC"), "{spans:?}");
}
