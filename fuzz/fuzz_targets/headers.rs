//! Header lines that describe an object, a range, a time.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::headers(input));
