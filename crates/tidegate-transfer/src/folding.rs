//! Names that one file of a directory has: `IMG.jpg` and `img.jpg` where the file system ignores case, and the two Unicode
//! forms of `é` where it ignores these.
//!
//! Two objects of a store would become one file there, and the second would replace the first.

use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tidegate::backend::local::unfinished_name;
use unicode_normalization::UnicodeNormalization;

use crate::hashed::HashedNames;

/// The names that the objects of a command have below directories that may take two of them for one file.
#[derive(Debug, Default)]
pub(crate) struct FoldedNames {
    all: HashedNames,
    /// The names of objects that were not there.
    new: HashedNames,
}

impl FoldedNames {
    /// Gives an object its name, by what [`DirectoryNames::folded`] makes of that; false if another object may have that
    /// file. Two names that are there, each listed by the directory, are two files.
    pub(crate) fn take(&mut self, folded: &(impl Hash + ?Sized), is_there: bool) -> bool {
        let is_first = self.all.add(folded);
        if is_there { !self.new.has(folded) } else { is_first && self.new.add(folded) }
    }

    /// Whether an object has the name.
    pub(crate) fn has(&self, folded: &(impl Hash + ?Sized)) -> bool {
        self.all.has(folded)
    }
}

/// How many names of a directory are looked at to see what it does with names.
const LOOKED_AT: usize = 64;

/// What a directory that is written to does with names. It is asked when the first name comes, once for all names below it.
#[derive(Debug)]
pub(crate) struct DirectoryNames<Asked = Directory> {
    asked: Asked,
    /// Whether capital letters are small ones.
    folds_case: OnceLock<bool>,
    /// Whether the forms of a character are one.
    folds_forms: OnceLock<bool>,
}

impl DirectoryNames {
    /// The names below `root`, which may not exist yet. A directory that has no telling name gets a file for a moment, if
    /// the command `writes`.
    pub(crate) fn below(root: &Path, writes: bool) -> Self {
        Self::of(Directory { path: root.to_owned(), writes })
    }
}

#[cfg(test)]
impl DirectoryNames {
    /// The names below a directory that does not tell capital letters from small ones.
    pub(crate) fn that_fold(root: &Path) -> Self {
        Self { folds_case: OnceLock::from(true), ..Self::below(root, false) }
    }
}

impl<Asked: Lookups> DirectoryNames<Asked> {
    fn of(asked: Asked) -> Self {
        Self { asked, folds_case: OnceLock::new(), folds_forms: OnceLock::new() }
    }

    /// What stands for all names that the file system may take for this one; `None` if it keeps this one apart from all
    /// others. Two names that it does keep apart may have the same: it knows fewer characters than Unicode has, or no forms.
    pub(crate) fn folded(&self, name: &str) -> Option<String> {
        if *self.folds_case.get_or_init(|| self.folds(other_case, "x")) {
            return Some(without_case(name));
        }
        // Forms differ only beyond ASCII, so that most trees are not asked about them.
        let folds_forms =
            !name.is_ascii() && *self.folds_forms.get_or_init(|| self.folds(other_form, "\u{e9}"));
        folds_forms.then(|| name.nfd().collect())
    }

    /// Whether a name has been asked for that the file system may take for another.
    pub(crate) fn has_folded(&self) -> bool {
        [&self.folds_case, &self.folds_forms].into_iter().any(|folds| folds.get() == Some(&true))
    }

    /// Whether the directory has the file of a name also by the `other` name.
    fn folds(&self, other: fn(&str) -> Option<String>, sample: &str) -> bool {
        let directory = self.asked.existing();
        for name in directory.names().take(LOOKED_AT) {
            let Some(other) = other(&name) else { continue };
            if directory.has(&other) {
                // Both may be there.
                return !directory.names().any(|name| name == other);
            }
            // Unless it was removed meanwhile.
            if directory.has(&name) {
                return false;
            }
        }
        let has_other = |name: &str| other(name).is_some_and(|other| directory.has(&other));
        directory.with_file(sample, has_other)
    }
}

/// The name with capital letters for small ones, and small ones for capital ones; `None` if it has none.
fn other_case(name: &str) -> Option<String> {
    let other = |letter: char| match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    };
    name.contains(|letter: char| letter.is_ascii_alphabetic()).then(|| name.chars().map(other).collect())
}

/// The name with its characters in another form; `None` if they have one only.
fn other_form(name: &str) -> Option<String> {
    [name.nfd().collect::<String>(), name.nfc().collect()].into_iter().find(|other| other != name)
}

/// The name without case and forms. Also without what some of these file systems ignore: invisible characters, and dots and
/// spaces at the end of a name.
fn without_case(name: &str) -> String {
    let fold = |name: &str| -> String {
        let shown = name.nfd().filter(|character| !is_ignored(*character));
        shown.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd().collect()
    };
    let names: Vec<String> = name.split('/').map(|name| fold(name.trim_end_matches(['.', ' ']))).collect();
    names.join("/")
}

/// Invisible characters. ext4 (with `casefold`) and HFS+ ignore most of them when they compare two names.
fn is_ignored(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// What a directory is asked.
pub(crate) trait Lookups {
    /// The same directory, or the one in which it is to be made.
    fn existing(&self) -> Self;

    /// The names in it.
    fn names(&self) -> impl Iterator<Item = String>;

    /// Whether a lookup finds the name.
    fn has(&self, name: &str) -> bool;

    /// The answer while there is a file whose name has `sample` in it; `false` if none can be made.
    fn with_file(&self, sample: &str, look: impl Fn(&str) -> bool) -> bool;
}

/// A directory on the disk.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    writes: bool,
}

impl Lookups for Directory {
    fn existing(&self) -> Self {
        let path = self.path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(&self.path);
        Self { path: path.to_owned(), writes: self.writes }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    }

    fn has(&self, name: &str) -> bool {
        self.path.join(name).symlink_metadata().is_ok()
    }

    fn with_file(&self, sample: &str, look: impl Fn(&str) -> bool) -> bool {
        if !self.writes {
            return false;
        }
        // Listings pass it over, and sweeps remove it after a crash.
        let name = unfinished_name(sample);
        let made = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(&self.path);
        match made {
            Ok(_file) => look(&name),
            // Then the copies fail, too, or nothing there has such a name.
            Err(error) => {
                tracing::debug!(directory = %self.path.display(), %error, "no file could be made to see what becomes of names");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::*;

    /// A directory that has files by what `fold` makes of their names.
    #[derive(Clone)]
    struct Folder {
        fold: fn(&str) -> String,
        files: Rc<RefCell<BTreeMap<String, String>>>,
        is_read_only: bool,
        made: Rc<Cell<u32>>,
    }

    fn folder(fold: fn(&str) -> String, names: &[&str]) -> Folder {
        let files = names.iter().map(|name| (fold(name), (*name).to_owned())).collect();
        Folder { fold, files: Rc::new(RefCell::new(files)), is_read_only: false, made: Rc::default() }
    }

    impl Lookups for Folder {
        fn existing(&self) -> Self {
            self.clone()
        }

        fn names(&self) -> impl Iterator<Item = String> {
            self.files.borrow().values().cloned().collect::<Vec<_>>().into_iter()
        }

        fn has(&self, name: &str) -> bool {
            self.files.borrow().contains_key(&(self.fold)(name))
        }

        fn with_file(&self, sample: &str, look: impl Fn(&str) -> bool) -> bool {
            if self.is_read_only {
                return false;
            }
            self.made.set(self.made.get() + 1);
            let name = format!(".made-{sample}");
            self.files.borrow_mut().insert((self.fold)(&name), name.clone());
            let answer = look(&name);
            self.files.borrow_mut().remove(&(self.fold)(&name));
            answer
        }
    }

    const APART: fn(&str) -> String = str::to_owned;
    const CASE: fn(&str) -> String = str::to_lowercase;
    const FORMS: fn(&str) -> String = |name| name.nfd().collect();

    #[test]
    fn a_directory_is_asked_once_by_names_that_it_has_or_by_a_file() {
        for (fold, names, folds_case, folds_forms, made) in [
            (APART, &["1", "a"][..], false, false, 1),
            (APART, &["1", "a", "A", "e\u{301}"], false, false, 0),
            (APART, &[], false, false, 2),
            (CASE, &["1", "Ab"], true, true, 0),
            (CASE, &["1"], true, true, 1),
            (FORMS, &["a", "\u{e9}"], false, true, 0),
            (FORMS, &["a"], false, true, 1),
        ] {
            let names = DirectoryNames::of(folder(fold, names));
            for _ in 0..2 {
                assert_eq!(names.folded("README").is_some(), folds_case, "{names:?}");
                assert_eq!(names.folded("\u{e9}").is_some(), folds_forms, "{names:?}");
            }
            assert_eq!(names.asked.made.get(), made, "{names:?}");
        }
        let read_only = Folder { is_read_only: true, ..folder(CASE, &[]) };
        assert_eq!(DirectoryNames::of(read_only).folded("README"), None, "nothing tells");
    }

    impl std::fmt::Debug for Folder {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}", self.files.borrow())
        }
    }

    #[test]
    fn names_that_a_file_system_may_take_for_one_are_one() {
        let names = DirectoryNames::of(folder(CASE, &["a"]));
        let is_one = |one: &str, other: &str| names.folded(one) == names.folded(other);
        for (one, other) in [
            ("IMG.jpg", "img.JPG"),
            ("D/x", "d/x"),
            ("\u{c9}t\u{e9}", "e\u{301}te\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{212a}", "k"),
            ("a\u{200d}b", "ab"),
            ("a./b ", "a/b"),
        ] {
            assert!(is_one(one, other), "{one} {other}");
        }
        assert!(!is_one("a", "b") && !is_one("a/b", "ab") && !is_one("e", "\u{e9}"));
        let forms = DirectoryNames::of(folder(FORMS, &["a"]));
        assert_eq!(forms.folded("\u{e9}"), forms.folded("e\u{301}"));
        assert_eq!(forms.folded("a"), None);
        assert_ne!(forms.folded("\u{c9}"), forms.folded("\u{e9}"));
    }

    /// The disks of other systems may fold names.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_that_tells_names_apart_stays_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        for target in [root.path().join("new/dir"), root.path().to_owned()] {
            let names = DirectoryNames::below(&target, true);
            assert_eq!((names.folded("README"), names.folded("\u{e9}")), (None, None));
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
