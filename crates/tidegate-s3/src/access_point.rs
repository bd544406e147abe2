//! Access points: names of a bucket's own, each with a policy, an address and a region
//! (`arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME`). An access point's alias is a bucket's name like any other.

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::xml::address::{BucketUrl, EndpointUrl};
use tidegate_http::xml::fault::is_region;

/// An access point of Amazon S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessPoint {
    pub(super) region: String,
    account: String,
    name: String,
}

impl AccessPoint {
    /// The access point that a bucket's name is the ARN of; `None` for another name.
    ///
    /// # Errors
    /// [`FaultKind::Unsupported`] for resources of S3 that need a protocol of their own, by name.
    pub(super) fn of(bucket: &str) -> Result<Option<Self>, Fault> {
        let Some(arn) = bucket.strip_prefix("arn:") else { return Ok(None) };
        let mut pieces = arn.splitn(5, ':');
        let mut piece = || pieces.next().unwrap_or_default();
        let (_partition, service, region, account, resource) = (piece(), piece(), piece(), piece(), piece());
        let refused = |kind, why: String| Err(Fault::new(kind, format!("`{bucket}` {why}")));
        let unsupported = |why: &str| refused(FaultKind::Unsupported, why.to_owned());
        match service {
            "s3" => {}
            "s3-object-lambda" => {
                return unsupported(
                    "is an access point of S3 Object Lambda, which Tidegate can't use: name the bucket",
                );
            }
            "s3-outposts" => return unsupported("is a resource of S3 on Outposts, which Tidegate can't use"),
            _ => return refused(FaultKind::Invalid, "is not the ARN of an access point of S3".to_owned()),
        }
        let Some(name) = ["accesspoint/", "accesspoint:"].iter().find_map(|kind| resource.strip_prefix(kind))
        else {
            let why = match resource.split(['/', ':']).next() {
                Some(bucket) if !bucket.is_empty() => format!("is the ARN of a bucket: write s3://{bucket}"),
                _ => "is not the ARN of an access point of S3".to_owned(),
            };
            return refused(FaultKind::Invalid, why);
        };
        if region.is_empty() {
            return unsupported(
                "is a multi-Region access point, which needs signatures of version 4A (Tidegate makes version 4): name \
                 the bucket, or an access point of one region",
            );
        }
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_account = !account.is_empty() && account.bytes().all(|byte| byte.is_ascii_digit());
        if !is_name || !is_account || !is_region(region) {
            let why = "is not the ARN of an access point: write arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME";
            return refused(FaultKind::Invalid, why.to_owned());
        }
        let (region, account, name) = (region.to_owned(), account.to_owned(), name.to_owned());
        Ok(Some(Self { region, account, name }))
    }

    /// The access point's own address.
    ///
    /// # Errors
    /// [`FaultKind::Invalid`] where the endpoint is not AWS's own, which alone has access points.
    pub(super) fn address(&self, endpoint: &EndpointUrl) -> Result<BucketUrl, Fault> {
        let host = endpoint.of_access_points(&self.region).ok_or_else(|| {
            let message = format!(
                "access point `{}` is reached at AWS's endpoint in its own partition, and the endpoint is {}: leave out \
                 the endpoint",
                self.name,
                endpoint.url()
            );
            Fault::new(FaultKind::Invalid, message)
        })?;
        Ok(BucketUrl::at(format!("https://{}-{}.{host}", self.name, self.account)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:s3:eu-west-1:123456789012:accesspoint/reports";

    #[test]
    fn an_access_point_has_an_address_and_a_region_of_its_own() {
        let point = AccessPoint::of(ARN).unwrap().unwrap();
        let at = |fips, dual| {
            let endpoint = EndpointUrl::aws("us-east-1", fips, dual).unwrap();
            point.address(&endpoint).unwrap().object("a b", &[]).unwrap()
        };
        let host = "https://reports-123456789012.s3-accesspoint";
        assert_eq!(at(false, false), format!("{host}.eu-west-1.amazonaws.com/a%20b"));
        assert_eq!(at(true, false), format!("{host}-fips.eu-west-1.amazonaws.com/a%20b"));
        assert_eq!(at(false, true), format!("{host}.dualstack.eu-west-1.amazonaws.com/a%20b"));
        assert_eq!(AccessPoint::of(&ARN.replace('/', ":")).unwrap().unwrap(), point);
        assert_eq!(AccessPoint::of("reports-x1y2z3-s3alias").unwrap(), None);
        let other = EndpointUrl::custom("http://127.0.0.1:9000").unwrap();
        assert_eq!(point.address(&other).unwrap_err().kind, FaultKind::Invalid);
        let china = EndpointUrl::aws("cn-north-1", false, false).unwrap();
        assert_eq!(point.address(&china).unwrap_err().kind, FaultKind::Invalid);
    }

    #[test]
    fn other_resources_are_refused_by_name() {
        for (arn, kind, named) in [
            (
                "arn:aws:s3::123456789012:accesspoint/x.mrap",
                FaultKind::Unsupported,
                "multi-Region access point",
            ),
            ("arn:aws:s3-object-lambda:us-east-1:1:accesspoint/x", FaultKind::Unsupported, "Object Lambda"),
            ("arn:aws:s3-outposts:us-east-1:1:outpost/o/accesspoint/x", FaultKind::Unsupported, "Outposts"),
            ("arn:aws:s3:::bucket", FaultKind::Invalid, "write s3://bucket"),
            ("arn:aws:s3:us-east-1:abc:accesspoint/x", FaultKind::Invalid, "accesspoint/NAME"),
            ("arn:aws:s3:us-east-1:1:accesspoint/x.y", FaultKind::Invalid, "accesspoint/NAME"),
            ("arn:aws:sqs:us-east-1:1:queue", FaultKind::Invalid, "not the ARN"),
            ("arn:", FaultKind::Invalid, "not the ARN"),
        ] {
            let fault = AccessPoint::of(arn).unwrap_err();
            assert_eq!(fault.kind, kind, "{arn}: {fault}");
            assert!(fault.message.contains(named), "{fault}");
        }
    }
}
