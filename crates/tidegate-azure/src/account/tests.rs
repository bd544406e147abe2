use http::{HeaderMap, Method};

use super::*;
use crate::AzureCredentials;

const KEY: &str = "a2V5";
const SIGNATURE: &str = "?sv=2024-11-04&sp=r&sig=a%3D";

/// The account, its endpoint, and what a request to it carries, or the fault.
fn resolved(
    settings: &AzureSettings,
    host: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<String, Fault> {
    let host = host.map(|host| AzureHost::parse(host).unwrap());
    let read =
        |name: &str| environment.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value));
    let resolved = settings.resolved(host.as_ref(), read)?;
    let carried = if resolved.keyring.key().is_some() {
        "key"
    } else if resolved.keyring.has_tokens() {
        "tokens"
    } else {
        "no key"
    };
    Ok(format!("{} {} {carried}", resolved.account, resolved.endpoint.url()))
}

fn own(environment: &[(&str, &str)]) -> String {
    resolved(&AzureSettings::default(), None, environment).unwrap()
}

#[test]
fn the_environment_names_an_account_and_its_key() {
    for name in KEYS {
        for account in ACCOUNTS {
            let found = own(&[(name, "a2V5\n"), (account, "acc\n")]);
            assert_eq!(found, "acc https://acc.blob.core.windows.net key");
        }
    }
    let string = "AccountName=other;AccountKey=a2V5;EndpointSuffix=core.usgovcloudapi.net";
    assert_eq!(
        own(&[(CONNECTION_STRING, string), (KEYS[0], KEY), (ACCOUNTS[0], "acc")]),
        "other https://other.blob.core.usgovcloudapi.net key",
        "the connection string comes first"
    );
    assert_eq!(
        own(&[(CONNECTION_STRING, "UseDevelopmentStorage=true")]),
        "devstoreaccount1 http://127.0.0.1:10000/devstoreaccount1 key"
    );
    assert_eq!(own(&[(ACCOUNTS[0], "acc")]), "acc https://acc.blob.core.windows.net tokens");
    assert_eq!(
        own(&[(ACCOUNTS[0], "acc"), (KEYS[0], KEY), (ENDPOINT, "https://acc.blob.core.chinacloudapi.cn/")]),
        "acc https://acc.blob.core.chinacloudapi.cn key"
    );
    let nameless = resolved(&AzureSettings::default(), None, &[(KEYS[0], KEY)]).unwrap_err();
    assert!(
        nameless.message.starts_with("no storage account is named: set AZURE_STORAGE_ACCOUNT"),
        "{nameless:?}"
    );
}

#[test]
fn an_endpoint_of_an_emulator_has_the_account_in_its_path() {
    let azurite = |url: &str| AzureSettings::default().with_endpoint_url(url);
    let found = |settings: AzureSettings| resolved(&settings, None, &[]).unwrap();
    let expected = "devstoreaccount1 http://127.0.0.1:9/devstoreaccount1 key";
    assert_eq!(found(azurite("http://127.0.0.1:9/devstoreaccount1/")), expected);
    assert_eq!(found(azurite("http://127.0.0.1:9").with_account("devstoreaccount1")), expected);
    assert_eq!(
        found(azurite("http://azurite:10000").with_account("devstoreaccount1")),
        "devstoreaccount1 http://azurite:10000/devstoreaccount1 key"
    );
    assert_eq!(
        found(azurite("https://store.example.com/acc1")),
        "acc1 https://store.example.com/acc1 no key",
        "no token that was looked for goes to another host than Azure's"
    );
    for wrong in ["My_Acc", "a b", "ab", "acc/x"] {
        let fault = resolved(&AzureSettings::default().with_account(wrong), None, &[]).unwrap_err();
        assert!(fault.message.contains("is not a storage account's name"), "{fault:?}");
    }
    let plain = [(CONNECTION_STRING, "DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=a2V5")];
    assert_eq!(own(&plain), "acc http://acc.blob.core.windows.net key");
    let other = azurite("https://acc1.blob.core.windows.net").with_account("acc2");
    let fault = resolved(&other, None, &[]).unwrap_err();
    assert!(fault.message.contains("is of account `acc1`"), "{fault:?}");
}

#[test]
fn a_key_is_used_for_its_own_account_only() {
    let environment = [(KEYS[0], KEY), (SAS, SIGNATURE), (ACCOUNTS[0], "acc")];
    let at = |host: &str, environment: &[(&str, &str)]| {
        resolved(&AzureSettings::default(), Some(host), environment).unwrap()
    };
    assert_eq!(at("acc.dfs.core.windows.net", &environment), "acc https://acc.blob.core.windows.net key");
    for other in ["acc2.dfs.core.windows.net", "acc.dfs.core.chinacloudapi.cn"] {
        let found = at(other, &environment);
        assert!(found.ends_with(" tokens"), "{found}");
    }
    let nameless = [(KEYS[0], KEY), (SAS, SIGNATURE)];
    assert!(at("acc.dfs.core.windows.net", &nameless).ends_with(" tokens"), "the key names no account");
    let string = [(CONNECTION_STRING, "AccountName=acc;AccountKey=a2V5")];
    assert!(at("acc2.dfs.core.windows.net", &string).ends_with(" tokens"));
    assert!(at("acc.blob.core.windows.net", &string).ends_with(" key"));

    // The settings name another account than the environment.
    let named = AzureSettings::default().with_account("acc2");
    assert!(resolved(&named, None, &environment).unwrap().ends_with("acc2.blob.core.windows.net tokens"));
    assert!(resolved(&named, None, &string).unwrap().ends_with("acc2.blob.core.windows.net tokens"));
    assert!(resolved(&named, None, &nameless).unwrap().ends_with("acc2.blob.core.windows.net key"));

    let set = AzureSettings::default().with_account("acc").with_credentials(AzureCredentials::key(KEY));
    assert!(resolved(&set, None, &[]).unwrap().ends_with(" key"));
    let fault = resolved(&set, Some("acc2.dfs.core.windows.net"), &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert!(
        fault.message.contains("of account `acc`, and the URL names `acc2.dfs.core.windows.net`"),
        "{fault:?}"
    );
    let token = AzureSettings::default().with_credentials(AzureCredentials::token("t"));
    assert!(resolved(&token, Some("acc2.dfs.core.windows.net"), &[]).unwrap().ends_with(" tokens"));
}

#[test]
fn a_secret_that_names_no_account_stays_with_azure_and_this_machine() {
    for (secret, value) in [(KEYS[0], KEY), (SAS, SIGNATURE)] {
        let at = |url: &str, account: Option<&str>| {
            let settings = AzureSettings::default().with_endpoint_url(url).with_account("acc1");
            let account = account.map(|account| (ACCOUNTS[0], account));
            let environment: Vec<_> = [(secret, value)].into_iter().chain(account).collect();
            let read = |name: &str| {
                environment.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value))
            };
            match settings.resolved(None, read).unwrap().keyring.credential() {
                AzureCredential::Key(_) | AzureCredential::Sas(_) => None,
                AzureCredential::Nothing(looked) => Some(looked.join("; ")),
                _ => panic!("other credentials"),
            }
        };
        for url in [
            "https://store.example.com/acc1",
            "http://store.example.com/acc1",
            "http://10.0.0.1:10000/acc1",
            "http://acc1.blob.core.windows.net",
            "http://localhost.example.com/acc1",
        ] {
            let looked = at(url, None).expect(url);
            let said =
                format!("{secret} names no account, and is not sent to {url}: set AZURE_STORAGE_ACCOUNT");
            assert!(looked.contains(&said), "{looked}");
            assert_eq!(at(url, Some("acc1")), None, "{url}");
            assert!(at(url, Some("acc2")).unwrap().contains("is of account `acc2`"), "{url}");
        }
        for url in [
            "https://acc1.blob.core.windows.net",
            "http://127.0.0.1:10000/acc1",
            "http://[::1]:10000/acc1",
            "http://localhost:10000/acc1",
        ] {
            assert_eq!(at(url, None), None, "{url}");
        }
    }
    // A connection string names its account.
    let string = [(CONNECTION_STRING, "AccountName=acc1;AccountKey=a2V5")];
    let settings = AzureSettings::default().with_endpoint_url("https://store.example.com/acc1");
    assert!(resolved(&settings, None, &string).unwrap().ends_with(" key"));
}

#[test]
fn a_wrong_secret_is_refused_without_being_shown() {
    for (name, value) in [
        (KEYS[0], "sec%ret"),
        (SAS, "sv=2024&sp=secret"),
        (CONNECTION_STRING, "AccountName=acc;AccountKey=sec%ret"),
    ] {
        let fault =
            resolved(&AzureSettings::default(), None, &[(name, value), (ACCOUNTS[0], "acc")]).unwrap_err();
        assert!(fault.message.starts_with(name) && !fault.message.contains("ret"), "{fault:?}");
    }
    let shown = format!(
        "{:?}",
        AzureSettings::default()
            .with_connection_string("AccountKey=secret")
            .with_endpoint_url("http://u:secret@h")
            .with_credentials(AzureCredentials::sas("sig=secret"))
    );
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn what_was_looked_for_is_told_where_the_store_wants_credentials() {
    let settings = AzureSettings::default().with_endpoint_url("http://127.0.0.1:9/acc1");
    let read =
        |name: &str| (name == ACCOUNTS[0]).then(|| "acc2".into()).or((name == KEYS[1]).then(|| KEY.into()));
    let keyring = settings.resolved(None, read).unwrap().keyring;
    let (mut url, mut headers) = ("http://127.0.0.1:9/acc1/c".to_owned(), HeaderMap::new());
    let identity = keyring.sign(&Method::GET, &mut url, &mut headers).await.unwrap();
    assert!(headers.is_empty() && url.ends_with("/c"));
    let refused = |kind, message: &str| {
        let code = message.split(['(', ',']).nth(1).unwrap_or_default();
        keyring.refused(Fault::new(kind, message).with_code(code), &identity)
    };
    let fault = refused(FaultKind::Credentials, "no (NoAuthenticationInformation, HTTP 401)");
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert_eq!(
        fault.message,
        "no credentials found (AZURE_STORAGE_CONNECTION_STRING is not set; AZURE_STORAGE_ACCOUNT_KEY is of account \
         `acc2`; AZURE_STORAGE_SAS_TOKEN is not set; access tokens are sent to Azure's hosts only), and the store \
         refuses anonymous requests: no (NoAuthenticationInformation, HTTP 401)"
    );
    let private = refused(FaultKind::NotFound, "Not Found (ResourceNotFound, HTTP 404)");
    assert_eq!(private.kind, FaultKind::Credentials);
    let missing = refused(FaultKind::NotFound, "Not Found (BlobNotFound, HTTP 404)");
    assert_eq!(missing.kind, FaultKind::NotFound, "a public container has no such blob");
}
