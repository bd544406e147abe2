//! The memory store's checks: S3's rules, with S3's names for the errors.

use std::collections::BTreeMap;
use std::ops::Range;

use super::MemoryPart;
use crate::backend::{Capabilities, Fault, FaultKind, Receipt};

/// Checks that an upload with the parts `stored` may be completed with `parts`.
pub(super) fn check_parts(
    limits: &Capabilities,
    stored: &BTreeMap<u32, MemoryPart>,
    parts: &[Receipt],
) -> Result<(), Fault> {
    let Some(last) = parts.last() else {
        return Err(invalid("a session is completed with at least one part"));
    };
    let size = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.size));
    if size > limits.max_object {
        let message = format!("EntityTooLarge: {size} bytes, of at most {} in one object", limits.max_object);
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].number >= pair[1].number) {
        let message =
            format!("InvalidPartOrder: part {} comes after part {}", pair[1].number, pair[0].number);
        return Err(invalid(message));
    }
    for part in parts {
        let number = part.number;
        match stored.get(&number) {
            None => return Err(mismatch(format!("InvalidPart: there is no part {number}"))),
            Some(stored) if stored.receipt != *part => {
                return Err(mismatch(format!("InvalidPart: part {number} is not the one that was stored")));
            }
            Some(_) => {}
        }
        if number == last.number {
            continue;
        }
        if part.size < limits.min_part {
            let least = limits.min_part;
            let message =
                format!("EntityTooSmall: part {number} has {} bytes, of at least {least}", part.size);
            return Err(invalid(message));
        }
        if limits.equal_parts && (part.size != parts[0].size || last.size > part.size) {
            return Err(invalid(
                "InvalidPart: all parts but the last must have one size, and the last no more",
            ));
        }
    }
    Ok(())
}

/// The range, cut to the object's end. Refuses a range that begins past the end, as S3 does.
pub(super) fn clamp(range: Option<Range<u64>>, size: u64) -> Result<Range<u64>, Fault> {
    let Some(range) = range else {
        return Ok(0..size);
    };
    if range.start > range.end {
        return Err(invalid(format!("the range {}..{} ends before it begins", range.start, range.end)));
    }
    if range.start > size || (range.start == size && !range.is_empty()) {
        let message =
            format!("InvalidRange: the range begins at {}, and the object has {size} bytes", range.start);
        return Err(invalid(message));
    }
    Ok(range.start..range.end.min(size))
}

/// Fails if `size` bytes are more than `most`, the limit of one `whole`.
pub(super) fn fits(size: u64, most: u64, whole: &str) -> Result<(), Fault> {
    if size > most {
        return Err(Fault::new(
            FaultKind::TooLarge,
            format!("EntityTooLarge: {size} bytes, of at most {most} in {whole}"),
        ));
    }
    Ok(())
}

pub(super) fn mismatch(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::PartMismatch, message)
}

pub(super) fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Invalid, message)
}

pub(super) fn no_object() -> Fault {
    Fault::new(FaultKind::NotFound, "no such object")
}

pub(super) fn no_session() -> Fault {
    Fault::new(FaultKind::NoSession, "no such session: it was completed or aborted, or never was")
}
