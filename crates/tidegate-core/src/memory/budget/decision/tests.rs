//! The decision function alone, in a model of writers, requests and readers without tasks, clocks and disks.

use proptest::prelude::*;

use super::*;

const TOTAL: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(1);
/// The model has ended long before so many decisions, if it ends.
const ENOUGH: usize = 20_000;

#[derive(Clone, Debug)]
struct Writer {
    part: u64,
    half_filled: u64,
    /// How much of that is the free end of a slab.
    slack: u64,
    place: Option<u64>,
    wants: Option<(u64, Instant)>,
    goes_on: bool,
    idle_limit: Option<Duration>,
    last_write: Instant,
}

#[derive(Clone, Debug)]
struct Request {
    place: u64,
    bytes: u64,
    since: Instant,
    from: RequestFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFrom {
    /// A task that takes its grant.
    Task,
    /// A task that is not polled any more.
    AbandonedTask,
    /// Many tasks that ask for memory one after another, so that at any time one request waits. Each grant counts as a
    /// decision, so the grants are not tiny.
    Stream,
}

#[derive(Clone, Debug)]
struct World {
    now: Instant,
    places: u64,
    writers: Vec<Writer>,
    requests: Vec<Request>,
    in_flight: u64,
    /// Grants that nobody takes: bytes, and when they were made.
    untaken: Vec<(u64, Instant)>,
    lent: u64,
    called_back: u64,
    spool_room: u64,
    refusals: u32,
    moved_at: Instant,
    tried: Tried,
}

#[derive(Clone, Debug)]
enum Event {
    Write {
        writer: usize,
        bytes: u64,
        slack: u64,
    },
    Request {
        bytes: u64,
        from: RequestFrom,
    },
    Lend(u64),
    /// A part of the memory in flight comes back.
    ComeBack(u64),
    Pass(u64),
}

impl World {
    fn new(writers: &[(u64, bool, bool)], spool_room: u64) -> Self {
        let now = Instant::now();
        let writer = |&(part, goes_on, ends_idle): &(u64, bool, bool)| Writer {
            part,
            half_filled: 0,
            slack: 0,
            place: None,
            wants: None,
            goes_on,
            idle_limit: ends_idle.then_some(PATIENCE / 2),
            last_write: now,
        };
        Self {
            now,
            places: 0,
            writers: writers.iter().map(writer).collect(),
            requests: Vec::new(),
            in_flight: 0,
            untaken: Vec::new(),
            lent: 0,
            called_back: 0,
            spool_room,
            refusals: 0,
            moved_at: now,
            tried: Tried::Nothing,
        }
    }

    fn half_filled(&self) -> u64 {
        self.writers.iter().map(|writer| writer.half_filled).sum()
    }

    fn untaken(&self) -> u64 {
        self.untaken.iter().map(|(bytes, _)| bytes).sum()
    }

    fn held(&self) -> u64 {
        self.half_filled() + self.in_flight + self.untaken() + self.lent + self.called_back
    }

    fn place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    fn waits(&self) -> Vec<(Claim, Instant)> {
        let writers = self.writers.iter().enumerate().filter_map(|(number, writer)| {
            let (bytes, since) = writer.wants?;
            let others = self.writers.iter().enumerate().filter(|(other, _)| *other != number);
            let largest_other = others.map(|(_, other)| other.half_filled).max().unwrap_or(0);
            let claimant = Claimant::Writer { half_filled: writer.half_filled, largest_other };
            Some((Claim { place: writer.place?, bytes, claimant }, since))
        });
        let requests = self.requests.iter().map(|request| {
            let Request { place, bytes, since, .. } = *request;
            (Claim { place, bytes, claimant: Claimant::Request }, since)
        });
        let mut waits: Vec<_> = writers.chain(requests).collect();
        waits.sort_by_key(|(claim, _)| claim.place);
        waits
    }

    fn by_share(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.writers.len()).collect();
        order.retain(|number| self.writers[*number].half_filled > 0);
        order.sort_by_key(|number| std::cmp::Reverse(self.writers[*number].half_filled));
        order
    }

    fn snapshot(&self, looks_closer: bool) -> MemorySnapshot {
        let waits = self.waits();
        let largest = waits.iter().find(|(claim, _)| match claim.claimant {
            Claimant::Request => false,
            Claimant::Writer { half_filled, largest_other } => half_filled >= largest_other,
        });
        let share = |number: usize| {
            let writer = &self.writers[number];
            Share {
                bytes: writer.half_filled,
                activity: if writer.wants.is_some() { Activity::Waits } else { Activity::UpToProducer },
                is_slack: writer.slack > 0,
                last_write: writer.last_write,
                idle_limit: writer.idle_limit,
            }
        };
        let waited_since = waits.iter().map(|(_, since)| *since).min();
        MemorySnapshot {
            total: TOTAL,
            held: self.held(),
            half_filled: self.half_filled(),
            untaken: self.untaken(),
            lent: self.lent,
            largest_part: self.writers.iter().map(|writer| writer.part).max().unwrap_or(0),
            first: waits.first().map(|(claim, _)| *claim),
            request: waits.iter().map(|(claim, _)| *claim).find(|claim| !claim.is_writer()),
            largest: largest.map(|(claim, _)| *claim),
            most_wanted: waits.iter().map(|(claim, _)| claim.bytes).max().unwrap_or(0),
            stall: waited_since.filter(|_| looks_closer).map(|waited_since| Stall {
                now: self.now,
                patience: PATIENCE,
                waited_since,
                moved_at: self.moved_at.max(waited_since),
                granted_at: self.untaken.iter().map(|(_, at)| *at).min(),
                refusals: self.refusals,
                shares: self.by_share().into_iter().map(share).collect(),
                spool: if self.spool_room > 0 { SpoolState::Room { moves: false } } else { SpoolState::Full },
                tried: self.tried,
            }),
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Write { writer, bytes, slack } => {
                let number = writer % self.writers.len();
                self.write(number, bytes, slack);
            }
            Event::Request { bytes, from } => self.request(bytes, from),
            Event::Lend(bytes) => {
                let largest = self.writers.iter().map(|writer| writer.part).max().unwrap_or(0);
                let lendable = (TOTAL / 2).min(TOTAL - largest);
                if self.waits().is_empty() && self.held() + bytes <= TOTAL && self.lent + bytes <= lendable {
                    self.lent += bytes;
                }
            }
            Event::ComeBack(bytes) => self.in_flight -= self.in_flight.min(bytes),
            Event::Pass(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn request(&mut self, bytes: u64, from: RequestFrom) {
        let place = self.place();
        self.requests.push(Request { place, bytes, since: self.now, from });
    }

    /// Whether somebody waits who is not of the stream.
    fn is_waited_for(&self) -> bool {
        let single = |request: &Request| request.from != RequestFrom::Stream;
        self.requests.iter().any(single) || self.writers.iter().any(|writer| writer.wants.is_some())
    }

    /// The producer of this writer has more bytes.
    fn write(&mut self, number: usize, bytes: u64, slack: u64) {
        let place = self.writers[number].place.unwrap_or(self.places + 1);
        self.places = self.places.max(place);
        let now = self.now;
        let writer = &mut self.writers[number];
        if writer.wants.is_none() {
            writer.slack = slack.min(writer.half_filled);
            writer.last_write = now;
            writer.place = Some(place);
            writer.wants = Some((bytes.min(writer.part - writer.half_filled), now));
        }
    }

    /// Carries out one decision. Returns false where it is to wait for something that is up to the model.
    fn carry_out(&mut self, decision: &Decision) -> bool {
        let order = self.by_share();
        match decision {
            Decision::Grant(place) => self.grant(*place),
            Decision::CallBack(bytes) => {
                self.lent -= bytes;
                self.called_back += bytes;
            }
            Decision::Reclaim => {
                let now = self.now;
                self.untaken.retain(|(_, at)| *at + UNTAKEN > now);
            }
            Decision::Trim(numbers) => {
                for number in numbers {
                    let writer = &mut self.writers[order[*number]];
                    writer.half_filled -= std::mem::take(&mut writer.slack);
                }
            }
            Decision::Spill(numbers) => {
                let mut bytes = 0;
                for number in numbers {
                    let writer = &mut self.writers[order[*number]];
                    if writer.half_filled <= self.spool_room {
                        self.spool_room -= writer.half_filled;
                        bytes += std::mem::take(&mut writer.half_filled);
                        writer.slack = 0;
                    }
                }
                self.tried = if bytes > 0 { Tried::Nothing } else { Tried::Spill };
            }
            Decision::EndIdle(numbers) => {
                let ended: Vec<_> = numbers.iter().map(|number| order[*number]).collect();
                ended.into_iter().for_each(|number| self.close(number));
            }
            Decision::Refuse => {
                let (longest, _) = self.waits().into_iter().min_by_key(|(_, since)| *since).unwrap();
                self.requests.retain(|request| request.place != longest.place);
                let writer = self.writers.iter().position(|writer| writer.place == Some(longest.place));
                writer.into_iter().for_each(|number| self.close(number));
                self.refusals += 1;
            }
            Decision::AwaitUntil(until) => {
                assert!(*until > self.now, "a wait for the past is a busy loop");
                (self.now, self.tried) = (*until, Tried::Nothing);
                (self.in_flight, self.called_back) = (0, 0);
            }
            Decision::AwaitInFlight => {
                assert!(self.in_flight + self.called_back > 0, "nothing is in flight: {self:?}");
                (self.in_flight, self.called_back) = (0, 0);
            }
            Decision::Rest | Decision::Relieve => return false,
        }
        assert!(self.held() <= TOTAL, "{self:?}");
        true
    }

    fn grant(&mut self, place: u64) {
        if let Some(at) = self.requests.iter().position(|request| request.place == place) {
            let Request { bytes, from, .. } = self.requests.remove(at);
            match from {
                RequestFrom::AbandonedTask => self.untaken.push((bytes, self.now)),
                RequestFrom::Task => self.in_flight += bytes,
                RequestFrom::Stream => {
                    self.in_flight += bytes;
                    self.request(bytes, RequestFrom::Stream);
                }
            }
            return;
        }
        self.moved_at = self.now;
        let writer = self.writers.iter_mut().find(|writer| writer.place == Some(place)).unwrap();
        let (bytes, _) = writer.wants.take().unwrap();
        writer.half_filled += bytes;
        writer.last_write = self.now;
        if writer.half_filled == writer.part {
            self.in_flight += std::mem::take(&mut writer.half_filled);
            (writer.slack, writer.place, self.refusals) = (0, None, 0);
        }
    }

    fn close(&mut self, number: usize) {
        let writer = &mut self.writers[number];
        (writer.half_filled, writer.slack, writer.wants, writer.place) = (0, 0, None, None);
        writer.goes_on = false;
        self.moved_at = self.now;
    }

    /// Serves whom it can without time passing and without relief.
    fn serve(&mut self) {
        loop {
            let decision = decide(&self.snapshot(false));
            match decision {
                Decision::Grant(_) | Decision::CallBack(_) => self.carry_out(&decision),
                Decision::Rest | Decision::AwaitInFlight | Decision::Relieve => return,
                closer => panic!("{closer:?} without a closer look"),
            };
        }
    }

    /// Lets every producer that goes on, and does not wait, write what its part lacks; a writer whose part has left
    /// is done. Returns whether any did.
    fn go_on(&mut self) -> bool {
        let begun = |writer: &Writer| writer.goes_on && writer.wants.is_none() && writer.half_filled > 0;
        let numbers: Vec<_> =
            (0..self.writers.len()).filter(|number| begun(&self.writers[*number])).collect();
        for number in &numbers {
            self.write(*number, 50, 0);
        }
        !numbers.is_empty()
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..8usize, 1..200u64, 0..50u64)
            .prop_map(|(writer, bytes, slack)| Event::Write { writer, bytes, slack }),
        2 => (1..400u64, prop_oneof![4 => Just(RequestFrom::Task), 1 => Just(RequestFrom::AbandonedTask)])
            .prop_map(|(bytes, from)| Event::Request { bytes, from }),
        1 => (1..300u64).prop_map(Event::Lend),
        3 => (1..600u64).prop_map(Event::ComeBack),
        1 => (0..3000u64).prop_map(Event::Pass),
    ]
}

proptest! {
    /// Whatever happened before, and even where requests never cease: nobody waits for ever, and no more is held than
    /// there is.
    #[test]
    fn every_wait_ends(
        writers in prop::collection::vec((1..=TOTAL, any::<bool>(), any::<bool>()), 1..8),
        spool_room in prop_oneof![Just(0), 1..2 * TOTAL],
        events in prop::collection::vec(event(), 1..60),
        stream in prop::option::of(50..100u64),
    ) {
        let mut world = World::new(&writers, spool_room);
        for event in &events {
            world.happen(event);
            world.serve();
            prop_assert!(world.held() <= TOTAL);
        }
        stream.into_iter().for_each(|bytes| world.request(bytes, RequestFrom::Stream));
        let mut decisions = 0;
        while world.is_waited_for() || world.go_on() {
            let decision = decide(&world.snapshot(true));
            prop_assert!(world.carry_out(&decision), "{decision:?} in {world:?}");
            decisions += 1;
            prop_assert!(decisions < ENOUGH, "nobody moves: {decision:?} in {world:?}");
        }
    }

    /// The rule at the head of `budget.rs`: as long as all producers go on and all grants are taken, no wait needs
    /// relief.
    #[test]
    fn producers_that_go_on_need_no_relief(
        parts in prop::collection::vec(1..=TOTAL, 1..8),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let writers: Vec<_> = parts.into_iter().map(|part| (part, true, false)).collect();
        let mut world = World::new(&writers, 0);
        for event in &events {
            match event {
                // Requests that need all memory wait for an end of half-filled parts that nobody promised.
                Event::Request { .. } => continue,
                event => world.happen(event),
            }
            world.serve();
        }
        let mut decisions = 0;
        loop {
            world.go_on();
            if world.waits().is_empty() {
                break;
            }
            let decision = decide(&world.snapshot(false));
            prop_assert!(world.carry_out(&decision), "{decision:?} in {world:?}");
            decisions += 1;
            prop_assert!(decisions < ENOUGH, "nobody moves: {decision:?} in {world:?}");
        }
    }
}
