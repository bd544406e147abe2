//! Errors, and their kinds and messages.

use super::*;

over_both! {
    refusals_of_every_request_are_told_apart,
    nobody_there_and_cut_connections,
    a_token_goes_with_each_request_and_is_shown_nowhere,
    a_store_says_when_to_come_again,
    what_stands_for_something_on_the_way_may_have_been_done,
}

async fn refusals_of_every_request_are_told_apart(over: GcsTransport) {
    let place = place(over).await;
    let options = WriteOptions::default();
    for (status, code, expected) in [
        (401, "authError", FaultKind::Credentials),
        (403, "forbidden", FaultKind::Denied),
        (409, "conflict", FaultKind::Undone),
        (412, "conditionNotMet", FaultKind::Exists),
        (429, "rateLimitExceeded", FaultKind::Throttled),
        (500, "backendError", FaultKind::Transient),
        (503, "backendError", FaultKind::Throttled),
    ] {
        place
            .server
            .set_knobs(Knobs { faults: vec![FaultRule::error("*", status, code)], ..Knobs::default() });
        assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, expected, "{status}");
        assert_eq!(kind(place.store.get("k", None, None, Attempt::FIRST)).await.0, expected, "{status}");
        assert_eq!(kind(place.store.delete("k", None, Attempt::FIRST)).await.0, expected, "{status}");
        assert_eq!(
            kind(place.store.put("k", in_memory(b"1"), &options, Attempt::FIRST)).await.0,
            expected,
            "{status}"
        );
        assert_eq!(kind(place.store.list("", true).try_collect::<Vec<_>>()).await.0, expected, "{status}");
        let fault = place.store.head("k", Attempt::FIRST).await.unwrap_err();
        let said = match over {
            GcsTransport::Http => format!("({code}, HTTP {status})"),
            GcsTransport::Grpc => format!("({code}, gRPC "),
        };
        assert!(fault.answered && fault.message.contains(&said), "{fault}");
    }
}

async fn nobody_there_and_cut_connections(over: GcsTransport) {
    let place = place(over).await;
    let cut = |operation: &str| {
        let reset = FaultRule::new(operation, FaultAction::ResetRequest { after_bytes: 0 });
        let faults = testkit::rules(vec![reset], over);
        place.server.set_knobs(Knobs { faults, ..Knobs::default() });
    };
    cut("storage.objects.insert");
    let (broken, said) =
        kind(place.store.put("k", in_memory(b"1"), &WriteOptions::default(), Attempt::FIRST)).await;
    assert_eq!(broken, FaultKind::Transient, "{said}");
    cut("storage.objects.get");
    assert_eq!(kind(place.store.head("k", Attempt::FIRST)).await.0, FaultKind::Transient);
    let settings = GcsSettings::default()
        .with_endpoint_url("http://127.0.0.1:1")
        .with_credentials(GcsCredentials::anonymous())
        .with_connect_timeout(Duration::from_secs(1))
        .with_transport(over);
    let nowhere = Gcs::connect("bucket", &settings).await.unwrap();
    let (unreachable, said) = kind(nowhere.head("k", Attempt::FIRST)).await;
    assert_eq!(unreachable, FaultKind::Unreachable, "{said}");
    assert!(said.contains("127.0.0.1:1"), "{said}");
}

async fn a_token_goes_with_each_request_and_is_shown_nowhere(over: GcsTransport) {
    let place = place(over).await;
    let credentials = GcsCredentials::token("ya29.secret");
    assert!(!format!("{credentials:?}").contains("secret"));
    let settings = settings_for(&place.server, over).with_credentials(credentials);
    let store = Gcs::connect("bucket", &settings).await.unwrap();
    store.put("k", in_memory(b"1"), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    place
        .server
        .set_knobs(Knobs { faults: vec![FaultRule::error("*", 401, "authError")], ..Knobs::default() });
    let fault = store.head("k", Attempt::FIRST).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Credentials);
    assert!(fault.message.starts_with("the store does not take the access token"), "{fault}");
    assert!(!format!("{fault:?} {store:?}").contains("secret"), "{fault:?} {store:?}");
    let bad = settings_for(&place.server, over).with_credentials(GcsCredentials::token("a\nb"));
    let store = Gcs::connect("bucket", &bad).await.unwrap();
    assert_eq!(kind(store.head("k", Attempt::FIRST)).await.0, FaultKind::Credentials);
}

async fn a_store_says_when_to_come_again(over: GcsTransport) {
    let place = place(over).await;
    let (status, code) = (503, "backendError".to_owned());
    let faults = vec![FaultRule::new("*", FaultAction::Error { status, code, retry_after: Some(7) })];
    place.server.set_knobs(Knobs { faults, ..Knobs::default() });
    let fault = place.store.head("k", Attempt::FIRST).await.unwrap_err();
    assert_eq!((fault.kind, fault.retry_after), (FaultKind::Throttled, Some(Duration::from_secs(7))));
}

async fn what_stands_for_something_on_the_way_may_have_been_done(over: GcsTransport) {
    let place = place(over).await;
    let faults = vec![FaultRule::new("*", FaultAction::DenySuccess { status: 503, code: String::new() })];
    place.server.set_knobs(Knobs { faults, ..Knobs::default() });
    let fault =
        place.store.put("k", in_memory(b"1"), &WriteOptions::default(), Attempt::FIRST).await.unwrap_err();
    assert!(!fault.answered && fault.is_ambiguous(), "{fault:?}");
    place.server.set_knobs(Knobs::default());
    assert_eq!(read_back(&place.store, "k", None).await, b"1");
}
