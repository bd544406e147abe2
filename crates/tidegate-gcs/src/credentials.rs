//! Credentials for requests to Google. Google's own library finds them, gets tokens and renews these before they
//! expire; this module turns that into headers and faults.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use google_cloud_auth::credentials::{Builder, CacheableResource, Credentials};
use google_cloud_auth::errors::CredentialsError;
use google_cloud_auth::signer::{Signer, SigningError};
use http::{Extensions, HeaderMap, HeaderValue};

use super::settings::{GcsCredentials, GcsCredentialsOrigin};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::access_token::{AccessToken, RenewedTokens, bearer};
use tidegate_http::provider::Provider;
use tidegate_http::{environment, innermost};

/// Time limit for a token. Outside Google's machines nothing answers at the metadata address, and some networks do
/// not even refuse.
const FETCHING: Duration = Duration::from_secs(10);

/// The credentials of one client.
pub(super) enum GcsKeyring {
    /// Requests carry no credentials.
    Anonymous,
    /// An access token that never changes.
    Fixed(String),
    /// Tokens from Google's application default credentials, which are renewed.
    Application(Application),
    /// Tokens from the caller's own code, which are renewed.
    Provided(RenewedTokens<Provider<AccessToken>>),
}

/// The headers that authenticate a request.
pub(super) type Identity = HeaderMap<HeaderValue>;

impl GcsKeyring {
    pub(super) fn new(credentials: &GcsCredentials) -> Self {
        match &credentials.0 {
            GcsCredentialsOrigin::Anonymous => Self::Anonymous,
            GcsCredentialsOrigin::Token(token) => Self::Fixed(token.trim().to_owned()),
            GcsCredentialsOrigin::Application => Self::Application(Application::default()),
            GcsCredentialsOrigin::Provider(provider) => Self::Provided(RenewedTokens::new(provider.clone())),
        }
    }

    /// The headers for a request that is sent now.
    pub(super) async fn identity(&self) -> Result<Identity, Fault> {
        match self {
            Self::Anonymous => Ok(Identity::new()),
            Self::Fixed(token) => Ok(Identity::from_iter([(http::header::AUTHORIZATION, bearer(token)?)])),
            Self::Application(application) => application.identity().await,
            Self::Provided(tokens) => tokens.identity().await,
        }
    }

    /// The service account that signs URLs: by its key, or through IAM.
    pub(super) async fn signer(&self) -> Result<Arc<UrlSigner>, Fault> {
        match self {
            Self::Application(application) => application.signer().await,
            Self::Anonymous | Self::Fixed(_) | Self::Provided(_) => {
                let message =
                    "only a service account can sign URLs: use application default credentials of one";
                Err(Fault::new(FaultKind::Credentials, message))
            }
        }
    }

    /// Forgets a signer that failed; the next URL gets a new one.
    pub(super) async fn forget_signer(&self, failed: &Arc<UrlSigner>) {
        if let Self::Application(application) = self {
            application.forget_signer(failed).await;
        }
    }

    /// The project that the credentials' file names, if there is such a file: a service account's own, or the one that
    /// a user's requests are counted for.
    pub(super) fn project(&self) -> Option<String> {
        let Self::Application(_) = self else { return None };
        let path = match CredentialsPlace::now() {
            CredentialsPlace::Variable(path) | CredentialsPlace::WellKnown(path) => path,
            CredentialsPlace::Machine => return None,
        };
        let document: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let named =
            ["project_id", "quota_project_id"].into_iter().find_map(|name| document.get(name)?.as_str());
        named.map(str::to_owned)
    }

    /// The store rejected the headers `given`. The fault is of the kind `Expired` if the next request may get other
    /// credentials.
    pub(super) fn refused(&self, mut fault: Fault, given: &Identity) -> Fault {
        fault.kind = FaultKind::Credentials;
        let ours = match self {
            Self::Anonymous => "the store wants credentials, and was sent none",
            Self::Fixed(_) => "the store does not take the access token",
            Self::Application(application) => {
                application.refused(given);
                fault.kind = FaultKind::Expired;
                "the store does not take the credentials"
            }
            Self::Provided(tokens) => {
                tokens.refused(given);
                fault.kind = FaultKind::Expired;
                "the store does not take the access token that was provided"
            }
        };
        fault.message = format!("{ours}: {}", fault.message);
        fault
    }
}

/// A service account that signs URLs.
pub(super) struct UrlSigner {
    signer: Signer,
    email: String,
}

impl UrlSigner {
    /// The service account's address, which the URL names.
    pub(super) fn email(&self) -> &str {
        &self.email
    }

    /// Signs a text. In a task of its own, as tokens are fetched, because the task that renews the signer's token ends
    /// with the runtime of the first request.
    pub(super) async fn sign(self: &Arc<Self>, text: String) -> Result<Vec<u8>, Fault> {
        let signer = self.signer.clone();
        let signing = tokio::spawn(async move { in_time(signer.sign(text)).await });
        match signing.await {
            Ok(signature) => signature.map(|signature| signature.to_vec()),
            Err(ended) => {
                let message = "no signature: the runtime that renewed the credentials was shut down";
                Err(Fault::new(FaultKind::Unreachable, message).with_source(ended))
            }
        }
    }
}

/// Waits for a signer, which may have to ask Google's servers.
async fn in_time<T>(answer: impl Future<Output = google_cloud_auth::signer::Result<T>>) -> Result<T, Fault> {
    match tokio::time::timeout(FETCHING, answer).await {
        Ok(answer) => answer.map_err(refused_to_sign),
        Err(_late) => {
            let message = format!("no signature came within {} s", FETCHING.as_secs());
            Err(Fault::new(FaultKind::Unreachable, message))
        }
    }
}

fn refused_to_sign(error: SigningError) -> Fault {
    let (place, why) = (CredentialsPlace::now(), innermost(&error));
    if error.is_transport() {
        let message = format!("the server that signs for the credentials in {place} did not: {why}");
        return Fault::new(FaultKind::Unreachable, message).with_source(error);
    }
    cannot_sign(&why).with_source(error)
}

/// The fault of credentials that cannot sign.
fn cannot_sign(why: &str) -> Fault {
    let place = CredentialsPlace::now();
    let message = format!(
        "the credentials in {place} cannot sign URLs ({why}); a service account can: set \
         GOOGLE_APPLICATION_CREDENTIALS to the file of its key, or run `gcloud auth application-default login \
         --impersonate-service-account`, which needs the role roles/iam.serviceAccountTokenCreator"
    );
    Fault::new(FaultKind::Credentials, message)
}

impl fmt::Debug for GcsKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Fixed(_) => "Fixed(…)",
            Self::Application(_) => "Application(…)",
            Self::Provided(_) => "Provided(…)",
        })
    }
}

/// Application default credentials, loaded at first use.
pub(super) struct Application {
    load: fn() -> Result<Credentials, Fault>,
    current: Mutex<Option<Arc<RenewedIdentity>>>,
    /// Whether there ever was a token: if so, credentials exist, even if no server answers now.
    gave: AtomicBool,
    /// Kept, because each new one may start a task that renews its token.
    signer: tokio::sync::Mutex<Option<Arc<UrlSigner>>>,
}

impl Default for Application {
    fn default() -> Self {
        let (current, gave, signer) = Default::default();
        Self { load: application_credentials, current, gave, signer }
    }
}

struct RenewedIdentity {
    credentials: Credentials,
    given: Mutex<Option<Identity>>,
}

impl Application {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<RenewedIdentity>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Result<Arc<RenewedIdentity>, Fault> {
        let mut current = self.lock();
        if let Some(current) = &*current {
            return Ok(current.clone());
        }
        let new = Arc::new(RenewedIdentity { credentials: (self.load)()?, given: Mutex::default() });
        *current = Some(new.clone());
        Ok(new)
    }

    async fn signer(&self) -> Result<Arc<UrlSigner>, Fault> {
        let mut kept = self.signer.lock().await;
        if let Some(signer) = &*kept {
            return Ok(signer.clone());
        }
        use_ring();
        let built = Builder::default().build_signer();
        let signer = built.map_err(|error| cannot_sign(&innermost(&error)).with_source(error))?;
        let email = in_time(signer.client_email()).await?;
        let signer = Arc::new(UrlSigner { signer, email });
        *kept = Some(signer.clone());
        Ok(signer)
    }

    async fn forget_signer(&self, failed: &Arc<UrlSigner>) {
        let mut kept = self.signer.lock().await;
        if kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, failed)) {
            *kept = None;
        }
    }

    fn forget(&self, old: &Arc<RenewedIdentity>) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, old)) {
            *current = None;
        }
    }

    async fn identity(&self) -> Result<Identity, Fault> {
        let mut has_panicked = false;
        loop {
            let current = self.current()?;
            let credentials = current.credentials.clone();
            // In a task of its own: the task that renews tokens ends with the runtime of the first request, and a
            // call from another runtime then panics.
            let asking = tokio::spawn(async move {
                tokio::time::timeout(FETCHING, credentials.headers(Extensions::new())).await
            });
            match asking.await {
                Ok(Ok(Ok(CacheableResource::New { data, .. }))) => {
                    *current.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(data.clone());
                    self.gave.store(true, Relaxed);
                    return Ok(data);
                }
                Ok(Ok(Ok(CacheableResource::NotModified))) => {
                    let given = current.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    return Ok(given.unwrap_or_default());
                }
                Ok(Ok(Err(error))) => {
                    self.forget(&current); // the user may sign in before the next request
                    return Err(fault(Some(error), self.gave.load(Relaxed)));
                }
                Ok(Err(_late)) => {
                    self.forget(&current);
                    // Credentials that gave a token before are no longer renewed, because their runtime stands still:
                    // load them again.
                    if current.given.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                        return Err(fault(None, self.gave.load(Relaxed)));
                    }
                }
                Err(ended) if ended.is_panic() => {
                    self.forget(&current);
                    // Credentials that were loaded for this request do not panic because of another runtime's end.
                    if mem::replace(&mut has_panicked, true) {
                        let message =
                            format!("asking for the credentials in {} panicked", CredentialsPlace::now());
                        return Err(Fault::new(FaultKind::Credentials, message).with_source(ended));
                    }
                }
                Err(ended) => {
                    let message = "the runtime was shut down while credentials were fetched";
                    return Err(Fault::new(FaultKind::Credentials, message).with_source(ended));
                }
            }
        }
    }

    /// Discards `given`, unless another request has done so.
    fn refused(&self, given: &Identity) {
        let current = self.lock().clone();
        let is_it = |current: &Arc<RenewedIdentity>| {
            current.given.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(given)
        };
        if let Some(current) = current.filter(is_it) {
            self.forget(&current);
        }
    }
}

/// What Google's library finds.
fn application_credentials() -> Result<Credentials, Fault> {
    // Google's library does not trim the variable.
    if let CredentialsPlace::Variable(path) = CredentialsPlace::now()
        && !path.exists()
    {
        environment::check_exact(&["GOOGLE_APPLICATION_CREDENTIALS"], environment::process)?;
    }
    use_ring();
    Builder::default().build().map_err(|error| {
        let message = match CredentialsPlace::now() {
            CredentialsPlace::Variable(path) if !path.exists() => {
                let path = path.display();
                format!("GOOGLE_APPLICATION_CREDENTIALS names {path}, and there is no such file")
            }
            place => format!("the credentials in {place} cannot be used: {}", innermost(&error)),
        };
        Fault::new(FaultKind::Credentials, message).with_source(error)
    })
}

/// Google's library uses the crypto provider of the process, but does not set it. Sets ours unless one is set.
fn use_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have just set one, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The places where credentials are looked for (AIP-4110).
enum CredentialsPlace {
    Variable(PathBuf),
    WellKnown(PathBuf),
    Machine,
}

impl CredentialsPlace {
    fn now() -> Self {
        if let Some(path) = std::env::var_os("GOOGLE_APPLICATION_CREDENTIALS") {
            return Self::Variable(path.into());
        }
        let home = std::env::var_os("HOME").unwrap_or_default();
        let path = Path::new(&home).join(".config/gcloud/application_default_credentials.json");
        if path.exists() { Self::WellKnown(path) } else { Self::Machine }
    }
}

impl fmt::Display for CredentialsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(path) => write!(f, "GOOGLE_APPLICATION_CREDENTIALS ({})", path.display()),
            Self::WellKnown(path) => write!(f, "{}", path.display()),
            Self::Machine => f.write_str("the machine's service account"),
        }
    }
}

/// The fault if there is no token. `error` is `None` if no server answered in time; `had_one` says whether there was
/// a token before.
fn fault(error: Option<CredentialsError>, had_one: bool) -> Fault {
    let why = error.as_ref().map_or("no answer in time".to_owned(), |error| innermost(error));
    let is_revoked = error.as_ref().is_some_and(|error| says(error, "invalid_grant"));
    let is_transient = error.as_ref().is_none_or(CredentialsError::is_transient);
    let place = CredentialsPlace::now();
    let (kind, message) = match &place {
        // On Google's machines the metadata server answers, so this is another machine.
        CredentialsPlace::Machine if is_transient && !had_one => {
            let message = "no credentials found: GOOGLE_APPLICATION_CREDENTIALS is not set, `gcloud auth \
                           application-default login` was not run, and no metadata server answers";
            (FaultKind::Credentials, format!("{message} ({why})"))
        }
        _ if is_revoked => {
            let message = format!("the credentials in {place} have expired or were revoked: sign in again");
            (FaultKind::Credentials, message)
        }
        _ if is_transient => {
            (FaultKind::Unreachable, format!("no token for the credentials in {place}: {why}"))
        }
        _ => (FaultKind::Credentials, format!("no token for the credentials in {place}: {why}")),
    };
    let fault = Fault::new(kind, message);
    match error {
        Some(error) => fault.with_source(error),
        None => fault,
    }
}

/// Whether an error, or one of its causes, contains a word.
fn says(error: &(dyn Error + 'static), word: &str) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.to_string().contains(word) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use google_cloud_auth::credentials::CredentialsProvider;

    use super::*;

    static ASKED: AtomicU32 = AtomicU32::new(0);

    #[derive(Debug)]
    struct Panics;

    impl CredentialsProvider for Panics {
        async fn headers(&self, _: Extensions) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
            ASKED.fetch_add(1, Relaxed);
            panic!("no credentials")
        }

        async fn universe_domain(&self) -> Option<String> {
            None
        }
    }

    #[tokio::test]
    async fn credentials_that_always_panic_are_loaded_twice_and_then_an_error() {
        let application = Application { load: || Ok(Panics.into()), ..Application::default() };
        let asked = tokio::time::timeout(Duration::from_secs(30), application.identity()).await;
        let fault = asked.expect("it gives up").unwrap_err();
        assert_eq!(fault.kind, FaultKind::Credentials, "{fault}");
        assert!(fault.message.starts_with("asking for the credentials in "), "{fault}");
        assert_eq!(ASKED.load(Relaxed), 2);
    }
}
