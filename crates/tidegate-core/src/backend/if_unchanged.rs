//! Checks that a read still concerns the same object.

use super::{Fault, FaultKind};
use crate::types::object::Object;

const REPLACED: &str = "the object was replaced while it was read";
const ANOTHER: &str = "the key has another object now, which stays";
const NO_IDENTITY: &str = "the store gives neither an ETag nor a version, so nothing tells whether another answer is about the same object";

/// The object that an answer describes, if it is the requested one. Needed because not every server heeds conditions.
pub fn same_or_replaced(object: Object, same: Option<&Object>) -> Result<Object, Fault> {
    match same {
        Some(same) if same.has_tag_of(&object).is_none() => Err(no_identity()),
        Some(same) if !same.is_same(&object) => Err(Fault::new(FaultKind::Replaced, REPLACED)),
        _ => Ok(object),
    }
}

/// Fails if `found` is not the object `same` that a removal is meant for, also if another write has made it of the same bytes:
/// two opposite moves would each remove what the other has copied.
pub fn same_or_another(found: &Object, same: &Object) -> Result<(), Fault> {
    match found.has_tag_of(same) {
        None => Err(no_identity()),
        Some(_) if !found.is_of_one_write(same) => Err(Fault::new(FaultKind::Replaced, ANOTHER)),
        Some(_) => Ok(()),
    }
}

/// Turns an unmet condition of a removal into `Replaced`.
pub fn not_removed(mut fault: Fault, same: Option<&Object>) -> Fault {
    if same.is_some() && fault.kind == FaultKind::Exists {
        fault.kind = FaultKind::Replaced;
        fault.message = format!("{ANOTHER}: {}", fault.message);
    }
    fault
}

/// The fault if an object has neither ETag nor version, so that no further answer can be matched to it.
pub fn no_identity() -> Fault {
    Fault::new(FaultKind::Unsupported, NO_IDENTITY)
}

/// The fault of a body that broke off. Without an identity the read cannot be resumed: another request may get
/// another object.
pub fn not_resumable(fault: Fault) -> Fault {
    if !fault.kind.is_retriable() {
        return fault;
    }
    let message = format!("{}; it cannot be resumed: {NO_IDENTITY}", fault.message);
    Fault { kind: FaultKind::Unsupported, message, ..fault }
}

/// Turns an unmet condition into `Replaced`, if the read was bound to the object `same`.
pub fn replaced(same: Option<&Object>) -> impl Fn(Fault) -> Fault {
    move |mut fault| {
        if same.is_some() && fault.kind == FaultKind::Exists {
            fault.kind = FaultKind::Replaced;
            fault.message = format!("{REPLACED}: {}", fault.message);
        }
        fault
    }
}
