//! Shared by the fuzz targets of all clouds.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Takes a head of `name: value` lines off the input, up to an empty line. Lines that HTTP does not allow are left
/// out.
pub fn head(input: &[u8]) -> (HeaderMap, &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((&[][..], input), |end| (&input[..end], &input[end + 2..]));
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(100) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    (headers, body)
}
