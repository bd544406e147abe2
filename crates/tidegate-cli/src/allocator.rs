//! How the C library hands out memory.

/// Has all threads share a few arenas. glibc gives each thread one of its own otherwise, and what is free in
/// one can't be used by another: with thousands of writers that was 16 MiB. In a single one threads wait for each
/// other where objects are small, which was a fifth of the time of 4 KiB uploads.
///
/// What bodies are received into does, again and again, in pieces that glibc would give back to the system at first,
/// and pages that come anew come zeroed, which was a twentieth of a download's processor time: up to `KEPT` free
/// bytes at the end of the heap stay, and pieces of up to half of that come from there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt(3) has no safe face")]
pub(crate) fn configure() {
    const KEPT: libc::c_int = 8 << 20;
    const ARENAS: libc::c_int = 4;
    // SAFETY: it takes two numbers and changes a setting of the allocator; it is called while there is one
    // thread, and what it says of its success changes nothing here.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT / 2);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn configure() {}
