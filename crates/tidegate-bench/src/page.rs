//! Makes one HTML page from the JSON of the other subcommands: plots, with the numbers below each.
//!
//! The page is self-contained: no script, no font and no picture from elsewhere. It works on a phone and on a
//! wide screen, in light and in dark, and for readers who do not see the plots. Every number comes from the
//! files; the page names the missing files at its end.
//! has is named at the end.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::de::DeserializeOwned;

use crate::Result;
use crate::peers::{BEST, Named};
use crate::stats::RunSpread;
use section::PageSection;

mod axis;
mod contest;
mod growth;
mod journal;
mod lines;
mod memory;
mod parts;
mod plot;
mod prefixes;
mod read;
mod rows;
mod section;
mod tables;
#[cfg(test)]
mod tests;
mod text;

/// The files to read, and the path of the page.
#[derive(Clone, Debug, clap::Args)]
pub struct PageArgs {
    /// Folder with the results that `all` and `peers` wrote, or with output of --json under the same names. Any
    /// file may be missing.
    pub dir: PathBuf,
    /// Path of the page; default: index.html in that folder.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// A file's figures that can be shown as a section of the page.
trait Shown: DeserializeOwned {
    /// The section of the file with this name.
    fn section(&self, file: &str) -> PageSection;
}

/// A file that exists.
struct Chapter {
    file: String,
    what: String,
    section: PageSection,
}

/// Reads one file, if it exists.
type Read = fn(&Path, &str) -> Result<Option<PageSection>>;

/// Every file, its description, and the function that reads it; in the order of the page.
const FILES: [(&str, &str, Read); 8] = [
    ("a", "parts uploaded while the next is written", read::<parts::JsonParts>),
    ("b", "streams of unknown length", read::<journal::JsonJournal>),
    ("c", "parts by several threads", read::<parts::JsonParts>),
    ("compaction", "sorted tables merged", read::<tables::Compaction>),
    ("tables", "sorted tables built", read::<tables::Tables>),
    ("memory", "memory over time", read::<memory::JsonMemory>),
    ("prefixes", "keys spread over prefixes", read::<prefixes::JsonPrefixes>),
    ("growth", "time and memory by size", read::<growth::JsonGrowth>),
];

/// The files of the contests.
fn contests() -> impl Iterator<Item = (String, String, Read)> {
    Named::all().map(|contest| (contest.name, contest.about, read::<contest::JsonContest> as Read))
}

fn read<T: Shown>(dir: &Path, file: &str) -> Result<Option<PageSection>> {
    let Some((report, broken)) = read::file::<T>(&dir.join(format!("{file}.json")))? else { return Ok(None) };
    let mut section = report.section(file);
    section.first.extend(broken.iter().map(|broken| format!("DOES NOT HOLD: {broken}")));
    Ok(Some(section))
}

impl PageArgs {
    /// Writes the page, whole or not at all, and returns its path.
    ///
    /// # Errors
    /// If there is no such folder, no file, or a file that is not a report of its kind; if the page can't be
    /// written.
    pub fn write(&self) -> Result<PathBuf> {
        let dir = self.dir.display();
        if !self.dir.is_dir() {
            return Err(format!("{dir} is no folder").into());
        }
        let (mut chapters, mut missing) = (Vec::new(), Vec::new());
        let files = FILES.map(|(file, what, read)| (file.to_owned(), what.to_owned(), read));
        for (file, what, read) in contests().chain(files) {
            match read(&self.dir, &file)? {
                Some(section) => chapters.push(Chapter { file, what, section }),
                // `peers` measures best settings only on request, so these files are not missing.
                None if file.ends_with(BEST) => {}
                None => missing.push(format!("{what} ({file}.json)")),
            }
        }
        if chapters.is_empty() {
            let files = missing.join(", ");
            return Err(format!("{dir} has no figures to show: there is none of {files}").into());
        }
        let to = self.to.clone().unwrap_or_else(|| self.dir.join("index.html"));
        replace(&to, &document(&chapters, &missing).into_string())
            .map_err(|error| format!("{} can't be written: {error}", to.display()))?;
        Ok(to)
    }
}

/// Writes a new file beside the old one, then replaces the old one.
fn replace(to: &Path, text: &str) -> std::io::Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The permissions of any new file; a temporary file would be readable by its owner only.
    let permissions = std::fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(to)?;
    Ok(())
}

fn document(chapters: &[Chapter], missing: &[String]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // No text from a file can load anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { "Tidegate: what was measured" }
                style { (PreEscaped(include_str!("page/page.css"))) }
            }
            body {
                header {
                    h1 { "Tidegate: what was measured" }
                    p {
                        "Every number is one that tidegate-bench printed; below each plot are its numbers, and below \
                         each section the command that measured them."
                    }
                    nav aria-label="Sections" {
                        ul {
                            @for Chapter { file, what, .. } in chapters { li { a href=(format!("#{file}")) { (what) } } }
                        }
                    }
                }
                main {
                    @for Chapter { file, section, .. } in chapters { (section.show(file)) }
                }
                @if !missing.is_empty() {
                    footer { p { "Not measured: " (missing.join(", ")) "." } }
                }
            }
        }
    }
}

/// The median, and how far the values reach.
fn shown(spread: &RunSpread, digits: usize) -> String {
    let RunSpread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

/// The largest value; NaN if there are no values.
fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(f64::max).unwrap_or(f64::NAN)
}
