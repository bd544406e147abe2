use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use super::*;

/// A user that no test runs as.
const NOBODY: u32 = 65534;

fn refused(path: &Path, owners: &TrustedOwners) -> Vec<Distrust> {
    let opened = [Access::Read, Access::ReadWrite, Access::Append].map(|access| open(path, access, owners));
    let reasons = opened.into_iter().filter_map(|opened| {
        let error = opened.err()?;
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        Some(UntrustedFile::of(&error).unwrap_or_else(|| panic!("{error}")).reason)
    });
    reasons.collect()
}

#[test]
fn only_regular_files_of_ones_own_that_nobody_else_may_write_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let own = TrustedOwners::default();
    let mut made = create_new(&at("own"), Access::Append).unwrap();
    made.write_all(b"bytes").unwrap();
    assert_eq!(refused(&at("own"), &own), []);

    symlink(at("own"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for (name, kind) in [
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("socket", "a socket"),
        ("directory", "a directory"),
        ("pipe", "a named pipe"),
    ] {
        assert_eq!(refused(&at(name), &own), [Distrust::Kind(kind); 3], "{name}");
        let created = create_new(&at(name), Access::ReadWrite).unwrap_err();
        assert_eq!(created.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert!(refused(Path::new("/dev/null"), &own).iter().all(|why| *why == Distrust::Kind("a device")));

    fs::hard_link(at("own"), at("second")).unwrap();
    assert_eq!(refused(&at("own"), &own), [Distrust::Links(2); 3]);
    fs::remove_file(at("second")).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(at("own"), Permissions::from_mode(mode)).unwrap();
        assert_eq!(refused(&at("own"), &own), [Distrust::Writable(mode); 3]);
    }
    fs::set_permissions(at("own"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(refused(&at("own"), &own), [], "others may read it");
    let missing = open(&at("missing"), Access::Read, &own).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_of_another_user_is_opened_only_if_that_user_is_trusted() {
    if caller() != 0 {
        eprintln!("skipped: only root may give a file to another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planted\u{1b}[2J");
    create_new(&path, Access::ReadWrite).unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), None).unwrap();
    let own = TrustedOwners::default();
    assert_eq!(refused(&path, &own), [Distrust::Owner(NOBODY); 3]);
    let said = open(&path, Access::Read, &own).unwrap_err().to_string();
    assert!(said.contains("belongs to user 65534") && said.contains("--owner 65534"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert_eq!(refused(&path, &own.clone().and(NOBODY)), []);
    assert_eq!(refused(&path, &own.clone().and(12345)), [Distrust::Owner(NOBODY); 3]);
    let there = open_or_create(&path, Access::Append, &own).unwrap_err();
    assert!(UntrustedFile::of(&there).is_some(), "{there}");
}

/// A umask applies to the whole process, so each umask gets its own process, which runs the test below.
#[test]
fn what_is_created_is_private_whatever_the_umask() {
    let test = "types::trusted_file::tests::creates_where_it_is_told";
    for umask in ["000", "022", "077", "277", "777"] {
        let directory = tempfile::tempdir().unwrap();
        let created = Command::new("sh")
            .args(["-c", "umask $0 && exec \"$@\"", umask])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("TIDEGATE_TEST_CREATES_IN", directory.path())
            .output()
            .unwrap();
        assert!(created.status.success(), "{umask}: {}", String::from_utf8_lossy(&created.stdout));
        let mode = |name: &str| fs::metadata(directory.path().join(name)).unwrap().mode() & 0o7777;
        assert_eq!(["a", "a/b", "a/b/file", "a/b/lock"].map(mode), [0o700, 0o700, 0o600, 0o600], "{umask}");
    }
}

#[test]
fn creates_where_it_is_told() {
    let Some(directory) = std::env::var_os("TIDEGATE_TEST_CREATES_IN") else { return };
    let within = Path::new(&directory).join("a/b");
    create_directory(&within).unwrap();
    create_directory(&within).unwrap();
    create_new(&within.join("file"), Access::ReadWrite).unwrap();
    open_or_create(&within.join("lock"), Access::Append, &TrustedOwners::default()).unwrap();
}
