//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // The name that programs record.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtidegate.so.1");
        // Never unloaded: its threads run until the process ends.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // Without the C functions that crates below have, such as those of crc-fast with the features of s3s. A release is
        // linked by Zig, which does not know the argument, and has no s3s.
        if !std::env::var("RUSTC_LINKER").is_ok_and(|linker| linker.contains("zigcc")) {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
        }
    }
}
