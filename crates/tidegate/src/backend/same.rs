//! Whether what is read is still the object that it was.

use super::{Fault, FaultKind};
use crate::object::Object;

const REPLACED: &str = "the object was replaced while it was read";

/// The object that an answer describes, if it is the one that is asked for: not every server heeds conditions.
pub(crate) fn same_or_replaced(object: Object, same: Option<&Object>) -> Result<Object, Fault> {
    match same {
        Some(same) if !same.is_same(&object) => Err(Fault::new(FaultKind::Replaced, REPLACED)),
        _ => Ok(object),
    }
}

/// Turns the fault of a read into one that says so, where a condition that it is `same` was not met.
pub(super) fn replaced(same: Option<&Object>) -> impl Fn(Fault) -> Fault {
    move |mut fault| {
        if same.is_some() && fault.kind == FaultKind::Exists {
            fault.kind = FaultKind::Replaced;
            fault.message = format!("{REPLACED}: {}", fault.message);
        }
        fault
    }
}
