//! Paths without symbolic links, to compare places.

use std::path::{Path, PathBuf};

/// The absolute path, with symbolic links and `..` resolved as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match existing {
        Some((ancestor, canonical)) => match path.strip_prefix(ancestor) {
            // To join an empty path would add a slash.
            Ok(rest) if !rest.as_os_str().is_empty() => canonical.join(rest),
            _ => canonical,
        },
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_before_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        assert_eq!(resolved(&root.join("link")).as_os_str(), root.join("real").as_os_str());
        assert_eq!(resolved(&root.join("link/z/copy")), root.join("real/z/copy"));
        assert_eq!(resolved(&root.join("real/../link/z")), root.join("real/z"));
    }
}
