//! The record of a store's layout: small numbered JSON objects, each in force until the next one exists.
//!
//! A record is never changed. The next one is created under the next number, by the store's own create-only
//! condition. Of two clients that change the layout at the same time, one is refused and reads the other's record.

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::backend::{Fault, FaultKind};

/// The records' place below the root. No prefix has this name.
pub(super) const DIRECTORY: &str = ".tidegate-prefixes/";
/// The format that this version writes, and the highest that it reads.
const FORMAT: u32 = 1;
/// Upper limit for the size of a record; real ones are far smaller.
pub(super) const LARGEST: u64 = 64 << 10;

/// The layout in force, and the remains of the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayoutRecord {
    pub(super) current: Layout,
    /// Objects may still be at the places of this layout.
    pub(super) older: Option<Layout>,
    /// All objects of this layout are at their current places; the copies at its own places are being removed.
    pub(super) emptying: Option<Layout>,
    /// Nothing is left at the places of this layout, but a delayed migration may still have removals in flight there.
    pub(super) emptied: Option<Layout>,
}

/// The JSON form of a record.
#[derive(Serialize, Deserialize)]
struct LayoutRecordJson {
    format: u32,
    current: Layout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    older: Option<Layout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    emptying: Option<Layout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    emptied: Option<Layout>,
}

/// The field that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl LayoutRecord {
    pub(super) fn new(current: Layout) -> Self {
        Self { current, older: None, emptying: None, emptied: None }
    }

    /// The previous layout, while anything of it is left or may still happen at its places.
    pub(super) fn before(&self) -> Option<Layout> {
        self.older.or(self.emptying).or(self.emptied)
    }

    pub(super) fn write(self) -> Result<Vec<u8>, serde_json::Error> {
        let Self { current, older, emptying, emptied } = self;
        serde_json::to_vec(&LayoutRecordJson { format: FORMAT, current, older, emptying, emptied })
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let damaged = |reason: String| {
            Fault::new(FaultKind::Invalid, format!("the record of its prefixes is damaged: {reason}"))
        };
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if format > FORMAT {
            let message = format!(
                "the record of its prefixes has format {format}, and this version of Tidegate knows formats up \
                 to {FORMAT}: use a newer one"
            );
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let written: LayoutRecordJson =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let LayoutRecordJson { current, older, emptying, emptied, .. } = written;
        for layout in [Some(current), older, emptying, emptied].into_iter().flatten() {
            layout.check().map_err(damaged)?;
        }
        if [older, emptying, emptied].into_iter().flatten().count() > 1 {
            return Err(damaged("it has two layouts before the current one".to_owned()));
        }
        Ok(Self { current, older, emptying, emptied })
    }
}

/// The name of record `number`, from 1, below [`DIRECTORY`].
pub(super) fn name(number: u64) -> String {
    format!("{number:08}.json")
}

/// The number of the record with this name.
pub(super) fn number(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(".json")?.parse().ok()?;
    (self::name(number) == name).then_some(number)
}
