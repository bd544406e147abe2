use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

use bytes::Bytes;
use futures::TryStreamExt;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use tidegate_core::backend::memory::Memory;
use tidegate_core::backend::{OtherKind, PartOrigin, PartSource, Receipt};
use tidegate_core::memory::payload::SourceChanged;

const ALGORITHM: Algorithm = Algorithm::Crc64Nvme;

/// Names that unfinished files of ours do not have.
const NOT_UNFINISHED: [&str; 6] = [
    ".tidegate-.part",
    ".tidegate-0123456789ABCDEF-k.part",
    ".tidegate-0123456789abcdef-.part",
    ".tidegate-0123456789abcdefk.part",
    ".tidegate-note-k.part",
    ".tidegate-x.part",
];

struct Disk {
    directory: TempDir,
    store: Local,
}

fn disk() -> Disk {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = Local::new(directory.path().join("root"));
    Disk { directory, store }
}

impl Disk {
    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn file(&self, key: &str, bytes: &[u8]) {
        let path = self.root().join(key);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, bytes).expect("a file");
    }

    /// Every name below the root, unfinished files and directories among them.
    fn everything(&self) -> Vec<String> {
        fn walk(directory: &Path, below: &str, names: &mut Vec<String>) {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = format!("{below}{}", entry.file_name().to_string_lossy());
                if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                    walk(&entry.path(), &format!("{name}/"), names);
                    names.push(format!("{name}/"));
                } else {
                    names.push(name);
                }
            }
        }
        let mut names = Vec::new();
        walk(&self.root(), "", &mut names);
        names.sort();
        names
    }
}

fn payload(bytes: &[u8]) -> Payload {
    let pieces = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
    Payload::from_memory(pieces, Checksum::of(ALGORITHM, bytes))
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

fn create_only() -> WriteOptions {
    WriteOptions { create_only: true, ..WriteOptions::default() }
}

async fn read(store: &impl Backend, key: &str, range: Option<Range<u64>>) -> Result<Vec<u8>, Fault> {
    let body = store.get(key, range, None, Attempt::FIRST).await?;
    let pieces: Vec<Bytes> = body.stream.try_collect().await?;
    Ok(pieces.concat())
}

async fn keys(store: &impl Backend, prefix: &str, recursive: bool) -> Vec<String> {
    let entries: Vec<Entry> = store.list(prefix, recursive).try_collect().await.expect("a listing");
    let name = |entry| match entry {
        Entry::Object(object) => object.key,
        Entry::Prefix(prefix) => format!("{prefix}…"),
        Entry::Other { key, kind } => format!("{key}: {kind}"),
    };
    entries.into_iter().map(name).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Fault>) -> FaultKind {
    result.expect_err("a fault").kind
}

mod condition;
mod copying;
mod keys;
mod links;
mod listing;
mod replacing;
mod session;
mod space;
mod whole;
