//! Records every request that the store sees, and reports a violation as soon as it happens.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidegate::Operation;
use tidegate::backend::{Fault, FaultKind, Session};

use crate::faults::{NAMES, RequestTrouble};
use crate::model::StoreAnswer;
use crate::store::writer_of;

/// The facts about a writer that the witness checks against.
#[derive(Clone, Debug)]
pub struct WatchedWriter {
    /// The key that the writer writes.
    pub key: String,
    /// The bytes that the object must have.
    pub content: Bytes,
    /// Most parts that the writer may have in flight.
    pub parts_in_flight: usize,
    /// Whether bytes may be streamed from a file or a spool disk, so that requests hold less memory than their
    /// length.
    pub streamed: bool,
    /// What other processes that continue the upload write instead.
    pub others: Vec<Bytes>,
    /// Whether the upload may be continued from a point by another process, which cuts its parts anew from there.
    pub resumed: bool,
}

/// Everything seen of one writer.
#[derive(Clone, Debug, Default)]
pub struct WriterRequests {
    /// Requests by operation, retries included.
    pub requests: BTreeMap<&'static str, u64>,
    /// Offset and length of each part that was seen, by part number.
    pub parts: BTreeMap<u32, (u64, u64)>,
    /// Whether the producer has asked for the commit.
    pub finishing: bool,
    /// The kinds of injected faults that the writer met.
    pub injected: Vec<FaultKind>,
    /// Whether a put or a completion met a fault that may be retried, so that the outcome may be unclear.
    pub doubt: bool,
    /// The store's answers about the object; where a key has several writers, the answers to all of them.
    pub told: CheckAnswers,
}

impl WriterRequests {
    /// Requests of one operation.
    pub fn count(&self, operation: Operation) -> u64 {
        self.requests.get(operation.name()).copied().unwrap_or(0)
    }
}

/// The store's answers when a client checked whether its object is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckAnswers {
    /// The last HEAD for the object was not answered.
    pub no_answer: bool,
    /// An abort of the session failed or was not answered.
    pub no_abort: bool,
    /// A HEAD found the writer's own object.
    pub own: bool,
    /// A HEAD found another writer's object.
    pub another: bool,
    /// An abort or a completion found no session.
    pub gone: bool,
    /// A put was never answered: the store may still carry it out.
    pub late: bool,
}

/// Everything seen of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionSeen {
    /// Whether the session's id reached the client.
    pub delivered: bool,
    /// How many aborts of the session arrived.
    pub aborts: u32,
    /// Whether the store denied the last abort.
    pub abort_denied: bool,
    writer: usize,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct RequestInFlight {
    /// The operation.
    pub operation: Operation,
    /// The writers of the request; several where the key has several writers.
    pub writers: Vec<usize>,
    /// The request in words, for messages.
    pub label: String,
    /// Session id and part number of a part.
    part: Option<(String, u32)>,
    held: u64,
}

/// Records every request.
#[derive(Debug)]
pub struct Witness {
    subjects: Vec<WatchedWriter>,
    /// Each writer, in order.
    pub seen: Vec<WriterRequests>,
    /// Each session, by id.
    pub sessions: BTreeMap<String, SessionSeen>,
    /// Faults injected, in the order of [`NAMES`].
    pub troubles: [u64; NAMES.len()],
    /// Every HEAD: key and virtual milliseconds.
    pub heads: Vec<(String, u64)>,
    /// Every wait in a write: the writer, and from when to when in virtual milliseconds.
    pub waits: Vec<(usize, u64, u64)>,
    /// The violations, at most 20.
    pub violations: Vec<String>,
    /// Requests in flight, by number.
    pub flights: BTreeMap<u64, RequestInFlight>,
    /// The most requests in flight at once.
    pub most_flights: usize,
    /// All requests.
    pub requests: u64,
    /// Requests that the client gave up before the answer.
    pub given_up: u64,
    limit: Option<usize>,
}

impl Witness {
    /// A witness that has seen nothing; `limit` is the most requests that may be in flight.
    pub fn new(subjects: Vec<WatchedWriter>, limit: Option<usize>) -> Self {
        let seen = vec![WriterRequests::default(); subjects.len()];
        Self {
            subjects,
            seen,
            sessions: BTreeMap::new(),
            troubles: [0; NAMES.len()],
            heads: Vec::new(),
            waits: Vec::new(),
            violations: Vec::new(),
            flights: BTreeMap::new(),
            most_flights: 0,
            requests: 0,
            given_up: 0,
            limit,
        }
    }

    /// Records a violation.
    pub fn violation(&mut self, message: impl Into<String>) {
        if self.violations.len() < 20 {
            self.violations.push(message.into());
        }
    }

    /// The writers of a key.
    pub fn writers_of(&self, key: &str) -> Vec<usize> {
        (0..self.subjects.len()).filter(|writer| self.subjects[*writer].key == key).collect()
    }

    /// The writer of a session.
    pub fn writer_of(&self, session: &Session) -> Vec<usize> {
        self.sessions.get(&session.id).map(|seen| seen.writer).into_iter().collect()
    }

    /// Records the arrival of a request that carries `bytes`, while the memory budget holds `held` bytes.
    pub fn arrive(
        &mut self,
        operation: Operation,
        writers: Vec<usize>,
        label: String,
        part: Option<(String, u32)>,
        bytes: u64,
        held: u64,
    ) -> u64 {
        self.requests += 1;
        for writer in &writers {
            let seen = &mut self.seen[*writer];
            *seen.requests.entry(operation.name()).or_default() += 1;
            if matches!(operation, Operation::Put | Operation::Complete) && !self.seen[*writer].finishing {
                self.violation(format!("{label} before the writer was finished"));
            }
        }
        let streamed = writers.iter().any(|writer| self.subjects[*writer].streamed);
        let id = self.requests;
        let held_here = if streamed { 0 } else { bytes };
        let told = label.clone();
        self.flights.insert(
            id,
            RequestInFlight { operation, writers: writers.clone(), label, part, held: held_here },
        );
        for writer in writers {
            // Two copies of a part count as one part.
            let (now, most) = (self.parts_of(writer), self.subjects[writer].parts_in_flight);
            if operation == Operation::Part && now > most {
                self.violation(format!("{told}: {now} parts of one writer in flight, of at most {most}"));
            }
        }
        self.most_flights = self.most_flights.max(self.flights.len());
        if let Some(limit) = self.limit.filter(|limit| self.flights.len() > *limit) {
            self.violation(format!("{} requests in flight, of at most {limit}", self.flights.len()));
        }
        // The bytes of two copies of a part count once, too.
        let mut parts = BTreeSet::new();
        let counts =
            |flight: &&RequestInFlight| flight.part.as_ref().is_none_or(|part| parts.insert(part.clone()));
        let in_requests: u64 = self.flights.values().filter(counts).map(|flight| flight.held).sum();
        if in_requests > held {
            self.violation(format!(
                "requests carry {in_requests} bytes while the budget says that {held} are held"
            ));
        }
        id
    }

    /// How many parts of a writer are in flight.
    fn parts_of(&self, writer: usize) -> usize {
        let of = self.flights.values().filter(|flight| flight.writers.contains(&writer));
        of.filter_map(|flight| flight.part.as_ref()).collect::<BTreeSet<_>>().len()
    }

    /// Takes in that a process that continues the upload writes this content.
    pub fn also_writes(&mut self, writer: usize, content: Bytes) {
        self.subjects[writer].others.push(content);
    }

    /// Checks the payload of a request that was read to its end.
    pub fn received(&mut self, writers: &[usize], label: &str, part: Option<(u32, u64)>, bytes: &Bytes) {
        let Some(&writer) = writers.first() else { return };
        let subject = &self.subjects[writer];
        let content = &subject.content;
        let (offset, len) = (part.map_or(0, |(_, offset)| offset), bytes.len() as u64);
        let is_of = |content: &Bytes| {
            let range = usize::try_from(offset).ok().and_then(|from| content.get(from..from + bytes.len()));
            range == Some(&bytes[..])
        };
        if !is_of(content) && !subject.others.iter().any(is_of) {
            self.violation(format!("{label}: not the bytes {offset}..{} of writer {writer}", offset + len));
        } else if part.is_none() && bytes.len() != content.len() {
            self.violation(format!("{label}: {len} bytes of an object of {}", content.len()));
        }
        if let Some((number, _)) = part {
            let first = *self.seen[writer].parts.entry(number).or_insert((offset, len));
            if first != (offset, len) && !self.subjects[writer].resumed {
                self.violation(format!("{label}: part {number} was {first:?}, is ({offset}, {len})"));
            }
        }
    }

    /// A session was opened.
    pub fn opened(&mut self, session: &Session, writer: Option<usize>) {
        if let Some(writer) = writer {
            self.sessions.insert(session.id.clone(), SessionSeen { writer, ..SessionSeen::default() });
        }
    }

    /// Records an injected fault.
    pub fn injected(&mut self, operation: Operation, writers: &[usize], trouble: RequestTrouble) {
        self.troubles[trouble.index()] += 1;
        let kind = match trouble {
            RequestTrouble::Slow => return,
            RequestTrouble::Expired => FaultKind::NoSession,
            other => other.fault().map_or(FaultKind::Timeout, |fault| fault.kind),
        };
        for writer in writers {
            self.tell(*writer, operation, kind);
        }
    }

    /// Records the answer to a request.
    pub fn answer(&mut self, id: u64, answer: &Result<StoreAnswer, Fault>) {
        let Some(flight) = self.flights.get(&id) else { return };
        for writer in &flight.writers {
            let told = &mut self.seen[*writer].told;
            match (flight.operation, answer) {
                (Operation::Head, Ok(StoreAnswer::Object(object))) => {
                    let own = writer_of(&object.attributes) == Some(*writer);
                    told.own |= own;
                    told.another |= !own;
                    // Where the key has several writers, the unanswered HEAD may be another writer's.
                    told.no_answer &= flight.writers.len() > 1;
                }
                (Operation::Head, Err(fault)) => {
                    let found = fault.kind == FaultKind::NotFound;
                    told.no_answer = !found || (told.no_answer && flight.writers.len() > 1);
                }
                (Operation::Abort | Operation::Complete, Err(fault))
                    if fault.kind == FaultKind::NoSession =>
                {
                    told.gone = true;
                }
                (Operation::Abort, Err(_)) => told.no_abort = true,
                (Operation::Put, Err(fault)) => told.late |= fault.is_ambiguous() && !fault.answered,
                _ => {}
            }
        }
    }

    /// Records the end of a request; `answered` is false when the client gave up first.
    pub fn ended(&mut self, id: u64, answered: bool) {
        let Some(flight) = self.flights.remove(&id) else { return };
        self.given_up += u64::from(!answered);
        for writer in flight.writers {
            if !answered {
                let told = &mut self.seen[writer].told;
                told.no_answer |= flight.operation == Operation::Head;
                told.no_abort |= flight.operation == Operation::Abort;
                told.late |= flight.operation == Operation::Put;
                self.tell(writer, flight.operation, FaultKind::Timeout);
            }
        }
    }

    fn tell(&mut self, writer: usize, operation: Operation, kind: FaultKind) {
        let seen = &mut self.seen[writer];
        seen.doubt |= matches!(operation, Operation::Put | Operation::Complete) && kind.is_retriable();
        if !seen.injected.contains(&kind) {
            seen.injected.push(kind);
        }
    }
}
