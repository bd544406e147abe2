//! Types that every other module uses: objects and their locations, checksums, errors, progress.

pub mod amount;
pub mod azure_host;
pub mod checksum;
pub mod date;
pub mod error;
pub mod fault;
pub mod location;
pub mod locked_file;
pub mod object;
pub mod owner_process;
pub mod printable;
pub mod progress;
pub mod spawn_blocking;
pub mod telemetry;
pub mod transfer_rate;
pub mod trusted_file;
pub mod unknown_name;
