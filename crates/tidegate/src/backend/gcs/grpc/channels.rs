//! Connections that calls go over. HTTP/2 has many requests on one connection; there are so many
//! connections that none carries more than a few.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backend::http::{Client, Connector, STREAMS, Version};
use crate::backend::{Fault, wants_new_connection};

#[derive(Debug)]
pub(in crate::backend::gcs) struct Channels {
    connector: Connector,
    kept: Mutex<Vec<Channel>>,
    /// Keeps no connection: each request looks the address up and opens one of its own.
    unpooled: Client,
}

/// A client that keeps one connection, and who uses it.
#[derive(Debug)]
struct Channel {
    client: Client,
    users: Arc<()>,
}

/// What one call goes over, until it has its whole answer.
///
/// One that is dropped while the call waits for the store may go over a connection that something on the way has
/// forgotten, which would be found out after more than a minute: no other call is to begin on it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    /// Of one that is kept.
    user: Option<(Arc<Channels>, Arc<()>)>,
    /// The store owes the call something.
    pub(super) is_waiting: bool,
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some((channels, user)) = self.user.take().filter(|_| self.is_waiting) {
            let mut kept = channels.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|channel| !Arc::ptr_eq(&channel.users, &user));
        }
    }
}

impl Channels {
    pub(in crate::backend::gcs) fn new(
        url: &str,
        connect_timeout: Duration,
        bundle: Option<&Path>,
    ) -> Result<Self, Fault> {
        let connector = Connector::new(url, connect_timeout, bundle, Version::Two)?;
        let unpooled = connector.client(0);
        Ok(Self { connector, kept: Mutex::default(), unpooled })
    }

    /// What to make the current call over: alone, if it is to be so.
    pub(super) fn line(self: &Arc<Self>, alone: bool) -> Result<Line, Fault> {
        if alone || wants_new_connection() {
            return Ok(Line { client: self.unpooled.clone(), user: None, is_waiting: true });
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The first that has room, so that what is not needed any more falls idle, and its connection ends.
        let channel = match kept.iter().position(|channel| Arc::strong_count(&channel.users) <= STREAMS) {
            Some(at) => &kept[at],
            None => {
                kept.push(Channel { client: self.connector.client(1), users: Arc::default() });
                &kept[kept.len() - 1]
            }
        };
        let user = Some((self.clone(), channel.users.clone()));
        Ok(Line { client: channel.client.clone(), user, is_waiting: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_carries_more_than_a_few_calls() {
        let channels = Arc::new(Channels::new("http://h:1", Duration::from_secs(1), None).unwrap());
        let line = || {
            let mut line = channels.line(false).unwrap();
            line.is_waiting = false;
            line
        };
        let mut lines: Vec<Line> = (0..=STREAMS).map(|_| line()).collect();
        let used = || {
            let kept = channels.kept.lock().unwrap();
            kept.iter().map(|channel| Arc::strong_count(&channel.users) - 1).collect::<Vec<_>>()
        };
        assert_eq!(used(), [STREAMS, 1]);
        lines.truncate(3);
        lines.push(line());
        assert_eq!(used(), [4, 0]);
        // One that is given up while the store owes it something.
        lines[0].is_waiting = true;
        lines.remove(0);
        assert_eq!(used(), [0]);
        let _alone = channels.line(true).unwrap();
        assert_eq!(used(), [0]);
    }
}
