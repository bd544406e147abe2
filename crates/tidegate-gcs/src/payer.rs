//! The project that pays for requests, as buckets with Requester Pays demand ("Use Requester Pays").

use std::ffi::OsString;

use http::{HeaderMap, HeaderValue};
use percent_encoding::utf8_percent_encode;

use super::address::SEGMENT;
use super::settings::GcsSettings;
use tidegate_core::backend::Fault;
use tidegate_http::{environment, text};

/// The variable of Google's libraries for the project that pays, whatever the bucket demands.
const QUOTA: &str = "GOOGLE_CLOUD_QUOTA_PROJECT";

/// The variables in which Google's tools look for the project.
const PROJECTS: [&str; 3] = ["GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"];

/// The header that names the project in each API.
pub(super) const HEADER: &str = "x-goog-user-project";

/// The project that pays for the requests of a client.
#[derive(Clone, Debug)]
pub(super) struct Payer {
    pub(super) project: String,
    header: HeaderValue,
}

impl Payer {
    /// The project that the settings, the environment or the credentials name, in this order.
    pub(super) fn of(
        settings: &GcsSettings,
        variable: impl Fn(&str) -> Option<OsString>,
        of_credentials: impl FnOnce() -> Option<String>,
    ) -> Result<Option<Self>, Fault> {
        let set = settings.project.as_deref().map(str::trim).filter(|project| !project.is_empty());
        let mut found = set.filter(|_| settings.request_payer).map(str::to_owned);
        let others = if settings.request_payer { &PROJECTS[..] } else { &[] };
        for name in [&QUOTA].into_iter().chain(others) {
            found = match found {
                None => environment::word(name, &variable)?,
                found => found,
            };
        }
        let found = found.or_else(|| if settings.request_payer { of_credentials() } else { None });
        found.map(|project| Ok(Self { header: text(&project)?, project })).transpose()
    }

    /// Names the project in a request. The JSON API takes it from the query.
    pub(super) fn pays(&self, url: &mut String, headers: &mut HeaderMap) {
        headers.insert(HEADER, self.header.clone());
        // The address of a resumable upload is used as the store has given it.
        if url.contains("/storage/v1/") && !url.contains("upload_id=") {
            let project = utf8_percent_encode(&self.project, SEGMENT);
            let sign = if url.contains('?') { '&' } else { '?' };
            url.push_str(&format!("{sign}userProject={project}"));
        }
    }
}

/// What to do about a refusal that wants a project to pay; nothing for another refusal.
pub(super) fn remedy(message: &str) -> &'static str {
    let said = message.to_ascii_lowercase();
    match ["requester pays", "user project", "userproject"].iter().any(|words| said.contains(words)) {
        true => {
            ": to pay for requests, name the project that pays in GOOGLE_CLOUD_PROJECT, and give `--request-payer`"
        }
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_that_pays_is_the_first_that_is_named() {
        let found = |pays: bool, set: Option<&str>, variables: &[(&str, &str)], file: Option<&str>| {
            let mut settings = GcsSettings::default().with_request_payer(pays);
            settings.project = set.map(str::to_owned);
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            Payer::of(&settings, variable, || file.map(str::to_owned)).unwrap().map(|payer| payer.project)
        };
        let all = [("CLOUDSDK_CORE_PROJECT", "c"), ("GOOGLE_CLOUD_PROJECT", "b"), (QUOTA, "a")];
        assert_eq!(found(true, Some("set"), &all, Some("file")).as_deref(), Some("set"));
        assert_eq!(found(true, None, &all, Some("file")).as_deref(), Some("a"));
        assert_eq!(found(true, None, &all[..2], Some("file")).as_deref(), Some("b"));
        assert_eq!(found(true, None, &all[..1], Some("file")).as_deref(), Some("c"));
        assert_eq!(found(true, None, &[], Some("file")).as_deref(), Some("file"));
        assert_eq!(found(true, None, &[], None), None);
        assert_eq!(found(false, Some("set"), &all, Some("file")).as_deref(), Some("a"));
        assert_eq!(found(false, Some("set"), &all[..2], Some("file")), None);
    }
}
