//! The figures of a command as JSON: its results and its costs.

use std::fmt;
use std::time::Instant;

use clap::ValueEnum;
use compaction::build::Built;
use compaction::{Compacted, TableWay, WrittenTable};
use serde::Serialize;
use tidegate::Tidegate;

#[derive(Debug, Serialize)]
pub(crate) struct CompactionFigures {
    way: String,
    /// Time from before the first request to after the last.
    seconds: f64,
    /// Bytes of all outputs.
    bytes_out: u64,
    /// The outputs.
    outputs: Vec<OutputTable>,
    /// Bytes of all inputs.
    bytes_in: u64,
    /// The inputs.
    inputs: Vec<OutputTable>,
    #[serde(flatten)]
    built: Option<Built>,
    #[serde(flatten)]
    compacted: Option<Compacted>,
    /// Requests to the store, retries included.
    requests: u64,
    retries: u64,
    memory_budget_bytes: u64,
    /// The most memory that the engine held under its budget.
    peak_budget_bytes: u64,
    /// The process's peak resident memory according to the kernel, if available.
    peak_rss_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct OutputTable {
    key: String,
    bytes: u64,
}

impl CompactionFigures {
    pub(crate) fn new(tide: &Tidegate, began: Instant, way: TableWay, outputs: Vec<WrittenTable>) -> Self {
        let (usage, requests) = (tide.usage(), tide.progress().snapshot());
        Self {
            way: way.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
            seconds: began.elapsed().as_secs_f64(),
            bytes_out: outputs.iter().map(|table| table.size).sum(),
            outputs: tables(outputs),
            bytes_in: 0,
            inputs: Vec::new(),
            built: None,
            compacted: None,
            requests: requests.requests,
            retries: requests.retries,
            memory_budget_bytes: usage.total,
            peak_budget_bytes: usage.peak,
            peak_rss_bytes: peak_rss(),
        }
    }

    pub(crate) fn with_built(mut self, built: Built) -> Self {
        self.built = Some(built);
        self
    }

    pub(crate) fn with_compacted(mut self, compacted: Compacted, inputs: Vec<WrittenTable>) -> Self {
        self.compacted = Some(compacted);
        self.bytes_in = inputs.iter().map(|table| table.size).sum();
        self.inputs = tables(inputs);
        self
    }
}

impl fmt::Display for CompactionFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}

fn tables(written: Vec<WrittenTable>) -> Vec<OutputTable> {
    written.into_iter().map(|WrittenTable { key, size }| OutputTable { key, bytes: size }).collect()
}

/// Reads the peak resident memory from Linux's `/proc`.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
