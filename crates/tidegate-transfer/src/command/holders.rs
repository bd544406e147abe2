//! Which processes hold a pipe open.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::fstat;

/// How many processes are named.
const NAMED: usize = 3;

/// The processes other than this one that have the pipe open, as far as the system shows them: their ids and names.
pub(super) fn of(pipe: impl AsFd) -> Vec<String> {
    let Ok(pipe) = fstat(pipe) else { return Vec::new() };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holds = |id: &u32| holds(*id, (pipe.st_dev, pipe.st_ino));
    let named = |id: u32| match fs::read_to_string(format!("/proc/{id}/comm")) {
        Ok(name) => format!("process {id} ({})", name.trim()),
        Err(_) => format!("process {id}"),
    };
    ids.filter(|id| *id != own).filter(holds).take(NAMED).map(named).collect()
}

fn holds(id: u32, pipe: (u64, u64)) -> bool {
    let Ok(open) = fs::read_dir(Path::new("/proc").join(id.to_string()).join("fd")) else { return false };
    let is_pipe = |path: &Path| path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == pipe);
    open.filter_map(Result::ok).any(|entry| is_pipe(&entry.path()))
}
