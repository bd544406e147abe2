//! The instruments of the measurements: what is said of a process, and TLS.

mod measured;
mod tls;
