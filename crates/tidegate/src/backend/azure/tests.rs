//! Azure Blob Storage against the server that `TIDEGATE_TEST_AZURE` names, and against canned answers.

use super::*;
use crate::backend::KnownFacts;

/// A new container of the server that the connection string in `TIDEGATE_TEST_AZURE` names (Azurite), and one that does
/// not exist. `None` without that variable.
pub(crate) async fn new_container() -> Option<(Azure, Azure)> {
    let Ok(connection) = std::env::var("TIDEGATE_TEST_AZURE") else {
        println!("skipped: TIDEGATE_TEST_AZURE names no server");
        return None;
    };
    let field = |name: &str| {
        let fields = connection.split(';').filter_map(|field| field.split_once('='));
        fields.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap().to_owned()
    };
    let settings = AzureSettings::default()
        .with_account(field("AccountName"))
        .with_endpoint_url(field("BlobEndpoint"))
        .with_credentials(AzureCredentials::key(field("AccountKey")));
    let client = AzureClient::connect(&settings, &KnownFacts::default()).await.unwrap();
    let store = Azure::new(&client, &format!("case-{:016x}", fastrand::u64(..))).unwrap();
    let url = store.container.url.container(&[("restype", "container")]);
    store.container.shared.ask(AzureRequest::new(Method::PUT, url, Attempt::FIRST)).await.unwrap();
    Some((store, Azure::new(&client, "no-such-container").unwrap()))
}
