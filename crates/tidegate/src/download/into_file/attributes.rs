//! Attributes of an object that a downloaded file is given: its time, its permissions.

use crate::backend::local::Publish;
use crate::download::source::ObjectSource;
use crate::types::error::Result;
use crate::types::object::{FileAttributes, Object};

/// Which attributes a file is given. They are independent: a preserved time goes before the object's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenAttributes {
    /// The time at which the store last changed the object.
    pub(super) modified: bool,
    /// The time and the permissions in the object's user metadata.
    pub(super) preserved: bool,
}

impl GivenAttributes {
    /// The object with its user metadata, if that is needed and did not come with the bytes. Asks the store for it, and
    /// fails if the object was replaced meanwhile.
    pub(super) async fn described(self, source: &ObjectSource, object: Object) -> Result<Object> {
        if !self.preserved || source.sends_metadata() {
            return Ok(object);
        }
        let described =
            source.head(Some(&object)).await.map_err(|failure| source.failed(failure, object.size))?;
        Ok(Object { attributes: described.attributes, ..object })
    }

    /// How the file of this object is published.
    pub(super) fn publish(self, how: Publish, object: &Object) -> Publish {
        let preserved = match self.preserved {
            true => FileAttributes::from_metadata(&object.attributes.metadata).0,
            false => FileAttributes::default(),
        };
        let modified = preserved.modified.or(object.modified.filter(|_| self.modified));
        Publish { modified, permissions: preserved.permissions, ..how }
    }
}
