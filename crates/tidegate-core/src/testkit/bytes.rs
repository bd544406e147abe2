//! The bytes of objects, made quickly: byte by byte, code that is not optimized takes seconds for 100 MiB.

/// Makes `len` bytes. The byte at `at` is `at ^ at >> 8 ^ at >> 16 ^ seed`, so a test notices bytes in the wrong place.
pub fn bytes_of(len: u64, seed: u64) -> Vec<u8> {
    // Only the lowest byte of the place changes within 256 bytes.
    let pages: Vec<[u8; 256]> = (0..=255).map(|mask| std::array::from_fn(|at| at as u8 ^ mask)).collect();
    let mut bytes = Vec::with_capacity(len.next_multiple_of(256) as usize);
    for page in 0..len.div_ceil(256) {
        let mask = (page ^ (page >> 8) ^ seed) as u8;
        bytes.extend_from_slice(&pages[usize::from(mask)]);
    }
    bytes.truncate(len as usize);
    bytes
}

#[test]
fn each_byte_depends_on_its_place() {
    for len in [0, 1, 255, 256, 257, 200_000] {
        let expected: Vec<u8> = (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ 3) as u8).collect();
        assert!(bytes_of(len, 3) == expected, "{len}");
    }
}
