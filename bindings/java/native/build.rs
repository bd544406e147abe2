//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Never unloaded: its threads run until the process ends.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // Without the C functions that crates below have, such as those of crc-fast.
        println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
