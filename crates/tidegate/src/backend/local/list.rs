//! The tree below the root in key order.
//!
//! Keys are ordered by their bytes, `/` among them, as S3 orders them: `a-b` comes before `a/b`, and
//! `a.b` too, whatever order the directory has. So a directory is sorted as its name with a slash
//! behind it, and all that is in it follows there. Held are the names of the directories between the
//! root and where the walk is, and no more.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::fault::{fault, invalid};
use super::{target, temp};
use crate::backend::{Entry, Fault, FaultKind, OpenSession};

/// Most entries of one hand-off.
const BATCH: usize = 256;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Objects { recursive: bool },
    Sessions,
}

#[expect(clippy::large_enum_variant, reason = "nearly all are entries, and none lives long")]
pub(super) enum Found {
    Entry(Entry),
    Session(OpenSession),
}

/// A walk through the tree, as far as it has come.
pub(super) struct Walk {
    root: PathBuf,
    prefix: String,
    want: Want,
    /// The directories from the root to where the walk is.
    levels: Vec<Level>,
    begun: bool,
    faults: Vec<Fault>,
}

struct Level {
    path: PathBuf,
    /// The key up to here: empty, or with a slash at its end.
    below: String,
    /// The names to come, in key order; those of directories end with a slash.
    names: std::vec::IntoIter<String>,
    /// Device and inode, by which a circle is noticed.
    id: (u64, u64),
}

impl Walk {
    /// Nothing is read before the first [`batch`](Self::batch). `None` where no key can have the prefix.
    pub(super) fn new(root: PathBuf, prefix: &str, want: Want) -> Option<Self> {
        let directories = prefix.rsplit_once('/').map(|(directories, _)| directories);
        if directories.is_some_and(|directories| target::fault_of(directories).is_some()) {
            return None;
        }
        let prefix = prefix.to_owned();
        Some(Self { root, prefix, want, levels: Vec::new(), begun: false, faults: Vec::new() })
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun && self.levels.is_empty()
    }

    /// What comes next. A directory that can't be read is an error among the entries; the walk goes on.
    pub(super) fn batch(&mut self) -> Vec<Result<Found, Fault>> {
        if !self.begun {
            self.begun = true;
            self.begin();
        }
        let mut batch = Vec::new();
        loop {
            batch.extend(self.faults.drain(..).map(Err));
            if batch.len() >= BATCH {
                return batch;
            }
            let Some(level) = self.levels.last_mut() else { return batch };
            match level.names.next() {
                Some(name) => batch.extend(self.look_at(&name)),
                None => {
                    self.levels.pop();
                }
            }
        }
    }

    fn begin(&mut self) {
        let below = match self.prefix.rfind('/') {
            Some(slash) => self.prefix[..=slash].to_owned(),
            None => String::new(),
        };
        if !self.root.is_dir() {
            // Also where the root can't be looked at; reading it says why.
            let read = fs::read_dir(&self.root).map(drop);
            self.faults.extend(read.err().map(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Fault::new(FaultKind::NoBucket, format!("there is no directory {}", self.root.display()))
                }
                io::ErrorKind::NotADirectory => {
                    invalid(format!("{} is not a directory", self.root.display()))
                }
                _ => fault(error, &self.root),
            }));
            return;
        }
        // What lies above counts for circles.
        let mut above = vec![self.root.clone()];
        above.extend(below.match_indices('/').map(|(slash, _)| self.root.join(&below[..slash])));
        above.pop();
        for path in above {
            let Ok(metadata) = fs::metadata(&path) else { return };
            let id = (metadata.dev(), metadata.ino());
            self.levels.push(Level { path, below: String::new(), names: Vec::new().into_iter(), id });
        }
        self.enter(self.root.join(&below), below);
    }

    /// Reads a directory's names. One that is not there (any more) has none.
    fn enter(&mut self, path: PathBuf, below: String) {
        let read = fs::metadata(&path).and_then(|metadata| {
            let id = (metadata.dev(), metadata.ino());
            if self.levels.iter().any(|level| level.id == id) {
                return Ok(None);
            }
            let names = self.names(&path, &below)?;
            Ok(Some(Level { path: path.clone(), below, names: names.into_iter(), id }))
        });
        match read {
            Ok(level) => self.levels.extend(level),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => self.faults.push(fault(error, &path)),
        }
    }

    fn names(&mut self, path: &Path, below: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let mut name = match entry.file_name().into_string() {
                Ok(name) => name,
                Err(name) => {
                    if self.want != Want::Sessions && self.leads_to_prefix(below, &name.to_string_lossy()) {
                        let file = path.join(name);
                        self.faults
                            .push(invalid(format!("{} is no key: its name is not UTF-8", file.display())));
                    }
                    continue;
                }
            };
            let file_type = entry.file_type()?;
            let directory = file_type.is_dir()
                || (file_type.is_symlink() && fs::metadata(entry.path()).is_ok_and(|found| found.is_dir()));
            if directory {
                name.push('/');
            } else if temp::is_temp(&name) != (self.want == Want::Sessions) {
                continue;
            }
            if self.leads_to_prefix(below, &name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether keys that begin so may begin with the prefix. (A session's key is not its file's name.)
    fn leads_to_prefix(&self, below: &str, name: &str) -> bool {
        let key = format!("{below}{name}");
        let file = !name.ends_with('/');
        key.starts_with(&self.prefix)
            || if file { self.want == Want::Sessions } else { self.prefix.starts_with(&key) }
    }

    fn look_at(&mut self, name: &str) -> Option<Result<Found, Fault>> {
        let level = self.levels.last()?;
        let (path, key) = (level.path.join(name), format!("{}{name}", level.below));
        if name.ends_with('/') {
            if self.want == (Want::Objects { recursive: false }) {
                return Some(Ok(Found::Entry(Entry::Prefix(key))));
            }
            self.enter(path, key);
            return None;
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return None,
            // Gone meanwhile, or a link to nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(Err(fault(error, &level.path))),
        };
        if self.want != Want::Sessions {
            return Some(Ok(Found::Entry(Entry::Object(target::describe(&key, &metadata)))));
        }
        let session =
            temp::session(&level.below, name).filter(|session| session.key.starts_with(&self.prefix))?;
        let started = metadata.created().or_else(|_| metadata.modified()).ok();
        // Whoever writes a file in one go holds its lock.
        let in_use = fs::File::open(&path).is_ok_and(|file| temp::is_locked(&file));
        Some(Ok(Found::Session(OpenSession::new(session).with_started(started).with_in_use(in_use))))
    }
}
