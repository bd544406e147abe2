//! The profiles of the AWS configuration files.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The names of all profiles; none if there are no files.
pub(super) fn names() -> Vec<String> {
    let file = |variable, name| {
        let set = std::env::var_os(variable).filter(|set| !set.is_empty()).map(PathBuf::from);
        let path = set.or_else(|| Some(std::env::home_dir()?.join(".aws").join(name)));
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let config = file("AWS_CONFIG_FILE", "config");
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    of_config(&config)
        .chain(sections(&credentials))
        .map(str::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The profiles of the file `config`, which has other sections too.
fn of_config(text: &str) -> impl Iterator<Item = &str> {
    sections(text).filter_map(|name| match name.strip_prefix("profile") {
        Some(rest) if rest.starts_with([' ', '\t']) => Some(rest.trim()),
        _ => (name == "default").then_some(name),
    })
}

/// The names of the sections of a file.
fn sections(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| Some(line.trim().strip_prefix('[')?.split_once(']')?.0.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_sections() {
        let text = "[default]\nregion=x\n [profile  one two ] # here\n[sso-session s]\n[other]\n#[profile no]\n[profile";
        assert_eq!(of_config(text).collect::<Vec<_>>(), ["default", "one two"]);
        assert_eq!(sections("[default]\n[work]\nkey = [no\n").collect::<Vec<_>>(), ["default", "work"]);
    }
}
