//! Tests the embedded server's Google protocols rule by rule, with a simple client that can also send what no
//! library would send.

#![allow(clippy::unwrap_used)] // what its tests share is test code as well

mod client;
mod grpc;
mod knobs;
mod objects;
mod restart;
mod resumable;
mod safety;
mod states;
mod streams;
mod uploads;
mod xml;
