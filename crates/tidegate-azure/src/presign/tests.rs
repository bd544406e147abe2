use super::*;
use crate::connection_string::{AZURITE_ACCOUNT, AZURITE_KEY};

fn grant() -> BlobGrant {
    BlobGrant {
        permissions: "r",
        expiry: "2026-11-27T10:15:00Z".to_owned(),
        resource: format!("/blob/{AZURITE_ACCOUNT}/container/a b+(ü).txt"),
        protocol: "https",
    }
}

/// The signatures that `azure-storage-blob` 12 makes of the same grants, with the same version.
#[test]
fn a_signature_is_that_of_azures_own_library() {
    let key = STANDARD.decode(AZURITE_KEY).unwrap();
    let url = grant().signed_by_account("https://h/container/k", &key).unwrap();
    assert_eq!(
        url,
        "https://h/container/k?sv=2024-11-04&spr=https&se=2026-11-27T10%3A15%3A00Z&sr=b&sp=r&sig=yF%2B4OZ6FnRB8v9Tn0TsQRlI5iVYJSUAiDVlOUJCbTFU%3D"
    );
    let key = DelegationKey {
        object: "oid".into(),
        tenant: "tid".into(),
        start: "2026-11-27T09:00:00Z".into(),
        expiry: "2026-11-28T09:00:00Z".into(),
        service: "b".into(),
        version: "2024-11-04".into(),
        value: AZURITE_KEY.into(),
        ..DelegationKey::default()
    };
    let url = grant().signed_by_identity("https://h/container/k", &key).unwrap();
    let (rest, signature) = url.rsplit_once("&sig=").unwrap();
    assert_eq!(signature, "CSgTuM3fW7K7QPeT5zaycoflo3ml1dL8nX4Q9jBwdeo%3D");
    assert!(rest.contains(
        "&skoid=oid&sktid=tid&skt=2026-11-27T09%3A00%3A00Z&ske=2026-11-28T09%3A00%3A00Z&sks=b&skv="
    ));
}

#[test]
fn times_are_written_in_seconds() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_774_500_999);
    assert_eq!(written(time), "2026-11-27T10:15:00Z");
}
