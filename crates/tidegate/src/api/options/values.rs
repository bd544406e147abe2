//! Values of options as text: sizes, rates, times.

use std::time::Duration;

use crate::engine::limiter::Concurrency;

/// A size in bytes: `16MiB`, `64K`, `1.5g`, `64MB`, or a plain number. As for s5cmd and rclone, `K`, `M`, `G` and `T`
/// are powers of 1024, like `KiB` and so on; `KB` and so on are powers of 1000.
pub fn size(text: &str) -> Result<u64, String> {
    bytes(text.trim(), "write a size such as 16MiB, 64MB, 1.5G or 1048576")
}

/// A rate in bytes per second: a size, also with `/s`: `50MB/s`, `1KiB`.
pub fn rate(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let size = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let example = "write a rate such as 50MB/s, 1.5MiB/s or 1024";
    if ["Kb", "Mb", "Gb", "Tb"].iter().any(|bits| size.ends_with(bits)) {
        return Err(format!("`b` stands for bits, and a rate is in bytes: {example}"));
    }
    bytes(size, example)
}

/// A number of bytes. Fractions of a byte are left out. Every error ends with `example`.
fn bytes(text: &str, example: &str) -> Result<u64, String> {
    // With more digits than this, the fraction may not fit into the calculation.
    const MOST_DECIMALS: usize = 12;
    let wrong = |what: &str| format!("{what}: {example}");
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    if number.is_empty() {
        return Err(wrong("it does not begin with a number"));
    }
    let unit = unit.trim_start();
    let unit_bytes: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong(&format!("there is no unit `{unit}`"))),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = !whole.is_empty() && !fraction.is_empty() && !fraction.contains('.');
    if !is_number {
        return Err(wrong(&format!("`{number}` is no number")));
    }
    if fraction.len() > MOST_DECIMALS {
        return Err(wrong(&format!("`{number}` has more than {MOST_DECIMALS} decimals")));
    }
    if number.contains('.') && unit_bytes == 1 {
        return Err(wrong(&format!("`{number}` needs a unit, because there are no fractions of a byte")));
    }
    let too_large = || wrong("that is more than a machine can count");
    // `u128` holds the products: a unit has at most 40 bits, the others at most 64.
    let unit_bytes = u128::from(unit_bytes);
    let digits = |digits: &str| digits.parse::<u64>().map(u128::from).map_err(|_| too_large());
    let of_fraction = digits(fraction)? * unit_bytes / 10_u128.pow(fraction.len() as u32);
    match u64::try_from(digits(whole)? * unit_bytes + of_fraction).map_err(|_| too_large())? {
        0 if number.contains(|digit: char| ('1'..='9').contains(&digit)) => {
            Err(wrong("that is less than a byte"))
        }
        bytes => Ok(bytes),
    }
}

/// `auto`, or a number of requests, from 1.
pub fn concurrency(text: &str) -> Result<Concurrency, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Concurrency::Auto),
        Ok(0) | Err(_) => Err("write auto, or a number from 1".to_owned()),
        Ok(requests) => Ok(Concurrency::Fixed(requests)),
    }
}

/// A time: `20ms`, `1min 30s`, or a number of seconds: `90`, `0.5`.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && let Ok(duration) = Duration::try_from_secs_f64(seconds)
    {
        return Ok(duration);
    }
    humantime::parse_duration(text)
        .map_err(|_| "write a time such as 20ms, 1min or a number of seconds".to_owned())
}
