//! Fuzzes the decoder of request bodies in the embedded server.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate_dev::fuzzing::aws_chunked(input));
