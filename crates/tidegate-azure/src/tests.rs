//! Azure Blob Storage against Azurite, and against canned answers.

use super::*;
use tidegate_core::backend::KnownFacts;

mod raw;
mod server;

/// A new container of the server that the connection string in `TIDEGATE_TEST_AZURITE` names.
async fn new_container() -> Azure {
    let connection = std::env::var("TIDEGATE_TEST_AZURITE");
    let connection = connection.expect("`scripts/test --only behaviour` starts the server and names it");
    let settings = AzureSettings::default().with_connection_string(connection);
    let client = AzureClient::connect(&settings, &KnownFacts::default()).await.unwrap();
    let store = Azure::new(&client, &format!("case-{:016x}", fastrand::u64(..))).unwrap();
    let url = store.container.url.container(&[("restype", "container")]);
    store.container.shared.ask(AzureRequest::new(Method::PUT, url, Attempt::FIRST)).await.unwrap();
    store
}
