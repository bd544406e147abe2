//! Reads object bytes back from the file, and checks them.

use std::io;

use super::disk::JournalFile;
use super::error::JournalError;
use super::format::{Crc32c, FrameHeader, FrameKind, FramePosition, HEADER};
use super::log::Log;

/// Size of the buffer for bytes that are read only to check their frame. Small frames are read together with the
/// frames after them.
const SCRATCH: usize = 4096;

/// A piece of the file that was read a moment ago.
pub(super) struct ReadWindow {
    bytes: [u8; SCRATCH],
    at: u64,
    length: usize,
    /// Everything before this offset is written and does not change.
    end: u64,
}

impl ReadWindow {
    pub(super) fn new(end: u64) -> Self {
        Self { bytes: [0; SCRATCH], at: 0, length: 0, end }
    }

    /// Returns `length` bytes at `offset`; they must fit into the window.
    fn get(&mut self, file: &dyn JournalFile, offset: u64, length: usize, wait: bool) -> Result<&[u8], Stop> {
        let inside = |at: u64, has: usize| {
            let start = usize::try_from(offset.checked_sub(at)?).ok()?;
            let range = start..start.checked_add(length)?;
            (range.end <= has).then_some(range)
        };
        let range = match inside(self.at, self.length) {
            Some(range) => range,
            None => {
                let most = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
                let most = most.clamp(length, SCRATCH);
                self.length = 0;
                self.length = fetch(file, &mut self.bytes[..most], length, offset, wait)?;
                self.at = offset;
                0..length
            }
        };
        Ok(&self.bytes[range])
    }
}

/// Why a read at some place of the file failed.
pub(super) enum Stop {
    /// The bytes are not in memory, and the read may not wait for the disk.
    NotCached,
    /// At this offset the frame is missing, or its bytes are wrong.
    Bad(u64, &'static str),
    Failed(io::Error),
}

impl Log {
    /// Reads object bytes at `offset` into `buffer`, all of it if there are as many, and returns how many. Without
    /// `wait` it reads only bytes that are in memory, and returns `None` if there are no such bytes at `offset`.
    /// The bytes are those that were appended: every frame that a read touches is checked as a whole first.
    ///
    /// `near` is where the last read ended, so that a read that continues there need not search.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        offset: u64,
        near: &mut Option<FramePosition>,
        wait: bool,
    ) -> Result<Option<usize>, JournalError> {
        let (mut place, end) = {
            let view = self.view();
            let found = view.index.find(offset);
            let last = near.filter(|near| found.object <= near.object && near.object <= offset);
            (last.filter(|last| last.file >= found.file).unwrap_or(found), view.end)
        };
        if offset < place.object {
            return Err(JournalError::GivenBack { path: self.path.clone(), first: place.object });
        }
        let (mut done, mut window) = (0, ReadWindow::new(end.file));
        while done < buffer.len() && place.file < end.file {
            match self.read_frame(&mut buffer[done..], offset + done as u64, place, &mut window, wait) {
                Ok((copied, behind)) => {
                    done += copied;
                    *near = Some(place);
                    place = behind;
                }
                Err(Stop::NotCached) if done > 0 => break,
                Err(Stop::NotCached) => return Ok(None),
                Err(stop) => {
                    let first = self.view().first;
                    let is_behind = first.object <= offset + done as u64;
                    if !is_behind || !matches!(stop, Stop::Bad(at, _) if at < first.file) {
                        return Err(self.why(stop));
                    }
                    // The frames before the wanted ones were given back during this read.
                    (place, window) = (first, ReadWindow::new(end.file));
                }
            }
        }
        Ok(Some(done))
    }

    /// Copies the object bytes of the frame at `place` from `offset` on. Returns how many, and the place after the
    /// frame.
    fn read_frame(
        &self,
        buffer: &mut [u8],
        offset: u64,
        place: FramePosition,
        window: &mut ReadWindow,
        wait: bool,
    ) -> Result<(usize, FramePosition), Stop> {
        let (header, behind) = self.header(place, window, wait)?;
        if header.kind != FrameKind::Data || behind.object <= offset {
            return Ok((0, behind));
        }
        let (skip, all) = (offset - place.object, behind.object - offset);
        let want = buffer.len().min(usize::try_from(all).unwrap_or(usize::MAX));
        let wanted = &mut buffer[..want];
        let mut crc = Crc32c::new();
        let payload = place.file + HEADER as u64;
        match usize::try_from(header.padded()) {
            Ok(padded) if padded <= SCRATCH => {
                let all = window.get(&*self.file, payload, padded, wait)?;
                crc.update(all);
                let start = usize::try_from(skip).unwrap_or(padded);
                wanted.copy_from_slice(&all[start..start + want]);
            }
            _ => {
                self.take_in(&mut crc, payload, skip, wait)?;
                fetch(&*self.file, wanted, want, payload + skip, wait)?;
                crc.update(wanted);
                let rest = skip + want as u64;
                self.take_in(&mut crc, payload + rest, header.padded() - rest, wait)?;
            }
        }
        if crc.finish() != header.payload {
            return Err(Stop::Bad(place.file, "the bytes of a frame are not those that were written"));
        }
        Ok((want, behind))
    }

    fn take_in(&self, crc: &mut Crc32c, mut offset: u64, mut length: u64, wait: bool) -> Result<(), Stop> {
        let mut scratch = [0; SCRATCH];
        while length > 0 {
            let some = usize::try_from(length).map_or(SCRATCH, |length| length.min(SCRATCH));
            fetch(&*self.file, &mut scratch[..some], some, offset, wait)?;
            crc.update(&scratch[..some]);
            offset += some as u64;
            length -= some as u64;
        }
        Ok(())
    }

    pub(super) fn header(
        &self,
        place: FramePosition,
        window: &mut ReadWindow,
        wait: bool,
    ) -> Result<(FrameHeader, FramePosition), Stop> {
        let bytes = window.get(&*self.file, place.file, HEADER, wait)?;
        bytes
            .try_into()
            .ok()
            .and_then(|bytes| FrameHeader::decode(bytes, &self.salt, place.file))
            .and_then(|(header, sum)| Some((header, header.follow(place, sum)?)))
            .ok_or(Stop::Bad(place.file, "the header of a frame is not the one that was written"))
    }

    /// Turns a stop into an error.
    pub(super) fn why(&self, stop: Stop) -> JournalError {
        let (at, what) = match stop {
            Stop::Bad(at, what) => (at, what),
            Stop::NotCached => return self.unread(io::ErrorKind::WouldBlock.into()),
            Stop::Failed(error) => return self.unread(error),
        };
        let view = self.view();
        if at < view.first.file {
            return JournalError::GivenBack { path: self.path.clone(), first: view.first.object };
        }
        // For bytes that the disk did not take, the system may return the file's earlier content.
        match &view.failed {
            Some(failed) if at >= view.synced.file => self.lost(&view, failed),
            _ => JournalError::damaged(&self.path, at, what),
        }
    }

    fn unread(&self, error: io::Error) -> JournalError {
        JournalError::io(&self.path, "reading", error)
    }
}

/// Reads at least `least` bytes, and up to all of `buffer`, and returns how many.
fn fetch(
    file: &dyn JournalFile,
    buffer: &mut [u8],
    least: usize,
    offset: u64,
    wait: bool,
) -> Result<usize, Stop> {
    let mut done = 0;
    while done < least {
        let at = offset + done as u64;
        let read = if wait {
            file.read(&mut buffer[done..], at)
        } else {
            match file.read_cached(&mut buffer[done..], at) {
                Ok(None) => return Err(Stop::NotCached),
                Ok(Some(read)) => Ok(read),
                Err(error) => Err(error),
            }
        };
        match read {
            Ok(0) => return Err(Stop::Bad(at, "the file ends within a frame")),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stop::Failed(error)),
        }
    }
    Ok(done)
}
