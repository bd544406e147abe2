//! Compares two objects by their checksums: those that stores keep, and those of local files, computed for it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future;
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use tidegate::Object;
use tidegate::checksum::{Algorithm, Hasher};
use tokio::sync::Semaphore;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use super::{Difference, Tree, TreeObject, Verdict, described};
use crate::error::{Error, Result};

/// The size of one read of a file.
const PIECE: usize = 256 << 10;

const BASE64_OF_8_BYTES: usize = 12;
const BASE64_OF_4_BYTES: usize = 8;

/// A kind of checksum that two objects can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crc64Nvme,
    Crc32c,
    /// SHA-256 or SHA-512, in base64, that another program has sent with the object.
    Sha256,
    Sha512,
    /// An MD5 that the store has computed or compared.
    Md5,
    /// The XXHash of 128 or 64 bits, with their highest byte first, in base64, that another program has sent.
    Xxh128,
    Xxh3,
    Xxh64,
    /// The ETag of an object that was stored in one request is its MD5, unless it is encrypted with a key of its own.
    Md5Tag,
}

impl Kind {
    /// The kinds, the best first.
    const ALL: [Self; 9] = [
        Self::Crc64Nvme,
        Self::Crc32c,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::Xxh128,
        Self::Xxh3,
        Self::Xxh64,
        Self::Md5Tag,
    ];

    /// The object's checksum of this kind as text, if the description has it.
    fn of(self, object: &Object) -> Option<String> {
        match self {
            // A value of the wrong length is ignored: moto reports four bytes as CRC-64/NVME.
            Self::Crc64Nvme => object.crc64nvme.clone().filter(|text| text.len() == BASE64_OF_8_BYTES),
            Self::Crc32c => object.crc32c.clone().filter(|text| text.len() == BASE64_OF_4_BYTES),
            Self::Sha256 => object.other_checksums.get("sha256").cloned(),
            Self::Sha512 => object.other_checksums.get("sha512").cloned(),
            Self::Md5 => object.other_checksums.get("md5").cloned(),
            Self::Xxh128 => object.other_checksums.get("xxh128").cloned(),
            Self::Xxh3 => object.other_checksums.get("xxh3").cloned(),
            Self::Xxh64 => object.other_checksums.get("xxh64").cloned(),
            Self::Md5Tag => md5_of(object.etag.as_deref()?),
        }
    }
}

/// The MD5 in an ETag: 32 hexadecimal digits.
fn md5_of(etag: &str) -> Option<String> {
    let text = etag.trim_matches('"');
    let is_md5 = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_md5.then(|| text.to_ascii_lowercase())
}

/// Compares two objects of one size by the best checksum that both have.
pub(super) async fn compare(
    readers: &Semaphore,
    (source, ours): (&Tree, &TreeObject),
    (target, theirs): (&Tree, &TreeObject),
) -> Result<Verdict> {
    let (ours_known, theirs_known) = future::join(known(source, ours), known(target, theirs)).await;
    let (ours_known, theirs_known) = (ours_known?, theirs_known?);
    if ours_known.size() != theirs_known.size() {
        return Ok(Verdict::Different(Difference::Size));
    }
    let shared = Kind::ALL.into_iter().find(|kind| ours_known.has(*kind) && theirs_known.has(*kind));
    let Some(kind) = shared else { return Ok(Verdict::Different(Difference::Unproven)) };
    let (ours, theirs) =
        future::join(ours_known.checksum(kind, readers), theirs_known.checksum(kind, readers)).await;
    Ok(match ours? == theirs? {
        true => Verdict::Same,
        // An ETag that looks like an MD5 may be something else, so it proves only that two objects are the same.
        false if kind == Kind::Md5Tag => Verdict::Different(Difference::Unproven),
        false => Verdict::Different(Difference::Checksum),
    })
}

/// Whether two listed objects have the same content, as far as the listings have a checksum, or an MD5 as a tag, of one
/// kind.
pub(super) fn listed(source: &Object, target: &Object) -> Option<bool> {
    Kind::ALL.into_iter().find_map(|kind| Some(kind.of(source)? == kind.of(target)?))
}

/// Compares two objects whose times say that they are the same. They are, unless their checksums differ, or nothing but
/// their MD5 can be compared and differs. An MD5 in the listing saves the request.
pub(super) async fn compare_fresh(
    readers: &Semaphore,
    (source, ours): (&Tree, &TreeObject),
    (target, theirs): (&Tree, &TreeObject),
) -> Result<Verdict> {
    let listed = if source.is_local() { &theirs.object } else { &ours.object };
    let (tree, file) = if source.is_local() { (source, ours) } else { (target, theirs) };
    let mut has_other_tag = false;
    if let (Some(md5), true) = (Kind::Md5Tag.of(listed), tree.is_local()) {
        let known = known(tree, file).await?;
        if known.size() == listed.known_size() && known.checksum(Kind::Md5Tag, readers).await? == Some(md5) {
            return Ok(Verdict::Same);
        }
        has_other_tag = true;
    }
    Ok(match compare(readers, (source, ours), (target, theirs)).await? {
        Verdict::Different(Difference::Unproven) if !has_other_tag => Verdict::Same,
        verdict => verdict,
    })
}

/// What is known of an object's content.
enum Known {
    /// A file, which can be read for any checksum.
    File { path: PathBuf, size: Option<u64> },
    /// The text of a symbolic link.
    Link(Vec<u8>),
    /// An object of a store, as described by it.
    Described(Box<Object>),
}

async fn known(tree: &Tree, object: &TreeObject) -> Result<Known> {
    if let Some(text) = tree.text_of_link(&object.key) {
        return Ok(Known::Link(text));
    }
    if let Some(path) = tree.path(&object.key) {
        return Ok(Known::File { path, size: object.object.known_size() });
    }
    let listed = &object.object;
    let has_checksum = listed.crc64nvme.is_some() || listed.crc32c.is_some();
    if has_checksum && listed.known_size().is_some() {
        return Ok(Known::Described(listed.clone().into()));
    }
    Ok(Known::Described(described(tree, object).await?.into()))
}

impl Known {
    fn size(&self) -> Option<u64> {
        match self {
            Self::File { size, .. } => *size,
            Self::Link(text) => Some(text.len() as u64),
            Self::Described(object) => object.known_size(),
        }
    }

    fn has(&self, kind: Kind) -> bool {
        match self {
            Self::File { .. } | Self::Link(_) => true,
            Self::Described(object) => kind.of(object).is_some(),
        }
    }

    async fn checksum(self, kind: Kind, readers: &Semaphore) -> Result<Option<String>> {
        let path = match self {
            Self::Described(object) => return Ok(kind.of(&object)),
            Self::Link(text) => {
                let read = of_bytes(&mut &*text, kind);
                return read.map(Some).map_err(|error| Error::Failed(error.to_string()));
            }
            Self::File { path, .. } => path,
        };
        let _permit = readers.acquire().await;
        let read = tokio::task::spawn_blocking(move || {
            of_file(&path, kind).map_err(|error| Error::of_file(&path, &error))
        });
        Ok(Some(read.await.map_err(|ended| Error::Failed(ended.to_string()))??))
    }
}

/// Reads a file for its checksum.
fn of_file(path: &Path, kind: Kind) -> std::io::Result<String> {
    of_bytes(&mut File::open(path)?, kind)
}

fn of_bytes(file: &mut impl Read, kind: Kind) -> std::io::Result<String> {
    let mut piece = vec![0; PIECE];
    let mut each = |take: &mut dyn FnMut(&[u8])| -> std::io::Result<()> {
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => take(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    };
    match kind {
        Kind::Crc64Nvme | Kind::Crc32c => {
            let algorithm = if kind == Kind::Crc32c { Algorithm::Crc32c } else { Algorithm::Crc64Nvme };
            let mut hasher = Hasher::new(algorithm);
            each(&mut |bytes| hasher.update(bytes))?;
            Ok(hasher.finish().base64())
        }
        Kind::Sha256 => digest::<Sha256>(&mut each).map(|digest| STANDARD.encode(digest)),
        Kind::Sha512 => digest::<Sha512>(&mut each).map(|digest| STANDARD.encode(digest)),
        Kind::Md5 => digest::<Md5>(&mut each).map(|digest| STANDARD.encode(digest)),
        Kind::Xxh128 => {
            let mut hasher = XxHash3_128::with_seed(0);
            each(&mut |bytes| hasher.write(bytes))?;
            Ok(STANDARD.encode(hasher.finish_128().to_be_bytes()))
        }
        Kind::Xxh3 => xxhash(&mut each, XxHash3_64::with_seed(0)),
        Kind::Xxh64 => xxhash(&mut each, XxHash64::with_seed(0)),
        Kind::Md5Tag => {
            let digest = digest::<Md5>(&mut each)?;
            Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    }
}

/// The digest of the bytes that `each` gives.
fn digest<D: Digest>(
    each: &mut impl FnMut(&mut dyn FnMut(&[u8])) -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    let mut hasher = D::new();
    each(&mut |bytes| hasher.update(bytes))?;
    Ok(hasher.finalize().to_vec())
}

/// The XXHash of the bytes that `each` gives, in base64.
fn xxhash(
    each: &mut impl FnMut(&mut dyn FnMut(&[u8])) -> std::io::Result<()>,
    mut hasher: impl std::hash::Hasher,
) -> std::io::Result<String> {
    each(&mut |bytes| hasher.write(bytes))?;
    Ok(STANDARD.encode(hasher.finish().to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_checksums_that_stores_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("digits");
        std::fs::write(&path, "123456789").unwrap();
        // The check values of the CRC catalogue (crc-64-nvme, crc-32-iscsi); MD5 and SHA-256 as OpenSSL computes them.
        assert_eq!(of_file(&path, Kind::Crc64Nvme).unwrap(), "rosUhgp5mIg=");
        assert_eq!(of_file(&path, Kind::Crc32c).unwrap(), "4waSgw==");
        assert_eq!(of_file(&path, Kind::Md5Tag).unwrap(), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(of_file(&path, Kind::Md5).unwrap(), "JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(of_file(&path, Kind::Sha256).unwrap(), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
        // The values of libxxhash, which are those of S3's own clients.
        assert_eq!(of_file(&path, Kind::Xxh128).unwrap(), "MxGUd+3l3NXpcWQnaB1YYA==");
        assert_eq!(of_file(&path, Kind::Xxh3).unwrap(), "ctyxi2ehff8=");
        assert_eq!(of_file(&path, Kind::Xxh64).unwrap(), "jLhB20DmroM=");
    }

    #[test]
    fn a_checksum_of_another_length_is_none() {
        let mut object = Object {
            crc64nvme: Some("OTkg9g==".to_owned()),
            crc32c: Some("rosUhgp5mIg=".to_owned()),
            ..Object::default()
        };
        assert_eq!(Kind::ALL.map(|kind| kind.of(&object)), [const { None }; 9]);
        std::mem::swap(&mut object.crc64nvme, &mut object.crc32c);
        assert!(Kind::Crc64Nvme.of(&object).is_some() && Kind::Crc32c.of(&object).is_some());
    }

    #[test]
    fn only_an_etag_of_one_request_is_an_md5() {
        let md5 = "25f9e794323b453885f5181f1b624d0b";
        assert_eq!(md5_of(&format!("\"{}\"", md5.to_uppercase())).as_deref(), Some(md5));
        for other in [&format!("\"{md5}-2\""), "\"\"", "W/\"1\"", &format!("\"{}g\"", &md5[1..])] {
            assert_eq!(md5_of(other), None, "{other}");
        }
    }
}
