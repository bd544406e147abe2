//! Throttles connections: a TCP stream whose reads and writes are paced by token buckets.
//!
//! Pacing sits below HTTP and TLS, so that a slow connection fills the peer's socket buffers and slows the peer
//! down, as a slow network does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::knobs::Bandwidth;

/// A token bucket: fills at a rate, up to a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    pub(crate) fn full(burst: f64, now: Instant) -> Self {
        Self { tokens: burst, at: now }
    }

    /// Adds the tokens since the last call and returns the balance; may be negative.
    pub(crate) fn available(&mut self, rate: f64, burst: f64, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + elapsed * rate).min(burst);
        self.tokens
    }

    pub(crate) fn take(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }
}

/// How long the server waits before a reset, so that earlier bytes still leave.
pub(crate) const BEFORE_RESET: Duration = Duration::from_millis(20);

/// How much may move at once after a pause, in seconds of the rate.
const BURST_SECONDS: f64 = 0.05;
/// The smallest transfer worth waking up for, in seconds of the rate.
const STEP_SECONDS: f64 = 0.02;
/// The smallest transfer worth waking up for, for one body: shorter, because a client has at most one HTTP/2
/// window in flight meanwhile.
const BODY_STEP_SECONDS: f64 = 0.005;

/// One direction's rates: for each connection, and shared by all connections.
#[derive(Debug)]
struct DirectionRates {
    connection: AtomicU64,
    total: AtomicU64,
    shared: Mutex<TokenBucket>,
}

impl Default for DirectionRates {
    fn default() -> Self {
        Self {
            connection: AtomicU64::new(0),
            total: AtomicU64::new(0),
            shared: Mutex::new(TokenBucket::full(0.0, Instant::now())),
        }
    }
}

impl DirectionRates {
    fn is_open(&self) -> bool {
        self.connection.load(Ordering::Relaxed) == 0 && self.total.load(Ordering::Relaxed) == 0
    }

    fn with_shared<R>(&self, act: impl FnOnce(&mut TokenBucket) -> R) -> R {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bandwidth limits in force. Zero means no limit.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    reads: DirectionRates,
    writes: DirectionRates,
    bodies: AtomicU64,
}

impl Rates {
    pub(crate) fn set(&self, bandwidth: &Bandwidth) {
        let store = |rate: &AtomicU64, value: Option<u64>| {
            rate.store(value.unwrap_or(0), Ordering::Relaxed);
        };
        store(&self.reads.connection, bandwidth.connection_in);
        store(&self.reads.total, bandwidth.total_in);
        store(&self.writes.connection, bandwidth.connection_out);
        store(&self.writes.total, bandwidth.total_out);
        store(&self.bodies, bandwidth.stream_in);
    }
}

/// State shared between the two layers that handle a connection: its stream and its requests.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLink {
    /// The connection serves the control endpoint and is not paced.
    pub(crate) exempt: AtomicBool,
    /// The connection ends with a reset instead of an orderly close.
    pub(crate) cut: AtomicBool,
    /// The connection ends now, even if other requests are in flight on it.
    pub(crate) end: CancellationToken,
    /// The connection is reset after one byte of the next answer.
    pub(crate) cut_head: AtomicBool,
    /// When bytes last moved.
    pub(crate) activity: Arc<ConnectionActivity>,
    /// Factor by which this connection receives more slowly than others: the bits of an `f64`, 0 for none.
    slow: AtomicU64,
}

/// When a connection last moved bytes.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    began: Instant,
    /// Milliseconds from `began`.
    last: AtomicU64,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl ConnectionActivity {
    fn moved(&self) {
        let millis = self.began.elapsed().as_millis();
        self.last.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Waits until no byte has moved for `limit`.
    pub(crate) async fn passed(&self, limit: Duration) {
        loop {
            let last = self.last.load(Ordering::Relaxed);
            let end = self.began + Duration::from_millis(last) + limit;
            tokio::time::sleep_until(end.into()).await;
            if last == self.last.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl ConnectionLink {
    /// Makes the connection receive more slowly by this factor from now on.
    pub(crate) fn set_slow(&self, times: Option<f64>) {
        self.slow.store(times.map_or(0, f64::to_bits), Ordering::Relaxed);
    }

    fn slow(&self) -> f64 {
        match self.slow.load(Ordering::Relaxed) {
            0 => 1.0,
            bits => f64::from_bits(bits).max(1.0),
        }
    }
}

/// Grants bytes to one direction of one connection.
#[derive(Debug)]
struct Pace {
    own: TokenBucket,
    nap: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new() -> Self {
        Self { own: TokenBucket::full(0.0, Instant::now()), nap: None }
    }

    /// Waits until some of `want` bytes may move, and takes their tokens.
    fn poll_grant(
        &mut self,
        way: &DirectionRates,
        want: usize,
        slow: f64,
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        loop {
            if let Some(nap) = &mut self.nap {
                ready!(nap.as_mut().poll(cx));
                self.nap = None;
            }
            let now = Instant::now();
            let own = BucketAllowance::of(&way.connection, slow, want, |rate, burst| {
                self.own.available(rate, burst, now)
            });
            let total = BucketAllowance::of(&way.total, 1.0, want, |rate, burst| {
                way.with_shared(|shared| shared.available(rate, burst, now))
            });
            let wait = own.wait.max(total.wait);
            if wait.is_zero() {
                let granted = own.bytes.min(total.bytes);
                self.own.take(granted as f64);
                way.with_shared(|shared| shared.take(granted as f64));
                return Poll::Ready(granted);
            }
            // The timer ticks in milliseconds; a shorter wait would only spin.
            let wait = wait.max(Duration::from_millis(1));
            self.nap = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }

    fn refund(&mut self, way: &DirectionRates, bytes: usize) {
        self.own.take(-(bytes as f64));
        way.with_shared(|shared| shared.take(-(bytes as f64)));
    }
}

/// Paces one request's body, above HTTP: requests that share a connection are paced separately.
#[derive(Debug)]
pub(crate) struct BodyPace {
    rates: Arc<Rates>,
    /// Starts at the first poll: earlier time counts as the request's latency, not as its body's time.
    tokens: Option<TokenBucket>,
    nap: Option<Pin<Box<Sleep>>>,
}

impl BodyPace {
    pub(crate) fn new(rates: Arc<Rates>) -> Self {
        Self { rates, tokens: None, nap: None }
    }

    /// Waits until more of the body may be read.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(nap) = &mut self.nap {
                ready!(nap.as_mut().poll(cx));
                self.nap = None;
            }
            let rate = self.rates.bodies.load(Ordering::Relaxed) as f64;
            if rate == 0.0 {
                return Poll::Ready(());
            }
            let now = Instant::now();
            // The first bytes pass at once and are paid for afterwards.
            let tokens = self.tokens.get_or_insert_with(|| TokenBucket::full(1.0, now));
            let tokens = tokens.available(rate, (rate * BURST_SECONDS).max(1.0), now);
            if tokens > 0.0 {
                return Poll::Ready(());
            }
            let wait = BODY_STEP_SECONDS - tokens / rate;
            self.nap = Some(Box::pin(tokio::time::sleep(Duration::from_secs_f64(wait))));
        }
    }

    pub(crate) fn took(&mut self, bytes: usize) {
        if let Some(tokens) = &mut self.tokens {
            tokens.take(bytes as f64);
        }
    }
}

/// How many bytes one bucket would let through now, or how long to wait.
struct BucketAllowance {
    bytes: usize,
    wait: Duration,
}

impl BucketAllowance {
    fn of(rate: &AtomicU64, slow: f64, want: usize, available: impl FnOnce(f64, f64) -> f64) -> Self {
        let rate = rate.load(Ordering::Relaxed) as f64 / slow;
        if rate == 0.0 {
            return Self { bytes: want, wait: Duration::ZERO };
        }
        let tokens = available(rate, (rate * BURST_SECONDS).max(1.0));
        let step = (rate * STEP_SECONDS).clamp(1.0, want as f64);
        if tokens >= step {
            Self { bytes: want.min(tokens as usize), wait: Duration::ZERO }
        } else {
            Self { bytes: 0, wait: Duration::try_from_secs_f64((step - tokens) / rate).unwrap_or_default() }
        }
    }
}

/// A TCP stream paced by the server's [`Rates`].
#[derive(Debug)]
pub(crate) struct ShapedStream {
    stream: TcpStream,
    rates: Arc<Rates>,
    link: Arc<ConnectionLink>,
    reads: Pace,
    writes: Pace,
}

impl ShapedStream {
    pub(crate) fn new(stream: TcpStream, rates: Arc<Rates>, link: Arc<ConnectionLink>) -> Self {
        Self { stream, rates, link, reads: Pace::new(), writes: Pace::new() }
    }

    fn is_paced(&self, way: &DirectionRates) -> bool {
        !way.is_open() && !self.link.exempt.load(Ordering::Relaxed)
    }

    /// Records activity if bytes were written.
    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(&result, Poll::Ready(Ok(moved)) if *moved > 0) {
            self.link.activity.moved();
        }
        result
    }
}

impl Drop for ShapedStream {
    fn drop(&mut self) {
        if self.link.cut.load(Ordering::Relaxed)
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "connection closed in order, not reset");
        }
    }
}

impl AsyncRead for ShapedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let result = if !this.is_paced(&this.rates.reads) || buf.remaining() == 0 {
            Pin::new(&mut this.stream).poll_read(cx, buf)
        } else {
            let way = &this.rates.reads;
            let granted = ready!(this.reads.poll_grant(way, buf.remaining(), this.link.slow(), cx));
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(granted));
            let result = Pin::new(&mut this.stream).poll_read(cx, &mut part);
            let moved = part.filled().len();
            this.reads.refund(way, granted - moved);
            buf.advance(moved);
            result
        };
        if buf.filled().len() > before {
            this.link.activity.moved();
        }
        result
    }
}

impl AsyncWrite for ShapedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !this.is_paced(&this.rates.writes) || buf.is_empty() {
            let result = Pin::new(&mut this.stream).poll_write(cx, buf);
            return this.wrote(result);
        }
        let way = &this.rates.writes;
        let granted = ready!(this.writes.poll_grant(way, buf.len(), 1.0, cx));
        let result = Pin::new(&mut this.stream).poll_write(cx, &buf[..granted]);
        let moved = match &result {
            Poll::Ready(Ok(moved)) => *moved,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        this.writes.refund(way, granted - moved);
        this.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.is_paced(&self.rates.writes) {
            let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
            return self.wrote(result);
        }
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| buf))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
