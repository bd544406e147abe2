//! Copies within the memory store. They share the source's blocks.

use std::ops::Range;

use bytes::Bytes;

use super::content::{cut, sent};
use super::rules::{fits, invalid, no_object};
use super::{Memory, MemoryObject, MemoryPart, StoreContents};
use crate::backend::copy::{check_range, gone};
use crate::backend::if_unchanged::same_or_replaced;
use crate::backend::{CopySource, Fault, Receipt, Session, StoredPart, WriteOptions};
use crate::types::checksum::Hasher;
use crate::types::object::Object;

impl StoreContents {
    /// The source object, if it is still the one that was described.
    fn source(&self, from: &CopySource) -> Result<&MemoryObject, Fault> {
        let stored = self.objects.get(&from.key).ok_or_else(|| gone(no_object()))?;
        same_or_replaced(stored.object.clone(), Some(&from.object))?;
        Ok(stored)
    }
}

impl Memory {
    pub(super) fn copy_whole(
        &self,
        from: &CopySource,
        key: &str,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        self.check_source(from)?;
        fits(from.object.size, self.info.capabilities.max_copy, "one copy")?;
        let mut state = self.state();
        let source = state.source(from)?;
        let (object, blocks) = (source.object.clone(), source.blocks.to_vec());
        let mut options = options.clone();
        if from.keeps_tags && options.attributes.tags.is_empty() {
            options.attributes.tags = object.attributes.tags.clone();
        }
        let condition = options.clone();
        state.publish(key, object, blocks, options, &condition)
    }

    pub(super) fn copy_range(
        &self,
        session: &Session,
        number: u32,
        from: &CopySource,
        range: Range<u64>,
    ) -> Result<Receipt, Fault> {
        self.check_source(from)?;
        check_range(from, &range)?;
        let most = self.info.capabilities.max_parts;
        if !(1..=most).contains(&number) {
            return Err(invalid(format!("part {number}: parts are numbered from 1 to {most}")));
        }
        fits(range.end - range.start, self.info.capabilities.max_part, "one part")?;
        let blocks: Vec<Bytes> = {
            let mut state = self.state();
            state.upload(session)?;
            cut(&state.source(from)?.blocks, &range)
        };
        let mut hasher = Hasher::new(self.info.capabilities.checksum);
        blocks.iter().for_each(|block| hasher.update(block));
        let checksum = hasher.finish();
        let receipt = Receipt { checksum: None, ..sent(number, checksum) };
        self.state()
            .upload(session)?
            .parts
            .insert(number, MemoryPart { receipt: receipt.clone(), checksum, blocks });
        Ok(receipt)
    }

    fn check_source(&self, from: &CopySource) -> Result<(), Fault> {
        if from.location == self.info.location {
            return Ok(());
        }
        Err(invalid(format!("{} is another store", from.location)))
    }
}

impl MemoryPart {
    /// The part as the store lists it.
    pub(super) fn stored(&self) -> StoredPart {
        let Receipt { number, size, etag, .. } = &self.receipt;
        let checksum = Some(self.checksum.base64());
        StoredPart { number: *number, size: *size, etag: etag.clone(), checksum }
    }
}
