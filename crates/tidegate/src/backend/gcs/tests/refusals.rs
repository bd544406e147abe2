//! What goes wrong, and what is said of it.

use super::*;

#[tokio::test]
async fn refusals_of_every_request_are_told_apart() {
    let place = place().await;
    let options = WriteOptions::default();
    for (status, code, expected) in [
        (401, "authError", FaultKind::Credentials),
        (403, "forbidden", FaultKind::Denied),
        (409, "conflict", FaultKind::Transient),
        (412, "conditionNotMet", FaultKind::Exists),
        (429, "rateLimitExceeded", FaultKind::Throttled),
        (500, "backendError", FaultKind::Transient),
        (503, "backendError", FaultKind::Throttled),
    ] {
        place.server.set_knobs(Knobs { faults: vec![Rule::error("*", status, code)], ..Knobs::default() });
        assert_eq!(kind(place.store.head("k")).await.0, expected, "{status}");
        assert_eq!(kind(place.store.get("k", None)).await.0, expected, "{status}");
        assert_eq!(kind(place.store.delete("k")).await.0, expected, "{status}");
        assert_eq!(kind(place.store.put("k", in_memory(b"1"), &options)).await.0, expected, "{status}");
        assert_eq!(kind(place.store.list("", true).try_collect::<Vec<_>>()).await.0, expected, "{status}");
        let fault = place.store.head("k").await.unwrap_err();
        assert!(fault.answered && fault.message.ends_with(&format!("({code}, HTTP {status})")), "{fault}");
    }
}

#[tokio::test]
async fn nobody_there_and_cut_connections() {
    let place = place().await;
    let cut = |operation: &str| {
        let faults = vec![Rule::new(operation, Action::ResetRequest { after_bytes: 0 })];
        place.server.set_knobs(Knobs { faults, ..Knobs::default() });
    };
    cut("storage.objects.insert");
    let (broken, said) = kind(place.store.put("k", in_memory(b"1"), &WriteOptions::default())).await;
    assert_eq!(broken, FaultKind::Transient, "{said}");
    cut("storage.objects.get");
    assert_eq!(kind(place.store.head("k")).await.0, FaultKind::Transient);
    let settings = GcsSettings::default()
        .with_endpoint_url("http://127.0.0.1:1")
        .with_credentials(GcsCredentials::anonymous())
        .with_connect_timeout(Duration::from_secs(1));
    let nowhere = Gcs::connect("bucket", &settings).await.unwrap();
    let (unreachable, said) = kind(nowhere.head("k")).await;
    assert_eq!(unreachable, FaultKind::Unreachable, "{said}");
    assert!(said.contains("127.0.0.1:1"), "{said}");
}

#[tokio::test]
async fn a_token_goes_with_each_request_and_is_shown_nowhere() {
    let place = place().await;
    let credentials = GcsCredentials::token("ya29.secret");
    assert!(!format!("{credentials:?}").contains("secret"));
    let settings = settings_for(&place.server).with_credentials(credentials);
    let store = Gcs::connect("bucket", &settings).await.unwrap();
    store.put("k", in_memory(b"1"), &WriteOptions::default()).await.unwrap();
    place.server.set_knobs(Knobs { faults: vec![Rule::error("*", 401, "authError")], ..Knobs::default() });
    let fault = store.head("k").await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert!(fault.message.starts_with("the store does not take the access token"), "{fault}");
    assert!(!format!("{fault:?} {store:?}").contains("secret"), "{fault:?} {store:?}");
    let bad = settings_for(&place.server).with_credentials(GcsCredentials::token("a\nb"));
    let store = Gcs::connect("bucket", &bad).await.unwrap();
    assert_eq!(kind(store.head("k")).await.0, FaultKind::Credentials);
}
