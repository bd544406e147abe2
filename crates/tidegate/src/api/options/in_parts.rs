//! The options of an upload in parts.

use super::{Options, set_attribute};
use crate::types::error::Result;
use crate::types::object::Attributes;
use crate::upload::PartsUploadBuilder;

impl Options {
    /// Applies these options to an upload in parts, which has `create_only` and the attributes of a write.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn upload_in_parts(&self, mut builder: PartsUploadBuilder) -> Result<PartsUploadBuilder> {
        let mut attributes = Attributes::default();
        for given in self.iter() {
            if given.name != "create_only" && !set_attribute(&mut attributes, &given)? {
                return Err(given.misplaced("an upload in parts"));
            }
        }
        if self.is_set("create_only")? {
            builder = builder.create_only();
        }
        Ok(builder.attributes(attributes))
    }
}
