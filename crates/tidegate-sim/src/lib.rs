//! Deterministic simulation of the engine.
//!
//! The real engine runs on tokio's paused clock over a [simulated store](store). One seed decides everything:
//! the objects, the behaviour of the writers, the faults and the latencies. After each run the [`checks`]
//! verify the outcome. The same seed makes the same run, event for event.
//!
//! ```
//! let report = tidegate_sim::run(&tidegate_sim::Settings::new(7));
//! assert_eq!(report.failures, Vec::<String>::new());
//! ```

pub mod actor;
pub mod campaign;
pub mod checks;
pub mod content;
mod curtain;
pub mod disk;
pub mod faults;
pub mod model;
pub mod pending;
pub mod plant;
mod run;
pub mod scenario;
mod sets;
pub mod store;
pub mod trace;
pub mod witness;

pub use plant::Plant;
pub use run::{RunReport, Settings, run};
