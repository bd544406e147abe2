//! Figures of what an engine or a writer does.

use std::mem::offset_of;

use tidegate::progress::{Snapshot, Waiting};

use crate::border::{call, needed};
use crate::engine::tg_engine;
use crate::error::{Outcome, invalid, tg_error};
use crate::writer::tg_writer;

/// The transfer does not wait.
pub const TG_WAITING_NONE: i32 = 0;
/// It waits for room on a journal's disk.
pub const TG_WAITING_DISK: i32 = 1;
/// It waits for room in the memory budget.
pub const TG_WAITING_MEMORY: i32 = 2;
/// It pauses before a request is made again.
pub const TG_WAITING_BACKOFF: i32 = 3;
/// It waits for its turn to make a request.
pub const TG_WAITING_REQUESTS: i32 = 4;
/// It waits for something that a later version knows.
pub const TG_WAITING_OTHER: i32 = 5;

/// Figures at one moment, in bytes unless said otherwise. The caller sets `struct_size` to `sizeof(tg_progress)`, and gets
/// as many fields as both sides know.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tg_progress {
    /// The size of the struct, as the caller knows it.
    pub struct_size: usize,
    /// Bytes taken from the producer.
    pub accepted: u64,
    /// Bytes in requests that the store has not answered.
    pub in_flight: u64,
    /// Bytes that the store has acknowledged, and bytes that requests in flight have handed to their sockets.
    pub sent: u64,
    /// Bytes that the store has acknowledged; of a read, bytes that were given to the reader.
    pub acknowledged: u64,
    /// Requests made, retries and hedges among them.
    pub requests: u64,
    /// Requests made again after one that failed.
    pub retries: u64,
    /// Slow parts and ranges that were asked for a second time.
    pub hedges: u64,
    /// Parts that the store has acknowledged.
    pub parts: u64,
    /// Bytes of memory that were freed by spilling to the spool.
    pub spilled: u64,
    /// Bytes that are in a journal, or were there until the store acknowledged them.
    pub journaled: u64,
    /// What the transfer waits for: one of TG_WAITING_...
    pub waiting: i32,
}

/// # Safety
/// `out` is null, or points to a struct whose first field is the size of the struct, which is writable.
unsafe fn give(snapshot: Snapshot, out: *mut tg_progress) -> Outcome {
    if out.is_null() {
        return Err(invalid("progress is NULL"));
    }
    // SAFETY: `out` is not null, and its first field is readable, which the caller promises.
    let size = unsafe { (&raw const (*out).struct_size).read() };
    let least = offset_of!(tg_progress, in_flight);
    if size < least {
        return Err(invalid("struct_size is not sizeof(tg_progress)"));
    }
    let figures = tg_progress {
        struct_size: size,
        accepted: snapshot.accepted,
        in_flight: snapshot.in_flight,
        sent: snapshot.sent,
        acknowledged: snapshot.acknowledged,
        requests: snapshot.requests,
        retries: snapshot.retries,
        hedges: snapshot.hedges,
        parts: snapshot.parts,
        spilled: snapshot.spilled,
        journaled: snapshot.journaled,
        waiting: match snapshot.waiting {
            None => TG_WAITING_NONE,
            Some(Waiting::Disk) => TG_WAITING_DISK,
            Some(Waiting::Memory) => TG_WAITING_MEMORY,
            Some(Waiting::Backoff) => TG_WAITING_BACKOFF,
            Some(Waiting::Requests) => TG_WAITING_REQUESTS,
            Some(_) => TG_WAITING_OTHER,
        },
    };
    let size = size.min(size_of::<tg_progress>());
    // SAFETY: both have `size` bytes, which the caller promises of `out`, and `figures` is memory of this function.
    unsafe { out.cast::<u8>().copy_from_nonoverlapping((&raw const figures).cast(), size) }
    Ok(())
}

/// Figures of everything that an engine does, summed up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_engine_progress(
    engine: Option<&tg_engine>,
    progress: *mut tg_progress,
) -> Option<Box<tg_error>> {
    call(|| {
        let snapshot = needed(engine, "engine")?.shared.get()?.tide.progress().snapshot();
        // SAFETY: as the header demands.
        unsafe { give(snapshot, progress) }
    })
}

/// Figures of one writer. Any thread, also during a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_writer_progress(
    writer: Option<&tg_writer>,
    progress: *mut tg_progress,
) -> Option<Box<tg_error>> {
    call(|| {
        let snapshot = needed(writer, "writer")?.progress()?.snapshot();
        // SAFETY: as the header demands.
        unsafe { give(snapshot, progress) }
    })
}
