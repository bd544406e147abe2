use super::*;

fn checksum(algorithm: S3Algorithm, bytes: &[u8]) -> S3Checksum {
    let mut hasher = S3Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish()
}

fn parts(algorithm: S3Algorithm, parts: &[&[u8]]) -> Vec<(String, u64)> {
    parts.iter().map(|part| (checksum(algorithm, part).value, part.len() as u64)).collect()
}

#[test]
fn known_values() {
    let of = |algorithm| checksum(algorithm, b"123456789").value;
    assert_eq!(of(S3Algorithm::Crc32), STANDARD.encode(0xCBF4_3926_u32.to_be_bytes()));
    assert_eq!(of(S3Algorithm::Crc32c), STANDARD.encode(0xE306_9283_u32.to_be_bytes()));
    let crc64 = 0xAE8B_1486_0A79_9888_u64.to_be_bytes();
    assert_eq!(of(S3Algorithm::Crc64Nvme), STANDARD.encode(crc64));
    assert_eq!(of(S3Algorithm::Sha1), "98O8HYCOBHMq32eZZczDTKeuNEE=");
}

#[test]
fn combined_is_the_checksum_of_the_whole() {
    for algorithm in [S3Algorithm::Crc32, S3Algorithm::Crc32c, S3Algorithm::Crc64Nvme] {
        for split in [&[&b"12"[..], b"345", b"6789"][..], &[b"123456789"], &[b"", b"123456789"]] {
            let combined = S3Checksum::combine(algorithm, &parts(algorithm, split)).unwrap();
            assert_eq!(combined, checksum(algorithm, b"123456789"));
        }
    }
}

#[test]
fn composite_is_over_the_checksums_and_says_how_many() {
    let parts = parts(S3Algorithm::Sha256, &[b"a", b"b"]);
    let composite = S3Checksum::compose(S3Algorithm::Sha256, &parts).unwrap();
    let mut both = Sha256::checksum(b"a").to_vec();
    both.extend_from_slice(&Sha256::checksum(b"b"));
    let expected = checksum(S3Algorithm::Sha256, &both).value + "-2";
    assert_eq!((composite.value, composite.is_composite), (expected, true));
}

#[test]
fn hashes_cannot_be_combined() {
    assert!(S3Checksum::combine(S3Algorithm::Sha1, &[]).is_err());
    assert!(!S3Algorithm::Sha256.allows(false));
    assert!(!S3Algorithm::Crc64Nvme.allows(true));
    assert!(S3Algorithm::Crc32.allows(false) && S3Algorithm::Crc32.allows(true));
}

#[test]
fn a_value_has_its_form() {
    assert!(S3Algorithm::Crc32.check_form("AAAAAA==").is_ok());
    assert!(S3Algorithm::Crc32.check_form("AAAA").is_err());
    assert!(S3Algorithm::Crc32.check_form("not base64").is_err());
}
