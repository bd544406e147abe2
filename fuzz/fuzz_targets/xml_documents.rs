//! Fuzzes the parsers of S3's listings, lifecycle rules and error documents.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::xml_documents(input));
