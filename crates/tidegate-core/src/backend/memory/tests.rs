use proptest::prelude::*;

use super::*;
use crate::testkit::samples::{kind, memory_of};

#[tokio::test]
async fn limits_are_kept() {
    let (most, options) = (3, WriteOptions::default());
    let limits = Capabilities {
        min_part: 1,
        max_part: most,
        max_put: most,
        equal_parts: true,
        ..Capabilities::default()
    };
    let store = Memory::new("m").with_capabilities(limits);
    assert_eq!(store.location(), "memory://m");
    let payload = |bytes| memory_of(bytes, Algorithm::Crc64Nvme);
    let put = store.put("k", payload(b"AAAA"), &options, Attempt::FIRST);
    assert_eq!(kind(put).await.0, FaultKind::TooLarge);
    let session = store.open("k", &options, PartOrigin::Sent, Attempt::FIRST).await.expect("open");
    let part = |number, bytes| store.part(&session, number, 0, payload(bytes).into(), Attempt::FIRST);
    assert_eq!(kind(part(1, b"AAAA")).await.0, FaultKind::TooLarge);
    let parts = [part(1, b"AA").await.expect("part"), part(2, b"BBB").await.expect("part")];
    let whole = Checksum::of(Algorithm::Crc64Nvme, b"AABBB");
    let complete = store.complete(&session, &parts, Some(&whole), &options, Attempt::FIRST);
    assert_eq!(kind(complete).await.0, FaultKind::Invalid);
}

proptest! {
    #[test]
    fn any_range_is_that_of_the_bytes(data in prop::collection::vec(any::<u8>(), 0..64), a in 0u64..70, b in 0u64..70) {
        let blocks: Vec<Bytes> = data.chunks(5).map(Bytes::copy_from_slice).collect();
        let size = data.len() as u64;
        match clamp(Some(a..b), size) {
            Ok(range) => {
                let bytes = &data[a as usize..b.min(size) as usize];
                prop_assert_eq!(cut(&blocks, &range).concat(), bytes);
            }
            Err(_) => prop_assert!(a > b || a >= size),
        }
    }
}
