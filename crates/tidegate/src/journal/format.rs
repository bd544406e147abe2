//! The bytes of a journal file, as docs/JOURNAL.md specifies them. No I/O.
//!
//! A file is a head of 16 KiB and frames behind it. What was learnt from others, in their own words'
//! absence: a frame binds itself to its file by a salt, as in SQLite's WAL ("WAL File Format",
//! sqlite.org/fileformat2.html), to its place by its offset, and to the frame before it by that one's
//! checksum, so that frames of an earlier use of the same blocks are never taken for the log's. It
//! says how far the log was durable when it was written; see [`FrameHeader::synced`] for why.

use std::ops::Range;

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// The version that this code writes, and the latest that it reads.
pub(super) const VERSION: u32 = 1;
/// Bytes of the head; the first frame follows.
pub(super) const HEAD: u64 = 4 * BLOCK as u64;
/// What a disk is taken to write as a whole. SQLite and etcd assume the same 512 bytes.
pub(super) const SECTOR: usize = 512;
/// What a disk may lose as a whole where it loses its power while it writes some of it: many have physical
/// sectors of this size and write smaller ones by reading the rest. In each of the head's is one thing.
pub(super) const BLOCK: usize = 4096;
/// Where the two slots are.
pub(super) const SLOTS: [u64; 2] = [BLOCK as u64, 2 * BLOCK as u64];
/// Where the holder's name is, for people.
pub(super) const HOLDER: u64 = 3 * BLOCK as u64;
/// Some of the head that is zeros, and of no matter.
pub(super) const ZEROS: Range<u64> = HOLDER + BLOCK as u64 / 2..HEAD;
/// Bytes of a frame's header.
pub(super) const HEADER: usize = 48;
/// Frames begin at multiples of this, so that a lost one's successors are found again.
pub(super) const ALIGN: u64 = 8;
/// Most object bytes of one frame. A read of any byte reads all of its frame; a CRC-32C finds every error
/// of up to three bits in up to 2^31 bits (Koopman, "32-Bit Cyclic Redundancy Codes for Internet
/// Applications", DSN 2002).
pub(super) const DATA_LIMIT: usize = 128 << 10;
/// Most bytes of a mark.
const MARK_LIMIT: usize = 8;
/// Most bytes of a record: a checkpoint with 50,000 receipts of 150 bytes is half of it.
pub(super) const RECORD_LIMIT: usize = 16 << 20;

const FILE_MAGIC: [u8; 8] = *b"TIDEJRNL";
const FRAME_MAGIC: [u8; 4] = *b"TGJF";
const SLOT_MAGIC: [u8; 4] = *b"TGJS";

/// Binds frames to their file.
pub(super) type Salt = [u8; 16];

/// What a frame is. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of the object.
    Data = 1,
    /// Nothing: it carries how far the log was durable. It may have some random bytes, to be like no other.
    Mark = 2,
    /// A record: what happened to the upload, in JSON.
    Record = 3,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        [Self::Data, Self::Mark, Self::Record].into_iter().find(|kind| *kind as u8 == number)
    }

    fn limit(self) -> usize {
        match self {
            Self::Data => DATA_LIMIT,
            Self::Mark => MARK_LIMIT,
            Self::Record => RECORD_LIMIT,
        }
    }
}

/// Between two frames: everything that the next one depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset in the file.
    pub(super) file: u64,
    /// Bytes of the object before it.
    pub(super) object: u64,
    /// The checksum of those.
    pub(super) running: u64,
    /// The checksum of the header before it; of the file's head before the first one.
    pub(super) previous: u32,
}

/// What stands before a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: Kind,
    /// Bytes of the payload, without what fills it up to the next multiple of [`ALIGN`].
    pub(super) length: u32,
    /// CRC-32C of the payload with its filling.
    pub(super) payload: u32,
    /// Bytes of the object before this frame.
    pub(super) object: u64,
    /// All below this offset of the file was durable when the frame was written. So a bad frame below it
    /// has been whole, and one that no good frame says this of may never have reached the disk.
    pub(super) synced: u64,
    /// The checksum of the object up to the end of this frame.
    pub(super) running: u64,
    /// As [`Place::previous`].
    pub(super) previous: u32,
}

impl FrameHeader {
    /// The header's bytes and their checksum, for a frame at `offset`.
    pub(super) fn encode(&self, salt: &Salt, offset: u64) -> ([u8; HEADER], u32) {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4] = self.kind as u8;
        put32(&mut bytes, 8, self.length);
        put32(&mut bytes, 12, self.payload);
        put64(&mut bytes, 16, self.object);
        put64(&mut bytes, 24, self.synced);
        put64(&mut bytes, 32, self.running);
        put32(&mut bytes, 40, self.previous);
        let sum = header_sum(&bytes, salt, offset);
        put32(&mut bytes, 44, sum);
        (bytes, sum)
    }

    /// The header that `bytes` are at `offset`, and its checksum; `None` where they are none.
    pub(super) fn decode(bytes: &[u8; HEADER], salt: &Salt, offset: u64) -> Option<(Self, u32)> {
        if bytes[..4] != FRAME_MAGIC || bytes[5..8] != [0; 3] {
            return None;
        }
        let sum = header_sum(bytes, salt, offset);
        if sum != get32(bytes, 44) {
            return None;
        }
        let header = Self {
            kind: Kind::of(bytes[4])?,
            length: get32(bytes, 8),
            payload: get32(bytes, 12),
            object: get64(bytes, 16),
            synced: get64(bytes, 24),
            running: get64(bytes, 32),
            previous: get32(bytes, 40),
        };
        (header.length as usize <= header.kind.limit() && header.synced <= offset).then_some((header, sum))
    }

    /// Bytes of the payload in the file, filled up.
    pub(super) fn padded(&self) -> u64 {
        u64::from(self.length).next_multiple_of(ALIGN)
    }

    /// Bytes of the whole frame in the file.
    pub(super) fn extent(&self) -> u64 {
        HEADER as u64 + self.padded()
    }

    /// Bytes of the object in it.
    pub(super) fn data(&self) -> u64 {
        if self.kind == Kind::Data { u64::from(self.length) } else { 0 }
    }

    /// The place behind this frame, which is at `place` and whose header has the checksum `sum`. `None`
    /// where the frame does not follow on what is before it.
    pub(super) fn follow(&self, place: Place, sum: u32) -> Option<Place> {
        let continues = self.previous == place.previous && self.object == place.object;
        let same = self.kind == Kind::Data || self.running == place.running;
        (continues && same).then_some(Place {
            file: place.file.checked_add(self.extent())?,
            object: place.object.checked_add(self.data())?,
            running: self.running,
            previous: sum,
        })
    }
}

fn header_sum(bytes: &[u8; HEADER], salt: &Salt, offset: u64) -> u32 {
    let mut bound = [0; 16 + 8 + 44];
    bound[..16].copy_from_slice(salt);
    put64(&mut bound, 16, offset);
    bound[24..].copy_from_slice(&bytes[..44]);
    crc32c(&bound)
}

/// What a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) version: u32,
    pub(super) salt: Salt,
}

impl Preamble {
    /// The first sector.
    pub(super) fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put32(&mut bytes, 8, self.version);
        bytes[16..32].copy_from_slice(&self.salt);
        let sum = crc32c(&bytes[..32]);
        put32(&mut bytes, 32, sum);
        bytes
    }

    /// The checksum that the first frame follows on.
    pub(super) fn sum(&self) -> u32 {
        get32(&self.encode(), 32)
    }

    /// What the first sector says, of whatever version. An error is half a sentence.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(bytes) = bytes.get(..SECTOR) else { return Err("it is too short") };
        if bytes[..8] != FILE_MAGIC {
            return Err("it does not begin as one");
        }
        if crc32c(&bytes[..32]) != get32(bytes, 32) {
            return Err("its first sector is damaged");
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&bytes[16..32]);
        let preamble = Self { version: get32(bytes, 8), salt };
        if preamble.version == VERSION && preamble.encode() != bytes {
            return Err("its first sector is damaged");
        }
        Ok(preamble)
    }
}

/// Where the log begins now: what is before was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The higher one counts.
    pub(super) sequence: u64,
    /// The first frame that is still there.
    pub(super) first: Place,
    /// Where the checkpoint is that has all records before it; 0 where nothing was given back yet.
    pub(super) checkpoint: u64,
    /// All below this offset was durable when the slot was written.
    pub(super) synced: u64,
}

impl Slot {
    pub(super) fn encode(&self, salt: &Salt) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        bytes[..4].copy_from_slice(&SLOT_MAGIC);
        put64(&mut bytes, 8, self.sequence);
        put64(&mut bytes, 16, self.first.file);
        put64(&mut bytes, 24, self.first.object);
        put64(&mut bytes, 32, self.first.running);
        put64(&mut bytes, 40, self.checkpoint);
        put64(&mut bytes, 48, self.synced);
        put32(&mut bytes, 56, self.first.previous);
        let sum = slot_sum(&bytes, salt);
        put32(&mut bytes, 60, sum);
        bytes
    }

    /// `None` where the block is not a whole slot.
    pub(super) fn decode(bytes: &[u8], salt: &Salt) -> Option<Self> {
        let bytes = bytes.get(..BLOCK)?;
        if bytes[..4] != SLOT_MAGIC || slot_sum(bytes, salt) != get32(bytes, 60) {
            return None;
        }
        let first = Place {
            file: get64(bytes, 16),
            object: get64(bytes, 24),
            running: get64(bytes, 32),
            previous: get32(bytes, 56),
        };
        let slot =
            Self { sequence: get64(bytes, 8), first, checkpoint: get64(bytes, 40), synced: get64(bytes, 48) };
        let aligned = first.file.is_multiple_of(ALIGN) && slot.checkpoint.is_multiple_of(ALIGN);
        let ordered = first.file >= HEAD
            && (slot.checkpoint == 0 || (first.file <= slot.checkpoint && slot.checkpoint < slot.synced));
        (aligned && ordered && slot.encode(salt) == bytes).then_some(slot)
    }
}

fn slot_sum(bytes: &[u8], salt: &Salt) -> u32 {
    let mut bound = [0; 16 + 60];
    bound[..16].copy_from_slice(salt);
    bound[16..].copy_from_slice(&bytes[..60]);
    crc32c(&bound)
}

/// CRC-32C.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    narrow(crc_fast::checksum(Crc32Iscsi, bytes))
}

/// CRC-32C piece by piece.
#[derive(Debug)]
pub(super) struct Crc32c(crc_fast::Digest);

impl Crc32c {
    pub(super) fn new() -> Self {
        Self(crc_fast::Digest::new(Crc32Iscsi))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(&self) -> u32 {
        narrow(self.0.finalize())
    }
}

/// A checksum of 32 bits, which comes in 64.
fn narrow(sum: u64) -> u32 {
    u32::try_from(sum & u64::from(u32::MAX)).unwrap_or_default()
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
