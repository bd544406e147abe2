//! The published tables, and the store that they imply.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PartsWay;
use crate::size::{KIB, MIB};

/// Milliseconds that client and server themselves need for a request of [`Published::Async`]: for moving bytes,
/// checksums, sleeps that end late, and bodies that are paced in steps of 5 ms.
///
/// The figure comes from parts that wait for each other. With 28.2 ms of latency they took longer than
/// published: 55.0 ms for 4 MiB, 6.2 ms too long for one request; and 17.72 s for 2 GiB, 1.32 s too long for
/// 207 requests. To check the figure, compare the printed table with the published one: the difference divided
/// by the number of requests is the error of this figure. A single request is up to half a step off.
/// `--unshaped` prints the share that does not depend on the store's clock: 3 to 5 ms a request.
pub(super) const OWN_MS: f64 = 6.3;

/// A published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// Sizes of 4 to 2048 MiB in parts of 10 MiB.
    Async,
    /// Sizes of 64 KiB to 150 MiB, of up to 30 parts in up to 10 threads.
    Threaded,
}

/// One line of a published table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedRow {
    /// Bytes of the object.
    pub size: u64,
    /// Bytes of a part.
    pub part: u64,
    /// Most parts in flight, if the table gives it.
    pub streams: Option<usize>,
    /// The published gain of parallel parts, in percent of the first way.
    pub published: f64,
}

impl Published {
    pub(super) fn ways(self) -> &'static [PartsWay] {
        match self {
            Self::Async => &[PartsWay::OneByOne, PartsWay::AtOnce, PartsWay::Auto, PartsWay::Cold],
            Self::Threaded => {
                &[PartsWay::Plain, PartsWay::OneByOne, PartsWay::AtOnce, PartsWay::Auto, PartsWay::Cold]
            }
        }
    }

    /// The name of the column with each way's rate.
    pub(super) fn rate(self) -> &'static str {
        match self {
            Self::Async => "iterations/s",
            Self::Threaded => "MB/s",
        }
    }

    pub(super) fn rows(self) -> Vec<PublishedRow> {
        match self {
            Self::Async => {
                let gains = [108.32, 104.41, 117.11, 170.03, 247.14, 284.82, 316.53, 339.35, 342.67, 332.71];
                let sizes = (2..).map(|bits| MIB << bits);
                let row = |(size, published)| PublishedRow { size, part: 10 * MIB, streams: None, published };
                sizes.zip(gains).map(row).collect()
            }
            Self::Threaded => {
                let rows = [
                    (64 * KIB, 1, 1, 37.0),
                    (512 * KIB, 1, 1, 57.0),
                    (MIB, 1, 1, 76.0),
                    (10 * MIB, 2, 2, 152.0),
                    (50 * MIB, 10, 5, 201.0),
                    (50 * MIB, 10, 10, 196.0),
                    (150 * MIB, 30, 5, 212.0),
                    (150 * MIB, 30, 10, 199.0),
                ];
                let row = |(size, parts, streams, published): (u64, u64, usize, f64)| PublishedRow {
                    size,
                    // S3 accepts no smaller parts; a smaller object is a single part.
                    part: (size / parts).max(5 * MIB),
                    streams: Some(streams),
                    published,
                };
                rows.map(row).into()
            }
        }
    }

    /// The published time of the first way for an object of this size, in milliseconds, if known.
    pub(crate) fn first_ms(self, size: u64) -> Option<f64> {
        let known: &[_] = match self {
            Self::Async => &[(4 * MIB, 48.82), (2048 * MIB, 16_400.0)],
            Self::Threaded => &[],
        };
        known.iter().find(|(known, _)| *known == size).map(|(_, ms)| *ms)
    }

    /// The store's knobs. With `quick`, the store of [`Threaded`](Self::Threaded) is eight times as fast in
    /// everything, so that the ways stay in proportion.
    pub(super) fn shape(self, quick: bool) -> Value {
        match self {
            // 28.2 ms a request and 194 MiB/s a stream follow from the published times of parts that wait for
            // each other: 48.82 ms for 4 MiB in one request, and 16.40 s for 2 GiB in 205 parts and two more
            // requests. The store waits 28.2 ms less `OWN_MS`, the time that a request takes here anyway. The
            // gain of the largest object, 333%, gives 415 MiB/s in all.
            Self::Async => json!({
                "latency": {"fixed_ms": 21.9},
                "bandwidth": {"stream_in": 194 * MIB, "total_in": 415 * MIB},
            }),
            // The rate of a stream and the time of a request are those of the plain uploads; the total is the
            // rate that ten threads reached.
            Self::Threaded => {
                let faster = if quick { 8 } else { 1 };
                json!({
                    "latency": {"fixed_ms": 75.0 / f64::from(faster)},
                    "bandwidth": {"stream_in": 4_750_000 * faster, "total_in": 9_000_000 * faster},
                })
            }
        }
    }

    /// How the store's figures were derived.
    pub(super) fn model(self) -> String {
        match self {
            Self::Async => format!(
                "Store: the two published times of parts that wait for each other are 28.2 ms a request and 194 MiB/s a \
                 stream; {OWN_MS} ms of each request are what client and server took themselves where this was derived, so that \
                 the latency is the rest. 415 MiB/s in all is the published gain of 2 GiB (333% of 2 GiB in 16.40 s): parts at once can \
                 come up to it there, and not above."
            ),
            Self::Threaded => "Store: as the write-up has it, about 75 ms a request, 4.5 to 5 MB/s a stream (4.75 here) \
                 and 9 MB/s in all; with --quick all of it eight times as fast. Its times themselves are not known \
                 here, only what was gained."
                .to_owned(),
        }
    }
}
