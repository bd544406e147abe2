//! The label before each line on standard error, where many commands run at the same time: `list.txt:17: `.

use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    /// The label of the command that is being polled. Messages come from deep inside a command, which need not know that
    /// it is a line of a list.
    static LABEL: Arc<str>;
}

/// Runs a command whose lines on standard error begin with this label.
pub(crate) async fn labelled<T>(label: String, command: impl Future<Output = T>) -> T {
    LABEL.scope(label.into(), command).await
}

/// The text as it is printed: with the label of the command that prints it, if it has one.
pub(crate) fn with_label(text: String) -> String {
    LABEL.try_with(|label| format!("{label}{text}")).unwrap_or(text)
}
