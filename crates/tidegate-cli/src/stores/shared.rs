//! The one engine of many commands that run at the same time.

use std::sync::{Arc, OnceLock};

use tidegate::{Tidegate, TidegateBuilder};

use super::{Opener, Stores, UnfinishedUploads};
use crate::dev::DevScheme;

/// An engine that several commands share: its memory budget, limiters and journals. The
/// command that created the engine answers signals, and waits for aborts at the end.
#[derive(Clone, Debug)]
pub(crate) struct SharedEngine {
    tide: Tidegate,
    dev: DevScheme,
    unfinished: UnfinishedUploads,
}

impl SharedEngine {
    pub(crate) fn of(stores: &Stores) -> Self {
        let Stores { opener, unfinished, .. } = stores;
        Self { tide: opener.tide.clone(), dev: opener.dev.clone(), unfinished: unfinished.clone() }
    }

    /// The stores of one command, reached as `settings` say. Other settings in them have no effect.
    pub(super) fn stores(&self, settings: TidegateBuilder) -> Stores {
        Stores {
            opener: Opener {
                tide: settings.clone().build_on(&self.tide),
                settings,
                dev: self.dev.clone(),
                root: Arc::default(),
            },
            unfinished: self.unfinished.clone(),
            source: OnceLock::new(),
            is_shared: true,
        }
    }
}

impl Stores {
    /// Whether other commands use the same engine at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }
}
