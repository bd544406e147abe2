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
    pub(crate) fn find<T: Copy>(
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
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    use super::*;
    use crate::settings::{Addressing, GcsTransport};
    use crate::types::checksum::Algorithm;
    use crate::{ErrorKind, Operation, Strategy};

    /// Every allowed name is read as the value that shows it, and nothing else is read.
    fn go_round<T: FromStr<Err = UnknownName> + Display + Debug + PartialEq>(count: usize) {
        let error = "no such name".parse::<T>().unwrap_err();
        assert_eq!((error.given(), error.allowed().len()), ("no such name", count), "{error}");
        let mut values: Vec<T> = Vec::new();
        for name in error.allowed() {
            let value: T = name.parse().unwrap();
            assert_eq!(value.to_string(), *name);
            assert!(!values.contains(&value), "{name} stands for two values");
            assert!(error.to_string().contains(name));
            values.push(value);
        }
    }

    #[test]
    fn what_is_shown_of_an_enum_is_read_as_it() {
        go_round::<Strategy>(6);
        go_round::<Algorithm>(2);
        #[cfg(feature = "prefix")]
        go_round::<crate::prefix::Naming>(3);
        go_round::<Addressing>(3);
        go_round::<GcsTransport>(if cfg!(feature = "gcs-grpc") { 2 } else { 1 });
        go_round::<ErrorKind>(23);
        go_round::<Operation>(21);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!((listed(&["a"]), listed(&["a", "b"])), ("a".to_owned(), "a or b".to_owned()));
        assert_eq!(listed(&["a", "b", "c"]), "a, b or c");
    }
}
