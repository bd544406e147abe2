//! Fuzzes the parser of files of records.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::records(input));
