//! The names of the attributes that copies could not carry over.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::figures::count;

/// The attributes that copies left out: for each name, the number of objects.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Mutex<BTreeMap<&'static str, u64>>);

impl LeftOut {
    pub(crate) fn add(&self, names: impl IntoIterator<Item = &'static str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }

    /// The warning; `None` if every attribute was carried over.
    pub(crate) fn line(&self) -> Option<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = counts.iter().map(|(name, objects)| format!("{name} ({})", count(*objects, "object")));
        let named: Vec<_> = named.collect();
        (!named.is_empty())
            .then(|| format!("the target cannot hold, and the copy left out: {}", named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_one_line() {
        let left_out = LeftOut::default();
        assert_eq!(left_out.line(), None);
        left_out.add(["tags", "metadata"]);
        left_out.add(["tags"]);
        let line = left_out.line().unwrap();
        assert!(line.ends_with("left out: metadata (1 object), tags (2 objects)"), "{line}");
    }
}
