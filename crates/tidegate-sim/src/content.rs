//! The bytes of objects: a function of seed, writer and offset.

use bytes::Bytes;

/// The whole content of a writer's object.
pub fn content(seed: u64, writer: usize, size: u64) -> Bytes {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(size + 8);
    let stream = mix(seed ^ mix(writer as u64 + 1));
    let mut word = 0;
    while bytes.len() < size {
        bytes.extend_from_slice(&mix(stream.wrapping_add(word)).to_le_bytes());
        word += 1;
    }
    bytes.truncate(size);
    bytes.into()
}

/// The finisher of SplitMix64: neighbouring inputs give unrelated outputs.
pub(crate) fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
