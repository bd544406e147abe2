//! Messages and statuses of gRPC, and the framing of those that are sent.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate::fuzzing::grpc_messages(input));
