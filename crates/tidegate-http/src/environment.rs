//! Settings from the environment, read as the cloud providers' tools read them. Whitespace around a value is removed,
//! because files and secrets often end with a newline. Whitespace inside a value is refused, and the error names the
//! variable.

use std::ffi::OsString;
use std::fmt;

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::printable::address_without_password;

/// The environment of the process.
pub fn process(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// An endpoint URL from the settings. Its `Debug` hides the password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SetUrl(pub String);

impl fmt::Debug for SetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*address_without_password(&self.0), f)
    }
}

/// A variable without whitespace around its value; `None` if it is unset or blank.
pub fn variable(name: &str, read: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>, Fault> {
    let Some(value) = read(name) else { return Ok(None) };
    let Some(value) = value.to_str() else {
        return Err(Fault::new(FaultKind::Invalid, format!("{name} is not UTF-8")));
    };
    Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty()))
}

/// As `variable`, for a value that goes into headers: every character must be visible ASCII.
pub fn word(name: &str, read: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>, Fault> {
    let value = variable(name, read)?;
    if let Some(value) = &value {
        check_word(name, value)?;
    }
    Ok(value)
}

/// Refuses a value that no header can carry. `name` says where it comes from.
pub fn check_word(name: &str, value: &str) -> Result<(), Fault> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let message =
        format!("{name} has whitespace, a line end or another character in it that none of its values has");
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Refuses variables with whitespace around their values, because other code reads them unchanged.
pub fn check_exact(names: &[&str], read: impl Fn(&str) -> Option<OsString>) -> Result<(), Fault> {
    for name in names {
        let value = read(name);
        let value = value.as_ref().map_or(Some(""), |value| value.to_str());
        if value.is_none_or(|value| value.trim() != value) {
            let message = format!("{name} has whitespace or a line end around its value: remove that");
            return Err(Fault::new(FaultKind::Invalid, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn what_stands_around_a_value_is_cut_off() {
        for (value, cut) in [
            ("key\n", Some("key")),
            (" key\r\n", Some("key")),
            ("\n", None),
            ("", None),
            ("key", Some("key")),
        ] {
            assert_eq!(word("NAME", |_| Some(value.into())).unwrap().as_deref(), cut, "{value:?}");
        }
        assert_eq!(word("NAME", |_| None).unwrap(), None);
    }

    #[test]
    fn what_is_inside_is_refused_by_name() {
        for value in ["a\nb", "a b", "a\u{1b}b", "é"] {
            let refused = word("NAME", |_| Some(value.into())).unwrap_err();
            assert!(
                refused.message.starts_with("NAME ") && refused.kind == FaultKind::Invalid,
                "{refused:?}"
            );
        }
        let refused = variable("NAME", |_| Some(OsString::from_vec(vec![0xff]))).unwrap_err();
        assert!(refused.message.starts_with("NAME "));
        let refused =
            check_exact(&["ONE", "TWO"], |name| Some(if name == "TWO" { "/path\n" } else { "/path" }.into()));
        assert!(refused.unwrap_err().message.starts_with("TWO "));
    }
}
