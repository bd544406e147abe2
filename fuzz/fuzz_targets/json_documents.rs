//! Fuzzes the parsers of Google's listings, descriptions and error documents.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::json_documents(input));
