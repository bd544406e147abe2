//! Types that every other module uses: objects and their locations, checksums, errors, progress.

pub(crate) mod amount;
pub(crate) mod azure_host;
pub mod checksum;
pub(crate) mod date;
pub(crate) mod error;
pub(crate) mod fault;
pub mod location;
pub(crate) mod locked_file;
pub mod object;
pub(crate) mod owner_process;
pub(crate) mod printable;
pub(crate) mod progress;
pub(crate) mod spawn_blocking;
pub(crate) mod telemetry;
pub(crate) mod transfer_rate;
pub mod trusted_file;
pub(crate) mod unknown_name;
