//! Stands in for `grpc.rs` in a build without the feature `grpc`: the types have no values, so that the code that
//! would use gRPC is there, and never runs.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::GcsShared;
use tidegate_core::backend::{
    Appended, Attempt, Body, Copied, CopySource, Entry, Fault, FaultKind, Listing, Session, WriteOptions,
};
use tidegate_core::memory::payload::{Payload, Unending};
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::Object;

/// The connections that there are none of.
#[derive(Debug)]
pub(super) enum Channels {}

impl Channels {
    pub(super) fn new(_url: &str, _timeout: Duration, _bundle: Option<&Path>) -> Result<Self, Fault> {
        Err(Fault::new(
            FaultKind::Unsupported,
            "this build of Tidegate has no gRPC: enable the feature `gcs-grpc`",
        ))
    }
}

/// Stands in for the bucket over gRPC in a build without gRPC. It has no values.
#[derive(Clone, Debug)]
pub(super) enum Grpc {}

impl Grpc {
    pub(super) fn new(_: Arc<GcsShared>, channels: Arc<Channels>, _: &str, _: &str) -> Result<Self, Fault> {
        match *channels {}
    }

    pub(super) async fn put(
        &self,
        _: &str,
        _: Payload,
        _: &WriteOptions,
        _: Attempt,
    ) -> Result<Object, Fault> {
        match *self {}
    }

    pub(super) async fn open(&self, _: &str, _: &WriteOptions, _: Attempt) -> Result<Session, Fault> {
        match *self {}
    }

    pub(super) async fn append(
        &self,
        _: &Session,
        _: u64,
        _: Payload,
        _: Option<&Checksum>,
        _: Attempt,
    ) -> Result<Appended, Fault> {
        match *self {}
    }

    pub(super) async fn stream(
        &self,
        _: &Session,
        _: u64,
        _: Unending,
        _: Attempt,
    ) -> Result<Appended, Fault> {
        match *self {}
    }

    pub(super) async fn position(&self, _: &Session, _: Attempt) -> Result<Appended, Fault> {
        match *self {}
    }

    pub(super) async fn abort(&self, _: &Session, _: Attempt) -> Result<(), Fault> {
        match *self {}
    }

    pub(super) async fn head(&self, _: &str, _: Attempt) -> Result<Object, Fault> {
        match *self {}
    }

    pub(super) async fn get(
        &self,
        _: &str,
        _: Option<Range<u64>>,
        _: Option<&Object>,
        _: Attempt,
    ) -> Result<Body, Fault> {
        match *self {}
    }

    pub(super) fn list(&self, _: &str, _: bool, _: &str) -> Listing<Entry> {
        match *self {}
    }

    pub(super) async fn delete(&self, _: &str, _: Option<&Object>, _: Attempt) -> Result<(), Fault> {
        match *self {}
    }

    pub(super) async fn copy(
        &self,
        _: &str,
        _: &CopySource,
        _: &str,
        _: Option<&str>,
        _: &WriteOptions,
        _: Attempt,
    ) -> Result<Copied, Fault> {
        match *self {}
    }
}
