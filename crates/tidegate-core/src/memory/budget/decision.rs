//! Decides what happens next with the memory: one pure function of the figures of one moment. So the proof in
//! `budget.rs` is tested without tasks, clocks and disks.

use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// The figures of a budget that a decision depends on, in bytes.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshot {
    pub(super) total: u64,
    /// In flight, half-filled, granted or lent.
    pub(super) held: u64,
    pub(super) half_filled: u64,
    /// Granted to requests that have not taken it yet.
    pub(super) untaken: u64,
    /// Lent to readers, and not called back.
    pub(super) lent: u64,
    /// The largest part of any open writer.
    pub(super) largest_part: u64,
    /// The head of the line.
    pub(super) first: Option<Claim>,
    /// The waiter that is a request and came first.
    pub(super) request: Option<Claim>,
    /// A waiting writer that holds as much as any other writer.
    pub(super) largest: Option<Claim>,
    /// The most that any waiter waits for.
    pub(super) most_wanted: u64,
    /// A closer look at a wait that nothing in flight can end; `None` until relief takes it.
    pub stall: Option<Stall>,
}

/// One wait for memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Its place in line.
    pub(super) place: u64,
    pub(super) bytes: u64,
    pub(super) claimant: Claimant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// Its memory will be in flight.
    Request,
    /// Its memory will be half-filled.
    Writer { half_filled: u64, largest_other: u64 },
}

/// Half-filled memory, or memory granted and not taken, stands in the way of the waiters.
#[derive(Clone, Debug)]
pub struct Stall {
    /// The time of the decision.
    pub now: Instant,
    /// How long a wait that nothing in flight can end may last.
    pub patience: Duration,
    /// When the longest wait began.
    pub waited_since: Instant,
    /// When something last happened that may end the wait.
    pub moved_at: Instant,
    /// When the oldest grant was made that was not taken yet.
    pub granted_at: Option<Instant>,
    /// How many waits ended with an error since a part was last dispatched.
    pub refusals: u32,
    /// The writers that hold memory, the largest share first.
    pub shares: Vec<Share>,
    /// What can be spilled to.
    pub spool: SpoolState,
    /// What was tried in vain since the last wait.
    pub tried: Tried,
}

/// The half-filled memory of one writer.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Memory that the writer holds, in bytes.
    pub bytes: u64,
    /// What the writer is doing.
    pub activity: Activity,
    /// Whether the writer got memory since its free end was last taken back.
    pub is_slack: bool,
    /// When the writer last got bytes.
    pub last_write: Instant,
    /// How long the writer may be idle before it is ended.
    pub idle_limit: Option<Duration>,
}

/// What a writer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The writer waits for memory, or has not taken memory that it was granted.
    Waits,
    /// Its next bytes are up to its producer.
    UpToProducer,
}

/// Whether a spool can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoolState {
    /// No spool directory is set.
    Absent,
    /// No directory takes another block, and nothing leaves the spool.
    Full,
    /// No directory takes another block, but parts leave the spool, or are being written.
    Draining,
    /// There is room.
    Room {
        /// Whether parts leave the spool, or are being written to it.
        moves: bool,
    },
}

/// How far relief got without freeing anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tried {
    /// Nothing was tried yet.
    #[default]
    Nothing,
    /// Spilling to the spool has freed nothing.
    Spill,
    /// Ending idle writers has freed nothing.
    EndIdle,
}

/// The next step. Numbers are places in [`Stall::shares`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nobody waits.
    Rest,
    /// The waiter at this place in line gets its bytes.
    Grant(u64),
    /// So many lent bytes are in the way: their readers give them back.
    CallBack(u64),
    /// Memory in flight comes back and ends the wait.
    AwaitInFlight,
    /// Nothing in flight can end the wait: relief has to look closer.
    Relieve,
    /// Grants that nobody took go to others.
    Reclaim,
    /// These writers give back the free ends of their slabs.
    Trim(Vec<usize>),
    /// The bytes of these writers go to the spool.
    Spill(Vec<usize>),
    /// These writers were idle beyond their limit, and are ended.
    EndIdle(Vec<usize>),
    /// The longest wait becomes an error.
    Refuse,
    /// Nothing can be done before this moment, unless something changes.
    AwaitUntil(Instant),
}

/// A task that is polled takes its grant, or its error, sooner than this.
pub const UNTAKEN: Duration = Duration::from_secs(1);

/// Relief looks again after this time, where nothing notifies it: a disk gains room, a grant is taken.
pub const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(3600);

/// One part in this many of the budget is spilled at once, so that thousands of small holders need few calls.
const BATCH: u64 = 8;

/// Decides what happens next. Repeated until it is a wait, with each decision carried out in between.
pub fn decide(snapshot: &MemorySnapshot) -> Decision {
    let Some(first) = snapshot.first else { return Decision::Rest };
    let next = snapshot.next(first);
    if let Some(next) = next.filter(|next| snapshot.held + next.bytes <= snapshot.total) {
        return Decision::Grant(next.place);
    }
    // The largest wait counts: any waiter becomes the first some time, and may not be polled again before that.
    let stays = snapshot.half_filled + snapshot.untaken + snapshot.lent + snapshot.most_wanted;
    if snapshot.lent > 0 && stays > snapshot.total {
        return Decision::CallBack((stays - snapshot.total).min(snapshot.lent));
    }
    let is_stopped_by = |stays: u64| match next {
        None => true,
        // Requests may pass a writer without end, so a request that can continue does not help the writer.
        Some(next) if first.is_writer() && !next.is_writer() => true,
        Some(next) => stays + next.bytes > snapshot.total,
    };
    if !is_stopped_by(snapshot.half_filled + snapshot.untaken) {
        return Decision::AwaitInFlight;
    }
    match &snapshot.stall {
        None => Decision::Relieve,
        Some(stall) => stall.step(is_stopped_by(snapshot.half_filled), snapshot.total),
    }
}

impl Claim {
    fn is_writer(&self) -> bool {
        matches!(self.claimant, Claimant::Writer { .. })
    }
}

impl MemorySnapshot {
    /// The waiter whose turn it is: the first, unless the rule stops that writer, or half-filled memory stops that
    /// request. Then it is the writer that holds most or the first request, whichever came first.
    fn next(&self, first: Claim) -> Option<Claim> {
        if self.is_safe(&first) {
            return Some(first);
        }
        let request = self.request.filter(|request| self.is_safe(request));
        [self.largest, request].into_iter().flatten().min_by_key(|claim| claim.place)
    }

    /// Whether the rule at the head of `budget.rs` allows this grant. Memory in flight comes back, so only
    /// half-filled memory must leave room for a request.
    fn is_safe(&self, claim: &Claim) -> bool {
        match claim.claimant {
            Claimant::Request => self.half_filled + claim.bytes <= self.total,
            Claimant::Writer { half_filled, largest_other } => {
                let largest = largest_other.max(half_filled + claim.bytes);
                half_filled >= largest_other
                    || self.half_filled + claim.bytes - largest + self.largest_part <= self.total
            }
        }
    }
}

impl Stall {
    fn step(&self, by_half_filled: bool, total: u64) -> Decision {
        let reclaim_at = self.granted_at.map(|at| at + UNTAKEN);
        if reclaim_at.is_some_and(|at| at <= self.now) {
            return Decision::Reclaim;
        }
        if !by_half_filled {
            return Decision::AwaitUntil(reclaim_at.unwrap_or(self.now + LOOK_AGAIN));
        }
        if self.tried < Tried::Spill && matches!(self.spool, SpoolState::Room { .. }) {
            let spills = self.spills(total / BATCH);
            if !spills.is_empty() {
                return Decision::Spill(spills);
            }
        }
        let slack = self.picked(|share| share.is_slack && share.activity == Activity::UpToProducer);
        if !slack.is_empty() {
            return Decision::Trim(slack);
        }
        let idle = self.picked(|share| share.idle_at().is_some_and(|at| at <= self.now));
        if self.tried < Tried::EndIdle && !idle.is_empty() {
            return Decision::EndIdle(idle);
        }
        let refuse_at = self.refuse_at();
        if refuse_at.is_some_and(|at| at <= self.now) {
            return Decision::Refuse;
        }
        let next_idle = self.shares.iter().filter_map(Share::idle_at).filter(|at| *at > self.now).min();
        let wakes = [refuse_at, next_idle, reclaim_at].into_iter().flatten();
        let wake = wakes.fold(self.now + LONGEST, Instant::min);
        let again = self.now + LOOK_AGAIN;
        Decision::AwaitUntil(if self.spool == SpoolState::Absent { wake } else { wake.min(again) })
    }

    fn picked(&self, pick: impl Fn(&Share) -> bool) -> Vec<usize> {
        let shares = self.shares.iter().enumerate();
        shares.filter_map(|(number, share)| pick(share).then_some(number)).collect()
    }

    /// The largest holders that come to `least` bytes together, up to the first that waits: it can proceed once
    /// those before it have spilled. The very first is spilled even if it waits: its own bytes are what leave it no
    /// room.
    fn spills(&self, least: u64) -> Vec<usize> {
        let (mut asked, mut spills) = (0, Vec::new());
        for (number, share) in self.shares.iter().enumerate() {
            if asked >= least || (share.activity == Activity::Waits && number > 0) {
                break;
            }
            asked += share.bytes;
            spills.push(number);
        }
        spills
    }

    /// When the longest wait becomes an error; `None` where the patience is endless.
    fn refuse_at(&self) -> Option<Instant> {
        let moves = matches!(self.spool, SpoolState::Draining | SpoolState::Room { moves: true });
        // Progress of the spool counts: a part that leaves it makes room there, a part on its way there leaves
        // memory.
        let moved_at = if moves { self.now } else { self.moved_at.max(self.filled_at()) };
        // A writer whose wait is refused gives back its memory, which may be enough for the others; half of the
        // time is enough to see whether it is, so each refusal halves the patience.
        let moved = moved_at.checked_add(self.patience / 2_u32.saturating_pow(self.refusals))?;
        Some(moved.max(self.waited_since.checked_add(self.patience)?))
    }

    /// When a holder of the most bytes last took a byte: it fills memory granted earlier without notifying the
    /// budget, and so completes its part. Progress of smaller holders would help nobody.
    fn filled_at(&self) -> Instant {
        let most = self.shares.first().map_or(0, |share| share.bytes);
        let largest = self.shares.iter().take_while(|share| share.bytes == most);
        let fill = largest.filter(|share| share.activity == Activity::UpToProducer);
        fill.map(|share| share.last_write).fold(self.waited_since, Instant::max)
    }
}

impl Share {
    /// When the writer is idle beyond its own limit.
    fn idle_at(&self) -> Option<Instant> {
        let limit = self.idle_limit.filter(|_| self.activity == Activity::UpToProducer)?;
        self.last_write.checked_add(limit)
    }
}
