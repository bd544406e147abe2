//! Determines the protocol of a request.

use http::StatusCode;
use http::request::Parts;

use crate::faults::InjectedRefusal;
use crate::gcs;
use crate::guard::Refused;

/// The protocol of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    S3,
    Xml,
    Json,
    Grpc,
}

impl Dialect {
    /// Determines the protocol of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        if gcs::grpc::is_grpc(parts) {
            Self::Grpc
        } else if gcs::is_json_api(parts) {
            Self::Json
        } else if gcs::xml::is_xml_api(parts) {
            Self::Xml
        } else {
            Self::S3
        }
    }

    /// Refuses a request in its own protocol.
    pub(crate) fn refuse(self, refused: &Refused) -> http::Response<s3s::Body> {
        gcs::forbid(self, refused)
    }

    /// An error in place of a success.
    pub(crate) fn denied(self, denial: &InjectedRefusal) -> http::Response<s3s::Body> {
        let code = &denial.code;
        let body = match (self, code.as_str()) {
            (Self::Grpc, _) => return gcs::grpc::refuse(denial),
            (_, "") => String::new(),
            (Self::Json, _) => return gcs::refuse(denial),
            (Self::S3 | Self::Xml, _) => format!(
                "<Error><Code>{code}</Code><Message>Said by a knob of the development server</Message></Error>"
            ),
        };
        let mut answer = http::Response::new(s3s::Body::from(body));
        let status = StatusCode::from_u16(denial.status);
        *answer.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer
    }
}
