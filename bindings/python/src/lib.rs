//! The native half of the Python package `tidegate`: each class here is one of the library's, with its futures made
//! [`Operation`](operation::Operation)s, which Python either waits for or hands to an event loop. What Python users see
//! is in `python/tidegate`.

use pyo3::prelude::*;

mod arguments;
mod borrowed_buffer;
mod completions;
mod engine;
mod errors;
mod left;
mod listing;
mod objects;
mod operation;
mod pending;
mod process;
mod reader;
mod settings;
mod store;
mod target;
mod trees;
mod write_options;
mod writer;

/// The module `tidegate._native`.
#[pymodule(name = "_native", gil_used = true)]
mod native {
    use pyo3::prelude::*;

    /// The version of the package is that of the library.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use crate::completions::Completions;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::left::LeftUpload;
    #[pymodule_export]
    use crate::listing::Listing;
    #[pymodule_export]
    use crate::objects::{Object, Other, Prefix, Progress};
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::pending::{Manifest, Pending, Resumable};
    #[pymodule_export]
    use crate::process::release_inherited_locks;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::trees::TreeRun;
    #[pymodule_export]
    use crate::writer::Writer;
}
