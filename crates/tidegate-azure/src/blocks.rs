//! The ids of blocks. An id names one upload, one part and the bytes of the part.
//!
//! Azure Blob Storage has no upload sessions: a block belongs to the blob's name, and a completion names blocks by
//! their ids. So an id here is made of a mark, random bytes of the upload, the part's number and the CRC-64/NVME of its
//! bytes. A part that is sent again with other bytes gets another id, a completion names exactly the copies that were
//! acknowledged, and a listing of blocks gives the checksum of each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use tidegate_core::backend::{Fault, FaultKind, Session};
use tidegate_core::types::checksum::{Algorithm, Checksum};

/// The first bytes of each id.
const MARK: [u8; 2] = *b"Tg";

/// Bytes of an id behind the mark and the upload's random bytes: the part's number in three, the checksum in eight.
const TAIL: usize = 3 + 8;

/// The length of an id in bytes, where the blob has no uncommitted blocks yet.
const USUAL: usize = 24;

/// The shortest id that names an upload well enough, with three random bytes.
const SHORTEST: usize = 16;

/// The longest id: "must be less than or equal to 64 bytes in size" before it is encoded ("Put Block").
const LONGEST: usize = 64;

/// The first bytes of the ids of one upload: the mark and random bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UploadBlocks {
    first: Vec<u8>,
}

/// What the id of a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockName {
    pub(super) number: u32,
    checksum: u64,
}

impl BlockName {
    /// The checksum of the block's bytes.
    pub(super) fn checksum(&self, size: u64) -> Checksum {
        Checksum::known(Algorithm::Crc64Nvme, self.checksum, size)
    }
}

impl UploadBlocks {
    /// Random names for a new upload. Azure takes only ids of one length for all uncommitted blocks of a blob ("Put
    /// Block"): `taken` is the id of a block that is there already.
    pub(super) fn new(taken: Option<&str>) -> Result<Self, Fault> {
        let length = match taken.map(decoded) {
            None => USUAL,
            Some(Some(id)) if (SHORTEST..=LONGEST).contains(&id.len()) => id.len(),
            Some(_) => {
                let message = "another program has begun to upload this blob with block ids too short for Tidegate, and \
                               Azure takes only ids of one length: let that program finish, write the blob in one \
                               request, or wait until its blocks expire, a week after they were sent";
                return Err(Fault::new(FaultKind::Invalid, message));
            }
        };
        let random = (0..length - TAIL - MARK.len()).map(|_| fastrand::u8(..));
        Ok(Self { first: MARK.into_iter().chain(random).collect() })
    }

    /// The names of a session's blocks.
    pub(super) fn of(session: &Session) -> Result<Self, Fault> {
        let no_session = || {
            let message = format!("`{}` is no upload of blocks", session.id);
            Fault::new(FaultKind::NoSession, message)
        };
        let first = from_hex(&session.id).ok_or_else(no_session)?;
        let is_ours = first.starts_with(&MARK) && (SHORTEST..=LONGEST).contains(&(first.len() + TAIL));
        if is_ours { Ok(Self { first }) } else { Err(no_session()) }
    }

    /// The upload that a block belongs to; `None` if another program has sent it.
    pub(super) fn that_sent(id: &str) -> Option<Self> {
        let id = decoded(id)?;
        let is_ours = id.starts_with(&MARK) && (SHORTEST..=LONGEST).contains(&id.len());
        is_ours.then(|| Self { first: id[..id.len() - TAIL].to_vec() })
    }

    /// The id of the session.
    pub(super) fn session_id(&self) -> String {
        self.first.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The id of a block with the bytes of `checksum`.
    pub(super) fn id(&self, number: u32, checksum: &Checksum) -> String {
        let mut id = self.first.clone();
        id.extend(&number.to_be_bytes()[1..]);
        id.extend(checksum.value().to_be_bytes());
        STANDARD.encode(id)
    }

    /// What the id of a block says; `None` if the block is not one of this upload.
    pub(super) fn read(&self, id: &str) -> Option<BlockName> {
        let id = decoded(id)?;
        let tail = id.strip_prefix(self.first.as_slice()).filter(|tail| tail.len() == TAIL)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (part, checksum) = tail.split_at(3);
        Some(BlockName { number: u32::try_from(number(part)).ok()?, checksum: number(checksum) })
    }
}

fn decoded(id: &str) -> Option<Vec<u8>> {
    STANDARD.decode(id.trim()).ok()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn session(id: String) -> Session {
        Session { key: "k".into(), id }
    }

    proptest! {
        #[test]
        fn an_id_gives_back_the_upload_the_part_and_the_checksum(
            length in SHORTEST..=LONGEST,
            number in 1u32..=50_000,
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let checksum = Checksum::of(Algorithm::Crc64Nvme, &bytes);
            let upload = UploadBlocks::new(Some(&STANDARD.encode(vec![7; length]))).unwrap();
            let id = upload.id(number, &checksum);
            prop_assert_eq!(decoded(&id).unwrap().len(), length);
            let name = upload.read(&id).unwrap();
            prop_assert_eq!((name.number, name.checksum(bytes.len() as u64)), (number, checksum));
            prop_assert_eq!(UploadBlocks::that_sent(&id), Some(upload.clone()));
            prop_assert_eq!(UploadBlocks::of(&session(upload.session_id())).unwrap(), upload.clone());
            // Another part, other bytes and another upload have other ids.
            let mut more = bytes;
            more.push(0);
            prop_assert_ne!(&upload.id(number % 50_000 + 1, &checksum), &id);
            prop_assert_ne!(&upload.id(number, &Checksum::of(Algorithm::Crc64Nvme, &more)), &id);
            let other = UploadBlocks { first: [&upload.first[..], &[1]].concat() };
            prop_assert_eq!(other.read(&id), None);
        }

        #[test]
        fn what_is_no_session_or_block_of_ours_is_told(text in ".{0,90}") {
            prop_assert!(UploadBlocks::of(&session(text.clone())).is_err() || text.starts_with("5467"));
            if let Some(upload) = UploadBlocks::that_sent(&text) {
                prop_assert!(upload.first.starts_with(&MARK));
            }
        }
    }

    #[test]
    fn ids_that_are_too_short_for_us_are_an_error_that_says_what_to_do() {
        for taken in [&b"000001"[..], &[0; 15], &[0; 65]] {
            let refused = UploadBlocks::new(Some(&STANDARD.encode(taken))).unwrap_err();
            assert_eq!(refused.kind, FaultKind::Invalid);
            assert!(refused.message.contains("expire, a week after"), "{}", refused.message);
        }
        assert_eq!(UploadBlocks::new(None).unwrap().first.len(), USUAL - TAIL);
    }

    #[test]
    fn a_session_of_another_store_is_none_of_this_one() {
        for id in ["none", "", "54", "5467", "546701", "54670", "é467010203", &"54".repeat(70)] {
            assert_eq!(UploadBlocks::of(&session(id.into())).unwrap_err().kind, FaultKind::NoSession, "{id}");
        }
    }
}
