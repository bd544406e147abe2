//! Access tokens: from the caller's own code, or from a source that a store's module knows.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};

use crate::provider::{Provider, ProviderError, RenewalTurn, renewal};
use tidegate_core::backend::{Fault, FaultKind};

/// The headers that authenticate a request.
pub type TokenHeaders = HeaderMap<HeaderValue>;

/// An access token for a cloud's APIs, and when it expires.
#[derive(Clone)]
pub struct AccessToken {
    token: String,
    expires: Option<SystemTime>,
}

impl AccessToken {
    /// A token that does not expire, or whose expiry is not known: then another one is asked for when the store
    /// refuses it.
    pub fn new(token: impl Into<String>) -> Self {
        Self { token: token.into(), expires: None }
    }

    /// When the token expires: another one is asked for five minutes before, or in the last quarter of a life that is
    /// shorter than twenty.
    #[must_use]
    pub fn with_expiry(mut self, time: SystemTime) -> Self {
        self.expires = Some(time);
        self
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// Gives a new access token whenever it is asked.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Gets a token.
    async fn token(&self) -> Result<AccessToken, Fault>;
}

#[async_trait]
impl TokenSource for Provider<AccessToken> {
    async fn token(&self) -> Result<AccessToken, Fault> {
        self.ask().await.map_err(not_provided)
    }
}

/// The tokens of one source: the last one is used until it expires or is refused.
pub struct RenewedTokens<S> {
    source: S,
    current: Mutex<Option<TokenInUse>>,
    turn: RenewalTurn,
}

#[derive(Clone)]
struct TokenInUse {
    headers: TokenHeaders,
    expires: Option<SystemTime>,
    /// When another one is asked for.
    renewed: Option<SystemTime>,
}

impl TokenInUse {
    fn is_good_at(&self, time: SystemTime) -> bool {
        self.expires.is_none_or(|expires| expires > time)
    }

    fn is_due_at(&self, time: SystemTime) -> bool {
        self.renewed.is_some_and(|renewed| renewed <= time)
    }
}

impl<S: TokenSource> RenewedTokens<S> {
    /// Tokens of this source, renewed before they expire.
    pub fn new(source: S) -> Self {
        Self { source, current: Mutex::default(), turn: RenewalTurn::default() }
    }

    /// Where the tokens come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    fn lock(&self) -> MutexGuard<'_, Option<TokenInUse>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn good_at(&self, time: SystemTime) -> Option<TokenInUse> {
        self.lock().clone().filter(|current| current.is_good_at(time))
    }

    /// The headers for a request that is sent now.
    pub async fn identity(&self) -> Result<TokenHeaders, Fault> {
        self.identity_at(SystemTime::now()).await
    }

    async fn identity_at(&self, now: SystemTime) -> Result<TokenHeaders, Fault> {
        let Some(usable) = self.good_at(now) else {
            let current = || self.good_at(now).map(|current| current.headers);
            return self.turn.ask(current, self.ask(now)).await;
        };
        if !usable.is_due_at(now) {
            return Ok(usable.headers);
        }
        match self.turn.ask_early(self.ask(now)).await {
            Some(Ok(headers)) => Ok(headers),
            None => Ok(usable.headers),
            Some(Err(fault)) => {
                tracing::warn!(%fault, "the access token expires soon, and no other one was provided");
                Ok(usable.headers)
            }
        }
    }

    async fn ask(&self, now: SystemTime) -> Result<TokenHeaders, Fault> {
        let AccessToken { token, expires } = self.source.token().await?;
        let headers = TokenHeaders::from_iter([(http::header::AUTHORIZATION, bearer(token.trim())?)]);
        let renewed = expires.map(|expires| renewal(now, expires));
        *self.lock() = Some(TokenInUse { headers: headers.clone(), expires, renewed });
        Ok(headers)
    }

    /// Discards the token in `given`, unless another request has done so.
    pub fn refused(&self, given: &TokenHeaders) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| current.headers == *given) {
            *current = None;
        }
    }
}

/// The `Authorization` header of a token.
pub fn bearer(token: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| {
        Fault::new(FaultKind::Credentials, "the access token has characters that no header can carry")
            .with_source(error)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn not_provided(error: ProviderError) -> Fault {
    let fault = Fault::new(FaultKind::Credentials, format!("no access token was provided: {error}"));
    fault.with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    /// Gives `token-N` at the Nth time, good for `lifetime`; fails from the third time on.
    fn counting(lifetime: Duration) -> (RenewedTokens<Provider<AccessToken>>, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let provider = Provider::new(move || {
            let count = counted.fetch_add(1, SeqCst) + 1;
            async move {
                tokio::task::yield_now().await;
                if count > 2 {
                    return Err("the vault is locked".into());
                }
                Ok(AccessToken::new(format!("token-{count}\n")).with_expiry(SystemTime::now() + lifetime))
            }
        });
        (RenewedTokens::new(provider), asked)
    }

    async fn token(tokens: &RenewedTokens<Provider<AccessToken>>) -> String {
        token_after(tokens, 0).await
    }

    /// The token that a request is sent with that many seconds from now.
    async fn token_after(tokens: &RenewedTokens<Provider<AccessToken>>, seconds: u64) -> String {
        let identity = tokens.identity_at(SystemTime::now() + Duration::from_secs(seconds)).await.unwrap();
        identity[http::header::AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_token_ask_once_and_a_refused_token_is_asked_for_again() {
        let (tokens, asked) = counting(Duration::from_secs(3600));
        let (a, b) = tokio::join!(token(&tokens), token(&tokens));
        assert_eq!((a.as_str(), b.as_str(), asked.load(SeqCst)), ("Bearer token-1", "Bearer token-1", 1));
        let first = tokens.identity().await.unwrap();
        tokens.refused(&first);
        tokens.refused(&first);
        assert_eq!(token(&tokens).await, "Bearer token-2");
        tokens.refused(&first);
        assert_eq!((token(&tokens).await.as_str(), asked.load(SeqCst)), ("Bearer token-2", 2));
    }

    #[tokio::test]
    async fn a_token_is_renewed_early_and_used_on_where_that_fails() {
        let (tokens, asked) = counting(Duration::from_secs(3600));
        assert_eq!(token(&tokens).await, "Bearer token-1");
        assert_eq!(token_after(&tokens, 3_240).await, "Bearer token-1");
        assert_eq!(token_after(&tokens, 3_360).await, "Bearer token-2");
        // This one has the four minutes that are left of the hour.
        assert_eq!((token_after(&tokens, 3_420).await.as_str(), asked.load(SeqCst)), ("Bearer token-2", 2));
        assert_eq!((token_after(&tokens, 3_590).await.as_str(), asked.load(SeqCst)), ("Bearer token-2", 3));
        assert_eq!(token_after(&tokens, 3_590).await, "Bearer token-2");
        assert_eq!(asked.load(SeqCst), 3, "after a failure there is a pause");
        let (expired, _) = counting(Duration::ZERO);
        assert_eq!(token(&expired).await, "Bearer token-1");
        assert_eq!(token(&expired).await, "Bearer token-2");
        let fault = expired.identity().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Credentials);
        assert_eq!(fault.message, "no access token was provided: the vault is locked");
    }

    #[tokio::test]
    async fn a_token_that_lives_a_minute_is_asked_for_once_and_not_for_each_request() {
        let (tokens, asked) = counting(Duration::from_secs(60));
        for _ in 0..400 {
            assert_eq!(token(&tokens).await, "Bearer token-1");
        }
        assert_eq!(asked.load(SeqCst), 1);
        assert_eq!((token_after(&tokens, 46).await.as_str(), asked.load(SeqCst)), ("Bearer token-2", 2));
    }

    #[tokio::test]
    async fn a_provider_that_panics_is_an_error_of_credentials() {
        type Asked = futures::future::BoxFuture<'static, Result<AccessToken, ProviderError>>;
        let panics: [fn() -> Asked; 2] =
            [|| panic!("no vault"), || Box::pin(async { panic!("no {}", "vault") })];
        for panics in panics {
            let fault = RenewedTokens::new(Provider::new(panics)).identity().await.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Credentials);
            assert_eq!(fault.message, "no access token was provided: the provider panicked: no vault");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_for_a_provider_that_hangs_share_its_failure() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let tokens = RenewedTokens::new(Provider::new(move || {
            counted.fetch_add(1, SeqCst);
            std::future::pending()
        }));
        let began = tokio::time::Instant::now();
        for outcome in futures::future::join_all((0..8).map(|_| tokens.identity())).await {
            let fault = outcome.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Credentials);
            assert_eq!(fault.message, "no access token was provided: no answer within 8 s");
        }
        assert_eq!((asked.load(SeqCst), began.elapsed().as_secs()), (1, 8));
    }
}
