//! `tidegate man`: prints or writes man pages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::exit::{CommandFailure, Outcome};
use crate::help::page::{self, ManPage};
use crate::invocation::Invocation;
use crate::{command_line, output, text};

/// Print the man page of a command, or write all of them into a directory
///
///     tidegate man cp | man -l -
///     tidegate man journal ls | man -l -
///     tidegate man --output /usr/local/share/man/man1
///
/// Pages are in roff. Their date is that of SOURCE_DATE_EPOCH, so that packages can be built
/// again bit for bit, or else today.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArgs {
    /// The command, such as `cp`, or `journal ls`. Default: the page of the whole program.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write all pages into this directory, as tidegate.1, tidegate-cp.1 and so on. It is created if it is missing.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        invocation.refuse_json("a page")?;
        let date = date()?;
        let pages = page::all(command_line());
        if let Some(directory) = &self.output {
            return write_all(directory, &pages, &date);
        }
        let name = [&["tidegate".to_owned()], &*self.command].concat().join("-");
        let Some(page) = pages.iter().find(|page| page.name() == name) else {
            let command = self.command.join(" ");
            let message = format!("{command}: there is no such command: `tidegate --help` lists them");
            return Err(CommandFailure::Usage(message));
        };
        let mut out = output::text(invocation.format())?;
        out.write_all(page.roff(&date).as_bytes())?;
        out.finish().await
    }
}

fn write_all(directory: &Path, pages: &[ManPage], date: &str) -> Outcome {
    std::fs::create_dir_all(directory).map_err(|error| CommandFailure::of_file(directory, &error))?;
    for page in pages {
        let path = directory.join(page.file_name());
        std::fs::write(&path, page.roff(date)).map_err(|error| CommandFailure::of_file(&path, &error))?;
    }
    output::say(&format!("{} in {}", text::count(pages.len() as u64, "page"), directory.display()));
    Ok(())
}

/// The date of the pages, such as 2026-11-27.
fn date() -> Outcome<String> {
    let time = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => {
            let time =
                seconds.parse().ok().and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
            time.ok_or_else(|| {
                CommandFailure::Usage("SOURCE_DATE_EPOCH: this is no number of seconds".to_owned())
            })?
        }
        Err(_) => SystemTime::now(),
    };
    let mut date = text::time(time);
    date.truncate(10);
    Ok(date)
}
