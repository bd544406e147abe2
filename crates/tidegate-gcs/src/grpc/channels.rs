//! HTTP/2 connections for calls. One connection could carry many calls, but each gets only a few, and more
//! connections are opened as needed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use tidegate_core::backend::{Attempt, Fault};
use tidegate_http::{Client, Connector, STREAMS, Version};

#[derive(Debug)]
pub(crate) struct Channels {
    connector: Connector,
    kept: Mutex<Vec<Channel>>,
    /// Keeps no connection: each request looks up the address and opens a new connection.
    unpooled: Client,
}

/// A client that keeps one connection, and a count of the calls on it.
#[derive(Debug)]
struct Channel {
    client: Client,
    /// The runtime that drives the connection.
    runtime: Option<Id>,
    users: Arc<()>,
}

/// The connection of one call, until its answer is complete.
///
/// If this is dropped while its call waits for the store, something on the way may have forgotten the connection,
/// which takes more than a minute to detect. So no other call begins on that connection.
#[derive(Debug)]
pub(super) struct CallConnection {
    pub(super) client: Client,
    /// Set for a connection that is kept.
    user: Option<(Arc<Channels>, Arc<()>)>,
    /// True while the call waits for the store.
    pub(super) is_waiting: bool,
}

impl Drop for CallConnection {
    fn drop(&mut self) {
        if let Some((channels, user)) = self.user.take().filter(|_| self.is_waiting) {
            let mut kept = channels.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|channel| !Arc::ptr_eq(&channel.users, &user));
        }
    }
}

impl Channels {
    pub(crate) fn new(url: &str, connect_timeout: Duration, bundle: Option<&Path>) -> Result<Self, Fault> {
        let connector = Connector::new(url, connect_timeout, bundle, Version::Two)?;
        let unpooled = connector.client(0);
        Ok(Self { connector, kept: Mutex::default(), unpooled })
    }

    /// A connection for an attempt of a call; with `alone`, one of its own.
    pub(super) fn connection(
        self: &Arc<Self>,
        alone: bool,
        attempt: Attempt,
    ) -> Result<CallConnection, Fault> {
        if alone || attempt.wants_new_connection() {
            return Ok(CallConnection { client: self.unpooled.clone(), user: None, is_waiting: true });
        }
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |channel: &Channel| Arc::strong_count(&channel.users) <= STREAMS;
        // Take the first connection with room, so that connections that are no longer needed fall idle and close.
        let channel = match kept.iter().position(|kept| kept.runtime == runtime && has_room(kept)) {
            Some(at) => &kept[at],
            None => {
                // Unused channels of other runtimes may be those of runtimes that have ended.
                kept.retain(|kept| kept.runtime == runtime || Arc::strong_count(&kept.users) > 1);
                let client = self.connector.client(1);
                kept.push(Channel { client, runtime, users: Arc::default() });
                &kept[kept.len() - 1]
            }
        };
        let user = Some((self.clone(), channel.users.clone()));
        Ok(CallConnection { client: channel.client.clone(), user, is_waiting: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_carries_more_than_a_few_calls() {
        let channels = Arc::new(Channels::new("http://h:1", Duration::from_secs(1), None).unwrap());
        let connection = || {
            let mut connection = channels.connection(false, Attempt::FIRST).unwrap();
            connection.is_waiting = false;
            connection
        };
        let mut connections: Vec<CallConnection> = (0..=STREAMS).map(|_| connection()).collect();
        let used = || {
            let kept = channels.kept.lock().unwrap();
            kept.iter().map(|channel| Arc::strong_count(&channel.users) - 1).collect::<Vec<_>>()
        };
        assert_eq!(used(), [STREAMS, 1]);
        connections.truncate(3);
        connections.push(connection());
        assert_eq!(used(), [4, 0]);
        // One that is given up while the store owes it something.
        connections[0].is_waiting = true;
        connections.remove(0);
        assert_eq!(used(), [0]);
        let _alone = channels.connection(true, Attempt::FIRST).unwrap();
        assert_eq!(used(), [0]);
    }
}
