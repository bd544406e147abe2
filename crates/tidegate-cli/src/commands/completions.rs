//! `tidegate completions`: prints a script with which a shell completes command lines.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::{CommandLine, output};

/// Print a script with which a shell completes command lines; source it in the shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for.
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        invocation.refuse_json("a script")?;
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "tidegate", &mut script);
        let mut out = output::text(invocation.format())?;
        out.write_all(&script)?;
        out.finish().await
    }
}
