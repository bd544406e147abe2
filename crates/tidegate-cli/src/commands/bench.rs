//! `tidegate bench`: runs the engine under load and measures this process, or starts `tidegate-bench` for other
//! tables.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use crate::exit::{Failure, Outcome};

mod content;
mod crash;
mod embedded;
mod writers;

/// Run the engine under load, against a private embedded server or another store, and measure.
///
/// Other subcommands run the program tidegate-bench, which must be beside this one: the published tables a, b, c and
/// d, `all` of them, and whole commands compared with other tools (`tidegate bench help` lists them).
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    Writers(Box<writers::Args>),
    Crash(Box<crash::Args>),
    #[command(external_subcommand)]
    Table(Vec<OsString>),
}

impl Command {
    pub(crate) async fn run(self) -> Outcome {
        match self {
            Self::Writers(args) => args.run().await,
            Self::Crash(args) => args.run().await,
            Self::Table(words) => Err(table(&words)?),
        }
    }
}

/// Replaces this process with `tidegate-bench`. Returns only if that fails.
fn table(words: &[OsString]) -> Outcome<Failure> {
    let ours = this_program()?;
    let program = ours.with_file_name("tidegate-bench");
    if !program.is_file() {
        let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        let message = format!(
            "`bench {word}` is run by the program tidegate-bench, and there is none beside this one: \
             cargo build --release -p tidegate-bench"
        );
        return Err(Failure::Usage(message));
    }
    let failed = std::process::Command::new(&program).args(words).env("TIDEGATE_BIN", ours).exec();
    Ok(Failure::Failed(format!("{} can't be run: {failed}", program.display())))
}

/// The path of this program, to start another process of it.
fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(|error| Failure::Failed(format!("this program can't be found: {error}")))
}
