use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use tidegate_http::access_token::RenewedTokens;

/// A token server: answers each request as `answer` says, by its number and its text; `None` hangs.
async fn server(
    answer: impl Fn(u32, &str) -> Option<String> + Send + Sync + 'static,
) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    let (counted, answer) = (asked.clone(), Arc::new(answer));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (counted, answer) = (counted.clone(), answer.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                loop {
                    let read = stream.read(&mut buffer).await.unwrap();
                    request.extend_from_slice(&buffer[..read]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head
                        .to_ascii_lowercase()
                        .split("content-length: ")
                        .nth(1)
                        .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
                    if body.len() < length {
                        continue;
                    }
                    let number = counted.fetch_add(1, SeqCst) + 1;
                    match answer(number, &text) {
                        Some(response) => stream.write_all(response.as_bytes()).await.unwrap(),
                        None => std::future::pending().await,
                    }
                    break;
                }
            });
        }
    });
    (at, asked)
}

fn response(status: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status}\r\nServer: IMDS/150\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    ))
}

fn entra(token: &str, seconds: u32) -> Option<String> {
    response(
        "200 OK",
        &format!(
            r#"{{"token_type":"Bearer","expires_in":{seconds},"ext_expires_in":{seconds},"access_token":"{token}"}}"#
        ),
    )
}

/// An `az` that says this, with this code.
#[derive(Debug)]
struct FakeCli(i32, &'static str);

#[async_trait]
impl Executor for FakeCli {
    async fn run(&self, _program: &OsStr, args: &[&OsStr]) -> io::Result<Output> {
        assert!(
            args[1].to_str().unwrap().contains("az account get-access-token -o json --scope https://storage")
        );
        let (stdout, stderr) = if self.0 == 0 { (self.1, "") } else { ("", self.1) };
        let status = ExitStatus::from_raw(self.0 << 8);
        Ok(Output { status, stdout: stdout.into(), stderr: stderr.into() })
    }
}

/// The sources of an environment, whose token servers are all at `at`, without an `az`.
fn sources(at: &str, environment: &[(&str, &str)]) -> IdentitySources {
    let read =
        |name: &str| environment.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
    let host = AzureHost::parse("acc.blob.core.windows.net").unwrap();
    let mut sources = IdentitySources::new(&AzureSettings::default(), &host, read);
    let mut http = TokenHttp::new(None, Duration::from_secs(5));
    http.detour = Some(at.to_owned());
    sources.http = Arc::new(http);
    sources.executor = Arc::new(FakeCli(127, "sh: az: not found"));
    sources
}

const PRINCIPAL: [(&str, &str); 3] =
    [("AZURE_TENANT_ID", "tenant\n"), ("AZURE_CLIENT_ID", "client"), ("AZURE_CLIENT_SECRET", "s3cret")];

async fn token(tokens: &RenewedTokens<IdentitySources>) -> Result<String, Fault> {
    let headers = tokens.identity().await?;
    Ok(headers[http::header::AUTHORIZATION].to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_service_principal_gets_a_token_that_is_renewed_when_it_has_expired() {
    let (at, asked) = server(|number, request| {
        assert!(request.starts_with("POST /tenant/oauth2/v2.0/token "), "{request}");
        assert!(request.contains("client_id=client&client_secret=s3cret&grant_type=client_credentials"));
        assert!(request.ends_with("scope=https%3A%2F%2Fstorage.azure.com%2F.default"));
        entra(&format!("token-{number}"), if number == 1 { 0 } else { 3600 })
    })
    .await;
    let tokens = RenewedTokens::new(sources(&at, &PRINCIPAL));
    assert_eq!(token(&tokens).await.unwrap(), "Bearer token-1");
    // The first has ended when it comes.
    assert_eq!(token(&tokens).await.unwrap(), "Bearer token-2");
    assert_eq!(token(&tokens).await.unwrap(), "Bearer token-2");
    assert_eq!(asked.load(SeqCst), 2);
    // The store refuses it: another one is asked for.
    let given = tokens.identity().await.unwrap();
    tokens.refused(&given);
    let (one, other) = tokio::join!(token(&tokens), token(&tokens));
    assert_eq!((one.unwrap().as_str(), other.unwrap().as_str()), ("Bearer token-3", "Bearer token-3"));
    assert_eq!(asked.load(SeqCst), 3);
}

#[tokio::test]
async fn a_source_that_is_named_and_fails_is_the_error() {
    let refusal = r#"{"error":"invalid_client","error_codes":[7000215],
        "error_description":"AADSTS7000215: Invalid \"client\" secret.\r\nTrace ID: 1"}"#;
    let (at, _) = server(move |_, _| response("401 Unauthorized", refusal)).await;
    let fault = sources(&at, &PRINCIPAL).token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert_eq!(
        fault.message,
        "no token of the service principal: AADSTS7000215: Invalid 'client' secret. Trace ID: 1"
    );

    let (at, _) = server(|_, _| response("200 OK", "<html>a portal</html>")).await;
    let fault = sources(&at, &PRINCIPAL).token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert!(fault.message.contains("expected value at line 1"), "{fault:?}");

    let (at, _) = server(|_, _| response("503 Service Unavailable", "{}")).await;
    assert_eq!(sources(&at, &PRINCIPAL).token().await.unwrap_err().kind, FaultKind::Unreachable);

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let fault = sources(&format!("http://{closed}"), &PRINCIPAL).token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert!(!format!("{fault:?}").contains("s3cret"), "{fault:?}");
}

#[tokio::test]
async fn a_token_server_that_hangs_is_given_up() {
    let (at, asked) = server(|_, _| None).await;
    let sources = sources(&at, &PRINCIPAL);
    let began = Instant::now();
    let fault = sources.token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert_eq!(fault.message, "no token of the service principal came within 10 s");
    assert!(began.elapsed() < FETCHING * 2 && asked.load(SeqCst) == 1);
}

#[tokio::test]
async fn a_workload_shows_its_federated_token() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "assertion-1").unwrap();
    let (at, _) = server(|_, request| {
        let assertion = request.split("client_assertion=").nth(1).unwrap().split('&').next().unwrap();
        entra(&format!("of-{assertion}"), 3600)
    })
    .await;
    let environment = [
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.path().to_str().unwrap()),
        ("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.us/"),
    ];
    let tokens = RenewedTokens::new(sources(&at, &environment));
    assert_eq!(token(&tokens).await.unwrap(), "Bearer of-assertion-1");
    // The platform replaces the file.
    std::fs::write(file.path(), "assertion-2").unwrap();
    tokens.refused(&tokens.identity().await.unwrap());
    assert_eq!(token(&tokens).await.unwrap(), "Bearer of-assertion-2");

    let gone = [&environment[..2], &[("AZURE_FEDERATED_TOKEN_FILE", "/nowhere/token")]].concat();
    let fault = sources(&at, &gone).token().await.unwrap_err();
    assert!(fault.message.starts_with("no token of the workload identity: "), "{fault:?}");
}

fn metadata(token: &str) -> Option<String> {
    let expires = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 3600;
    response(
        "200 OK",
        &format!(
            r#"{{"access_token":"{token}","expires_on":"{expires}","resource":"r","token_type":"Bearer"}}"#
        ),
    )
}

#[tokio::test]
async fn a_machine_has_an_identity() {
    let (at, _) = server(|_, request| {
        assert!(request.starts_with("GET /metadata/identity/oauth2/token?api-version="), "{request}");
        assert!(request.contains("client_id=client") && request.contains("metadata: true\r\n"), "{request}");
        metadata("of-the-machine")
    })
    .await;
    let sources = sources(&at, &[("AZURE_CLIENT_ID", "client")]);
    assert_eq!(sources.http.metadata(), MetadataServer::Unknown);
    let tokens = RenewedTokens::new(sources);
    assert_eq!(token(&tokens).await.unwrap(), "Bearer of-the-machine");
    assert_eq!(tokens.source().http.metadata(), MetadataServer::Answers);
}

#[tokio::test]
async fn a_source_that_has_served_is_not_replaced_by_another_one() {
    let (at, _) = server(|number, _| match number {
        1 => metadata("of-the-machine"),
        _ => response("400 Bad Request", "{}"),
    })
    .await;
    let mut sources = sources(&at, &[]);
    let cli = r#"{"accessToken":"of-the-user","expires_on":1999999999,"tokenType":"Bearer"}"#;
    sources.executor = Arc::new(FakeCli(0, cli));
    sources.token().await.unwrap();
    let fault = sources.token().await.unwrap_err();
    assert!(fault.message.starts_with("no token of the managed identity: "), "{fault:?}");
}

#[tokio::test]
async fn the_metadata_server_of_another_cloud_is_asked_once() {
    let other = "HTTP/1.1 404 Not Found\r\nServer: EC2ws\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (at, asked) = server(move |_, _| Some(other.to_owned())).await;
    let sources = sources(&at, &[]);
    let fault = sources.token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert_eq!(
        fault.message,
        "no credentials found: service principal: not set: AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET; \
         workload identity: not set: AZURE_FEDERATED_TOKEN_FILE, AZURE_TENANT_ID, AZURE_CLIENT_ID; managed identity: \
         no token of the managed identity: the metadata server is not Azure's (HTTP 404); Azure CLI: no token of the \
         Azure CLI: az not found on PATH (sign in with `az login`)"
    );
    assert!(sources.missing().unwrap().starts_with("service principal: "));
    assert!(matches!(sources.http.metadata(), MetadataServer::Absent { .. }));
    let fault = sources.token().await.unwrap_err();
    assert!(fault.message.contains("managed identity: no metadata server of Azure answers;"), "{fault:?}");
    assert_eq!(asked.load(SeqCst), 1);
}

#[tokio::test]
async fn a_metadata_server_that_hangs_is_given_up_soon() {
    let (at, _) = server(|_, _| None).await;
    let mut sources = sources(&at, &[]);
    let cli = r#"{"accessToken":"of-the-user","expires_on":1999999999,"tokenType":"Bearer"}"#;
    sources.executor = Arc::new(FakeCli(0, cli));
    let began = Instant::now();
    let tokens = RenewedTokens::new(sources);
    assert_eq!(token(&tokens).await.unwrap(), "Bearer of-the-user");
    assert!(began.elapsed() < PROBING * 2);
}

/// Lets the pause pass, in a test whose clock runs otherwise.
async fn pass_pause() {
    tokio::time::pause();
    tokio::time::advance(PAUSE).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_metadata_server_that_starts_slowly_is_asked_again() {
    let (at, _) = server(|number, _| if number == 1 { None } else { metadata("of-the-machine") }).await;
    let late = RenewedTokens::new(sources(&at, &[]));
    let fault = token(&late).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert_eq!(fault.message, "no token of the managed identity came within 3 s");
    assert_eq!(late.source().missing(), None, "the request is not sent without credentials");
    assert_eq!(token(&late).await.unwrap(), "Bearer of-the-machine");

    // Outside of Azure there is no metadata server: requests are sent without a token.
    let absent = RenewedTokens::new(sources(&at, &[]));
    absent.source().http.metadata_answered(false);
    assert_eq!(token(&absent).await.unwrap_err().kind, FaultKind::Credentials);
    assert!(absent.source().missing().is_some());
    pass_pause().await;
    absent.source().look_again();
    assert_eq!(token(&absent).await.unwrap(), "Bearer of-the-machine");
}

#[tokio::test]
async fn a_server_that_asks_for_fewer_requests_is_asked_again() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (at, _) = server(move |number, _| match number {
        1 => Some(busy.to_owned()),
        _ => metadata("of-the-machine"),
    })
    .await;
    let tokens = RenewedTokens::new(sources(&at, &[]));
    assert_eq!(token(&tokens).await.unwrap(), "Bearer of-the-machine");
    assert_eq!(tokens.source().missing(), None);
}

/// An `az` that hangs.
#[derive(Debug)]
struct HangingCli;

#[async_trait]
impl Executor for HangingCli {
    async fn run(&self, _program: &OsStr, _args: &[&OsStr]) -> io::Result<Output> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_azure_cli_that_hangs_is_not_taken_for_a_user_who_is_not_signed_in() {
    let mut sources = sources("http://127.0.0.1:1", &[]);
    sources.http.metadata_answered(false);
    sources.executor = Arc::new(HangingCli);
    let fault = sources.token().await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert_eq!(fault.message, "no token of the Azure CLI came within 10 s");
    assert_eq!(sources.missing(), None);
}

#[tokio::test]
async fn a_machine_of_azure_without_an_identity_leaves_the_turn_to_the_azure_cli() {
    let refusal = r#"{"error":"invalid_request","error_description":"Identity not found"}"#;
    let (at, asked) = server(move |_, _| response("400 Bad Request", refusal)).await;
    let mut sources = sources(&at, &[]);
    let cli = r#"{"accessToken":"of-the-user","expires_on":1999999999,"tokenType":"Bearer"}"#;
    sources.executor = Arc::new(FakeCli(0, cli));
    for _ in 0..2 {
        assert!(sources.token().await.is_ok());
    }
    assert_eq!((sources.http.metadata(), asked.load(SeqCst)), (MetadataServer::Answers, 1));
    *lock(&sources.serving) = None;
    assert!(sources.token().await.is_ok(), "also once the server is known");
}

#[tokio::test]
async fn the_user_of_the_azure_cli_is_the_last_source() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let at = format!("http://{closed}");
    let mut of_user = sources(&at, &[]);
    of_user.executor = Arc::new(FakeCli(1, "ERROR: Please run 'az login'\nto setup account."));
    let fault = of_user.token().await.unwrap_err();
    assert!(fault.message.contains("ERROR: Please run 'az login' to setup account."), "{fault:?}");
    of_user.executor = Arc::new(FakeCli(0, "not json"));
    assert!(of_user.token().await.unwrap_err().message.contains("Azure CLI: no token"));
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_looked_for_again_after_a_refusal_and_a_while() {
    let sources = sources("http://127.0.0.1:1", &[]);
    *lock(&sources.missing) = Some((Instant::now(), "nothing".to_owned()));
    sources.look_again();
    assert_eq!(sources.missing().as_deref(), Some("nothing"));
    tokio::time::advance(PAUSE).await;
    assert_eq!(sources.missing().as_deref(), Some("nothing"), "public containers need nothing else");
    sources.look_again();
    assert_eq!(sources.missing(), None);
}

#[tokio::test]
async fn a_command_that_is_given_up_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("late");
    let command = format!("sleep 1; touch {}", file.display());
    let args = [OsStr::new("-c"), OsStr::new(&command)];
    let run = ChildProcess.run(OsStr::new("/bin/sh"), &args);
    assert!(timeout(Duration::from_millis(50), run).await.is_err());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!file.exists());
}
