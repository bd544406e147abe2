//! Lists the files below a local directory.

use std::path::{Path, PathBuf};

use futures::{Stream, StreamExt};
use tidegate::Object;
use tidegate::backend::local::UnlistedName;
use tidegate::backend::{Entry, OtherKind};
use tidegate::text::printable;

use crate::ahead;
use crate::error::Error;
use crate::links::Links;
use crate::resolved::resolved;
use crate::two_addresses::{DevicePath, DirectoryId, id_of, overlap};

/// A file, and its description as an object whose key is its path below the directory.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) object: Object,
}

/// An entry that is no object.
#[derive(Debug)]
pub(crate) enum Missed {
    /// The entry could not be read, or has no key.
    Failed(Error),
    /// A device, a named pipe, a socket, or a link that is not copied.
    LeftOut(PathBuf, OtherKind),
    /// The URL of an object without content whose key ends with a slash. Some tools leave one in place of a directory; no
    /// file can have its name.
    Marker(String),
}

impl Missed {
    /// Whether this is a single name that can be passed over in a target: a link that leads nowhere, something that is no
    /// file, or a name that is no key. Otherwise there is more that was not listed: it is not missing, and must be neither overwritten nor
    /// removed.
    pub(crate) fn is_harmless(&self) -> bool {
        match self {
            Self::LeftOut(..) | Self::Marker(_) => true,
            Self::Failed(Error::Store(error)) => is_name_without_key(error),
            Self::Failed(failure) => !matches!(failure, Error::Refused(_) | Error::Unsorted { .. }),
        }
    }
}

/// The failure of a link to a file in a directory that the command writes, or is not to read.
fn refused_link(link: &Path, directory: &Path) -> Error {
    let (link, directory) = (link.display().to_string(), directory.display().to_string());
    Error::Failed(format!(
        "{}: not copied: this is a link to a file in {}, which may change before it is read: add --links preserve, or \
         --links skip",
        printable(&link),
        printable(&directory)
    ))
}

/// Whether a listing's error is about one name that can be that of no object.
fn is_name_without_key(error: &tidegate::Error) -> bool {
    matches!(unlisted_name(error), Some(UnlistedName::NotUtf8 { .. }))
}

/// The one name that a listing's error is about; `None` if it is about more.
pub(crate) fn unlisted_name(error: &tidegate::Error) -> Option<&UnlistedName> {
    std::error::Error::source(error)?.downcast_ref()
}

/// The directory of the other tree of a command, by whatever path a walk comes there.
#[derive(Clone, Debug)]
pub(crate) struct OtherTree {
    path: PathBuf,
    resolved: PathBuf,
    id: DirectoryId,
    on_device: DevicePath,
    /// Whether the command writes it.
    is_written: bool,
}

impl OtherTree {
    /// `None` if there is no such directory yet.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Some(Self {
            path: path.to_owned(),
            resolved: resolved(path),
            id: id_of(&path.metadata().ok()?),
            on_device: DevicePath::of(path),
            is_written: false,
        })
    }

    /// The same tree, which the command writes.
    pub(crate) fn written(self) -> Self {
        Self { is_written: true, ..self }
    }

    /// Whether the command writes it.
    pub(crate) fn is_written(&self) -> bool {
        self.is_written
    }

    /// The path of its directory without links.
    pub(crate) fn resolved(&self) -> &Path {
        &self.resolved
    }

    /// The failure of a file that is a link into this tree: what it leads to may be replaced before the link is read.
    /// `within` is the tree of the file, if that is in this tree: nothing is written there.
    fn refuse_link(&self, file: &FoundFile, within: Option<&DevicePath>) -> Option<Error> {
        if !self.is_written || !file.path.is_symlink() {
            return None;
        }
        let end = DevicePath::of(&file.path);
        if !end.is_in(&self.on_device) || within.is_some_and(|within| end.is_in(within)) {
            return None;
        }
        Some(refused_link(&file.path, &self.path))
    }

    /// Whether a directory is this tree, or a link to a directory of it.
    fn is_at(&self, directory: &Path) -> bool {
        match directory.symlink_metadata() {
            Ok(found) if found.is_symlink() => DevicePath::of(directory).is_in(&self.on_device),
            Ok(found) => id_of(&found) == self.id,
            Err(_) => false,
        }
    }
}

/// The same files, up to the first that is in the other tree: a bind mount leads there. Its copy could replace what is
/// still to be copied, and its removal would be that of the other tree's file. Links to files of a tree that is written
/// fail.
pub(crate) fn without(
    files: impl Stream<Item = Result<FoundFile, Missed>>,
    root: PathBuf,
    other: Option<OtherTree>,
) -> impl Stream<Item = Result<FoundFile, Missed>> {
    let mut last = String::new();
    let own = DevicePath::of(&root);
    let within = other.as_ref().is_some_and(|other| own.is_in(&other.on_device)).then_some(own);
    files.scan(false, move |ended, file| {
        let leads_there = match (&other, &file) {
            (Some(other), Ok(file)) => leads_to(other, &root, &mut last, &file.object.key)
                .or_else(|| other.refuse_link(file, within.as_ref())),
            _ => None,
        };
        let file = match leads_there {
            Some(failure) => Err(Missed::Failed(failure)),
            None => file,
        };
        let before = *ended;
        *ended = matches!(&file, Err(Missed::Failed(Error::Refused(_))));
        std::future::ready((!before).then_some(file))
    })
}

/// The failure if a directory of `key` is the other tree. `last` is the key before this one, whose directories are
/// known to be others.
pub(crate) fn leads_to(other: &OtherTree, root: &Path, last: &mut String, key: &str) -> Option<Error> {
    let ends = key.match_indices('/').map(|(at, _)| at);
    let mut new = ends.filter(|end| last.get(..=*end) != key.get(..=*end));
    let Some(end) = new.find(|end| other.is_at(&root.join(&key[..*end]))) else {
        key.clone_into(last);
        return None;
    };
    Some(overlap(&root.join(&key[..end]), &other.path))
}

/// The files among the entries of a listing of the directory `root`, without those that `except` leaves out. What becomes
/// of links is up to the listing; a broken link is a failure. A link into a directory of `journals` ends the walk.
pub(crate) fn files<Entries>(
    entries: Entries,
    root: PathBuf,
    except: Excepted,
    journals: &[PathBuf],
    links: Links,
) -> impl Stream<Item = Result<FoundFile, Missed>> + use<Entries>
where
    Entries: Stream<Item = tidegate::Result<Entry>> + Send + 'static,
{
    // A directory that can't be read holds no journal of this command; opening the journal reports the error.
    let journals = journals.iter().filter_map(|journal| journal.canonicalize().ok()).collect();
    let mut walk = FileWalk::new(root, except, journals, links);
    let found = ahead::ahead(entries).filter_map(move |entry| {
        let found = walk.look_at(entry);
        std::future::ready(found)
    });
    // The walk ends after the first entry that refuses the whole copy.
    found.scan(false, |ended, found| {
        let before = *ended;
        *ended = matches!(&found, Err(Missed::Failed(Error::Refused(_))));
        std::future::ready((!before).then_some(found))
    })
}

/// The directories that a walk leaves out, as absolute paths without links, also if links lead there.
pub(crate) struct Excepted {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) links: LinkIntoExcepted,
}

/// What becomes of a followed link to a file in a directory that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkIntoExcepted {
    /// It fails: the file may change before the link is read.
    Fails,
    /// It is a file as others.
    IsFile,
}

/// What a walk needs to know of each entry.
struct FileWalk {
    root: PathBuf,
    /// The directories to leave out: their key prefixes, and their paths.
    except_below: Vec<String>,
    except: Vec<PathBuf>,
    links_into_except: LinkIntoExcepted,
    journals: Vec<PathBuf>,
    links: Links,
    /// The last link into a directory to leave out: the files behind it come one after another.
    last_link: Option<PathBuf>,
}

impl FileWalk {
    fn new(root: PathBuf, except: Excepted, journals: Vec<PathBuf>, links: Links) -> Self {
        let Excepted { directories: mut except, links: links_into_except } = except;
        let except_below = except.iter().filter_map(|except| key_below(&root, except)).collect();
        // A directory that holds the root does not leave the root out.
        except.retain(|except| !resolved(&root).starts_with(except));
        Self { root, except_below, except, links_into_except, journals, links, last_link: None }
    }

    fn look_at(&mut self, entry: tidegate::Result<Entry>) -> Option<Result<FoundFile, Missed>> {
        let entry = match entry {
            Ok(entry) if self.except_below.iter().any(|except| entry.key().starts_with(except)) => {
                return None;
            }
            Ok(entry) => entry,
            Err(error) => return Some(Err(Missed::Failed(error.into()))),
        };
        let path = self.root.join(entry.key());
        // By following links, the walk reaches directories under other names.
        if self.links == Links::Follow
            && !self.except.is_empty()
            && let Ok(canonical) = path.canonicalize()
            && let Some(except) = self.except.iter().find(|except| canonical.starts_with(except))
        {
            match self.links_into_except {
                _ if !path.is_symlink() => {
                    if self.last_link.as_ref().is_some_and(|link| path.starts_with(link)) {
                        return None;
                    }
                    self.last_link = leads_into(except, &path, &self.root);
                    let link = self.last_link.clone()?;
                    return Some(Err(Missed::LeftOut(link, OtherKind::LinkToDirectory)));
                }
                LinkIntoExcepted::Fails => return Some(Err(Missed::Failed(refused_link(&path, except)))),
                LinkIntoExcepted::IsFile => {}
            }
        }
        if let Some(failure) = self.refused(&path) {
            return Some(Err(Missed::Failed(failure)));
        }
        Some(match entry {
            Entry::Object(object) => Ok(FoundFile { path, object }),
            Entry::Other { kind: kind @ OtherKind::BrokenLink, .. } => {
                Err(Missed::Failed(Error::Failed(format!("{}: this is {kind}", path.display()))))
            }
            Entry::Other { kind, .. } => Err(Missed::LeftOut(path, kind)),
            _ => return None,
        })
    }

    /// The error for a link that leads into a journal directory: journals change while they are copied, and so would
    /// the journals of those copies.
    fn refused(&self, path: &Path) -> Option<Error> {
        // Without links on the way, a file lies below the directory that the user named, which was checked before.
        let may_be_elsewhere = match self.links {
            Links::Files => path.is_symlink() && !path.is_dir(),
            Links::Skip | Links::Preserve => false,
            Links::Follow => true,
        };
        if self.journals.is_empty() || !may_be_elsewhere {
            return None;
        }
        let canonical = path.canonicalize().ok()?;
        let journal = self.journals.iter().find(|journal| canonical.starts_with(journal))?;
        let (path, journal) = (path.display(), journal.display());
        Some(Error::Refused(format!(
            "--journal {journal}: {path} leads to it, which is to be copied: choose another, or copy without that link"
        )))
    }
}

/// The highest name above `path` and below `root` that leads into the directory `except`: a link, or the directory itself.
fn leads_into(except: &Path, path: &Path, root: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1).take_while(|above| *above != root);
    above.filter(|above| resolved(above).starts_with(except)).last().map(Path::to_owned)
}

/// The key prefix of the directory `path` below `root`; `None` if it is not below.
fn key_below(root: &Path, path: &Path) -> Option<String> {
    let root = root.canonicalize().ok()?;
    let below = path.strip_prefix(root).ok()?.to_str()?;
    Some(format!("{below}/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures::StreamExt;

    use super::*;

    fn all(except: impl IntoIterator<Item = PathBuf>) -> Excepted {
        Excepted { directories: except.into_iter().collect(), links: LinkIntoExcepted::Fails }
    }

    fn store(root: &Path) -> tidegate::Store {
        let tide = tidegate::Tidegate::builder().build().unwrap();
        tide.store(std::sync::Arc::new(tidegate::backend::local::Local::new(root)))
    }

    async fn keys(root: &Path, except: Option<PathBuf>) -> (Vec<String>, Vec<Missed>) {
        keys_beside(root, except, &[]).await
    }

    async fn keys_beside(
        root: &Path,
        except: Option<PathBuf>,
        journals: &[PathBuf],
    ) -> (Vec<String>, Vec<Missed>) {
        let (mut keys, mut missed) = (Vec::new(), Vec::new());
        let store = store(root);
        let files = files(store.list(""), root.to_owned(), all(except), journals, Links::Files);
        let mut files = Box::pin(files);
        while let Some(file) = files.next().await {
            match file {
                Ok(found) => keys.push(found.object.key),
                Err(file) => missed.push(file),
            }
        }
        keys.sort();
        (keys, missed)
    }

    #[tokio::test]
    async fn links_to_files_are_files() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/file"), "1").unwrap();
        symlink("a/b/file", root.path().join("link")).unwrap();
        let (keys, missed) = keys(root.path(), None).await;
        assert_eq!(keys, ["a/b/file", "link"]);
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[tokio::test]
    async fn links_to_directories_are_left_out_and_broken_ones_fail() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/file"), "1").unwrap();
        fs::write(elsewhere.path().join("other"), "1").unwrap();
        symlink("..", root.path().join("a/up")).unwrap();
        symlink(elsewhere.path(), root.path().join("out")).unwrap();
        symlink("nowhere", root.path().join("broken")).unwrap();
        let (keys, missed) = keys(root.path(), None).await;
        assert_eq!(keys, ["a/file"]);
        let [up, broken, out] = &missed[..] else { panic!("{missed:?}") };
        for (missed, name) in [(up, "a/up"), (out, "out")] {
            let Missed::LeftOut(path, OtherKind::LinkToDirectory) = missed else { panic!("{missed:?}") };
            assert_eq!(*path, root.path().join(name));
        }
        let Missed::Failed(Error::Failed(sentence)) = broken else { panic!("{broken:?}") };
        assert!(sentence.contains("broken: this is a symbolic link that leads nowhere"), "{sentence}");
    }

    #[tokio::test]
    async fn names_that_are_no_keys_fail_and_the_others_are_found() {
        use std::os::unix::ffi::OsStrExt;
        let root = tempfile::tempdir().unwrap();
        let odd = root.path().join(std::ffi::OsStr::from_bytes(b"m\xff"));
        for path in [root.path().join("a"), odd, root.path().join("z")] {
            fs::write(path, "1").unwrap();
        }
        let (keys, missed) = keys(root.path(), None).await;
        assert_eq!(keys, ["a", "z"]);
        let [Missed::Failed(failure)] = &missed[..] else { panic!("{missed:?}") };
        assert!(failure.to_string().contains("not UTF-8"), "{failure:?}");
    }

    #[tokio::test]
    async fn the_exception_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("store")).unwrap();
        fs::write(root.path().join("store/file"), "1").unwrap();
        fs::write(root.path().join("file"), "1").unwrap();
        let except = root.path().join("store").canonicalize().unwrap();
        assert_eq!(keys(root.path(), Some(except)).await.0, ["file"]);
    }

    #[tokio::test]
    async fn followed_links_lead_neither_to_what_is_left_out_nor_to_journals() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| elsewhere.path().join(name);
        for name in ["store/file", "journal/1.journal", "z"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "1").unwrap();
        }
        symlink(elsewhere.path(), root.path().join("link")).unwrap();
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let local = tidegate::backend::local::Local::new(root.path()).links(Links::Follow.of_source().lists);
        let store = tide.store(std::sync::Arc::new(local));
        let except = vec![at("store").canonicalize().unwrap()];
        let walk = |journals: &[PathBuf]| {
            files(store.list(""), root.path().to_owned(), all(except.clone()), journals, Links::Follow)
        };
        let found: Vec<_> = walk(&[]).collect().await;
        let [Ok(journal), Err(Missed::LeftOut(left_out, _)), Ok(last)] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&*journal.object.key, &*last.object.key), ("link/journal/1.journal", "link/z"));
        assert_eq!(*left_out, root.path().join("link/store"));
        let found: Vec<_> = walk(&[at("journal")]).collect().await;
        assert!(matches!(&found[..], [Err(Missed::Failed(Error::Refused(_)))]), "{found:?}");
    }

    #[tokio::test]
    async fn a_walk_ends_where_a_mount_leads_into_the_other_tree() {
        let (root, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a", "b/c", "m/x", "z"] {
            fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
            fs::write(root.path().join(name), "1").unwrap();
        }
        let walk = |other: &Path| {
            let files =
                files(store(root.path()).list(""), root.path().to_owned(), all([]), &[], Links::Files);
            without(files, root.path().to_owned(), OtherTree::at(other)).collect::<Vec<_>>()
        };
        assert_eq!(walk(target.path()).await.len(), 4);
        // The directory itself stands for a mount: both have its device and inode.
        let found = walk(&root.path().join("m")).await;
        let [Ok(_), Ok(_), Err(Missed::Failed(Error::Refused(why)))] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(why.contains("overlap: they are one directory"), "{why}");
    }

    #[tokio::test]
    async fn a_link_to_where_journals_are_ends_the_walk() {
        let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = elsewhere.path().join("disk/journal");
        fs::create_dir_all(&journal).unwrap();
        fs::write(journal.join("1.journal"), "1").unwrap();
        fs::write(elsewhere.path().join("disk/file"), "1").unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        let link = root.path().join("a/link");
        symlink(elsewhere.path().join("disk/journal/1.journal"), &link).unwrap();
        let (keys, missed) = keys_beside(root.path(), None, std::slice::from_ref(&journal)).await;
        assert!(keys.is_empty(), "{keys:?}");
        let [Missed::Failed(Error::Refused(sentence))] = &missed[..] else { panic!("{missed:?}") };
        for path in [&link, &journal] {
            assert!(sentence.contains(path.to_str().unwrap()), "{sentence}");
        }
        fs::remove_file(&link).unwrap();
        // A link to a directory is not entered.
        symlink(elsewhere.path().join("disk"), &link).unwrap();
        let (keys, missed) = keys_beside(root.path(), None, std::slice::from_ref(&journal)).await;
        assert!(keys.is_empty() && matches!(&missed[..], [Missed::LeftOut(..)]), "{keys:?} {missed:?}");
        fs::remove_file(&link).unwrap();
        symlink(elsewhere.path().join("disk/file"), &link).unwrap();
        let (keys, missed) = keys_beside(root.path(), None, &[journal]).await;
        assert!(keys == ["a/link"] && missed.is_empty(), "{keys:?} {missed:?}");
    }
}
