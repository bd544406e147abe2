//! One HTML page of what the other subcommands said with `--json`: plots, with the numbers below each.
//!
//! The page needs nothing but itself: no script, no font, no picture from elsewhere. It is read on a phone as well as
//! on a wide screen, in light and in dark, and by who doesn't see its plots. Every number is from the files: what no file
//! has is named at the end.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::de::DeserializeOwned;

use crate::Result;
use crate::peers::{BEST, Named};
use crate::stats::Spread;
use section::Section;

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

/// Which files are read, and where the page goes.
#[derive(Clone, Debug, clap::Args)]
pub struct Page {
    /// Folder with what `all` and `peers` wrote, or what was printed with --json under the same names. Each file may be
    /// missing.
    pub dir: PathBuf,
    /// The page; default: index.html in that folder.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// What a file has, as a part of the page.
trait Shown: DeserializeOwned {
    /// The part; the file is called so.
    fn section(&self, file: &str) -> Section;
}

/// A file that is there.
struct Chapter {
    file: String,
    what: String,
    section: Section,
}

/// One file, where it is there.
type Read = fn(&Path, &str) -> Result<Option<Section>>;

/// Every file, what was measured in it, and how it is read; in the order of the page.
const FILES: [(&str, &str, Read); 8] = [
    ("a", "parts uploaded while the next is written", read::<parts::Report>),
    ("b", "streams of unknown length", read::<journal::Report>),
    ("c", "parts by several threads", read::<parts::Report>),
    ("compaction", "sorted tables merged", read::<tables::Compaction>),
    ("tables", "sorted tables built", read::<tables::Tables>),
    ("memory", "memory over time", read::<memory::Report>),
    ("prefixes", "keys spread over prefixes", read::<prefixes::Report>),
    ("growth", "time and memory by size", read::<growth::Report>),
];

/// The contests, as files.
fn contests() -> impl Iterator<Item = (String, String, Read)> {
    Named::all().map(|contest| (contest.name, contest.about, read::<contest::Report> as Read))
}

fn read<T: Shown>(dir: &Path, file: &str) -> Result<Option<Section>> {
    let Some((report, broken)) = read::file::<T>(&dir.join(format!("{file}.json")))? else { return Ok(None) };
    let mut section = report.section(file);
    section.first.extend(broken.iter().map(|broken| format!("DOES NOT HOLD: {broken}")));
    Ok(Some(section))
}

impl Page {
    /// Writes the page, whole or not at all, and says where it is.
    ///
    /// # Errors
    /// Where there is no such folder, none of the files, or one that is no such report; where the page can't be written.
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
                // Nobody misses what `peers` does only where it is asked to.
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

/// Writes a file beside the one that there may be, and puts it in its place.
fn replace(to: &Path, text: &str) -> std::io::Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any new file has it; a temporary one is its owner's alone.
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
                // Nothing that a file says can load anything.
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
fn shown(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

/// The largest of these; no number where there are none.
fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(f64::max).unwrap_or(f64::NAN)
}
