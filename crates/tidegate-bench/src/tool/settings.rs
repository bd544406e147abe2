//! Lists the settings of each tool, or why the tool is left out, in the words of the reports.

use super::{Tool, TransferSource};
use crate::Result;

/// A tool's settings, or the reason why a contest leaves the tool out.
type Settings = Result<&'static str, &'static str>;

const NO_TREE: &str = "a library that has no word for a tree, only for one object";
const ONE_FILE: &str = "no tool, but a loop that moves the ranges of one file";
const PLACES: &str =
    "no tool, but a loop whose threads each read a file at a place of their own, which a pipe has not";
const NO_PIPE: &str = "a library whose program, as this benchmark has it, takes a file's name and no pipe";

impl Tool {
    /// Every setting of the tool, default or not; `None` if the contest leaves the tool out.
    #[must_use]
    pub fn settings(self, source: &TransferSource) -> Option<&'static str> {
        self.part_in(source).ok()
    }

    /// The reason to leave the tool out for this source; `None` if the tool takes part.
    #[must_use]
    pub fn left_out(self, source: &TransferSource) -> Option<&'static str> {
        self.part_in(source).err()
    }

    fn part_in(self, source: &TransferSource) -> Settings {
        match source {
            TransferSource::File(_) => Ok(self.upload_settings()),
            TransferSource::Pipe(_) => self.pipe_settings(),
            TransferSource::Directory(_) => self.tree_settings(),
            TransferSource::Object { .. } => Ok(self.download_settings()),
            TransferSource::Objects { .. } => self.trees_settings(),
        }
    }

    fn upload_settings(self) -> &'static str {
        match self {
            Self::Tidegate => {
                "`tidegate cp FILE URL`, defaults (parts of 16 MiB streamed from the file, CRC64NVME, payload not signed, \
                 concurrency found out, 256 MiB budget)"
            }
            Self::ObjectStore => {
                "BufWriter fed in pieces of 1 MiB read inline, defaults (10 MiB parts, 8 at once, no checksum) but \
                 for: payload not signed, HTTP allowed"
            }
            Self::TransferManager => {
                "upload of a path, defaults (part size, concurrency, runtime and memory chosen by it; the SDK's \
                 checksum) but for: bucket in the path"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp FILE URL`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone => "`rclone copyto FILE URL`, defaults (5 MiB parts, 4 at once), provider Other",
            Self::Mc => "`mc cp FILE URL`, defaults (16 MiB parts, 4 at once)",
            Self::AwsCli => "`aws s3 cp FILE URL`, defaults (8 MiB parts, 10 at once)",
            Self::Boto3 => "`upload_file`, defaults (8 MiB parts, 10 threads)",
            Self::Crt => {
                "`CRTTransferManager.upload` of s3transfer, its defaults (8 MiB parts, as many at once as 10 Gbit/s want)"
            }
            Self::Obstore => "`put` of an open file, defaults (5 MiB parts, 12 at once, no checksum)",
            Self::Opendal => {
                "a writer fed in pieces of 1 MiB read inline, defaults (5 MiB parts, one after the other, no checksum)"
            }
            Self::Floor => {
                "threads with one connection each, pread into a reused buffer of 256 KiB and write: one PUT an object, \
                 payload not signed, no checksum, no retry, nothing published as a whole"
            }
        }
    }

    fn tree_settings(self) -> Settings {
        Ok(match self {
            Self::Tidegate => {
                "`tidegate cp -r DIR/ URL`, defaults (64 objects at once or a quarter more than requests, \
                 requests at once found out; CRC64NVME of every object; 256 MiB budget)"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp DIR/ URL`, defaults (256 workers)",
            Self::Rclone => "`rclone copy DIR URL`, defaults (4 transfers, 8 checkers), provider Other",
            Self::Mc => "`mc cp --recursive DIR/ URL`, defaults (as many at once as it finds out)",
            Self::AwsCli => "`aws s3 cp --recursive DIR/ URL`, defaults (10 at once)",
            Self::TransferManager => {
                "`upload_objects` of a directory, defaults (concurrency chosen by it) but for: bucket in the path"
            }
            Self::ObjectStore | Self::Opendal | Self::Boto3 | Self::Crt | Self::Obstore => {
                return Err(NO_TREE);
            }
            Self::Floor => return Err(ONE_FILE),
        })
    }

    fn trees_settings(self) -> Settings {
        Ok(match self {
            Self::Tidegate => {
                "`tidegate cp -r URL DIR/`, defaults (64 objects at once or a quarter more than requests, \
                 requests at once found out; checksums compared, each file gets its name at its end, not synced; \
                 256 MiB budget)"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp URL* DIR/`, defaults (256 workers)",
            Self::Rclone => "`rclone copy URL DIR`, defaults (4 transfers, 8 checkers), provider Other",
            Self::Mc => "`mc cp --recursive URL DIR/`, defaults (as many at once as it finds out)",
            Self::AwsCli => "`aws s3 cp --recursive URL DIR/`, defaults (10 at once)",
            Self::TransferManager => {
                "`download_objects` into a directory, defaults (concurrency chosen by it) but for: bucket in the path"
            }
            Self::ObjectStore | Self::Opendal | Self::Boto3 | Self::Crt | Self::Obstore => {
                return Err(NO_TREE);
            }
            Self::Floor => return Err(ONE_FILE),
        })
    }

    fn pipe_settings(self) -> Settings {
        Ok(match self {
            Self::Tidegate => {
                "`… | tidegate cp - URL`, defaults (parts of 16 MiB, CRC64NVME, concurrency found out, 256 MiB budget)"
            }
            Self::ObjectStore => "BufWriter fed from standard input, settings as for a file",
            Self::S5cmd => "`… | s5cmd pipe URL`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone => "`… | rclone rcat URL`, defaults (5 MiB parts, 4 at once), provider Other",
            Self::Mc => "`… | mc pipe URL`, defaults (528 MiB parts, one after the other)",
            Self::AwsCli => "`… | aws s3 cp - URL`, defaults (8 MiB parts, 10 at once)",
            Self::Boto3 => "`upload_fileobj` of standard input, defaults (8 MiB parts, 10 threads)",
            Self::Obstore => "`put` of an iterator of pieces of 1 MiB, defaults (5 MiB parts, 12 at once)",
            Self::Opendal => "a writer fed from standard input, settings as for a file",
            Self::Crt | Self::TransferManager => return Err(NO_PIPE),
            Self::Floor => return Err(PLACES),
        })
    }

    fn download_settings(self) -> &'static str {
        match self {
            Self::Tidegate => {
                "`tidegate cp URL FILE`, defaults (ranges of 8 MiB written in place, CRC64NVME of the whole compared, \
                 file gets its name at its end, not synced; concurrency found out, 256 MiB budget)"
            }
            Self::ObjectStore => {
                "HEAD, then `get_range` of 8 MiB, 8 at once, each in a task and written in place inline; no checksum; \
                 defaults but for: HTTP allowed"
            }
            Self::TransferManager => {
                "download written to a path, defaults (part size, concurrency, runtime and memory chosen by it; renamed \
                 at the end) but for: bucket in the path"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp URL FILE`, defaults (50 MiB parts, 5 at once)",
            Self::Rclone => {
                "`rclone copyto URL FILE`, defaults (4 streams of chunks of 64 MiB from 256 MiB on), provider Other"
            }
            Self::Mc => "`mc cp URL FILE`, defaults: one request",
            Self::AwsCli => "`aws s3 cp URL FILE`, defaults (8 MiB ranges, 10 at once)",
            Self::Boto3 => "`download_file`, defaults (8 MiB ranges, 10 threads)",
            Self::Crt => {
                "`CRTTransferManager.download` of s3transfer, its defaults (8 MiB parts, as many at once as 10 Gbit/s want)"
            }
            Self::Obstore => "`get(…).stream()` written to a file: one request",
            Self::Opendal => "a reader's stream written to a file, defaults: one request",
            Self::Floor => {
                "threads with one connection each, read into a reused buffer of 256 KiB and pwrite: one GET a range, no \
                 checksum, no retry, not renamed"
            }
        }
    }
}
