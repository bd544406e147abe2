//! Starts programs that end with their parent process, and servers, and waits until a server is ready.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Result;

/// The hidden subcommand of this program that becomes another program through [`become_tied`].
pub const TIED: &str = "tied";

/// A developer's settings for real stores and an operator's network settings must not reach a measured program.
const FOREIGN: [&str; 3] = ["AWS_", "TIDEGATE_", "MINIO_"];

/// A program with its arguments, and the variables that it gets beside the usual environment.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's path.
    pub path: PathBuf,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The environment variables.
    pub variables: Vec<(String, String)>,
    /// A file that feeds the program's standard input through a pipe, if any.
    pub stdin: Option<PathBuf>,
    /// At most this many bytes of that file, because a device has no end.
    pub stdin_most: u64,
    /// Whether the program's standard output is discarded instead of logged.
    pub is_discarded: bool,
    /// Whether the program uses a real store: then it inherits our whole environment.
    pub is_elsewhere: bool,
}

impl Program {
    /// A program without arguments.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            stdin: None,
            stdin_most: u64::MAX,
            is_discarded: false,
            is_elsewhere: false,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds variables.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (impl Into<String>, String)>) -> Self {
        self.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value)));
        self
    }

    /// A command that runs this program through `subcommand` of our own program, and logs its output to `log`.
    pub(crate) fn through(&self, subcommand: &[OsString], log: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(subcommand).arg("--").arg(&self.path).args(&self.arguments);
        if !self.is_elsewhere {
            remove_foreign(&mut command);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let log = File::create(log)?;
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let stdout = if self.is_discarded { Stdio::null() } else { log.try_clone()?.into() };
        command.stdin(stdin).stdout(stdout).stderr(log);
        Ok(command)
    }
}

/// Keeps a developer's settings, in variables and files, from a program.
pub(crate) fn remove_foreign(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_foreign(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command.env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
}

fn is_foreign(name: &str) -> bool {
    FOREIGN.iter().any(|prefix| name.starts_with(prefix)) || name.to_ascii_uppercase().ends_with("_PROXY")
}

/// The program `name` of `.tools/bin`, of the folder that holds the current directory or this program.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let mut folders = starts.iter().flatten().flat_map(|start| start.ancestors());
    folders.find_map(|folder| Some(folder.join(".tools/bin").join(name)).filter(|path| path.is_file()))
}

/// Feeds a program's standard input with the first `most` bytes of `file`, or until the program reads no more.
pub(crate) fn feed(child: &mut Child, file: &Path, most: u64) -> Result<()> {
    let (mut file, pipe) = (File::open(file)?.take(most), child.stdin.take());
    std::thread::spawn(move || {
        // A program that ends early shows that by its exit status.
        pipe.map(|mut pipe| io::copy(&mut file, &mut pipe))
    });
    Ok(())
}

/// Asks the kernel to kill this process when the thread that started it is gone.
pub fn end_with_parent() -> Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Becomes the program `command`, which ends with its parent process. Returns only if that fails.
pub fn become_tied(command: &[OsString]) -> Result<()> {
    end_with_parent()?;
    let [program, arguments @ ..] = command else { return Err("which program?".into()) };
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", program.to_string_lossy()).into())
}

/// A running server, killed on drop.
#[derive(Debug)]
pub struct ServerProcess {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a server; its output goes to a file in `folder`.
    pub fn start(name: &'static str, program: &Program, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let child = program.through(&[TIED.into()], &log)?.spawn()?;
        Ok(Self { name, child, log })
    }

    /// Calls `ask` until it returns an answer; a server that ends, or is not ready in time, is an error.
    pub fn wait_ready<T>(&mut self, mut ask: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let began = Instant::now();
        loop {
            let said = self.said();
            if let Some(answer) = ask(&said) {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended with {status}: {}", self.name, said.trim()).into());
            }
            if began.elapsed() > Duration::from_secs(20) {
                return Err(format!("{} is not ready after 20 s: {}", self.name, said.trim()).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The server may have ended by itself, and a drop cannot report an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fed_comes_through_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("source");
        std::fs::write(&file, "some bytes").unwrap();
        for (most, expected) in [(u64::MAX, "some bytes"), (4, "some")] {
            let mut shell = Command::new("sh");
            shell.args(["-c", "test -p /dev/stdin && cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = shell.spawn().unwrap();
            feed(&mut child, &file, most).unwrap();
            assert_eq!(child.wait_with_output().unwrap().stdout, expected.as_bytes());
        }
    }

    #[test]
    fn foreign_settings_stay_out() {
        for foreign in ["AWS_PROFILE", "TIDEGATE_BIN", "HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            assert!(is_foreign(foreign), "{foreign}");
        }
        for usual in ["PATH", "HOME", "LAWS_", "PROXY"] {
            assert!(!is_foreign(usual), "{usual}");
        }
    }
}
