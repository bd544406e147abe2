//! Fuzzes the parsers of header lines that describe an object, a range or a time.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::headers(input));
