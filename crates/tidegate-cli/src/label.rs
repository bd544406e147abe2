//! The label before each line on standard error, where many commands run at the same time: `list.txt:17: `.

use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    /// The label of the command that is being polled. Messages come from deep inside a command, which need not know
    /// that it is a line of a list.
    static LABEL: Arc<str>;
}

/// Runs a command whose lines on standard error begin with this label.
pub(crate) async fn labelled<T>(label: String, command: impl Future<Output = T>) -> T {
    LABEL.scope(label.into(), command).await
}

/// Does something at once, whose lines on standard error begin with this label.
pub(crate) fn labelled_now<T>(label: String, work: impl FnOnce() -> T) -> T {
    LABEL.sync_scope(label.into(), work)
}

/// The label of the command that is being polled, if it has one.
pub(crate) fn current() -> Option<Arc<str>> {
    LABEL.try_with(Arc::clone).ok()
}
