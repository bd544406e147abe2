//! Maps values to places on an axis, and chooses the values to label.

/// An axis of a plot; places run from 0 to 1.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// The labelled values, and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

impl Axis {
    /// From 0 to a round number that is at least the largest value.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let most = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = if most > 0.0 { round_step(most / 4.0) } else { 0.5 };
        let count = if most > 0.0 { (most / step - 1e-9).ceil().max(1.0) } else { 2.0 };
        let ticks = (0..=count as u32).map(|number| {
            // Divides if the step is below one, because 3 × 0.1 is not 0.3.
            let value =
                if step < 1.0 { f64::from(number) / (1.0 / step).round() } else { f64::from(number) * step };
            (value, short(value))
        });
        Self { scale: Scale::Linear, from: 0.0, to: step * count, ticks: ticks.collect() }
    }

    /// A logarithmic axis; values of 0 or less are not on it.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = reach(values).unwrap_or((1.0, 10.0));
        let from = *rounds(least).iter().rfind(|round| **round <= least * (1.0 + 1e-9)).unwrap_or(&least);
        let to = *rounds(most).iter().find(|round| **round >= most * (1.0 - 1e-9)).unwrap_or(&most);
        let to = if to > from { to } else { from * 10.0 };
        let decades = (to / from).log10();
        let mut ticks = Vec::new();
        let mut power = from.log10().floor() as i32;
        while 10_f64.powi(power) <= to * (1.0 + 1e-9) {
            let leads: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            ticks.extend(leads.iter().map(|lead| lead * 10_f64.powi(power)));
            power += 1;
        }
        let is_in = |tick: &f64| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(tick);
        ticks.retain(is_in);
        // At most as many labels as fit on a phone.
        let every = ticks.len().div_ceil(7).max(1);
        let ticks = ticks.into_iter().step_by(every).map(|tick| (tick, short(tick))).collect();
        Self { scale: Scale::Logarithmic, from, to, ticks }
    }

    /// As [`Self::logarithmic`], but with these values and labels.
    pub(super) fn named(ticks: Vec<(f64, String)>) -> Self {
        let (from, to) = reach(ticks.iter().map(|(value, _)| *value)).unwrap_or((1.0, 10.0));
        // A single value is in the middle.
        let (from, to) = if to > from { (from, to) } else { (from / 2.0, to * 2.0) };
        Self { scale: Scale::Logarithmic, from, to, ticks }
    }

    /// The places 0, 1, 2 … with these names.
    pub(super) fn places(names: Vec<String>) -> Self {
        let to = names.len().saturating_sub(1).max(1) as f64;
        let ticks = names.into_iter().enumerate().map(|(place, name)| (place as f64, name)).collect();
        Self { scale: Scale::Linear, from: 0.0, to, ticks }
    }

    /// The place of a value, from 0 to 1; `None` if the value is not on the axis.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        (place.is_finite() && (-1e-6..=1.0 + 1e-6).contains(&place)).then_some(place)
    }
}

/// The smallest and the largest of the values above 0.
fn reach(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let values = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
    values.fold(None, |reach, value| {
        let (least, most) = reach.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    })
}

/// 1, 2 and 5 times the powers of ten around a value.
fn rounds(value: f64) -> [f64; 9] {
    let power = value.log10().floor();
    std::array::from_fn(|number| [1.0, 2.0, 5.0][number % 3] * 10_f64.powf(power - 1.0 + (number / 3) as f64))
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
fn round_step(value: f64) -> f64 {
    *rounds(value).iter().find(|round| **round >= value * (1.0 - 1e-9)).unwrap_or(&value)
}

/// A number in short form: three significant digits, and all digits before the point.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests;
