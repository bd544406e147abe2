//! Lists all prefixes as one: checks that every key comes once and in order, and measures memory and requests.
//!
//! The measured program is `tidegate ls`, a process of its own each time. The server holds every listed object;
//! the objects are empty and made many at a time.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidegate::Tidegate;
use tidegate::prefix::{Layout, Naming, PrefixedStore};

use crate::Result;
use crate::embedded::{Embedded, ServerCounts};
use crate::machine;
use crate::measure::{self, ProcessUsage};
use crate::process::Program;
use crate::size::{GIB, KIB};
use crate::table::MarkdownTable;

/// The root of the keys.
const ROOT: &str = "listed";
/// Objects made with one request.
const AT_ONCE: u64 = 10_000;
/// Entries of a page of S3's listing.
const PAGE: u64 = 1000;
/// Assumed server memory for an object, as long as there are too few objects to measure it.
const EACH: u64 = KIB;
const FEW: u64 = 100_000;
/// The limit of one listing.
const LIMIT: Duration = Duration::from_secs(3600);

/// One listing.
#[derive(Clone, Debug, Serialize)]
pub struct ListingRun {
    /// Objects below the root.
    pub objects: u64,
    /// The number of objects that was asked for, if the machine's memory can't carry as many.
    pub asked: Option<u64>,
    /// Whether all prefixes were listed as one, in key order; otherwise the root was listed in the order of its
    /// names.
    pub is_merged: bool,
    /// The fewest possible requests: the pages, and where prefixes are merged also a listing and a read of the
    /// record.
    pub least: u64,
    /// The server's counts.
    pub counts: ServerCounts,
    /// The cost of the process.
    pub usage: ProcessUsage,
}

/// Listings over `prefixes` prefixes of each number of objects, from the smallest to the largest.
pub(super) fn of(tidegate: &Path, prefixes: u32, counts: &[u64]) -> Result<Vec<ListingRun>> {
    let folder = tempfile::tempdir()?;
    let server = Embedded::storing(tidegate, folder.path(), "memory")?;
    let layout = Layout::new(Naming::Base2, prefixes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = Arc::new(server.endpoint().connect().await?);
        let store = Tidegate::builder().build()?.store(backend).within(ROOT);
        Ok::<_, crate::Error>(PrefixedStore::init(&store, layout).await?)
    })?;
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    let mut filled = Filled { server, layout, objects: 0, by_prefix: vec![0; prefixes as usize], empty: 0 };
    filled.empty = filled.server.resident()?;
    let mut listings = Vec::new();
    for asked in counts {
        let objects = filled.up_to(asked)?;
        for is_merged in [true, false] {
            let mut listing = filled.list(tidegate, folder.path(), is_merged)?;
            listing.asked = (objects < asked).then_some(asked);
            let (peak, seconds) = (listing.usage.peak_kib / 1024, listing.usage.wall);
            let how = if is_merged { "as one" } else { "as it is" };
            eprintln!(
                "listing of {objects}, {how}: {seconds:.2} s, {peak} MiB, {} requests",
                listing.counts.total()
            );
            listings.push(listing);
        }
        if objects < asked {
            break;
        }
    }
    Ok(listings)
}

/// A server with objects.
struct Filled {
    server: Embedded,
    layout: Layout,
    objects: u64,
    /// How many objects are below each prefix.
    by_prefix: Vec<u64>,
    /// Bytes of the server's memory without objects.
    empty: u64,
}

impl Filled {
    /// Creates objects up to `asked`, or up to the limit of memory; returns their number.
    fn up_to(&mut self, asked: u64) -> Result<u64> {
        let grown = self.server.resident()?.saturating_sub(self.empty);
        let most = carried(self.objects, grown, machine::available()).min(asked);
        let mut places = Vec::new();
        while self.objects < most {
            let until = (self.objects + AT_ONCE).min(most);
            for number in self.objects..until {
                let key = key(number);
                let name = self.layout.name(&key);
                self.by_prefix[usize::from_str_radix(&name, 2)?] += 1;
                places.push(format!("{ROOT}/{name}/{key}"));
            }
            self.server.fill(&places)?;
            places.clear();
            self.objects = until;
        }
        Ok(self.objects)
    }

    fn list(&self, tidegate: &Path, folder: &Path, is_merged: bool) -> Result<ListingRun> {
        let root = format!("s3://{}/{ROOT}", self.server.endpoint().bucket);
        let mut program = Program::new(tidegate).variables(self.server.endpoint().variables());
        program = program.arg("ls").arg("-r");
        if is_merged {
            program = program.arg("--prefixed").arg(&root);
        }
        let (program, log) = (program.arg(format!("{root}/")), folder.join("ls.log"));
        self.server.forget()?;
        let usage = measure::measure(&program, &log, LIMIT)?;
        let counts = self.server.counts()?;
        let pages = |count: u64| count.div_ceil(PAGE).max(1);
        let least = if is_merged {
            check(&log, self.objects)?;
            self.by_prefix.iter().map(|count| pages(*count)).sum::<u64>() + 2
        } else {
            // The listing includes the record.
            pages(self.objects + 1)
        };
        std::fs::remove_file(log)?;
        Ok(ListingRun { objects: self.objects, asked: None, is_merged, least, counts, usage })
    }
}

/// Keys sort in the order of their numbers.
fn key(number: u64) -> String {
    format!("t/{number:08}.sst")
}

/// The number of objects that a server can hold on this machine. It holds `objects` in `grown` bytes, and
/// `available` bytes are free; a GiB of those, and a quarter of the expected need, stay free.
fn carried(objects: u64, grown: u64, available: u64) -> u64 {
    let each = if objects < FEW { EACH } else { (grown / objects).max(1) };
    objects + available.saturating_sub(GIB) * 4 / 5 / each
}

/// Checks that a printed listing has every key once, in order.
fn check(printed: &Path, objects: u64) -> Result<()> {
    let mut numbers = 0..objects;
    for line in BufReader::new(File::open(printed)?).lines() {
        let (line, expected) = (line?, numbers.next().map(key));
        if line.rsplit(' ').next() != expected.as_deref() {
            let expected = expected.unwrap_or_else(|| "the end".to_owned());
            return Err(format!("tidegate ls gave `{line}` where {expected} was to come").into());
        }
    }
    match numbers.next() {
        None => Ok(()),
        Some(number) => Err(format!("tidegate ls ended before {}", key(number)).into()),
    }
}

pub(super) fn table(listings: &[ListingRun]) -> MarkdownTable {
    let columns = [
        "listed",
        "objects",
        "wall s",
        "objects a second",
        "CPU s",
        "peak RSS MiB",
        "requests",
        "fewest possible",
        "failed",
    ];
    let mut table = MarkdownTable::new(columns);
    for ListingRun { objects, asked, is_merged, least, counts, usage } in listings {
        let asked = asked.map_or_else(String::new, |asked| format!(" (of {asked}: memory)"));
        table.row([
            if *is_merged { "all prefixes as one" } else { "the root as it is" }.to_owned(),
            format!("{objects}{asked}"),
            format!("{:.2}", usage.wall),
            format!("{:.0}", *objects as f64 / usage.wall),
            format!("{:.2}", usage.cpu()),
            format!("{:.0}", usage.peak_kib as f64 / 1024.0),
            counts.total().to_string(),
            least.to_string(),
            counts.failed.values().sum::<u64>().to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let printed = |numbers: &[u64]| {
            let path = folder.path().join("printed");
            let lines = numbers
                .iter()
                .map(|number| format!("           0 B  2026-01-01 00:00:00   {}\n", key(*number)));
            std::fs::write(&path, lines.collect::<String>()).unwrap();
            check(&path, 3).map_err(|error| error.to_string())
        };
        assert_eq!(printed(&[0, 1, 2]), Ok(()));
        for wrong in [&[0, 2, 1][..], &[0, 1], &[0, 0, 1, 2], &[0, 1, 2, 3], &[1, 2], &[]] {
            assert!(printed(wrong).is_err(), "{wrong:?}");
        }
        assert!(printed(&[0, 1]).unwrap_err().contains("ended before t/00000002.sst"));
    }

    #[test]
    fn memory_says_how_many_objects_there_can_be() {
        assert_eq!(carried(0, 0, GIB), 0);
        assert_eq!(carried(0, 0, GIB / 2), 0);
        assert_eq!(carried(0, 0, GIB + 5 * EACH * 1000), 4000);
        // Existing objects stay, and show how much memory an object needs.
        assert_eq!(carried(FEW, FEW * 500, GIB), FEW);
        assert_eq!(carried(FEW, FEW * 500, GIB + 5 * 500 * 1000), FEW + 4000);
    }
}
