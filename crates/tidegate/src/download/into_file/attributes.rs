//! Attributes of an object that a downloaded file is given: its time, its permissions.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::backend::local::Publish;
use crate::download::source::ObjectSource;
use crate::types::error::Result;
use crate::types::object::{FileAttributes, Object};

/// Which attributes a file is given. They are independent: a preserved time goes before the object's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenAttributes {
    /// The time at which the store last changed the object.
    pub(super) modified: bool,
    /// The time and the permissions in the object's user metadata.
    pub(super) preserved: bool,
    /// The object's time in a listing, which may be more precise than that of an answer.
    pub(super) listed: Option<SystemTime>,
}

impl GivenAttributes {
    /// The object with its user metadata, if that is needed and did not come with the bytes. Asks the store for it, and
    /// fails if the object was replaced meanwhile.
    pub(super) async fn described(self, source: &ObjectSource, object: Object) -> Result<Object> {
        if !self.preserved || source.sends_metadata() {
            return Ok(object);
        }
        let described =
            source.head(Some(&object)).await.map_err(|failure| source.failed(failure, object.size))?;
        Ok(Object { attributes: described.attributes, ..object })
    }

    /// The same time with the fraction of its second that the listing has.
    fn with_fraction(self, time: SystemTime) -> SystemTime {
        let whole = |time: SystemTime| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs());
        let is_whole = time.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == 0);
        self.listed.filter(|listed| is_whole && whole(*listed) == whole(time)).unwrap_or(time)
    }

    /// How the file of this object is published.
    pub(super) fn publish(self, how: Publish, object: &Object) -> Publish {
        let preserved = match self.preserved {
            true => FileAttributes::from_metadata(&object.attributes.metadata).0,
            false => FileAttributes::default(),
        };
        let modified = object.modified.filter(|_| self.modified).map(|time| self.with_fraction(time));
        let modified = preserved.modified.or(modified);
        Publish { modified, permissions: preserved.permissions, ..how }
    }
}

#[cfg(test)]
mod tests {
    // The rest of this module tests files; this test needs none.
    #[test]
    fn a_listing_adds_the_fraction_of_the_same_second_only() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let gives = |listed| super::GivenAttributes { listed, ..Default::default() };
        for (listed, answered, expected) in [
            (Some(5300), 5000, 5300),
            (Some(6000), 5000, 5000),
            (Some(4900), 5000, 5000),
            (Some(5300), 5700, 5700),
            (None, 5000, 5000),
        ] {
            let time = gives(listed.map(at)).with_fraction(at(answered));
            assert_eq!(time, at(expected), "{listed:?} {answered}");
        }
    }

    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::backend::local::Local;
    use crate::{Store, Tidegate};

    const TIME: Duration = Duration::new(1_000_000_000, 123_456_789);

    fn facts(path: &Path) -> (SystemTime, u32) {
        let found = fs::metadata(path).unwrap();
        (found.modified().unwrap(), found.permissions().mode() & 0o7777)
    }

    async fn stored(size: usize, metadata: &[(&str, &str)]) -> Store {
        let store = Tidegate::builder().build().unwrap().open("memory://b").await.unwrap();
        let mut builder = store.writer("k");
        for (name, value) in metadata {
            builder = builder.metadata(*name, *value);
        }
        let mut writer = builder.await.unwrap();
        writer.write_bytes(vec![1; size].into()).await.unwrap();
        writer.finish().await.unwrap();
        store
    }

    /// The ways of a download: a small object in one go, over an existing file, synced, and a large one.
    #[tokio::test]
    async fn a_file_has_its_time_and_permissions_when_it_has_its_name() {
        for (size, hint, is_there, sync) in [
            (10, true, false, false),
            (10, true, true, false),
            (10, true, false, true),
            (3 << 20, false, false, false),
        ] {
            let store = stored(size, &[("mtime", "1000000000.123456789"), ("mode", "104602")]).await;
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("out");
            if is_there {
                fs::write(&path, "old").unwrap();
            }
            let download = store.download("k", &path).preserve(true).keep_modified(true).sync(sync);
            let download = if hint { download.size_hint(size as u64) } else { download };
            assert_eq!(download.await.unwrap().size, size as u64);
            assert_eq!(facts(&path), (UNIX_EPOCH + TIME, 0o602), "{size} {is_there} {sync}");
        }
    }

    #[tokio::test]
    async fn what_the_metadata_lacks_is_as_without_it() {
        let store = stored(10, &[("mtime", "yesterday"), ("mode", "40755")]).await;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("other"), "").unwrap();
        let object = store.download("k", at("kept")).preserve(true).keep_modified(true).await.unwrap();
        store.download("k", at("new")).preserve(true).await.unwrap();
        let rights = facts(&at("other")).1;
        assert_eq!(facts(&at("kept")), (object.modified.unwrap(), rights));
        assert!(facts(&at("new")).0 >= facts(&at("other")).0);
        assert_eq!(facts(&at("new")).1, rights);
    }

    /// Without the option, metadata decides about nothing.
    #[tokio::test]
    async fn nothing_is_preserved_unless_asked_for() {
        let store = stored(10, &[("mtime", "1"), ("mode", "100777")]).await;
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("out"), directory.path().join("other"));
        fs::write(&other, "").unwrap();
        store.download("k", &path).await.unwrap();
        assert_eq!(facts(&path).1, facts(&other).1);
        assert!(facts(&path).0 > UNIX_EPOCH + TIME);
    }

    #[tokio::test]
    async fn an_upload_keeps_them_and_the_users_own_metadata_wins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH + TIME).unwrap();
        let store = stored(0, &[]).await;
        let metadata = async |key: &str| store.head(key).await.unwrap().attributes.metadata;
        store.writer("a").preserve(true).upload(&path).await.unwrap();
        let expected = [("mtime", "1000000000.123456789"), ("mode", "100640")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(metadata("a").await, expected.clone().into());
        store.writer("b").metadata("MTime", "5").preserve(true).upload(&path).await.unwrap();
        assert_eq!(metadata("b").await, [("mtime".into(), "5".into()), expected[1].clone()].into());
        store.writer("c").upload(&path).await.unwrap();
        assert!(metadata("c").await.is_empty());
    }

    /// In one request, and in parts.
    #[tokio::test]
    async fn a_copy_to_a_disk_is_as_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.store(Arc::new(Local::new(directory.path())));
        for size in [10, 100_000] {
            fs::write(&source, vec![1; size]).unwrap();
            fs::set_permissions(&source, fs::Permissions::from_mode(0o604)).unwrap();
            fs::File::options().write(true).open(&source).unwrap().set_modified(UNIX_EPOCH + TIME).unwrap();
            store.writer("copy").part_size(20_000).preserve(true).upload(&source).await.unwrap();
            assert_eq!(facts(&directory.path().join("copy")), (UNIX_EPOCH + TIME, 0o604), "{size}");
            store.writer("other").part_size(20_000).upload(&source).await.unwrap();
            assert!(facts(&directory.path().join("other")).0 > UNIX_EPOCH + TIME);
        }
    }
}
