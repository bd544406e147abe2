//! File systems that get full, or stuck, for tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A small file system; gone when it is dropped.
pub struct SmallDisk {
    at: PathBuf,
    /// Where it and its image are, if not in a directory of the test's.
    _folder: Option<TempDir>,
}

impl SmallDisk {
    /// One of this kind (`tmpfs`, `ext4`, …) and so many MiB; `None`, and said so, where this user may not
    /// mount it.
    pub fn new(kind: &str, mib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a directory");
        let at = folder.path().join("disk");
        fs::create_dir(&at).expect("a directory");
        let is_mounted = if kind == "tmpfs" {
            mount_tmpfs(&at, mib)
        } else {
            let image = folder.path().join("image");
            File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("an image");
            done(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))
                && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))
        };
        said(is_mounted, kind).then_some(Self { at, _folder: Some(folder) })
    }

    /// A tmpfs over a directory of the test's.
    pub fn over(at: &Path, mib: u64) -> Option<Self> {
        said(mount_tmpfs(at, mib), "tmpfs").then(|| Self { at: at.to_owned(), _folder: None })
    }

    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Makes every write wait until the returned value is dropped.
    pub fn freeze(&self) -> FrozenDisk<'_> {
        assert!(done(Command::new("fsfreeze").arg("--freeze").arg(&self.at)), "it can't be frozen");
        FrozenDisk(&self.at)
    }
}

/// A file system whose writes wait.
pub struct FrozenDisk<'a>(&'a Path);

impl Drop for FrozenDisk<'_> {
    fn drop(&mut self) {
        done(Command::new("fsfreeze").arg("--unfreeze").arg(self.0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        done(Command::new("umount").arg("-l").arg(&self.at));
    }
}

fn mount_tmpfs(at: &Path, mib: u64) -> bool {
    done(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tidegate-test"]).arg(at))
}

fn done(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn said(is_mounted: bool, kind: &str) -> bool {
    if !is_mounted {
        eprintln!("skipped: this user may not mount a {kind}: its full disk is not tested");
    }
    is_mounted
}
