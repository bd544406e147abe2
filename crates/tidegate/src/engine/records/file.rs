//! One process's file of records: one line each time that a session is opened, gets its id, is abandoned or ends.
//!
//! A full disk or a crash may leave only the beginning of a line. Every line ends with a mark, without which it is
//! ignored, and each write begins on a line of its own: so a torn line is skipped and hides no line after it. Files
//! with another first line are from versions without marks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::SessionRecord;
use crate::types::locked_file::LockedFile;
use crate::types::trusted_file::{self, Access, TrustedOwners};

/// The file's name: the process id, a random number, and this ending.
pub(super) const END: &str = ".sessions";
/// The name's ending until the file is locked.
pub(super) const UNLOCKED: &str = ".new";
/// Locked by readers of the directory, so that no file is replaced meanwhile.
pub(super) const DIRECTORY_LOCK: &str = "lock";
/// Spaces separate fields, line ends separate records.
const FIELD: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
/// The first line; versions without marks ignore it.
const BEGIN: &str = "records 2\n";
/// The end of a complete line. The field before it is never missing, so no torn line ends like this.
const MARK: &str = " .";
/// A file is rewritten when it has this many lines beyond four for each open session.
const SLACK: usize = 256;

/// A line of the file. Sessions are numbered.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordLine<'a> {
    Open(u64, &'a SessionRecord),
    Named(u64, &'a str),
    Left(u64),
    Ended(u64),
}

impl RecordLine<'_> {
    fn push_to(self, text: &mut String) {
        use std::fmt::Write as _;
        let field = |text| utf8_percent_encode(text, FIELD);
        // Writing to a string does not fail.
        let _ = match self {
            Self::Open(number, record) => {
                let since = record.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let (endpoint, object) = (field(&record.endpoint), field(&record.object));
                writeln!(text, "open {number} {} {endpoint} {object}{MARK}", since.as_secs())
            }
            Self::Named(number, id) => writeln!(text, "named {number} {}{MARK}", field(id)),
            Self::Left(number) => writeln!(text, "left {number}{MARK}"),
            Self::Ended(number) => writeln!(text, "ended {number}{MARK}"),
        };
    }
}

fn text(lines: &[RecordLine<'_>]) -> String {
    let mut text = String::new();
    lines.iter().for_each(|line| line.push_to(&mut text));
    text
}

/// The sessions in the text of a file that have not ended. An incomplete line belongs to a session that was not yet
/// asked for; a line of a later version is ignored.
pub(super) fn parse(text: &str) -> BTreeMap<u64, SessionRecord> {
    let mut open = BTreeMap::new();
    let marked = text.starts_with(BEGIN);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    // Fields are written as ASCII.
    for line in whole.lines().filter(|line| line.is_ascii()) {
        let Some(line) = (if marked { line.strip_suffix(MARK) } else { Some(line) }) else { continue };
        let mut fields = line.split(' ');
        let verb = fields.next();
        let Some(number) = fields.next().and_then(|number| number.parse::<u64>().ok()) else { continue };
        let mut field = || fields.next().and_then(|field| percent_decode_str(field).decode_utf8().ok());
        match verb {
            Some("open") => {
                let since = field().and_then(|since| since.parse().ok()).map(Duration::from_secs);
                if let (Some(since), Some(endpoint), Some(object)) = (since, field(), field()) {
                    let (endpoint, object) = (endpoint.into_owned(), object.into_owned());
                    let since = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
                    open.insert(number, SessionRecord { endpoint, object, id: None, since, left: false });
                }
            }
            Some("named") => {
                if let (Some(record), Some(id)) = (open.get_mut(&number), field()) {
                    record.id = Some(id.into_owned());
                }
            }
            Some("left") => {
                if let Some(record) = open.get_mut(&number) {
                    record.left = true;
                }
            }
            Some("ended") => {
                open.remove(&number);
            }
            _ => {}
        }
    }
    open
}

/// The fewest lines that say the same as all those written about `open`.
fn anew(open: &BTreeMap<u64, SessionRecord>) -> Vec<RecordLine<'_>> {
    let mut lines = Vec::with_capacity(2 * open.len());
    for (number, record) in open {
        lines.push(RecordLine::Open(*number, record));
        lines.extend(record.id.as_deref().map(|id| RecordLine::Named(*number, id)));
        lines.extend(record.left.then_some(RecordLine::Left(*number)));
    }
    lines
}

/// Marks entries as ended in a file that the caller has locked. Returns `true` where no entry is left.
pub(super) fn strike_out(mut file: &File, text_before: &str, numbers: &[u64]) -> io::Result<bool> {
    let lines: Vec<RecordLine<'_>> = numbers.iter().map(|number| RecordLine::Ended(*number)).collect();
    // A process that died while it wrote may have left a line without its line end.
    let more = format!("\n{}", text(&lines));
    file.write_all(more.as_bytes())?;
    Ok(parse(&format!("{text_before}{more}")).is_empty())
}

/// This process's file, locked until dropped.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: LockedFile,
    path: PathBuf,
    lines: usize,
    /// Whether the file lacks lines that could not be written.
    behind: bool,
    owners: TrustedOwners,
}

impl RecordFile {
    /// Creates a file about `open`, followed by `lines`.
    pub(super) fn create(
        directory: &Path,
        open: &BTreeMap<u64, SessionRecord>,
        lines: &[RecordLine<'_>],
        owners: &TrustedOwners,
    ) -> io::Result<Self> {
        trusted_file::create_directory(directory)?;
        let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = directory.join(format!("{name}{END}"));
        let lines = [&anew(open), lines].concat();
        let file = Self::put(&directory.join(format!("{name}{UNLOCKED}")), &path, &lines)?;
        Ok(Self { file, path, lines: lines.len(), behind: false, owners: owners.clone() })
    }

    /// Names the file only once it is locked and written: so no reader takes it for the file of a dead process.
    fn put(unlocked: &Path, path: &Path, lines: &[RecordLine<'_>]) -> io::Result<LockedFile> {
        let file = trusted_file::create_new(unlocked, Access::Append)?;
        let ready = LockedFile::try_exclusive(file).map_err(io::Error::from).and_then(|file| {
            (&*file).write_all(format!("{BEGIN}{}", text(lines)).as_bytes())?;
            fs::rename(unlocked, path)?;
            Ok(file)
        });
        if ready.is_err() {
            // Return the first error, not one of the removal.
            let _ = fs::remove_file(unlocked);
        }
        ready
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines, which are about `open` or older sessions; where earlier lines could not be written, rewrites
    /// all that is open.
    pub(super) fn append(
        &mut self,
        open: &BTreeMap<u64, SessionRecord>,
        lines: &[RecordLine<'_>],
    ) -> io::Result<()> {
        if !self.behind {
            return self.push(lines, false);
        }
        let lines = [&anew(open), lines].concat();
        if self.replace(&lines).is_ok_and(|replaced| replaced) {
            return Ok(());
        }
        // Until the file can be replaced, it still lists sessions whose end was not recorded.
        self.push(&lines, true)
    }

    /// Appends lines with one write, so that a reader sees all of them or a torn end. `behind` says whether the file
    /// still lacks lines afterwards.
    fn push(&mut self, lines: &[RecordLine<'_>], behind: bool) -> io::Result<()> {
        self.behind = true;
        let before = self.file.metadata()?.len();
        let written = (&*self.file).write_all(format!("\n{}", text(lines)).as_bytes());
        if written.is_err() {
            // Even if truncating fails, the next write begins on a line of its own.
            let _ = self.file.set_len(before);
        }
        written?;
        self.lines += lines.len();
        self.behind = behind;
        Ok(())
    }

    /// Makes writes fail until the file is replaced.
    #[cfg(test)]
    pub(super) fn refuse(&mut self) {
        let file = File::open(&self.path).unwrap();
        self.file.unlock().unwrap();
        self.file = LockedFile::try_shared(file).unwrap();
    }

    /// Rewrites the file once most of its lines are of sessions that have ended.
    pub(super) fn shorten(&mut self, open: &BTreeMap<u64, SessionRecord>) -> io::Result<()> {
        if self.lines > SLACK + 4 * open.len() {
            self.replace(&anew(open))?;
        }
        Ok(())
    }

    /// Replaces this file with one of these lines. Returns `false`, doing nothing, while the directory is being read:
    /// the reader could miss a file that is replaced.
    fn replace(&mut self, lines: &[RecordLine<'_>]) -> io::Result<bool> {
        let Some(directory) = self.path.parent() else { return Ok(false) };
        let Ok(_guard) = LockedFile::try_exclusive(lock_file(directory, &self.owners)?) else {
            return Ok(false);
        };
        self.file = Self::put(&self.path.with_extension("new"), &self.path, lines)?;
        (self.lines, self.behind) = (lines.len(), false);
        Ok(true)
    }

    /// Removes the file: no session is open any more.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// The file whose lock protects the directory.
pub(super) fn lock_file(directory: &Path, owners: &TrustedOwners) -> io::Result<File> {
    trusted_file::open_or_create(&directory.join(DIRECTORY_LOCK), Access::Append, owners)
}
