//! Records the machine, the day and the version of a measurement.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::size::KIB;

/// Facts of this machine, and of this program, on which the figures depend.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Logical processors.
    pub cores: usize,
    /// The model of the processors.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// The day in UTC, as yyyy-mm-dd.
    pub date: String,
    /// The version of tidegate-bench.
    pub version: &'static str,
}

impl Machine {
    /// The machine that runs this, today. A fact that the machine does not report is called unknown.
    #[must_use]
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let kib = kib(&read("/proc/meminfo"), "MemTotal");
        let release = read("/proc/sys/kernel/osrelease");
        // The text after the version names a builder, not a kernel.
        let kernel = release.trim().split('-').next().filter(|text| !text.is_empty());
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            kernel: kernel.map_or_else(unknown, |text| format!("Linux {text}")),
            memory_gib: (kib.unwrap_or(0) + (1 << 19)) >> 20,
            date: day(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// A machine and its load during a measurement; displays as a line of Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// The machine.
    pub machine: Machine,
    /// The load average before and after.
    pub load: [f64; 2],
}

impl Conditions {
    /// This machine, from the time when its load average was `before` until now.
    #[must_use]
    pub fn since(before: f64) -> Self {
        Self { machine: Machine::this(), load: [before, load()] }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cores, cpu, kernel, memory_gib, date, version } = &self.machine;
        let [before, after] = self.load;
        write!(
            out,
            "- machine: {cores} cores of {cpu}, {memory_gib} GiB, {kernel}; load average {before:.2} before, {after:.2} after; \
             {date} (UTC), tidegate-bench {version}"
        )
    }
}

/// Bytes of memory still available to programs; 0 if unknown.
#[must_use]
pub fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kib(&text, "MemAvailable").unwrap_or(0) * KIB
}

/// How many processes were running or waiting to, on average over the last minute.
#[must_use]
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// The date of a time.
fn day(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // `rcgen` has a calendar for certificates.
    (rcgen::date_time_ymd(1970, 1, 1) + since).date().to_string()
}

/// A number of KiB in a file of `/proc`.
pub(crate) fn kib(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split(' ').next()?.parse().ok()
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: A CPU: fast\nmodel name\t: another\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU: fast"));
        assert_eq!(field(text, "model"), None);
        assert_eq!(kib("MemTotal:       24 kB\nMemFree: many\n", "MemTotal"), Some(24));
        assert_eq!(kib("MemTotal:       24 kB\nMemFree: many\n", "MemFree"), None);
    }

    #[test]
    fn days_are_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn conditions_say_when_and_by_what() {
        let machine = Machine { date: "2026-01-02".to_owned(), ..Machine::this() };
        let said = Conditions { machine, load: [0.5, 1.0] }.to_string();
        assert!(said.contains("load average 0.50 before, 1.00 after; 2026-01-02 (UTC)"), "{said}");
        assert!(said.ends_with(&format!(", tidegate-bench {}", env!("CARGO_PKG_VERSION"))), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
