//! Builds the URLs of a container and its blobs.

use percent_encoding::utf8_percent_encode;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::xml::address::{EndpointUrl, PATH, with_query};

/// The URLs of one container.
#[derive(Clone, Debug)]
pub(super) struct ContainerUrl {
    base: String,
}

impl ContainerUrl {
    /// `endpoint` includes the account: `https://account.blob.core.windows.net`, or
    /// `http://127.0.0.1:10000/devstoreaccount1`.
    pub(super) fn new(endpoint: &EndpointUrl, container: &str) -> Result<Self, Fault> {
        check_container(container, endpoint.url().ends_with(".fabric.microsoft.com"))?;
        Ok(Self { base: format!("{}/{container}", endpoint.url()) })
    }

    /// The URL of the container itself.
    pub(super) fn container(&self, query: &[(&str, &str)]) -> String {
        with_query(self.base.clone(), query)
    }

    /// The URL of a blob.
    pub(super) fn blob(&self, key: &str, query: &[(&str, &str)]) -> Result<String, Fault> {
        check(key)?;
        Ok(with_query(format!("{}/{}", self.base, utf8_percent_encode(key, PATH)), query))
    }
}

/// Refuses names that no container has ("Naming and referencing containers, blobs, and metadata"). The containers of
/// Microsoft Fabric's OneLake are workspaces, whose names may have capitals.
fn check_container(name: &str, is_workspace: bool) -> Result<(), Fault> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if is_workspace && !matches!(name, "" | "." | "..") && name.bytes().all(is_name) {
        return Ok(());
    }
    let is_special = matches!(name, "$root" | "$web" | "$logs");
    let is_plain = (3..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if is_special || is_plain {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not a container's name: 3 to 63 lower-case letters, digits and single hyphens make one"
    );
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Refuses keys that no blob has: up to 1,024 characters, no backslash, and "no path segments should end with a dot"
/// ("Naming and referencing containers, blobs, and metadata").
pub(super) fn check(key: &str) -> Result<(), Fault> {
    let message = if key.is_empty() {
        "the key is empty".to_owned()
    } else if key.chars().count() > 1024 {
        format!("the key has {} characters, Azure takes 1024 at most", key.chars().count())
    } else if key.contains('\\') {
        "the key has a `\\`, which Azure takes for a `/`: the blob would have another key".to_owned()
    } else if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        "the key has a segment `.` or `..`, which HTTP clients and servers resolve to another key".to_owned()
    } else if key.split('/').any(|segment| segment.ends_with('.')) {
        "the key has a segment that ends with a dot, which Azure does not keep".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::new(FaultKind::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_have_names_that_containers_have_not() {
        let new = |url: &str, name| ContainerUrl::new(&EndpointUrl::custom(url).unwrap(), name).is_ok();
        let (account, fabric) =
            ("https://account.blob.core.windows.net", "https://onelake.blob.fabric.microsoft.com");
        for name in ["Sales_EU.2026", "0f3c2b4e-8d51-4a77-9d1c-0a6a3d0a2b11"] {
            assert!(new(fabric, name), "{name}");
        }
        for name in ["", "..", "a/b", "a b"] {
            assert!(!new(fabric, name) && !new(account, name), "{name}");
        }
        assert!(new(account, "logs") && !new(account, "Logs"));
    }

    #[test]
    fn a_key_that_azure_would_change_is_refused_before_it_is_sent() {
        let url = EndpointUrl::custom("https://account.blob.core.windows.net").unwrap();
        let container = ContainerUrl::new(&url, "container").unwrap();
        for key in ["", "a\\b", "\\", "a/../b", "./a", "a./b", "a.", &"k".repeat(1025)] {
            assert_eq!(container.blob(key, &[]).unwrap_err().kind, FaultKind::Invalid, "{key}");
        }
        for key in ["a", "a/b", "a//b", ".a/..b", "a b", "ä%2F"] {
            container.blob(key, &[]).unwrap();
        }
    }
}
