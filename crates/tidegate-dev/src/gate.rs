//! Counts each request and applies the knobs to it, after its signature is checked and its operation is known.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::counts::LiveCounters;
use crate::exchange::Exchange;
use crate::faults::{Faults, InjectedRefusal, RequestFacts};
use crate::s3::ServerStore;

/// The gate of one server.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) counters: Arc<LiveCounters>,
    pub(crate) faults: Arc<Faults>,
    /// The store in which knobs make other clients' changes.
    pub(crate) store: Arc<ServerStore>,
}

/// Why a request does not pass the gate.
#[derive(Debug)]
pub(crate) enum Denied {
    /// Cut the connection without an answer.
    Reset,
    Refused(InjectedRefusal),
    /// A change on behalf of another client failed.
    Store(S3Error),
}

impl Gate {
    /// Counts the request and applies the knobs to it.
    pub(crate) async fn admit(&self, exchange: &Exchange, subject: RequestFacts<'_>) -> Result<(), Denied> {
        self.counters.request(subject.operation);
        let verdict = self.faults.judge(subject, Instant::now());
        exchange.decide(subject.operation, &verdict);
        if !verdict.delay.is_zero() {
            tokio::time::sleep(verdict.delay).await;
        }
        if !subject.bucket.is_empty() && !subject.key.is_empty() {
            verdict
                .meddling
                .iter()
                .try_for_each(|meddling| self.store.meddle(*meddling, subject.bucket, subject.key))
                .map_err(Denied::Store)?;
        }
        if exchange.reset_request_after.load(Ordering::Acquire) == 0 {
            // Even a request without a body can be cut at byte 0.
            exchange.cut.store(true, Ordering::Release);
            return Err(Denied::Reset);
        }
        match verdict.refusal {
            None => Ok(()),
            Some(refusal) => Err(Denied::Refused(refusal)),
        }
    }
}

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let exchange = cx.extensions_mut().get::<Arc<Exchange>>().cloned();
        let Some(exchange) = exchange else {
            return Err(s3_error!(InternalError, "The request lost its exchange"));
        };
        // Google's side needs no S3 credentials.
        if cx.credentials().is_none() && exchange.google().is_none() {
            return Err(s3_error!(AccessDenied, "Anonymous requests are refused"));
        }
        let operation = cx.s3_op().name().to_owned();
        let subject = RequestFacts {
            operation: &operation,
            bucket: cx.s3_path().get_bucket_name().unwrap_or_default(),
            key: cx.s3_path().get_object_key().unwrap_or_default(),
            part_number: part_number(cx.uri()),
        };
        self.admit(&exchange, subject).await.map_err(|denied| match denied {
            Denied::Reset => s3_error!(RequestTimeout, "Reset by a knob"),
            Denied::Refused(refusal) => refuse(&refusal),
            Denied::Store(error) => error,
        })
    }
}

fn refuse(refusal: &InjectedRefusal) -> S3Error {
    let code = S3ErrorCode::from_bytes(refusal.code.as_bytes())
        .unwrap_or_else(|| S3ErrorCode::Custom(refusal.code.as_str().into()));
    let mut error = S3Error::with_message(code, "Refused by a knob of the development server");
    let status = StatusCode::from_u16(refusal.status);
    error.set_status_code(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if let Some(seconds) = refusal.retry_after {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        error.set_headers(headers);
    }
    error
}

fn part_number(uri: &http::Uri) -> Option<u32> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("partNumber="))?.parse().ok()
}
