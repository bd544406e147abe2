//! Accepts connections, paces them, and routes each request to the control endpoint, Google's protocols or s3s.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderValue;
use http::request::Parts;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use s3s::service::S3Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{AnswerBody, CountedBody};
use crate::counts::LiveCounters;
use crate::cut_head::CutHead;
use crate::dialect::Dialect;
use crate::exchange::Exchange;
use crate::faults::Faults;
use crate::gcs::{self, Google};
use crate::guard::{Guard, Refused};
use crate::shaping::{BodyPace, ConnectionLink, Rates, ShapedStream};
use crate::{Tls, aws_chunked, control};

/// Shared by all connections of a server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) s3: S3Service,
    pub(crate) google: Google,
    pub(crate) guard: Guard,
    pub(crate) faults: Arc<Faults>,
    pub(crate) counters: Arc<LiveCounters>,
    pub(crate) rates: Arc<Rates>,
    /// `None` where clients use plain HTTP.
    pub(crate) tls: Option<Tls>,
}

/// How much of a refused upload's body is read, in bytes. A client that is still sending would otherwise get a
/// connection reset instead of the answer.
const DRAINED: usize = 64 * 1024 * 1024;

/// How long the server keeps reading a stream that it answered before the end.
const LINGER: Duration = Duration::from_secs(5);

/// The largest read from a socket: small enough to stay in a processor's cache.
const READ_BUFFER: usize = 256 * 1024;

/// The HTTP/2 flow-control window: how many bytes of requests may be in flight to the server.
const WINDOW: u32 = 4 * 1024 * 1024;

/// How many connections are served at once; further ones wait to be accepted. An idle connection costs a
/// descriptor and about ten KiB.
const CONNECTIONS: usize = 4096;

/// How long a client may take to send the head of a request, and how long a connection may wait for its next
/// request. Comparable servers use 5 s (Go's examples) to 75 s (nginx).
const HEAD: Duration = Duration::from_secs(75);

/// How long a connection may move no byte in either direction in the middle of a request or an answer.
const IDLE: Duration = Duration::from_secs(300);

/// Ends a connection without an answer, as a knob demands.
#[derive(Debug, thiserror::Error)]
#[error("connection cut by a knob")]
struct ConnectionCut;

/// Accepts connections until the token is cancelled.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<ServerState>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepting = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accepting => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                shared.counters.connection();
                let serving = serve(stream, Arc::clone(&shared), stop.clone());
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) => {
                // No descriptors left, or the peer has already gone: the next attempt may succeed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
    // No more bytes arrive: tasks that append to a session now persist their bytes.
    shared.google.tasks.close();
    shared.google.tasks.wait().await;
}

async fn serve(stream: TcpStream, shared: Arc<ServerState>, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small answers may be delayed");
    }
    let link = Arc::new(ConnectionLink::default());
    let (end, idle) = (link.end.clone(), Arc::clone(&link.activity));
    let io = ShapedStream::new(stream, Arc::clone(&shared.rates), Arc::clone(&link));
    let serving = async {
        match &shared.tls {
            None => speak(io, &shared, link).await,
            Some(tls) => match tls.handshake(io).await {
                Ok(io) => speak(io, &shared, link).await,
                Err(error) => tracing::debug!(%error, "no TLS with a client"),
            },
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = end.cancelled() => {}
        () = idle.passed(IDLE) => tracing::debug!("a connection on which nothing moved was closed"),
        () = serving => {}
    }
}

/// Answers all requests of one connection.
async fn speak(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    shared: &Arc<ServerState>,
    link: Arc<ConnectionLink>,
) {
    let (io, shared) = (CutHead::new(io, Arc::clone(&link)), Arc::clone(shared));
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        let link = Arc::clone(&link);
        async move { shared.answer(request, link).await }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The buffer's size also limits the head of a request.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(READ_BUFFER);
    builder.http2().initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    if let Err(error) = builder.serve_connection(TokioIo::new(io), service).await {
        tracing::debug!(%error, "connection ended early");
    }
}

impl ServerState {
    async fn answer(
        &self,
        request: http::Request<Incoming>,
        link: Arc<ConnectionLink>,
    ) -> Result<http::Response<AnswerBody>, ConnectionCut> {
        let is_control = request.uri().path().starts_with(control::PATH);
        link.exempt.store(is_control, Ordering::Relaxed);
        let (parts, incoming) = request.into_parts();
        let dialect = Dialect::of(&parts);
        let admitted = self.guard.check_way(&parts).and_then(|()| match is_control {
            true => self.guard.check_control(&parts.method, &parts.headers),
            false => self.guard.check_dialect(dialect, &parts.headers),
        });
        if let Err(refused) = admitted {
            return Ok(self.turn_away(&refused, (!is_control).then_some(dialect), incoming, link).await);
        }
        let request = http::Request::from_parts(parts, incoming);
        if is_control {
            return Ok(
                control::answer(request, &self.faults, &self.counters, &self.google.gate.store, link).await
            );
        }

        let exchange = Arc::new(Exchange::new(Arc::clone(&link)));
        let waits_for_continue = request.headers().contains_key(http::header::EXPECT);
        let (mut parts, incoming) = request.into_parts();
        parts.extensions.insert(Arc::clone(&exchange));
        let pace = BodyPace::new(Arc::clone(&self.rates));
        let body = CountedBody::new(incoming, pace, Arc::clone(&exchange), Arc::clone(&self.counters));
        let is_http2 = parts.version == http::Version::HTTP_2;
        let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let mut answer = match dialect {
            Dialect::Grpc => self.google.answer_grpc(parts, body, &exchange).await,
            Dialect::Json => self.google.answer(parts, body, &exchange).await,
            Dialect::Xml => self.answer_xml(parts, body, &exchange).await?,
            Dialect::S3 => self.answer_s3(parts, body, &exchange).await?,
        };
        if let Some(refusal) = exchange.late_refusal() {
            answer = dialect.denied(refusal);
        }
        if let Some(origin) = exchange.redirect()
            && let Ok(location) = HeaderValue::try_from(format!("{origin}{path}"))
        {
            answer.headers_mut().insert(http::header::LOCATION, location);
        }
        // Google answers 499 when an upload was cancelled as requested: that is no error.
        let is_error = answer.status().as_u16() >= 400 && answer.status().as_u16() != 499;
        let has_failed =
            is_error || gcs::grpc::has_failed(&answer) || exchange.refused.load(Ordering::Acquire);
        let is_lost = exchange.lose_answer.load(Ordering::Acquire) && !has_failed
            || exchange.cut.load(Ordering::Acquire);
        let denial = exchange.denial().filter(|_| !has_failed);
        self.count(&exchange, has_failed || is_lost || denial.is_some());
        if exchange.hold_answer.load(Ordering::Acquire) && !has_failed {
            // Ends with the connection: when the client gives up, or the server stops.
            std::future::pending::<()>().await;
        }
        if is_lost {
            link.cut.store(true, Ordering::Relaxed);
            if is_http2 {
                // Over HTTP/2, the error returned below would end only this stream: end the whole connection.
                link.end.cancel();
            }
            return Err(ConnectionCut);
        }
        if let Some(denial) = denial {
            answer = dialect.denied(denial);
        }
        answer.headers_mut().insert(http::header::SERVER, HeaderValue::from_static("Tidegate"));
        link.cut_head.store(exchange.cut_head.load(Ordering::Acquire), Ordering::Relaxed);
        if let Some(rest) = exchange.take_leftover().filter(|_| !is_http2) {
            if dialect == Dialect::Json && !waits_for_continue && rest.size_hint().exact().is_none() {
                // The stream may not end until the client has the answer. Answer first, then read what the
                // client still sends: otherwise it would get a reset instead of the answer.
                let stop = self.google.stop.clone();
                self.google.tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        _ = tokio::time::timeout(LINGER, drain(rest)) => {}
                    }
                });
                answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
                return Ok(
                    answer.map(|body| AnswerBody::new(body, &exchange, link, Arc::clone(&self.counters)))
                );
            }
            // A client that waits for `100 Continue` will not send its body, so the connection cannot be
            // reused: announce that with `Connection: close`.
            let is_drained = !waits_for_continue && drain(rest).await;
            if !is_drained {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(http::header::CONNECTION, close);
            }
        }
        Ok(answer.map(|body| AnswerBody::new(body, &exchange, link, Arc::clone(&self.counters))))
    }

    /// Refuses a request, after reading its body, so that the client sees the answer.
    async fn turn_away(
        &self,
        refused: &Refused,
        dialect: Option<Dialect>,
        rest: Incoming,
        link: Arc<ConnectionLink>,
    ) -> http::Response<AnswerBody> {
        tracing::warn!(reason = %refused.message, "a request was refused");
        self.counters.request("Refused");
        self.counters.failure("Refused");
        drain(rest).await;
        match dialect {
            None => control::refuse(refused, link),
            Some(dialect) => {
                let exchange = Exchange::new(Arc::clone(&link));
                let counters = Arc::clone(&self.counters);
                dialect.refuse(refused).map(|body| AnswerBody::new(body, &exchange, link, counters))
            }
        }
    }

    /// Translates a request of Google's XML API to S3, and the answer back.
    async fn answer_xml(
        &self,
        mut parts: Parts,
        body: CountedBody,
        exchange: &Exchange,
    ) -> Result<http::Response<s3s::Body>, ConnectionCut> {
        if gcs::xml::is_initiation(&parts) && self.google.gate.faults.knobs().fake_gcs_server {
            return Ok(self.google.answer_without_parts(exchange).await);
        }
        if self.google.gate.faults.knobs().fake_gcs_server {
            gcs::xml::lists_objects_instead(&mut parts);
        }
        match gcs::xml::to_s3(&mut parts) {
            Ok(generations) => {
                exchange.set_google(generations);
                Ok(gcs::xml::from_s3(self.answer_s3(parts, body, exchange).await?))
            }
            Err(refusal) => Ok(gcs::xml::refuse(&refusal)),
        }
    }

    async fn answer_s3(
        &self,
        parts: Parts,
        body: CountedBody,
        exchange: &Exchange,
    ) -> Result<http::Response<s3s::Body>, ConnectionCut> {
        let body = if aws_chunked::is_unsigned_upload(&parts) {
            exchange.put_aside(body);
            s3s::Body::empty()
        } else {
            s3s::Body::http_body(body)
        };
        let answer = self.s3.call(http::Request::from_parts(parts, body)).await;
        drop(exchange.take_aside());
        answer.map_err(|error| {
            tracing::error!(?error, "the protocol layer cannot answer");
            ConnectionCut
        })
    }

    fn count(&self, exchange: &Exchange, has_failed: bool) {
        match exchange.operation() {
            Some(operation) if has_failed => self.counters.failure(operation),
            Some(_) => {}
            None => {
                self.counters.request("Refused");
                self.counters.failure("Refused");
            }
        }
    }
}

/// Reads the unread rest of a request's body, up to a limit; returns whether its end was reached.
async fn drain(mut rest: Incoming) -> bool {
    let mut read = 0;
    while read < DRAINED {
        match rest.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, bytes::Bytes::len),
            Some(Err(error)) => {
                tracing::debug!(%error, "the client left before its answer");
                return false;
            }
            None => return true,
        }
    }
    false
}
