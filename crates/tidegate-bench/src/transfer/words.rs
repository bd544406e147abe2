//! Describes a contest in the words of its report.

use super::{Load, Network, Transfer, Way};
use crate::scratch::Scratch;
use crate::size;

impl Transfer {
    /// The measurement in one sentence.
    pub(super) fn title(&self) -> String {
        let size = size::format(self.size);
        let what = match self.load {
            Load::File => format!("One file of {size}"),
            Load::Pipe => format!("{size} through a pipe"),
            Load::Files(count) => format!("{count} files of {size}"),
            Load::Object => format!("One object of {size} into a file"),
            Load::Objects(count) => format!("{count} objects of {size} into files"),
        };
        let best = if self.best { "; each tool at the best settings that were found" } else { "" };
        match self.way {
            Way::Plain => format!("{what}, server on the same machine, unshaped{best}"),
            Way::Tls => format!("{what}, server on the same machine, over TLS{best}"),
            Way::Shaped(Network { latency_ms, megabytes }) => {
                format!(
                    "{what} through toxiproxy: {latency_ms} ms each way, {megabytes} MB/s a connection{best}"
                )
            }
        }
    }

    /// The source, as the report describes it.
    pub(super) fn told(&self, scratch: &Scratch) -> String {
        let (size, place) = (size::format(self.size), scratch.told());
        match self.load {
            Load::File => format!("source: one file of {size} of random bytes in {place}"),
            Load::Pipe => {
                format!("source: {size} of random bytes from {place}, written to a pipe by the benchmark")
            }
            Load::Files(count) => format!("source: {count} files of {size} of random bytes in {place}"),
            Load::Object => format!(
                "source: {size} of random bytes in the server's memory, uploaded by tidegate in its defaults; into a \
                 file of each tool's own in {place}, compared with the original after each run, then removed"
            ),
            Load::Objects(count) => format!(
                "source: {count} objects of {size} of random bytes in the server's memory, uploaded by tidegate; into a \
                 directory of each tool's own in {place}, compared with the originals after each run, then removed"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::{KIB, MIB};

    const NETWORK: Network = Network { latency_ms: 20, megabytes: 40 };

    #[test]
    fn each_contest_says_what_it_is() {
        assert_eq!(
            Transfer::download(64 * MIB).by(Way::Shaped(NETWORK)).title(),
            "One object of 64 MiB into a file through toxiproxy: 20 ms each way, 40 MB/s a connection"
        );
        assert_eq!(
            Transfer::uploads(10, 4 * KIB).title(),
            "10 files of 4 KiB, server on the same machine, unshaped"
        );
        assert_eq!(
            Transfer::downloads(10, 4 * KIB).by(Way::Tls).at_best().title(),
            "10 objects of 4 KiB into files, server on the same machine, over TLS; each tool at the best settings that \
             were found"
        );
    }
}
