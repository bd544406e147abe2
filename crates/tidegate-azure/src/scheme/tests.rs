use super::*;
use crate::AzureCredentials;

#[test]
fn each_account_has_one_client_and_a_location_says_how_it_was_named() {
    let settings =
        AzureSettings::default().with_account("acc1").with_credentials(AzureCredentials::token("token"));
    let (scheme, facts) = (AzureScheme::new(settings), KnownFacts::default());
    let client = |written: &str| scheme.client(written, &facts).unwrap().0;
    let (own, again) = (client("c11"), client("c22@acc1.dfs.core.windows.net"));
    let other = client("c11@acc2.dfs.core.windows.net");
    assert!(Arc::ptr_eq(&own.shared, &again.shared) && !Arc::ptr_eq(&own.shared, &other.shared));
    assert!(Arc::ptr_eq(&other.shared, &client("c33@acc2.blob.core.windows.net").shared));
    assert_eq!(own.location("c11"), "az://c11");
    assert_eq!(again.location("c11"), "abfss://c11@acc1.dfs.core.windows.net");
    assert_eq!(other.location("c11"), "abfss://c11@acc2.dfs.core.windows.net");

    for (location, is_own) in [
        ("az://c11", true),
        ("abfss://c11@acc1.dfs.core.windows.net", true),
        ("abfss://c11@acc2.dfs.core.windows.net", false),
        ("az://c22", false),
        ("s3://c11", false),
    ] {
        assert_eq!(own.shared.is_at("c11", location), is_own, "{location}");
        assert_eq!(again.shared.is_at("c11", location), is_own, "{location}");
        let is_other = location == "abfss://c11@acc2.dfs.core.windows.net";
        assert_eq!(other.shared.is_at("c11", location), is_other, "{location}");
    }
    assert_eq!(scheme.client("c11@localhost", &facts).unwrap_err().kind, FaultKind::Invalid);
}
