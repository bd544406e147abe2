use super::*;
use tidegate_http::access_token::bearer;

async fn signed(credential: AzureCredential, url: &str) -> (String, HeaderMap, AzureIdentity) {
    let keyring = AzureKeyring::new("acc", credential);
    let (mut url, mut headers) = (url.to_owned(), HeaderMap::new());
    let identity = keyring.sign(&Method::GET, &mut url, &mut headers).await.unwrap();
    (url, headers, identity)
}

fn provided() -> AzureCredential {
    let provider = Provider::new(|| async { Ok(AccessToken::new("token")) });
    AzureCredential::Tokens(TokensOf::Provided(RenewedTokens::new(provider)))
}

#[tokio::test]
async fn each_credential_goes_to_its_place() {
    let (url, headers, _) = signed(account_key("a2V5", "k").unwrap(), "https://h/c?comp=list").await;
    assert_eq!(url, "https://h/c?comp=list");
    assert!(headers["authorization"].to_str().unwrap().starts_with("SharedKey acc:"));
    assert!(headers["authorization"].is_sensitive() && headers.contains_key("x-ms-date"));

    for (before, after) in
        [("https://h/c", "https://h/c?sv=1&sig=a%3D"), ("https://h/c?x=1", "https://h/c?x=1&sv=1&sig=a%3D")]
    {
        let (url, headers, _) =
            signed(shared_access_signature(" ?sv=1&sig=a%3D\n", "s").unwrap(), before).await;
        assert_eq!(url, after);
        assert!(headers.is_empty());
    }

    let (url, headers, _) = signed(provided(), "https://h/c").await;
    assert_eq!((url.as_str(), headers["authorization"].to_str().unwrap()), ("https://h/c", "Bearer token"));

    let (url, headers, _) = signed(AzureCredential::Anonymous, "https://h/c").await;
    assert_eq!((url.as_str(), headers.len()), ("https://h/c", 0));
}

#[tokio::test]
async fn a_source_of_a_copy_carries_the_signature_or_the_token() {
    for (credential, signed, token) in [
        (shared_access_signature("sig=a", "s").unwrap(), "https://h/c/k?sig=a", None),
        (provided(), "https://h/c/k", Some("Bearer token")),
        (AzureCredential::Anonymous, "https://h/c/k", None),
    ] {
        let (mut url, mut headers) = ("https://h/c/k".to_owned(), HeaderMap::new());
        AzureKeyring::new("acc", credential).sign_source(&mut url, &mut headers).await.unwrap();
        assert_eq!(url, signed);
        let sent = headers.get("x-ms-copy-source-authorization");
        assert_eq!(sent.map(|value| value.to_str().unwrap()), token);
        assert!(sent.is_none_or(http::HeaderValue::is_sensitive));
    }
}

#[tokio::test]
async fn a_refusal_names_the_credential_and_a_token_is_renewed() {
    let refused = async |credential, kind, message: &str| {
        let keyring = AzureKeyring::new("acc", credential);
        let (mut url, mut headers) = ("https://h/c".to_owned(), HeaderMap::new());
        let identity = keyring.sign(&Method::GET, &mut url, &mut headers).await.unwrap();
        let code = message.split(['(', ',']).nth(1).unwrap_or_default();
        keyring.refused(Fault::new(kind, message).with_code(code), &identity)
    };
    let unauthentic = "no (AuthenticationFailed, HTTP 403)";
    let fault = refused(account_key("a2V5", "k").unwrap(), FaultKind::Denied, unauthentic).await;
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert!(fault.message.starts_with("the store does not take the account's key: no"), "{fault:?}");
    let fault = refused(shared_access_signature("sig=a", "s").unwrap(), FaultKind::Denied, unauthentic).await;
    assert!(fault.message.starts_with("the store does not take the shared access signature"), "{fault:?}");
    let fault = refused(provided(), FaultKind::Credentials, "no (InvalidAuthenticationInfo, HTTP 401)").await;
    assert_eq!(fault.kind, FaultKind::Expired);
    let fixed = TokenHeaders::from_iter([(http::header::AUTHORIZATION, bearer("t").unwrap())]);
    let fixed = AzureCredential::Tokens(TokensOf::Fixed(fixed));
    assert_eq!(refused(fixed, FaultKind::Credentials, "HTTP 401").await.kind, FaultKind::Credentials);
    let denied =
        refused(provided(), FaultKind::Denied, "no (AuthorizationPermissionMismatch, HTTP 403)").await;
    assert_eq!(denied.kind, FaultKind::Denied, "the identity is known, and may not do this");
}
