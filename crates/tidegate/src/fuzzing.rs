//! What the fuzz targets in `fuzz/` call. Each function takes any bytes and must not panic; what else it holds to is
//! asserted where the code is that it calls.

use http::{HeaderMap, HeaderName, HeaderValue};

pub use crate::backend::gcs::fuzzing::{grpc_messages, json_documents};
pub use crate::backend::s3::fuzzing::{headers, xml_documents};
pub use crate::read::download::fuzzing::download_notes;
pub use crate::records::fuzzing::records;

/// Takes a head of lines `name: value` off the input, up to an empty line. Lines that no HTTP head can have are left out.
pub(crate) fn head(input: &[u8]) -> (HeaderMap, &[u8]) {
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

#[cfg(test)]
mod tests {
    use std::fs;

    fn replay(target: &str, run: impl Fn(&[u8])) {
        let corpus = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 5, "the corpus is in fuzz/corpus/{target}");
        for file in files {
            run(&fs::read(&file).unwrap());
        }
    }

    #[test]
    fn the_corpora_are_read_or_refused() {
        replay("xml_documents", super::xml_documents);
        replay("json_documents", super::json_documents);
        replay("headers", super::headers);
        replay("grpc_messages", super::grpc_messages);
        replay("records", super::records);
        replay("download_notes", super::download_notes);
    }
}
