//! Caches credentials, and fetches them again before they expire.

use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::identity::Identity;
use futures::future::BoxFuture;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::provider::{RenewalTurn, renewal};
use tidegate_http::{environment, innermost};

/// Makes a provider that shares no cached state with an earlier provider.
pub(super) type NewProvider = Arc<dyn Fn() -> BoxFuture<'static, SharedCredentialsProvider> + Send + Sync>;

/// The credentials of one client.
#[derive(Debug)]
pub(super) enum S3Keyring {
    /// Do not sign requests.
    Anonymous,
    /// Credentials that never change.
    Fixed(Arc<Identity>),
    /// Credentials from a provider; they may expire.
    Provided(Provided),
}

impl S3Keyring {
    pub(super) fn fixed(
        access_key: &str,
        secret_key: &str,
        session_token: Option<&str>,
    ) -> Result<Self, Fault> {
        let token = session_token.map(str::to_owned);
        let keys = usable(Keys::new(access_key, secret_key, token, None, "settings"))?;
        Ok(Self::Fixed(Arc::new(keys.into())))
    }

    /// Credentials from a provider that `new` makes: once now, and again after each refusal.
    pub(super) async fn provided(new: NewProvider, profile: Option<String>) -> Self {
        let provider = RwLock::new(new().await);
        Self::Provided(Provided {
            provider,
            new,
            profile,
            current: RwLock::default(),
            refresh: RenewalTurn::default(),
        })
    }

    /// Called when the store says that `identity` has expired. True if the next request may get other credentials.
    pub(super) async fn refused(&self, identity: &Arc<Identity>) -> bool {
        match self {
            Self::Anonymous | Self::Fixed(_) => false,
            Self::Provided(provided) => {
                provided.refused(identity).await;
                true
            }
        }
    }

    /// The identity to sign with; `None` if requests are not signed.
    pub(super) async fn identity(&self) -> Result<Option<Arc<Identity>>, Fault> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Fixed(identity) => Ok(Some(identity.clone())),
            Self::Provided(provided) => provided.identity_at(SystemTime::now()).await.map(Some),
        }
    }
}

/// Credentials from a provider, valid for a limited time.
pub(super) struct Provided {
    provider: RwLock<SharedCredentialsProvider>,
    new: NewProvider,
    /// The profile that was requested by name.
    profile: Option<String>,
    current: RwLock<Option<CurrentIdentity>>,
    /// Taken by the one request that fetches. Other requests wait for it only if they have no valid credentials.
    refresh: RenewalTurn,
}

#[derive(Clone)]
struct CurrentIdentity {
    identity: Arc<Identity>,
    /// When it is fetched again. If that fails, it stays in use until it expires.
    renewed: Option<SystemTime>,
}

impl CurrentIdentity {
    fn is_good_at(&self, time: SystemTime) -> bool {
        self.identity.expiration().is_none_or(|expires| expires > time)
    }

    fn is_due_at(&self, time: SystemTime) -> bool {
        self.renewed.is_some_and(|renewed| renewed <= time)
    }
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provided").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Provided {
    async fn identity_at(&self, now: SystemTime) -> Result<Arc<Identity>, Fault> {
        let good = || self.current().filter(|current| current.is_good_at(now));
        let Some(usable) = good() else {
            let current = || good().map(|current| current.identity);
            return self.refresh.ask(current, self.fetch(now)).await;
        };
        if !usable.is_due_at(now) {
            return Ok(usable.identity);
        }
        match self.refresh.ask_early(self.fetch(now)).await {
            Some(Ok(identity)) => Ok(identity),
            None => Ok(usable.identity),
            Some(Err(fault)) => {
                tracing::warn!(%fault, "credentials expire soon and could not be fetched again");
                Ok(usable.identity)
            }
        }
    }

    fn current(&self) -> Option<CurrentIdentity> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Discards `refused`, unless another request has done so: when several requests are refused together, only one
    /// of them makes the provider fetch again.
    async fn refused(&self, refused: &Arc<Identity>) {
        let _turn = self.refresh.wait().await;
        if !self.current().is_some_and(|current| Arc::ptr_eq(&current.identity, refused)) {
            return;
        }
        let provider = (self.new)().await;
        *self.provider.write().unwrap_or_else(PoisonError::into_inner) = provider;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn fetch(&self, now: SystemTime) -> Result<Arc<Identity>, Fault> {
        let provider = self.provider.read().unwrap_or_else(PoisonError::into_inner).clone();
        let keys = provider.provide_credentials().await.map_err(|error| self.fault(error))?;
        let identity = Arc::new(Identity::from(usable(keys)?));
        let renewed = identity.expiration().map(|expires| renewal(now, expires));
        let current = CurrentIdentity { identity: identity.clone(), renewed };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(current);
        Ok(identity)
    }

    fn fault(&self, error: CredentialsError) -> Fault {
        let message = match (&error, &self.profile) {
            (CredentialsError::CredentialsNotLoaded(_), None) => {
                let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
                format!(
                    "no credentials found in the environment (AWS_ACCESS_KEY_ID), in profile `{profile}` \
                     of ~/.aws/config and ~/.aws/credentials, from a web identity, a container role or an \
                     instance role"
                )
            }
            (CredentialsError::CredentialsNotLoaded(_), Some(profile)) => {
                format!("no credentials found in profile `{profile}` of ~/.aws/config and ~/.aws/credentials")
            }
            (CredentialsError::ProviderTimedOut(_), _) => "no credentials came in time".to_owned(),
            _ => {
                let why = error.source().map_or_else(|| error.to_string(), innermost);
                // A credential process may print several lines.
                let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                let hint = if why.contains("SSO") { ": sign in with `aws sso login`" } else { "" };
                format!("credentials could not be loaded: {why}{hint}")
            }
        };
        Fault::new(FaultKind::Credentials, message).with_source(error)
    }
}

/// The keys in the environment; `None` unless both are set.
pub(super) fn environment_keys(read: impl Fn(&str) -> Option<OsString>) -> Result<Option<Keys>, Fault> {
    let access_key = environment::word("AWS_ACCESS_KEY_ID", &read)?;
    let mut secret_key = environment::word("AWS_SECRET_ACCESS_KEY", &read)?;
    if secret_key.is_none() {
        secret_key = environment::word("SECRET_ACCESS_KEY", &read)?;
    }
    let token = environment::word("AWS_SESSION_TOKEN", &read)?;
    let both = access_key.zip(secret_key);
    Ok(both.map(|(access_key, secret_key)| Keys::new(access_key, secret_key, token, None, "environment")))
}

/// Trims white space around credentials. Refuses credentials with characters that a request cannot carry.
fn usable(keys: Keys) -> Result<Keys, Fault> {
    let parts = [
        ("aws_access_key_id", Some(keys.access_key_id())),
        ("aws_secret_access_key", Some(keys.secret_access_key())),
        ("aws_session_token", keys.session_token()),
    ];
    for (name, value) in parts {
        if value.is_some_and(|value| !value.trim().bytes().all(|byte| byte.is_ascii_graphic())) {
            let place = match files().iter().find_map(|file| line_of(file, name)) {
                Some(place) => format!(" ({place})"),
                None => String::new(),
            };
            let message = format!(
                "{name} has whitespace, a line end or another character in it that none has: check where it is set{place}"
            );
            return Err(Fault::new(FaultKind::Credentials, message));
        }
    }
    if parts.iter().all(|(_, value)| value.is_none_or(|value| value.trim() == value)) {
        return Ok(keys);
    }
    let token = keys.session_token().map(|token| token.trim().to_owned());
    let (access_key, secret_key) = (keys.access_key_id().trim(), keys.secret_access_key().trim());
    Ok(Keys::new(access_key, secret_key, token, keys.expiry(), "trimmed"))
}

/// The files that may contain keys.
fn files() -> [PathBuf; 2] {
    let home = PathBuf::from(environment::process("HOME").unwrap_or_default());
    [("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config")]
        .map(|(name, default)| environment::process(name).map_or_else(|| home.join(default), PathBuf::from))
}

/// The file and line of a setting whose value continues on the next line, or has a character that no credential has.
fn line_of(file: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let Some((set, value)) = line.split_once('=') else { continue };
        let is_continued =
            lines.peek().is_some_and(|(_, next)| next.starts_with([' ', '\t']) && !next.trim().is_empty());
        let is_odd = !value.trim().bytes().all(|byte| byte.is_ascii_graphic());
        if set.trim().eq_ignore_ascii_case(name) && (is_continued || is_odd) {
            return Some(format!("{}, line {}", file.display(), at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use aws_credential_types::provider::future;

    use super::*;

    /// Gives key `key-N` at the Nth time, good for as long as it was told.
    #[derive(Debug, Clone)]
    struct Counting(Arc<AtomicU32>, Duration);

    impl ProvideCredentials for Counting {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            let expires = SystemTime::now() + self.1;
            future::ProvideCredentials::ready(if count > 2 {
                Err(CredentialsError::provider_error("the token server is down"))
            } else {
                Ok(Keys::new(format!("key-{count}"), "secret", None, Some(expires), "test"))
            })
        }
    }

    async fn keyring_of(from: &Counting) -> S3Keyring {
        let from = from.clone();
        let provider = move || {
            let provider = SharedCredentialsProvider::new(from.clone());
            Box::pin(std::future::ready(provider)) as BoxFuture<'static, _>
        };
        S3Keyring::provided(Arc::new(provider), None).await
    }

    #[tokio::test]
    async fn those_that_the_store_refuses_are_fetched_anew_once() {
        let keyring = keyring_of(&Counting(Arc::default(), Duration::from_secs(3600))).await;
        let first = keyring.identity().await.unwrap().unwrap();
        assert_eq!(key(&keyring).await, "key-1");
        // Two requests that were signed with the same ones are refused.
        assert!(keyring.refused(&first).await && keyring.refused(&first).await);
        assert_eq!(key(&keyring).await, "key-2");
        assert!(keyring.refused(&first).await, "an old one changes nothing");
        assert_eq!(key(&keyring).await, "key-2");
        let fixed = S3Keyring::fixed("a", "b", Some("c")).unwrap();
        let identity = fixed.identity().await.unwrap().unwrap();
        assert!(!fixed.refused(&identity).await, "these are all there are");
    }

    async fn key(keyring: &S3Keyring) -> String {
        key_after(keyring, 0).await
    }

    /// The key that a request is signed with that many seconds from now.
    async fn key_after(keyring: &S3Keyring, seconds: u64) -> String {
        let S3Keyring::Provided(provided) = keyring else { panic!("{keyring:?}") };
        let identity = provided.identity_at(SystemTime::now() + Duration::from_secs(seconds)).await.unwrap();
        identity.data::<Keys>().unwrap().access_key_id().to_owned()
    }

    #[tokio::test]
    async fn they_are_kept_while_good_and_fetched_before_they_expire() {
        let long = Counting(Arc::default(), Duration::from_secs(3600));
        let keyring = keyring_of(&long).await;
        assert_eq!((key(&keyring).await, key(&keyring).await), ("key-1".into(), "key-1".into()));

        assert_eq!(key_after(&keyring, 3_240).await, "key-1");
        assert_eq!(key_after(&keyring, 3_360).await, "key-2");
        assert_eq!(key_after(&keyring, 3_590).await, "key-2", "still good although the third fetch failed");
        assert_eq!(long.0.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn those_that_live_a_minute_are_fetched_once_and_not_for_each_request() {
        let short = Counting(Arc::default(), Duration::from_secs(60));
        let keyring = keyring_of(&short).await;
        for _ in 0..400 {
            assert_eq!(key(&keyring).await, "key-1");
        }
        assert_eq!(short.0.load(Ordering::SeqCst), 1);
        assert_eq!(key_after(&keyring, 46).await, "key-2");
        assert_eq!(short.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn keys_are_trimmed_or_refused_by_name() {
        let read = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("key\n".into()),
            "AWS_SECRET_ACCESS_KEY" => Some(" secret\r\n".into()),
            "AWS_SESSION_TOKEN" => Some("\n".into()),
            _ => None,
        };
        let keys = environment_keys(read).unwrap().unwrap();
        assert_eq!((keys.access_key_id(), keys.secret_access_key()), ("key", "secret"));
        assert_eq!(keys.session_token(), None);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
            let refused = environment_keys(|asked| Some(if asked == name { "a\nb" } else { "ab" }.into()));
            assert!(refused.unwrap_err().message.starts_with(name));
        }
        assert!(environment_keys(|_| None).unwrap().is_none());

        let Ok(S3Keyring::Fixed(identity)) = S3Keyring::fixed("key\n", "secret\n", Some("token ")) else {
            panic!()
        };
        let keys = identity.data::<Keys>().unwrap();
        assert_eq!((keys.access_key_id(), keys.secret_access_key()), ("key", "secret"));
        assert!(S3Keyring::fixed("a\nb", "secret", None).unwrap_err().message.contains("aws_access_key_id"));
    }

    #[test]
    fn a_continued_key_is_named_by_file_and_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(
            &mut file,
            b"[default]\naws_access_key_id = AKIA\n  MORE\naws_secret_access_key = s\n",
        )
        .unwrap();
        let place = line_of(file.path(), "aws_access_key_id").unwrap();
        assert!(place.ends_with(", line 2"), "{place}");
        assert_eq!(line_of(file.path(), "aws_secret_access_key"), None);
    }

    #[tokio::test]
    async fn a_failure_is_one_sentence() {
        let failing = Counting(Arc::new(AtomicU32::new(2)), Duration::ZERO);
        let keyring = keyring_of(&failing).await;
        let fault = keyring.identity().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Credentials);
        assert_eq!(fault.message, "credentials could not be loaded: the token server is down");
    }
}
