use std::fs;
use std::path::Path;

use super::*;

const AT: &str = "http://127.0.0.1:9000";

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(file::END) || name.ends_with(file::UNLOCKED)).collect()
}

/// The roll that another process reads.
async fn seen(directory: &Path) -> Roll {
    Records::new(Some(directory.to_owned()), TrustedOwners::default()).roll().await.unwrap()
}

/// Leaves the file as it is and releases its lock, as when the process is killed.
fn kill(records: Records, entries: Vec<RecordedSession>) {
    records.inner.state().log = None;
    records.inner.state().open.clear();
    drop(entries);
}

#[tokio::test]
async fn a_session_is_known_from_before_it_opens_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("records");
    let records = Records::new(Some(directory.clone()), TrustedOwners::default());
    let entry = records.begin(AT, "s3://b/a key%".into()).await;
    let pid = Some(std::process::id());
    assert_eq!(seen(&directory).await.live("s3://b/a key%", "any"), pid);
    assert_eq!(seen(&directory).await.live("dev://b/a key%", "any"), pid);
    entry.opened("id 1").await;
    for roll in [seen(&directory).await, records.roll().await.unwrap()] {
        assert_eq!(roll.live("s3://elsewhere", "id 1"), pid);
        assert_eq!(roll.live("s3://b/a key%", "another"), None);
        assert!(roll.gone_below(AT, "").is_empty());
    }
    entry.ended().await;
    assert_eq!(names(&directory), [""; 0]);
    assert_eq!(seen(&directory).await.live("s3://b/a key%", "id 1"), None);
}

#[tokio::test]
async fn what_a_killed_process_left_is_known_until_it_is_struck_out() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let one = records.begin(AT, "s3://b/x/1".into()).await;
    one.opened("1").await;
    let two = records.begin(AT, "s3://b/y/2".into()).await;
    kill(records, vec![one, two]);

    let reader = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let roll = reader.roll().await.unwrap();
    assert_eq!(roll.live("s3://b/x/1", "1"), None);
    assert_eq!(roll.live("s3://b/y/2", "2"), None);
    assert!(!roll.gone("1").unwrap().lives);
    assert!(roll.gone_below("http://elsewhere", "").is_empty());
    let below = roll.gone_below(AT, "s3://b/x/");
    assert_eq!(below.len(), 1);
    reader.forget(below).await;
    let rest = reader.roll().await.unwrap().gone_below(AT, "");
    assert_eq!(rest.len(), 1);
    assert_eq!((rest[0].record.object.as_str(), rest[0].record.id.as_deref()), ("s3://b/y/2", None));
    reader.forget(rest).await;
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn the_record_of_a_process_that_is_long_gone_goes_though_nobody_finds_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let entry = records.begin("http://gone.example", "s3://gone/1".into()).await;
    entry.opened("1").await;
    kill(records, vec![entry]);
    let path = directory.path().join(&names(directory.path())[0]);
    let reader = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    for (days, left) in [(29, 1), (31, 0)] {
        let then = SystemTime::now() - std::time::Duration::from_secs(days * 86_400);
        fs::File::options().append(true).open(&path).unwrap().set_modified(then).unwrap();
        reader.forget(Vec::new()).await; // as a sweep does that found nothing
        assert_eq!(names(directory.path()).len(), left, "after {days} days");
    }
}

#[tokio::test]
async fn what_is_given_up_is_nobodys() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let left = records.begin(AT, "s3://b/left".into()).await;
    left.opened("1").await;
    left.left().await;
    let dropped = records.begin(AT, "s3://b/dropped".into()).await;
    dropped.opened("2").await;
    drop(dropped);
    drop(records.begin(AT, "s3://b/never".into()).await);
    let roll = seen(directory.path()).await;
    assert_eq!(roll.gone_below(AT, "s3://b/").len(), 2);
    assert!(roll.gone("1").unwrap().lives);
    assert_eq!(roll.live("s3://b/never", "3"), None);

    // While the process that gave up a session lives, only that process can forget it.
    Records::new(Some(directory.path().to_owned()), TrustedOwners::default())
        .forget(roll.gone_below(AT, ""))
        .await;
    assert_eq!(seen(directory.path()).await.gone_below(AT, "").len(), 2);
    let own = records.roll().await.unwrap().gone_below(AT, "");
    assert_eq!(own.len(), 2);
    records.forget(own).await;
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn a_file_stays_short_however_many_sessions_it_has_seen() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let stays = records.begin(AT, "s3://b/stays".into()).await;
    stays.opened("stays").await;
    for number in 0..2000 {
        let entry = records.begin(AT, format!("s3://b/{number}")).await;
        entry.opened(&number.to_string()).await;
        entry.ended().await;
    }
    let [name] = &names(directory.path())[..] else { panic!("not one file") };
    let size = fs::metadata(directory.path().join(name)).unwrap().len();
    assert!(size < 32 << 10, "{size}");
    assert!(seen(directory.path()).await.live("", "stays").is_some());
}

#[tokio::test]
async fn without_a_directory_the_own_sessions_are_known() {
    let records = Records::default();
    let entry = records.begin(AT, "s3://b/k".into()).await;
    entry.opened("1").await;
    assert!(records.roll().await.unwrap().live("", "1").is_some());
    entry.ended().await;
    assert!(records.roll().await.unwrap().live("", "1").is_none());
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_fails_no_upload_and_every_sweep() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let records = Records::new(Some(file.path().to_owned()), TrustedOwners::default());
    let entry = records.begin(AT, "s3://b/k".into()).await;
    entry.opened("1").await;
    let error = records.roll().await.unwrap_err();
    assert!(error.to_string().contains(&*file.path().to_string_lossy()), "{error}");
    entry.ended().await;
}

#[test]
fn a_torn_or_strange_line_is_passed_over() {
    let text = "open 1 5 e s3://b/k\nlater 1 x\n\nopen x\nopen 2 5 e\nnamed 7 id\nnamed 1 a%20b\nopen 3 5 e s3://b/to";
    let open = file::parse(text);
    assert_eq!(open.len(), 1);
    assert_eq!(open[&1].id.as_deref(), Some("a b"));
}

/// A disk that was full for a moment took only the beginning of a line; that causes only a warning.
#[tokio::test]
async fn a_line_that_was_not_written_whole_does_not_hide_the_next_session() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let one = records.begin(AT, "s3://b/1".into()).await;
    let [name] = &names(directory.path())[..] else { panic!("one file") };
    let mut torn = fs::OpenOptions::new().append(true).open(directory.path().join(name)).unwrap();
    std::io::Write::write_all(&mut torn, b"named 1 the-na").unwrap();
    let two = records.begin(AT, "s3://b/2".into()).await;
    two.opened("2").await;
    let live = seen(directory.path()).await.live("s3://b/2", "2");
    assert_eq!(live, Some(std::process::id()), "a sweep would end a session of a live process");
    one.ended().await;
    two.ended().await;
}

#[test]
fn a_torn_line_means_nothing_and_hides_none_that_follows() {
    let begin = "records 2\n\nopen 1 5 e s3://b/1 .\n";
    let next = "\nopen 2 5 e s3://b/2 .\nnamed 2 name .\n";
    for torn in [
        "open 31 5 . s3://b/. .",
        "open 3 5 e . .",
        "named 1 .name .",
        "named 1 . .",
        "left 1 .",
        "ended 12 .",
    ] {
        for cut in 0..torn.len() {
            let open = file::parse(&format!("{begin}{}{next}", &torn[..cut]));
            assert_eq!(open.keys().copied().collect::<Vec<_>>(), [1, 2], "{}", &torn[..cut]);
            assert_eq!((open[&1].id.as_deref(), open[&1].left), (None, false), "{}", &torn[..cut]);
            assert_eq!(open[&2].id.as_deref(), Some("name"));
        }
    }
}

#[tokio::test]
async fn what_could_not_be_written_is_written_at_the_next_chance() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::new(Some(directory.path().to_owned()), TrustedOwners::default());
    let (one, ends) =
        (records.begin(AT, "s3://b/1".into()).await, records.begin(AT, "s3://b/ends".into()).await);
    one.opened("1").await;
    records.inner.state().log.as_mut().unwrap().refuse();
    let two = records.begin(AT, "s3://b/2".into()).await;
    two.opened("2").await;
    ends.ended().await;
    let roll = seen(directory.path()).await;
    for id in ["1", "2"] {
        assert_eq!(roll.live("s3://b/", id), Some(std::process::id()), "{id}");
    }
    assert_eq!(roll.live("s3://b/ends", "none"), None);
    one.ended().await;
    two.ended().await;
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn a_file_that_could_not_be_made_has_all_that_is_open_when_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("records");
    fs::write(&directory, "in its place").unwrap();
    let records = Records::new(Some(directory.clone()), TrustedOwners::default());
    let one = records.begin(AT, "s3://b/1".into()).await;
    one.opened("1").await;
    fs::remove_file(&directory).unwrap();
    let two = records.begin(AT, "s3://b/2".into()).await;
    assert_eq!(seen(&directory).await.live("s3://b/1", "1"), Some(std::process::id()));
    one.ended().await;
    two.ended().await;
}

#[test]
fn records_name_a_directory_by_its_absolute_path() {
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use crate::backend::local::Local;
    use crate::types::location::local_root;

    let odd = |name: &'static [u8]| PathBuf::from(std::ffi::OsStr::from_bytes(name));
    let mut roots: Vec<PathBuf> =
        ["/", ".", "a", "a/", "/a/b/", "s3:/b", "./s3:", "host:b/c"].map(PathBuf::from).into();
    roots.extend([odd(b"/a/\xff/b"), odd(b"a\xff")]);
    for root in roots {
        let recorded = super::root(&Local::new(&root));
        let absolute = std::path::absolute(&root).expect("a path");
        assert_eq!(local_root(&recorded).components().as_path(), absolute.components().as_path(), "{root:?}");
    }
}
