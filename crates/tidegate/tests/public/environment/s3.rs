//! Credentials and settings that an S3 user has already: in the environment, and in profiles.

use std::path::Path;

use bytes::Bytes;
use tidegate::backend::s3::{S3, S3Settings};
use tidegate::backend::{Attempt, Backend, Fault, WriteOptions};
use tidegate::checksum::{Algorithm, Checksum};
use tidegate::payload::Payload;
use tidegate_dev::Server;

use super::is_case;

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Stored { region: String },
    Fault { kind: String, message: String },
}

async fn case() {
    let answer: Result<String, Fault> = async {
        let mut settings = S3Settings::default();
        if let Ok(profile) = std::env::var("CASE_PROFILE") {
            settings = settings.with_profile(profile);
        }
        let client = tidegate::backend::s3::S3Client::connect(&settings).await?;
        let store: S3 = client.bucket("bucket")?;
        let checksum = Checksum::of(Algorithm::Crc64Nvme, b"bytes");
        let payload = Payload::from_memory(vec![Bytes::from_static(b"bytes")], checksum);
        store.put("key", payload, &WriteOptions::default(), Attempt::FIRST).await?;
        Ok(client.region().to_owned())
    }
    .await;
    match answer {
        Ok(region) => println!("\nSTORED\t{region}"),
        Err(fault) => println!("\nFAULT\t{:?}\t{}", fault.kind, fault.message),
    }
}

fn run(home: &Path, env: &[(&str, &str)]) -> Said {
    let said = super::run(home, &[&[("AWS_EC2_METADATA_DISABLED", "true")], env].concat());
    let fields: Vec<_> = said.split('\t').collect();
    match fields[..] {
        [_, region] => Said::Stored { region: region.into() },
        [_, kind, message] => Said::Fault { kind: kind.into(), message: message.into() },
        _ => panic!("{said}"),
    }
}

fn stored(region: &str) -> Said {
    Said::Stored { region: region.into() }
}

fn fault(kind: &str, message: &str) -> Said {
    Said::Fault { kind: kind.into(), message: message.into() }
}

async fn server() -> (Server, String, tempfile::TempDir) {
    let server = Server::builder().credentials("AKIDTEST", "secret/+1").start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let endpoint = server.endpoint();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    (server, endpoint, home)
}

fn write(home: &Path, name: &str, text: &str) {
    std::fs::write(home.join(".aws").join(name), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn from_the_environment() {
    if is_case() {
        return case().await;
    }
    let (_server, endpoint, home) = server().await;
    let keys = [("AWS_ACCESS_KEY_ID", "AKIDTEST"), ("AWS_SECRET_ACCESS_KEY", "secret/+1")];
    let with = |more: &[(&'static str, &str)]| run(home.path(), &[&keys, more].concat());
    assert_eq!(with(&[("AWS_ENDPOINT_URL", &endpoint)]), stored("us-east-1"));
    // The variable that is only for S3 has priority.
    let other = "http://127.0.0.1:1";
    let both = [
        ("AWS_ENDPOINT_URL_S3", endpoint.as_str()),
        ("AWS_ENDPOINT_URL", other),
        ("AWS_REGION", "us-east-1"),
    ];
    assert_eq!(with(&both), stored("us-east-1"));
    assert_eq!(
        with(&[]),
        fault(
            "Invalid",
            "no region is set: set AWS_REGION, or `region` in the profile, or the address of an \
             S3-compatible store in AWS_ENDPOINT_URL"
        )
    );
    assert_eq!(
        with(&[("AWS_ENDPOINT_URL", "127.0.0.1:9000")]),
        fault(
            "Invalid",
            "AWS_ENDPOINT_URL, or endpoint_url of the profile: endpoint `127.0.0.1:9000` is not a URL (relative URL \
             without a base): write http://host:port or https://host"
        )
    );
    let bundle = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_CA_BUNDLE", "/none.pem")];
    assert_eq!(
        with(&bundle),
        fault("Invalid", "CA bundle /none.pem cannot be read: No such file or directory (os error 2)")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn from_profiles() {
    if is_case() {
        return case().await;
    }
    let (_server, endpoint, home) = server().await;
    let home = home.path();
    let script = home.join("credentials.sh");
    let given = r#"{"Version": 1, "AccessKeyId": "AKIDTEST", "SecretAccessKey": "secret/+1"}"#;
    std::fs::write(&script, format!("echo '{given}'\n")).unwrap();
    write(
        home,
        "config",
        &format!(
            "[default]\nendpoint_url = {endpoint}\nregion = us-east-1\n\
             [profile process]\nendpoint_url = {endpoint}\ncredential_process = sh {script}\n\
             [profile broken]\nendpoint_url = {endpoint}\ncredential_process = sh -c 'echo no luck >&2; exit 3'\n\
             [profile services]\nservices = mine\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret/+1\n\
             [profile empty]\nendpoint_url = {endpoint}\n\
             [profile sso]\nendpoint_url = {endpoint}\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = r\n\
             [sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://example.awsapps.com/start\n\
             [services mine]\ns3 =\n  endpoint_url = {endpoint}\n",
            script = script.display(),
        ),
    );
    write(
        home,
        "credentials",
        "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret/+1\n",
    );
    assert_eq!(run(home, &[]), stored("us-east-1"));
    for profile in ["process", "services"] {
        assert_eq!(run(home, &[("AWS_PROFILE", profile)]), stored("us-east-1"), "{profile}");
    }
    // A profile that the caller names has priority over the keys in the environment.
    let wrong = [("AWS_ACCESS_KEY_ID", "wrong"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
    assert_eq!(run(home, &[&wrong[..], &[("CASE_PROFILE", "process")]].concat()), stored("us-east-1"));

    let said = |profile| match run(home, &[("AWS_PROFILE", profile)]) {
        Said::Fault { kind, message } if kind == "Credentials" => message,
        other => panic!("{other:?}"),
    };
    for (profile, part) in [
        ("empty", "no credentials found in the environment (AWS_ACCESS_KEY_ID), in profile `empty` of"),
        ("broken", "no luck"),
        ("sso", "credentials could not be loaded: "),
    ] {
        let message = said(profile);
        println!("{profile}: {message}");
        assert!(message.contains(part), "{message}");
        assert!(!message.contains('\n') && !message.contains("Error {"), "{message}");
    }
    let named = run(home, &[("AWS_PROFILE", "typo"), ("AWS_ENDPOINT_URL", endpoint.as_str())]);
    println!("{named:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_anywhere() {
    if is_case() {
        return case().await;
    }
    let (_server, endpoint, home) = server().await;
    assert_eq!(
        run(home.path(), &[("AWS_ENDPOINT_URL", &endpoint)]),
        fault(
            "Credentials",
            "no credentials found in the environment (AWS_ACCESS_KEY_ID), in profile `default` of \
             ~/.aws/config and ~/.aws/credentials, from a web identity, a container role or an instance role"
        )
    );
}
