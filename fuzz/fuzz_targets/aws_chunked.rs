//! Request bodies that the embedded server decodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate_dev::fuzzing::aws_chunked(input));
