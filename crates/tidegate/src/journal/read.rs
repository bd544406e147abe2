//! Object bytes, read back out of the file and checked.

use std::io;

use super::disk::JournalFile;
use super::error::JournalError;
use super::format::{Crc32c, FrameHeader, HEADER, Kind, Place};
use super::log::Log;

/// What is read beside the bytes that are wanted, to check their frame, goes through this much.
const SCRATCH: usize = 4096;

/// Why reading at some place of the file came to nothing.
pub(super) enum Stop {
    /// It is not in memory, and the disk is not to be waited for.
    NotCached,
    /// There is no such frame, or not its bytes.
    Bad(u64, &'static str),
    Failed(io::Error),
}

impl Log {
    /// Reads object bytes at `offset`, into all of `buffer` where there are as many, and returns how many;
    /// `None` where they are not in memory and `wait` is not set. They are the bytes that were appended:
    /// every frame that is touched is checked as a whole first.
    ///
    /// `near` is where the last read ended, so that one that goes on there need not search.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        offset: u64,
        near: &mut Option<Place>,
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
        let mut done = 0;
        while done < buffer.len() && place.file < end.file {
            match self.read_frame(&mut buffer[done..], offset + done as u64, place, wait) {
                Ok((copied, behind)) => {
                    done += copied;
                    *near = Some(place);
                    place = behind;
                }
                Err(Stop::NotCached) if done > 0 => break,
                Err(Stop::NotCached) => return Ok(None),
                Err(stop) => return Err(self.why(stop)),
            }
        }
        Ok(Some(done))
    }

    /// Copies what the frame at `place` has from `offset` on. With it, what is behind the frame.
    fn read_frame(
        &self,
        buffer: &mut [u8],
        offset: u64,
        place: Place,
        wait: bool,
    ) -> Result<(usize, Place), Stop> {
        let (header, behind) = self.header(place, wait)?;
        if header.kind != Kind::Data || behind.object <= offset {
            return Ok((0, behind));
        }
        let (skip, all) = (offset - place.object, behind.object - offset);
        let want = buffer.len().min(usize::try_from(all).unwrap_or(usize::MAX));
        let wanted = &mut buffer[..want];
        let mut crc = Crc32c::new();
        let payload = place.file + HEADER as u64;
        self.take_in(&mut crc, payload, skip, wait)?;
        fetch(&*self.file, wanted, payload + skip, wait)?;
        crc.update(wanted);
        let rest = skip + want as u64;
        self.take_in(&mut crc, payload + rest, header.padded() - rest, wait)?;
        if crc.finish() != header.payload {
            return Err(Stop::Bad(place.file, "the bytes of a frame are not those that were written"));
        }
        Ok((want, behind))
    }

    fn take_in(&self, crc: &mut Crc32c, mut offset: u64, mut length: u64, wait: bool) -> Result<(), Stop> {
        let mut scratch = [0; SCRATCH];
        while length > 0 {
            let some = usize::try_from(length).map_or(SCRATCH, |length| length.min(SCRATCH));
            fetch(&*self.file, &mut scratch[..some], offset, wait)?;
            crc.update(&scratch[..some]);
            offset += some as u64;
            length -= some as u64;
        }
        Ok(())
    }

    pub(super) fn header(&self, place: Place, wait: bool) -> Result<(FrameHeader, Place), Stop> {
        let mut bytes = [0; HEADER];
        fetch(&*self.file, &mut bytes, place.file, wait)?;
        FrameHeader::decode(&bytes, &self.salt, place.file)
            .and_then(|(header, sum)| Some((header, header.follow(place, sum)?)))
            .ok_or(Stop::Bad(place.file, "the header of a frame is not the one that was written"))
    }

    /// The error that a stop is.
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
        // Of what the disk did not take, the system may give back what was there before.
        match &view.failed {
            Some(reason) if at >= view.synced.file => self.lost(&view, reason),
            _ => JournalError::damaged(&self.path, at, what),
        }
    }

    fn unread(&self, error: io::Error) -> JournalError {
        JournalError::io(&self.path, "reading", error)
    }
}

/// Fills `buffer`.
fn fetch(file: &dyn JournalFile, buffer: &mut [u8], offset: u64, wait: bool) -> Result<(), Stop> {
    let mut done = 0;
    while done < buffer.len() {
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
    Ok(())
}
