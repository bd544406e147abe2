//! `tidegate completions`: prints a script with which a shell completes command lines.

use std::io::Write;

use clap_complete::Shell;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::{command_line, output};

/// Print a script with which a shell completes commands, options, buckets and keys
///
///     source <(tidegate completions bash)       in ~/.bashrc
///     source <(tidegate completions zsh)        in ~/.zshrc, after compinit
///     tidegate completions fish | source        in ~/.config/fish/config.fish
///
/// The scripts of bash, zsh and fish call this program, with the options of the command line,
/// such as --profile. A store is asked once and for at most two seconds, and nothing is
/// proposed if it does not answer. Elvish and PowerShell complete commands and options only.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for.
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        invocation.refuse_json("a script")?;
        let mut out = output::text(invocation.format())?;
        out.write_all(&script(self.shell))?;
        out.finish().await
    }
}

fn script(shell: Shell) -> Vec<u8> {
    let calling: &[u8] = match shell {
        Shell::Bash => include_bytes!("../completion/tidegate.bash"),
        Shell::Zsh => include_bytes!("../completion/tidegate.zsh"),
        Shell::Fish => include_bytes!("../completion/tidegate.fish"),
        _ => {
            let mut fixed = Vec::new();
            clap_complete::generate(shell, &mut command_line(), "tidegate", &mut fixed);
            return fixed;
        }
    };
    calling.to_vec()
}
