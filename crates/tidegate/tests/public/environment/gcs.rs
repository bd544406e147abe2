//! Credentials for Google Cloud Storage, found as Google's own tools find them, with a server that issues tokens and
//! accepts objects.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tidegate::backend::gcs::{Gcs, GcsSettings};
use tidegate::backend::{Attempt, Backend, Fault, FaultKind, PresignedRequest, WriteOptions};
use tidegate::checksum::{Algorithm, Checksum};
use tidegate::payload::Payload;

use super::is_case;

fn case() {
    let store = async || {
        let mut settings = GcsSettings::default();
        if let Ok(url) = std::env::var("CASE_ENDPOINT") {
            settings = settings.with_endpoint_url(url);
        }
        Gcs::connect("bucket", &settings).await
    };
    let put = async |store: &Gcs| {
        let checksum = Checksum::of(Algorithm::Crc32c, b"bytes");
        let payload = Payload::from_memory(vec![Bytes::from_static(b"bytes")], checksum);
        store.put("key", payload, &WriteOptions::default(), Attempt::FIRST).await.map(|_| ())
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    if std::env::var("CASE_PRESIGN").is_ok() {
        let gcs = first.block_on(store()).unwrap();
        let sign = async || {
            let presign = gcs.presigning().expect("Google signs URLs");
            presign.presign(PresignedRequest::Get, "a b", Duration::from_secs(60)).await
        };
        let signed = first.block_on(sign());
        drop(first);
        match signed {
            Ok(url) => {
                runtime().block_on(sign()).unwrap();
                println!("\nURL {url}");
            }
            Err(fault) => println!("\nFAULT {:?}: {}", fault.kind, fault.message),
        }
        return;
    }
    let answer: Result<Gcs, Fault> = first.block_on(async {
        let store = store().await?;
        match put(&store).await {
            // As the engine does: fetch new credentials, once.
            Err(fault) if fault.kind == FaultKind::Expired => put(&store).await?,
            answer => answer?,
        }
        Ok(store)
    });
    if let (Ok(store), Ok(_)) = (&answer, std::env::var("CASE_TWO_RUNTIMES")) {
        drop(first);
        runtime().block_on(put(store)).unwrap();
    }
    match answer {
        Ok(_) => println!("\nSTORED"),
        Err(fault) => println!("\nFAULT {:?}: {}", fault.kind, fault.message),
    }
}

fn run(home: &Path, env: &[(&str, &str)]) -> String {
    super::run(home, &[&[("GCE_METADATA_HOST", "127.0.0.1:1")], env].concat())
}

/// A server that issues tokens, beginning with `token-1`, and accepts objects. It records the requests, and the
/// authorization of each object's request.
struct Server {
    url: String,
    host: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Rejects the first `stale` tokens that it issued; each token is valid for `expires_in` seconds.
    fn start(stale: usize, expires_in: u64) -> Self {
        Self::of_few(stale, expires_in, usize::MAX)
    }

    /// Like `start`, but issues only `tokens` tokens, and is then out of tokens for the moment.
    fn of_few(stale: usize, expires_in: u64, tokens: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            let given = Arc::new(Mutex::new(0));
            for connection in listener.incoming() {
                let (log, given) = (log.clone(), given.clone());
                std::thread::spawn(move || {
                    answer(connection.unwrap(), &log, &given, (stale, expires_in, tokens))
                });
            }
        });
        Self { url: format!("http://{host}"), host, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    connection: TcpStream,
    log: &Mutex<Vec<String>>,
    given: &Mutex<usize>,
    (stale, seconds, tokens): (usize, u64, usize),
) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut writer = connection;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or_default() == 0 {
            return;
        }
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "authorization" => authorization = value.to_owned(),
                _ => {}
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let path = first.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
        let (status, body) = if path.starts_with("/upload/") {
            log.lock().unwrap().push(format!("put with {authorization}"));
            if (1..=stale).any(|number| authorization == format!("Bearer token-{number}")) {
                (
                    401,
                    json!({ "error": { "message": "Invalid Credentials", "errors": [{ "reason": "authError" }] } }),
                )
            } else {
                let crc32c = Checksum::of(Algorithm::Crc32c, b"bytes").base64();
                (200, json!({ "name": "key", "size": "5", "generation": "1", "crc32c": crc32c }))
            }
        } else if path.ends_with("/token") && *given.lock().unwrap() >= tokens {
            (503, json!({}))
        } else if path.ends_with("/token") {
            log.lock().unwrap().push(format!("token from {path}"));
            let mut given = given.lock().unwrap();
            *given += 1;
            let token = format!("token-{given}");
            let kind = "urn:ietf:params:oauth:token-type:access_token";
            let body = json!({ "access_token": token, "expires_in": seconds, "token_type": "Bearer",
                               "issued_token_type": kind });
            (200, body)
        } else if path == "/revoked" {
            (
                400,
                json!({ "error": "invalid_grant", "error_description": "Token has been expired or revoked." }),
            )
        } else {
            (404, json!({}))
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        writer.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    }
}

fn write(home: &Path, content: &str) -> String {
    let path = home.join("credentials.json");
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn service_account(token_uri: &str) -> String {
    json!({
        "type": "service_account",
        "client_email": "writer@project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": include_str!("gcs.pem"),
        "project_id": "project",
        "token_uri": token_uri,
    })
    .to_string()
}

fn user(token_uri: &str) -> String {
    json!({ "type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r",
            "token_uri": token_uri })
    .to_string()
}

#[test]
fn a_user_a_workload_and_a_machine_are_known() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(0, 3600);
    let endpoint = ("CASE_ENDPOINT", server.url.as_str());
    let variable = "GOOGLE_APPLICATION_CREDENTIALS";

    let file = write(home.path(), &user(&format!("{}/user/token", server.url)));
    assert_eq!(run(home.path(), &[endpoint, (variable, &file)]), "STORED");

    let well_known = home.path().join(".config/gcloud");
    std::fs::create_dir_all(&well_known).unwrap();
    let well_known = well_known.join("application_default_credentials.json");
    std::fs::rename(&file, &well_known).unwrap();
    assert_eq!(run(home.path(), &[endpoint]), "STORED");
    std::fs::remove_file(&well_known).unwrap();

    let subject = home.path().join("subject");
    std::fs::write(&subject, "subject token").unwrap();
    let workload = json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": format!("{}/workload/token", server.url),
        "credential_source": { "file": subject },
    });
    let file = write(home.path(), &workload.to_string());
    assert_eq!(run(home.path(), &[endpoint, (variable, &file)]), "STORED");

    assert_eq!(run(home.path(), &[endpoint, ("GCE_METADATA_HOST", &server.host)]), "STORED");
    let expected = [
        "token from /user/token",
        "put with Bearer token-1",
        "token from /user/token",
        "put with Bearer token-2",
        "token from /workload/token",
        "put with Bearer token-3",
        "token from /computeMetadata/v1/instance/service-accounts/default/token",
        "put with Bearer token-4",
    ];
    assert_eq!(server.asked(), expected);
}

#[test]
fn a_service_account_signs_for_itself() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(0, 3600);
    let file = write(home.path(), &service_account(&format!("{}/token", server.url)));
    let env = [("CASE_ENDPOINT", server.url.as_str()), ("GOOGLE_APPLICATION_CREDENTIALS", &file)];
    assert_eq!(run(home.path(), &env), "STORED");
    let asked = server.asked();
    // A JWT: three texts, separated by dots.
    assert!(
        matches!(&asked[..], [put] if put.starts_with("put with Bearer ey") && put.matches('.').count() == 2),
        "{asked:?}"
    );
}

#[test]
fn a_service_account_signs_urls_and_a_user_does_not() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(0, 3600);
    let signed = |file: &str| {
        let env = [("CASE_ENDPOINT", server.url.as_str()), ("CASE_PRESIGN", "1")];
        run(home.path(), &[&env[..], &[("GOOGLE_APPLICATION_CREDENTIALS", file)]].concat())
    };
    let token_uri = format!("{}/token", server.url);
    let url = signed(&write(home.path(), &service_account(&token_uri)));
    assert!(
        url.starts_with(&format!("URL {}/bucket/a%20b?X-Goog-Algorithm=GOOG4-RSA-SHA256&", server.url)),
        "{url}"
    );
    assert!(url.contains("&X-Goog-Credential=writer%40project.iam.gserviceaccount.com%2F"), "{url}");
    // An RSA signature of 256 bytes, in hex.
    let (_, signature) = url.rsplit_once("&X-Goog-Signature=").unwrap();
    assert!(signature.len() == 512 && signature.bytes().all(|digit| digit.is_ascii_hexdigit()), "{url}");
    let refused = signed(&write(home.path(), &user(&token_uri)));
    assert!(refused.starts_with("FAULT Credentials: ") && refused.contains("cannot sign URLs"), "{refused}");
    assert_eq!(server.asked().len(), 0, "a key signs here, without any server");
}

#[test]
fn a_token_that_is_not_taken_is_fetched_anew_once() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    for (stale, said) in
        [(1, "STORED"), (2, "FAULT Expired: the store does not take the credentials: Invalid Credentials")]
    {
        let server = Server::start(stale, 3600);
        let file = write(home.path(), &user(&format!("{}/token", server.url)));
        let env = [("CASE_ENDPOINT", server.url.as_str()), ("GOOGLE_APPLICATION_CREDENTIALS", &file)];
        let told = run(home.path(), &env);
        assert!(told.starts_with(said), "{told}");
        assert_eq!(server.asked().len(), 4, "two tokens, two attempts");
    }
}

#[test]
fn a_machine_that_has_no_token_for_now_had_one_before() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::of_few(1, 3600, 1);
    let told = run(home.path(), &[("CASE_ENDPOINT", &server.url), ("GCE_METADATA_HOST", &server.host)]);
    // The error is retriable: credentials exist.
    assert!(told.starts_with("FAULT Unreachable: no token for the credentials in the machine's"), "{told}");
}

#[test]
fn tokens_are_renewed_where_the_first_runtime_is_gone() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(0, 0);
    let file = write(home.path(), &user(&format!("{}/token", server.url)));
    let env = [
        ("CASE_ENDPOINT", server.url.as_str()),
        ("GOOGLE_APPLICATION_CREDENTIALS", &file),
        ("CASE_TWO_RUNTIMES", "1"),
    ];
    assert_eq!(run(home.path(), &env), "STORED");
    assert!(
        server.asked().iter().filter(|asked| asked.starts_with("put")).count() == 2,
        "{:?}",
        server.asked()
    );
}

#[test]
fn what_is_missing_or_wrong_is_one_sentence() {
    if is_case() {
        return case();
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(0, 3600);
    let variable = "GOOGLE_APPLICATION_CREDENTIALS";
    let endpoint = ("CASE_ENDPOINT", server.url.as_str());
    let told = |content: &str| {
        let file = write(home.path(), content);
        run(home.path(), &[endpoint, (variable, &file)])
    };
    let none = run(home.path(), &[endpoint]);
    assert!(
        none.starts_with(
            "FAULT Credentials: no credentials found: GOOGLE_APPLICATION_CREDENTIALS is not set"
        ),
        "{none}"
    );
    let missing = run(home.path(), &[endpoint, (variable, "/none.json")]);
    let names =
        "FAULT Credentials: GOOGLE_APPLICATION_CREDENTIALS names /none.json, and there is no such file";
    assert_eq!(missing, names);
    for content in ["no JSON", "{}", r#"{"type": "something"}"#, r#"{"type": "authorized_user"}"#] {
        let wrong = told(content);
        assert!(
            wrong.starts_with("FAULT Credentials: the credentials in GOOGLE_APPLICATION_CREDENTIALS"),
            "{wrong}"
        );
    }
    let revoked = told(&user(&format!("{}/revoked", server.url)));
    assert!(revoked.ends_with("have expired or were revoked: sign in again"), "{revoked}");
    let unreachable = told(&user("http://127.0.0.1:1/token"));
    assert!(unreachable.starts_with("FAULT Unreachable: no token for the credentials"), "{unreachable}");
    // An emulator gets no credentials, and the client looks for no credentials.
    let emulator = run(home.path(), &[("STORAGE_EMULATOR_HOST", server.host.as_str())]);
    assert_eq!(emulator, "STORED");
    assert_eq!(server.asked(), ["put with "]);
}
