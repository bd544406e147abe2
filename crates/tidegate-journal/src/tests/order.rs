//! Records about a session are written in the order in which they were made, although no caller waits for them.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_millis(50);

async fn begun(folder: &Path, size: usize) -> Journal {
    let directories = [PathBuf::from(folder)];
    let journal =
        Journal::create(&directories, header(Algorithm::Crc64Nvme), Durability::Sync).await.unwrap();
    journal.session(session("old")).await.unwrap();
    journal.append(vec![data(size, 1)]).await.unwrap();
    journal
}

fn session(id: &str) -> JournaledSession {
    JournaledSession { kind: SessionKind::Append, id: id.into() }
}

/// Holds a lock of the log, as a slow operation does, until the returned sender is dropped.
async fn held(log: &Arc<Log>, hold: impl FnOnce(&Log, Held) + Send + 'static) -> mpsc::Sender<()> {
    let ((release, released), (has, is_held)) = (mpsc::channel(), oneshot::channel());
    let log = log.clone();
    tokio::task::spawn_blocking(move || hold(&log, Held { has, released }));
    is_held.await.unwrap();
    release
}

struct Held {
    has: oneshot::Sender<()>,
    released: mpsc::Receiver<()>,
}

impl Held {
    /// Keeps the lock until the sender is dropped; called with the lock held.
    fn hold(self) {
        self.has.send(()).unwrap();
        let _ = self.released.recv();
    }
}

#[tokio::test]
async fn what_an_old_session_had_is_never_said_of_a_new_one() {
    for round in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        let journal = begun(folder.path(), 64 << 10).await;
        let release = held(&journal.shared.log, |log, held| {
            let _tail = log.tail();
            held.hold();
        })
        .await;
        assert!(timeout(Duration::from_millis(1), journal.committed(32 << 10)).await.is_err());
        let next = journal.clone();
        let opened = tokio::spawn(async move { next.session(session("new")).await });
        tokio::task::yield_now().await;
        drop(release);
        opened.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        let state = journal.state().await.unwrap();
        assert_eq!((state.session, state.committed), (Some(session("new")), 0), "round {round}");
    }
}

#[tokio::test]
async fn what_is_being_given_back_counts_as_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let journal = begun(folder.path(), 4 << 20).await;
    journal.committed(4 << 20).await.unwrap();
    let release = held(&journal.shared.log, |log, held| {
        let _turn = log.turn();
        held.hold();
    })
    .await;
    assert!(timeout(SOON, journal.give_back(1)).await.is_err());
    let asking = journal.clone();
    let mut asked = tokio::spawn(async move { asking.has_given_back().await });
    let early = timeout(SOON, &mut asked).await;
    drop(release);
    assert!(early.is_err(), "it is told {early:?} before it is known");
    assert!(asked.await.unwrap().unwrap());
}
