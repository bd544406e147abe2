//! What the peers have in common with `peer-floor`. It is a file and not a dependency: the library that they are
//! measured against must not choose the features of theirs.

#[path = "../../src/peer.rs"]
pub mod peer;
