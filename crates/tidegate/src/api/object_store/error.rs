//! Tidegate's errors as `object_store` errors. Each keeps the whole original error as its source.

use ::object_store::Error;
use ::object_store::path::Path;

use super::STORE;
use crate::{ErrorKind, Store};

pub(super) fn convert(error: crate::Error, location: &Path) -> Error {
    let (kind, path) = (error.kind(), location.to_string());
    let source = Box::new(error);
    match kind {
        ErrorKind::NotFound | ErrorKind::NoBucket => Error::NotFound { path, source },
        ErrorKind::AlreadyExists => Error::AlreadyExists { path, source },
        ErrorKind::Replaced => Error::Precondition { path, source },
        ErrorKind::PermissionDenied => Error::PermissionDenied { path, source },
        ErrorKind::Credentials => Error::Unauthenticated { path, source },
        ErrorKind::Unsupported => Error::NotSupported { source },
        _ => Error::Generic { store: STORE, source },
    }
}

/// The error for a request that no store supports.
pub(super) fn no_condition(message: &'static str) -> Error {
    Error::NotSupported { source: message.into() }
}

/// The error for a store that cannot make a write depend on the object that it replaces.
pub(super) fn without_condition(store: &Store) -> Error {
    Error::NotImplemented {
        operation: "`put_opts` with `PutMode::Update`".into(),
        implementer: store.location(),
    }
}
