//! The command line of Tidegate.
fn main() {}
