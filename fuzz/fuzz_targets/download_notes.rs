//! Fuzzes the parser of notes of partial downloads.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::download_notes(input));
