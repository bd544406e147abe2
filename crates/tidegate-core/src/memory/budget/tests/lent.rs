//! Memory that the budget lends to readers.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

/// A borrower that records when it is asked to give its memory back.
#[derive(Debug)]
struct Told(u32, Arc<Mutex<Vec<u32>>>);

impl Borrower for Told {
    fn give_back(&self) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn readers_share_half_and_get_nothing_while_somebody_waits() {
    let budget = Budget::new(100, 10);
    let told = Arc::<Mutex<Vec<u32>>>::default();
    let [one, two] = [1, 2].map(|number| (budget.reading(), Arc::new(Told(number, told.clone()))));
    let borrow = |(reading, borrower): &(Reading, Arc<Told>)| {
        let borrower: Weak<Told> = Arc::downgrade(borrower);
        reading.borrow(5, borrower)
    };
    let mut lent: Vec<_> = std::iter::from_fn(|| borrow(&one)).collect();
    assert_eq!((lent.len(), one.0.share()), (5, 25), "half of a half");
    lent.extend(std::iter::from_fn(|| borrow(&two)));
    assert_eq!((lent.len(), budget.usage().held), (10, 50));

    // The lent memory does not block this lease.
    let small = now(budget.lease(50)).expect("half is not lent");
    assert!(told.lock().unwrap().is_empty());
    // It blocks this one by a few bytes: the memory that was lent last is called back first.
    let mut wait = Box::pin(budget.lease(58));
    assert!(now(wait.as_mut()).is_none());
    assert_eq!(*told.lock().unwrap(), [2, 2]);
    drop(lent.drain(8..));
    assert!(borrow(&one).is_none() && borrow(&two).is_none(), "somebody waits");
    drop(small);
    let waited = now(wait).expect("40 are lent");
    drop(waited);
    assert!(borrow(&two).is_some());
    drop(two);
    assert_eq!(one.0.share(), 50, "alone");
}

/// The largest part may be filled at any moment.
#[test]
fn what_the_largest_part_takes_is_not_lent() {
    let budget = Budget::new(100, 10);
    let reading = budget.reading();
    assert_eq!(reading.share(), 50);
    let account = budget.account(70, nobody());
    assert_eq!(reading.share(), 30);
    drop(account);
    assert_eq!(reading.share(), 50);
}

#[derive(Debug, Default)]
struct Read {
    loan: Mutex<Option<Loan>>,
    was_called: AtomicBool,
}

impl Borrower for Read {
    fn give_back(&self) {
        self.was_called.store(true, Relaxed);
        drop(self.loan.lock().unwrap().take());
    }
}

/// After a grant from returned memory, lent memory may block the next wait.
#[test]
fn a_grant_calls_back_what_is_in_the_way_of_one_who_waited_before() {
    let budget = Budget::new(100, 10);
    let [a, b, c] = [40; 3].map(|part| budget.account(part, nobody()));
    let in_flight = now(budget.lease(30)).unwrap();
    let reading = budget.reading();
    let read = Arc::new(Read::default());
    let borrower: Weak<Read> = Arc::downgrade(&read);
    *read.loan.lock().unwrap() = Some(reading.borrow(50, borrower).unwrap());
    let _c = now(c.grow(20)).unwrap();
    let (mut of_a, mut of_b) = (Box::pin(a.grow(20)), Box::pin(b.grow(20)));
    assert!(now(of_a.as_mut()).is_none() && now(of_b.as_mut()).is_none());
    drop(in_flight);
    let _a = now(of_a).expect("there is room for it");
    // Nothing is in flight. The consumer of the reader, and the producers of `a` and `c`, wait for `b`.
    let state = budget.shared.lock();
    let stopped = state.is_stopped(100);
    drop(state);
    assert!(read.was_called.load(Relaxed) || stopped, "nobody sees that `b` waits for what is lent");
    assert!(now(of_b).is_some());
}
