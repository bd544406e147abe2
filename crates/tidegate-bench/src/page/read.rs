//! Reads the JSON of the other subcommands: of each file only the fields that the page shows.
//!
//! The field names are those of the reports; the tests make the files from the reports themselves.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde_json::{Map, Value};

use super::axis::short;
use crate::Result;
use crate::size;

/// The contents of a file, and the claims that do not hold; `None` if there is no such file.
pub(super) fn file<T: DeserializeOwned>(path: &Path) -> Result<Option<(T, Vec<String>)>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} can't be read: {error}", path.display()).into()),
    };
    // Parsed twice, because an error names no field inside a flattened struct.
    let report = parsed(path, &text)?;
    let Judgement { broken } = parsed(path, &text)?;
    Ok(Some((report, broken)))
}

/// The broken claims that any table's report may have; contests and older files have no such field.
#[derive(Deserialize)]
struct Judgement {
    #[serde(default)]
    broken: Vec<String>,
}

fn parsed<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let wrong = |why: String| format!("{} is no report of this kind: {why}", path.display());
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let inner = error.into_inner();
        wrong(if field == "." { inner.to_string() } else { format!("{field}: {inner}") })
    })?;
    json.end().map_err(|error| wrong(error.to_string()))?;
    Ok(read)
}

/// A number; JSON has `null` instead of NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number or null")
            }

            fn visit_f64<E>(self, value: f64) -> std::result::Result<Number, E> {
                Ok(Number(value))
            }

            fn visit_u64<E>(self, value: u64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_unit<E>(self) -> std::result::Result<Number, E> {
                Ok(Number(f64::NAN))
            }
        }
        // Not an `Option`, which would accept a missing field.
        deserializer.deserialize_any(Numbers)
    }
}

/// The plain values of these numbers.
pub(super) fn plain(numbers: &[Number]) -> Vec<f64> {
    numbers.iter().map(|number| number.0).collect()
}

/// The spread of several runs.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct JsonSpread {
    pub(super) median: Number,
    pub(super) min: Number,
    pub(super) max: Number,
}

impl From<JsonSpread> for crate::stats::RunSpread {
    fn from(JsonSpread { median, min, max }: JsonSpread) -> Self {
        Self { median: median.0, min: min.0, max: max.0 }
    }
}

/// The cost of a process.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct JsonUsage {
    pub(super) wall: Number,
    pub(super) user: Number,
    pub(super) system: Number,
    pub(super) peak_kib: Number,
}

impl JsonUsage {
    pub(super) fn cpu(&self) -> f64 {
        self.user.0 + self.system.0
    }

    pub(super) fn peak_mib(&self) -> f64 {
        self.peak_kib.0 / 1024.0
    }
}

/// A process that ran the example or an upload.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct JsonRun {
    pub(super) usage: JsonUsage,
}

/// The machine and its load.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct JsonConditions {
    machine: JsonMachine,
    load: [Number; 2],
}

#[derive(Clone, Debug, Deserialize)]
struct JsonMachine {
    cores: u64,
    cpu: String,
    kernel: String,
    memory_gib: u64,
    // Absent in older files.
    date: Option<String>,
    version: Option<String>,
}

impl fmt::Display for JsonConditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonMachine { cores, cpu, kernel, memory_gib, date, version } = &self.machine;
        let [before, after] = self.load.map(|load| short(load.0));
        write!(
            out,
            "Machine: {cores} cores of {cpu}, {memory_gib} GiB, {kernel}; load average {before} before, {after} after."
        )?;
        if let (Some(date), Some(version)) = (date, version) {
            write!(out, " Measured on {date} (UTC) by tidegate-bench {version}.")?;
        }
        Ok(())
    }
}

/// The options of a trial, as in the report: every option of the subcommand by its name.
pub(super) type Trial = Map<String, Value>;

/// The command line of these options.
pub(super) fn command(subcommand: &str, trial: &Trial) -> String {
    let mut words = vec!["tidegate-bench".to_owned(), subcommand.to_owned()];
    // `--quick` stands for sizes and numbers, and conflicts with them.
    let is_quick = trial.get("quick") == Some(&Value::Bool(true));
    for (name, value) in trial {
        let said = match value {
            Value::Array(values) if !is_quick => {
                values.iter().map(|value| word(name, value)).collect::<Vec<_>>().join(",")
            }
            Value::Number(_) if !is_quick => word(name, value),
            Value::String(_) => word(name, value),
            Value::Bool(true) => String::new(),
            _ => continue,
        };
        if value.is_array() && said.is_empty() {
            continue;
        }
        words.push(format!("--{}", name.replace('_', "-")));
        words.extend(Some(said).filter(|said| !said.is_empty()));
    }
    words.push("--json".to_owned());
    words.join(" ")
}

/// One value in the form of the command line.
fn word(name: &str, value: &Value) -> String {
    let is_size = ["size", "sizes", "largest", "memory"].iter().any(|end| name.ends_with(end));
    match value {
        Value::String(text) if text.contains(char::is_whitespace) => format!("'{text}'"),
        Value::String(text) => text.clone(),
        value => match value.as_u64().filter(|size| is_size && *size > 0) {
            Some(bytes) => size::format(bytes).replace(' ', ""),
            None => value.as_f64().map_or_else(|| value.to_string(), |number| number.to_string()),
        },
    }
}

/// The noise as a sentence: the largest difference between equal runs.
pub(super) fn noise(runs: impl IntoIterator<Item = Vec<f64>>) -> String {
    let spreads = runs.into_iter().filter(|runs| runs.len() > 1).filter_map(crate::stats::RunSpread::of);
    match spreads.map(|spread| spread.noise_percent()).filter(|noise| noise.is_finite()).reduce(f64::max) {
        Some(most) => format!("Noise: runs of the same are up to {most:.0}% apart."),
        None => "Noise: not known, there is one run of each.".to_owned(),
    }
}
