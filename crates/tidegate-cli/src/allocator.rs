//! Settings for the C library's allocator.

/// Limits the arenas of glibc's allocator, and keeps some free memory.
///
/// By default each thread gets an arena of its own, and memory that is free in one cannot be used by another: with
/// thousands of writers that cost 16 MiB. With a single arena, threads wait for each other if objects are small,
/// which cost a fifth of the time of 4 KiB uploads. So all threads share a few arenas.
///
/// Buffers for response bodies are allocated again and again, in sizes that glibc would at first give back to the
/// system. Fresh pages from the system must be zeroed, which cost a twentieth of a download's processor time. So up
/// to `KEPT` free bytes stay at the end of the heap, and buffers of up to half of that come from there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt(3) has no safe face")]
pub(crate) fn configure() {
    const KEPT: libc::c_int = 8 << 20;
    const ARENAS: libc::c_int = 4;
    // SAFETY: `mallopt` takes two numbers and changes a setting of the allocator. It is called while there is one
    // thread. Its result does not matter here: if it fails, the defaults stay.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT / 2);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn configure() {}
