//! Fuzzes the parsers of gRPC messages and statuses, and the framing of messages that are sent.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::grpc_messages(input));
