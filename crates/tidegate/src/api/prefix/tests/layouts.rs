//! The test vectors of docs/PREFIXES.md, and rules that layouts keep for any key.

use proptest::prelude::*;

use super::*;

fn decimal(naming: Naming, count: u32) -> Layout {
    Layout::new(naming, count).unwrap()
}

#[test]
fn names_are_those_of_the_document() {
    let vectors = [
        ("", "11100011101100001100", 0),
        ("a", "11001010100101111000", 3_904_355_907),
        ("t/part-0", "01111001111110000000", 1_333_827_730),
        ("t/part-1.parquet", "10101111001010011001", 2_310_869_799),
        ("größe/é", "10100011101011111011", 225_895_316),
        ("000017.sst", "10110111100111001010", 300_023_097_u32),
    ];
    for (key, bits, crc) in vectors {
        for width in 1..=20_u32 {
            assert_eq!(base2(1 << width).name(key), bits[..width as usize], "{key} {width}");
        }
        assert_eq!(base2(1).name(key), "0");
        for count in [1, 2, 7, 256, 1000, 1 << 20] {
            assert_eq!(decimal(Naming::Decimal, count).name(key), (crc % count).to_string(), "{key}");
        }
    }
}

#[test]
fn ids_are_hashed_as_eight_bytes() {
    let ids = decimal(Naming::DecimalId, 256);
    let vectors = [
        ("0.data", "105"),
        ("1.data", "255"),
        ("101.data", "190"),
        ("tables/4711.data", "65"),
        ("000017.sst", "155"),
        ("9223372036854775808", "179"),
    ];
    for (key, name) in vectors {
        assert_eq!(ids.name(key), name, "{key}");
    }
    // Keys without a number, with a signed number or a number that is too large: the whole key is hashed.
    for key in ["t/part-0", "+5.data", ".data", "x/", "99999999999999999999.data"] {
        assert_eq!(ids.name(key), decimal(Naming::Decimal, 256).name(key), "{key}");
    }
}

#[test]
fn counts_are_checked() {
    for (naming, count) in [
        (Naming::Base2, 0),
        (Naming::Base2, 3),
        (Naming::Base2, 1 << 21),
        (Naming::Decimal, 0),
        (Naming::DecimalId, (1 << 20) + 1),
    ] {
        assert_eq!(kind(Layout::new(naming, count)), ErrorKind::InvalidInput, "{naming:?} {count}");
    }
    let said = Layout::new(Naming::Base2, 100).unwrap_err().to_string();
    assert!(said.contains("64 or 128"), "{said}");
}

#[test]
fn keys_that_count_up_are_spread_evenly() {
    for layout in [base2(128), decimal(Naming::Decimal, 100), decimal(Naming::DecimalId, 100)] {
        let mut found = std::collections::BTreeMap::<String, u32>::new();
        for number in 0..100_000 {
            *found.entry(layout.name(&format!("tables/{number:08}.sst"))).or_default() += 1;
        }
        let mean = 100_000 / layout.count();
        assert_eq!(found.len(), layout.count() as usize);
        let most = found.values().max().unwrap();
        assert!(*most < mean * 12 / 10, "{layout}: {most} of a mean of {mean}");
    }
}

proptest! {
    #[test]
    fn every_key_has_one_of_the_names(
        key in ".{0,40}",
        naming in prop_oneof![Just(Naming::Base2), Just(Naming::Decimal), Just(Naming::DecimalId)],
        count in 1u32..5000,
    ) {
        let count = if naming == Naming::Base2 { count.next_power_of_two() } else { count };
        let layout = Layout::new(naming, count).unwrap();
        let name = layout.name(&key);
        prop_assert!(layout.has(&name));
        prop_assert!(layout.names().any(|other| other == name));
    }

    #[test]
    fn only_its_names_are_its_own(
        name in "[01]{1,5}|[0-9]{1,3}|0+[0-9]|[+-]?[0-9]|",
        naming in prop_oneof![Just(Naming::Base2), Just(Naming::Decimal)],
        bits in 0u32..5,
    ) {
        let layout = Layout::new(naming, 1 << bits).unwrap();
        prop_assert_eq!(layout.has(&name), layout.names().any(|other| other == name));
    }
}
