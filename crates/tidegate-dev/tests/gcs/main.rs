//! Google's protocols as the embedded server speaks them, rule by rule: with a client that sends what
//! it is told to, so that also what no library would send is tried.

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
