//! What each tool runs with, in the words of the reports.

use super::{Source, Tool};

impl Tool {
    /// Every setting that it runs with, default or not; `None` of what it has no word for.
    #[must_use]
    pub fn settings(self, source: &Source) -> Option<&'static str> {
        match source {
            Source::File(_) => Some(self.upload_settings()),
            Source::Pipe(_) => self.pipe_settings(),
            Source::Directory(_) => self.tree_settings(),
            Source::Object { .. } => Some(self.download_settings()),
            Source::Objects { .. } => self.trees_settings(),
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

    fn tree_settings(self) -> Option<&'static str> {
        Some(match self {
            Self::Tidegate => "`tidegate cp -r DIR/ URL`, defaults (CRC64NVME of every object)",
            Self::S5cmd => "`s5cmd --endpoint-url … cp DIR/ URL`, defaults (256 workers)",
            Self::Rclone => "`rclone copy DIR URL`, defaults (4 transfers, 8 checkers), provider Other",
            Self::Mc => "`mc cp --recursive DIR/ URL`, defaults (as many at once as it finds out)",
            Self::AwsCli => "`aws s3 cp --recursive DIR/ URL`, defaults (10 at once)",
            Self::TransferManager => {
                "`upload_objects` of a directory, defaults (concurrency chosen by it) but for: bucket in the path"
            }
            Self::ObjectStore | Self::Opendal | Self::Boto3 | Self::Crt | Self::Obstore | Self::Floor => {
                return None;
            }
        })
    }

    fn trees_settings(self) -> Option<&'static str> {
        Some(match self {
            Self::Tidegate => {
                "`tidegate cp -r URL DIR/`, defaults (checksums compared, each file renamed at its end, not synced)"
            }
            Self::S5cmd => "`s5cmd --endpoint-url … cp URL* DIR/`, defaults (256 workers)",
            Self::Rclone => "`rclone copy URL DIR`, defaults (4 transfers, 8 checkers), provider Other",
            Self::Mc => "`mc cp --recursive URL DIR/`, defaults (as many at once as it finds out)",
            Self::AwsCli => "`aws s3 cp --recursive URL DIR/`, defaults (10 at once)",
            Self::TransferManager => {
                "`download_objects` into a directory, defaults (concurrency chosen by it) but for: bucket in the path"
            }
            Self::ObjectStore | Self::Opendal | Self::Boto3 | Self::Crt | Self::Obstore | Self::Floor => {
                return None;
            }
        })
    }

    fn pipe_settings(self) -> Option<&'static str> {
        Some(match self {
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
            Self::Crt | Self::TransferManager | Self::Floor => return None,
        })
    }

    fn download_settings(self) -> &'static str {
        match self {
            Self::Tidegate => {
                "`tidegate cp URL FILE`, defaults (ranges of 8 MiB written in place, CRC64NVME of the whole compared, \
                 renamed at the end, not synced; concurrency found out, 256 MiB budget)"
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
