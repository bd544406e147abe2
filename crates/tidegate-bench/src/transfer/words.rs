//! Describes a contest in the words of its report.

use super::{ContestPlan, Network, TransferLoad, TransferNetwork};
use crate::scratch::Scratch;
use crate::size;

impl ContestPlan {
    /// The measurement in one sentence.
    pub(super) fn title(&self) -> String {
        let size = size::format(self.size);
        let what = match self.load {
            TransferLoad::File => format!("One file of {size}"),
            TransferLoad::Pipe => format!("{size} through a pipe"),
            TransferLoad::Files(count) => format!("{count} files of {size}"),
            TransferLoad::Object => format!("One object of {size} into a file"),
            TransferLoad::Objects(count) => format!("{count} objects of {size} into files"),
        };
        let best = if self.best { "; each tool at the best settings that were found" } else { "" };
        match self.way {
            TransferNetwork::Plain => format!("{what}, server on the same machine, unshaped{best}"),
            TransferNetwork::Tls => format!("{what}, server on the same machine, over TLS{best}"),
            TransferNetwork::Shaped(Network { latency_ms, megabytes }) => {
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
            TransferLoad::File => format!("source: one file of {size} of random bytes in {place}"),
            TransferLoad::Pipe => {
                format!("source: {size} of random bytes from {place}, written to a pipe by the benchmark")
            }
            TransferLoad::Files(count) => {
                format!("source: {count} files of {size} of random bytes in {place}")
            }
            TransferLoad::Object => format!(
                "source: {size} of random bytes in the server's memory, uploaded by tidegate in its defaults; into a \
                 file of each tool's own in {place}, compared with the original after each run, then removed"
            ),
            TransferLoad::Objects(count) => format!(
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
            ContestPlan::download(64 * MIB).by(TransferNetwork::Shaped(NETWORK)).title(),
            "One object of 64 MiB into a file through toxiproxy: 20 ms each way, 40 MB/s a connection"
        );
        assert_eq!(
            ContestPlan::uploads(10, 4 * KIB).title(),
            "10 files of 4 KiB, server on the same machine, unshaped"
        );
        assert_eq!(
            ContestPlan::downloads(10, 4 * KIB).by(TransferNetwork::Tls).at_best().title(),
            "10 objects of 4 KiB into files, server on the same machine, over TLS; each tool at the best settings that \
             were found"
        );
    }
}
