//! The exact size of an object, where its producer knows it: nothing of another size is published.

use super::writer::Writer;
use crate::types::error::{ErrorKind, Operation, Result};

/// The object does not have the [exact size](crate::upload::WriterBuilder::exact_size) that was set; the source of
/// the [`Error`](crate::Error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongSize {
    /// The object ended too early.
    #[error("nothing is published: {given} bytes were given, and the object is to have exactly {exact}")]
    TooFew {
        /// Bytes that were given.
        given: u64,
        /// The size that was set.
        exact: u64,
    },
    /// The object did not end at the exact size.
    #[error("nothing is published: more bytes were given than the {exact} that the object is to have")]
    TooMany {
        /// The size that was set.
        exact: u64,
    },
}

impl Writer {
    /// How many bytes are still to come; `None` where no exact size is set.
    pub(super) fn missing(&self) -> Option<u64> {
        self.exact.map(|exact| exact.saturating_sub(self.given()))
    }

    /// Fails and ends the upload if `more` bytes would exceed the exact size.
    pub(super) fn check_more(&mut self, more: usize) -> Result<()> {
        match (self.missing(), self.exact) {
            (Some(missing), Some(exact)) if more as u64 > missing => {
                Err(self.has_wrong_size(WrongSize::TooMany { exact }))
            }
            _ => Ok(()),
        }
    }

    /// Fails, and the writer with it, unless exactly as many bytes were taken as the exact size.
    pub(super) fn check_all(&mut self) -> Result<()> {
        let given = self.side.position();
        match self.exact {
            Some(exact) if given < exact => Err(self.has_wrong_size(WrongSize::TooFew { given, exact })),
            Some(exact) if given > exact => Err(self.has_wrong_size(WrongSize::TooMany { exact })),
            _ => Ok(()),
        }
    }

    fn has_wrong_size(&mut self, wrong: WrongSize) -> crate::Error {
        // A writer that has failed before reports that instead.
        if let Err(closed) = self.side.check_open() {
            return closed;
        }
        let error = self.side.upload().error(ErrorKind::Source, Operation::Write, wrong.to_string());
        self.side.fail(error.with_source(wrong))
    }
}
