//! What programs use of the library, from outside: one binary, because linking takes longer than most of the tests.

mod certainty;
#[path = "../../examples/checkpoints.rs"]
#[expect(dead_code, reason = "its `main` is of the example")]
mod checkpoints;
mod environment;
mod forked;
mod last_drop;
#[cfg(feature = "object_store")]
mod object_store;
mod tls;

// Where `examples/certainty.rs`, which prints the same cases, has the module.
use certainty::cases;
