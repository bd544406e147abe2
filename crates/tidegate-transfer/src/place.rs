//! Where objects are: the store and the key of each, and how the stores of locations are opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use tidegate::backend::local::Local;
use tidegate::backend::{Backend as _, WriteOptions};
use tidegate::location::{Location, local_root};
use tidegate::text::printable;
use tidegate::{ErrorKind, Store, Tidegate};

use crate::error::{Error, Result};
use crate::links::{LinkRules, WriteLinks};

/// Why no object can have this name, or no file; `None` if one can.
pub(crate) fn why_nameless(name: &str, is_file: bool) -> Option<&'static str> {
    match name {
        "" => Some("an object needs a name, and this one has none there"),
        _ if is_file && name.ends_with('/') => Some("a file's name can't end with a slash"),
        _ => None,
    }
}

/// The place of one object, which may not exist yet: its store and key.
#[derive(Clone, Debug)]
pub struct Place {
    /// The store.
    pub store: Store,
    /// The key in the store.
    pub key: String,
    /// What a write does where a symbolic link is in its place.
    pub links: WriteLinks,
}

impl Place {
    /// The place of an object that the user named: a write to it follows links.
    pub fn named(store: Store, key: impl Into<String>) -> Self {
        Self { store, key: key.into(), links: WriteLinks::Follow }
    }

    /// The URL, as users write it.
    pub fn url(&self) -> String {
        format!("{}/{}", self.store.location(), self.key)
    }

    /// The path of the local file.
    ///
    /// # Errors
    /// If the key would lead out of its directory: `a/../../b` is a valid key, but the path of another file.
    pub fn file(&self) -> Result<PathBuf> {
        let root = local_root(&self.store.location());
        let checked = Local::new(&root).check(&self.key, Some(&WriteOptions::default()));
        checked.map_err(|fault| Error::Failed(format!("{}: {fault}", self.url())))?;
        Ok(root.join(&self.key))
    }

    /// Fails if the store has a directory of this name: a write would replace it, and what lies below it stays.
    pub(crate) async fn refuse_directory(&self) -> Result {
        match self.is_directory().await? {
            true => {
                let message =
                    format!("{}: this is a directory: end it with a slash to copy into it", self.url());
                Err(Error::Refused(printable(&message).into_owned()))
            }
            false => Ok(()),
        }
    }

    /// Whether the store has a directory of this name. False where the caller may not read: then nothing is known, and the
    /// write goes ahead.
    pub(crate) async fn is_directory(&self) -> Result<bool> {
        match self.store.is_directory(&self.key).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(false),
            asked => Ok(asked?),
        }
    }

    /// Whether the place is a file on this machine.
    pub fn is_local(&self) -> bool {
        self.store.is_local()
    }
}

/// The URL without the profile by which its store is reached: the same for the same object.
pub(crate) fn address(url: String) -> String {
    url.parse().map_or(url, |location: Location| location.without_profile().to_string())
}

/// Opens the stores of locations. An engine opens the bucket of each URL; a program on top may know more ways.
pub trait OpenStore: Send + Sync {
    /// The store of `location`, which is no local path, and the key exactly as the location has it.
    fn open<'a>(&'a self, location: &'a Location) -> BoxFuture<'a, Result<(Store, String)>>;
}

impl OpenStore for Tidegate {
    fn open<'a>(&'a self, location: &'a Location) -> BoxFuture<'a, Result<(Store, String)>> {
        Box::pin(async move {
            let Some((scheme, bucket, key)) = location.in_store() else {
                return Err(Error::Refused(format!("{location}: this is no URL of a store")));
            };
            Ok((Tidegate::open(self, format!("{scheme}://{bucket}")).await?, key.to_owned()))
        })
    }
}

/// The stores of one side of an operation: an engine, and how it opens locations.
#[derive(Clone)]
pub struct Stores {
    tide: Tidegate,
    opener: Arc<dyn OpenStore>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stores").field("tide", &self.tide).finish_non_exhaustive()
    }
}

impl From<&Tidegate> for Stores {
    fn from(tide: &Tidegate) -> Self {
        Self { tide: tide.clone(), opener: Arc::new(tide.clone()) }
    }
}

impl Stores {
    /// Directories are stores of `tide`; `opener` opens all others.
    pub fn new(tide: &Tidegate, opener: Arc<dyn OpenStore>) -> Self {
        Self { tide: tide.clone(), opener }
    }

    pub(crate) fn tide(&self) -> &Tidegate {
        &self.tide
    }

    /// The object that `location` names.
    pub(crate) async fn object(&self, location: &Location) -> Result<Place> {
        self.object_with(location, LinkRules::default()).await
    }

    /// The same, with these rules for links in the directory of a file.
    ///
    /// # Errors
    /// If the location names no object, or its bucket cannot be opened.
    pub async fn object_with(&self, location: &Location, below: LinkRules) -> Result<Place> {
        let nameless = || Error::Refused(format!("{location}: this is no object: name one in it"));
        let place = match location {
            Location::Local { path } if location.ends_with_slash() && !path.exists() => {
                return Err(Error::nothing_at(location, "there is no such directory"));
            }
            Location::Local { path } => {
                let name = path.file_name().ok_or_else(nameless)?;
                let key = name.to_str().ok_or_else(|| Error::Refused(not_utf8(path)))?.to_owned();
                let directory = path.parent().unwrap_or(Path::new("."));
                Place { store: self.files(directory, below), key, links: below.writes }
            }
            _ => {
                let (store, key) = self.opener.open(location).await?;
                Place { store, key, links: WriteLinks::Follow }
            }
        };
        // A store may have an object whose key ends with a slash, but a local path that ends with a slash is a
        // directory.
        if place.key.is_empty() || (location.ends_with_slash() && matches!(location, Location::Local { .. }))
        {
            return Err(nameless());
        }
        Ok(place)
    }

    /// The store and the key prefix of the tree that `location` names: a bucket, all keys below a key, or a
    /// directory with these rules for the links below it. The prefix is empty or ends with a slash.
    ///
    /// # Errors
    /// If the bucket cannot be opened.
    pub async fn tree_with(&self, location: &Location, links: LinkRules) -> Result<(Store, String)> {
        if let Location::Local { path } = location {
            return Ok((self.files(path, links), String::new()));
        }
        let (store, mut prefix) = self.opener.open(location).await?;
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Ok((store, prefix))
    }

    /// The directory at `path` as a store, with these rules for the links below it.
    pub fn files(&self, path: &Path, LinkRules { lists, writes }: LinkRules) -> Store {
        let local = Local::new(path).links(lists);
        self.tide.store(Arc::new(match writes {
            WriteLinks::Follow => local,
            WriteLinks::Refuse => local.refuse_links(),
        }))
    }
}

/// Why a file cannot become an object.
pub(crate) fn not_utf8(path: &Path) -> String {
    format!("{}: its name is not UTF-8, which keys are", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_file_that_was_named() {
        use std::os::unix::ffi::OsStrExt;
        let tide = Tidegate::builder().build().unwrap();
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/odd\xff"));
        for (root, file) in [
            (Path::new("/"), PathBuf::from("/x.bin")),
            (Path::new("/a"), "/a/x.bin".into()),
            (Path::new("/a/"), "/a/x.bin".into()),
            (Path::new("s3:b"), "./s3:b/x.bin".into()),
            (odd, odd.join("x.bin")),
        ] {
            let place = Place::named(tide.store(Arc::new(Local::new(root))), "x.bin");
            assert!(place.is_local());
            assert_eq!(place.file().unwrap(), file);
            assert_eq!(local_root(&place.url()), file, "its URL names it as well");
        }
    }
}
