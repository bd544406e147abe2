//! What the fuzz targets in `fuzz/` call. Each function takes any bytes and must not panic; what else it holds to is
//! asserted where the code is that it calls.

pub use crate::download::into_file::fuzzing::download_notes;
pub use crate::engine::records::fuzzing::records;
pub use tidegate_gcs::fuzzing::{grpc_messages, json_documents};
pub use tidegate_s3::fuzzing::xml_documents;

/// Parses headers as S3 and as Google Cloud Storage.
pub fn headers(input: &[u8]) {
    tidegate_gcs::fuzzing::headers(input);
    tidegate_s3::fuzzing::headers(input);
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
