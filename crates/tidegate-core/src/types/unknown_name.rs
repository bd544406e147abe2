//! The error for a text that names no value of a setting.

/// A text that names no value of a setting, or of another enum with names. The message lists the names.
///
/// ```
/// let error = "serial".parse::<tidegate::Strategy>().unwrap_err();
/// assert_eq!(error.given(), "serial");
/// assert_eq!(
///     error.to_string(),
///     "unknown strategy `serial`: use auto, put, chunked, parallel, spool or journal"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{given}`: use {}", listed(.allowed))]
pub struct UnknownName {
    what: &'static str,
    given: String,
    allowed: Vec<&'static str>,
}

impl UnknownName {
    /// The text that was refused.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// The names that would have been accepted.
    pub fn allowed(&self) -> &[&'static str] {
        &self.allowed
    }

    /// Finds the value of `all` whose name is `given`. `what` is the setting, for the message.
    pub fn find<T: Copy>(
        what: &'static str,
        given: &str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<T, Self> {
        all.iter().copied().find(|value| name(*value) == given).ok_or_else(|| Self {
            what,
            given: given.to_owned(),
            allowed: all.iter().copied().map(name).collect(),
        })
    }
}

/// `a, b or c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!((listed(&["a"]), listed(&["a", "b"])), ("a".to_owned(), "a or b".to_owned()));
        assert_eq!(listed(&["a", "b", "c"]), "a, b or c");
    }
}
