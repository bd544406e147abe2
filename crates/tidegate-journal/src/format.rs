//! Encodes and decodes the bytes of a journal file, as docs/JOURNAL.md specifies them. No I/O.
//!
//! A file is a head of 16 KiB, followed by frames. A frame is bound to its file by a salt, as in SQLite's WAL ("WAL
//! File Format", sqlite.org/fileformat2.html), to its place by its offset, and to the frame before it by that
//! frame's checksum, so that frames of an earlier use of the same blocks are never taken for the log's. A frame
//! also says how far the log was durable when the frame was written; see [`FrameHeader::synced`] for why.

use std::ops::Range;

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// The version that this code writes, and the latest that it reads.
pub(super) const VERSION: u32 = 1;
/// Bytes of the head; the first frame follows.
pub(super) const HEAD: u64 = 4 * BLOCK as u64;
/// The unit that a disk is assumed to write as a whole. SQLite and etcd assume the same 512 bytes.
pub(super) const SECTOR: usize = 512;
/// The unit that a disk may lose as a whole if its power fails while it writes some of it: many disks have physical
/// sectors of this size, and write smaller units by reading the rest. So each block of the head holds one thing
/// only.
pub(super) const BLOCK: usize = 4096;
/// Offsets of the two slots.
pub(super) const SLOTS: [u64; 2] = [BLOCK as u64, 2 * BLOCK as u64];
/// Offset of the name of the process that holds the journal, for people.
pub(super) const HOLDER: u64 = 3 * BLOCK as u64;
/// A range of the head that is zeros and otherwise unused: punching it shows whether the file system can punch
/// holes.
pub(super) const ZEROS: Range<u64> = HOLDER + BLOCK as u64 / 2..HEAD;
/// Bytes of a frame's header.
pub(super) const HEADER: usize = 48;
/// Frames begin at multiples of this, so that the frames after a damaged one can be found.
pub(super) const ALIGN: u64 = 8;
/// Most object bytes in one frame. Reading any byte reads its whole frame; a CRC-32C finds every error of up to
/// three bits in up to 2^31 bits (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", DSN 2002).
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

/// The contents of a frame. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Bytes of the object.
    Data = 1,
    /// Nothing but a header, which says how far the log was durable. It may carry random bytes, to differ from
    /// every other mark.
    Mark = 2,
    /// A record: what happened to the upload, in JSON.
    Record = 3,
}

impl FrameKind {
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

/// A position between two frames: everything that the next frame depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePosition {
    /// Offset in the file.
    pub(super) file: u64,
    /// Bytes of the object before this place.
    pub(super) object: u64,
    /// The checksum of those bytes.
    pub(super) running: u64,
    /// The checksum of the frame header before this place; of the preamble before the first frame.
    pub(super) previous: u32,
}

/// The header of a frame, before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    /// Bytes of the payload, without the padding to the next multiple of [`ALIGN`].
    pub(super) length: u32,
    /// CRC-32C of the payload with its padding.
    pub(super) payload: u32,
    /// Bytes of the object before this frame.
    pub(super) object: u64,
    /// Everything below this offset of the file was durable when the frame was written. So a bad frame below the
    /// offset was whole once; a bad frame that lies below no such offset may never have reached the disk.
    pub(super) synced: u64,
    /// The checksum of the object up to the end of this frame.
    pub(super) running: u64,
    /// As [`FramePosition::previous`].
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

    /// Decodes the header at `offset`, and returns it with its checksum; `None` if the bytes are not a header.
    pub(super) fn decode(bytes: &[u8; HEADER], salt: &Salt, offset: u64) -> Option<(Self, u32)> {
        if bytes[..4] != FRAME_MAGIC || bytes[5..8] != [0; 3] {
            return None;
        }
        let sum = header_sum(bytes, salt, offset);
        if sum != get32(bytes, 44) {
            return None;
        }
        let header = Self {
            kind: FrameKind::of(bytes[4])?,
            length: get32(bytes, 8),
            payload: get32(bytes, 12),
            object: get64(bytes, 16),
            synced: get64(bytes, 24),
            running: get64(bytes, 32),
            previous: get32(bytes, 40),
        };
        (header.length as usize <= header.kind.limit() && header.synced <= offset).then_some((header, sum))
    }

    /// Bytes of the payload in the file, with its padding.
    pub(super) fn padded(&self) -> u64 {
        u64::from(self.length).next_multiple_of(ALIGN)
    }

    /// Bytes of the whole frame in the file.
    pub(super) fn extent(&self) -> u64 {
        HEADER as u64 + self.padded()
    }

    /// Bytes of the object in this frame.
    pub(super) fn data(&self) -> u64 {
        if self.kind == FrameKind::Data { u64::from(self.length) } else { 0 }
    }

    /// The place after this frame, which is at `place` and whose header has the checksum `sum`. `None` if the frame
    /// does not continue the one before it.
    pub(super) fn follow(&self, place: FramePosition, sum: u32) -> Option<FramePosition> {
        let continues = self.previous == place.previous && self.object == place.object;
        let same = self.kind == FrameKind::Data || self.running == place.running;
        (continues && same).then_some(FramePosition {
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

/// The first sector of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) version: u32,
    pub(super) salt: Salt,
}

impl Preamble {
    /// The bytes of the sector.
    pub(super) fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put32(&mut bytes, 8, self.version);
        bytes[16..32].copy_from_slice(&self.salt);
        let sum = crc32c(&bytes[..32]);
        put32(&mut bytes, 32, sum);
        bytes
    }

    /// The checksum to which the first frame is bound, as other frames are to the header before them.
    pub(super) fn sum(&self) -> u32 {
        get32(&self.encode(), 32)
    }

    /// Decodes a first sector of any version. An error is half a sentence.
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

/// Where the log begins: the space before it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The valid slot with the higher sequence counts.
    pub(super) sequence: u64,
    /// The place of the first frame that is still there.
    pub(super) first: FramePosition,
    /// Offset of the checkpoint, which contains all records before it; 0 if no space was given back yet.
    pub(super) checkpoint: u64,
    /// Everything below this offset was durable when the slot was written.
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

    /// `None` if the block is not a whole slot.
    pub(super) fn decode(bytes: &[u8], salt: &Salt) -> Option<Self> {
        let bytes = bytes.get(..BLOCK)?;
        if bytes[..4] != SLOT_MAGIC || slot_sum(bytes, salt) != get32(bytes, 60) {
            return None;
        }
        let first = FramePosition {
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

/// A 32-bit checksum, which crc_fast returns in 64 bits.
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
