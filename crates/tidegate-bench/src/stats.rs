//! What several runs come to.

use serde::Serialize;

/// The middle of some values, and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or between the two middle ones.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// The spread of some values; `None` where there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, min, max })
    }

    /// How far the values are apart, in percent of the median: the noise of a measurement.
    #[must_use]
    pub fn noise_percent(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median * 100.0 } else { 0.0 }
    }

    /// How many times `other` this is, by the medians.
    #[must_use]
    pub fn times(&self, other: &Self) -> f64 {
        if other.median > 0.0 { self.median / other.median } else { f64::NAN }
    }

    /// All three divided by `by`.
    #[must_use]
    pub fn per(&self, by: f64) -> Self {
        Self { median: self.median / by, min: self.min / by, max: self.max / by }
    }
}

/// The value below which `share` of the sorted ones lie, by nearest rank; no number where there are none.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(
            (quantile(&values, 0.5), quantile(&values, 0.99), quantile(&values, 1.0)),
            (100.0, 198.0, 200.0)
        );
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of([3.0, 1.0, 10.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([7.0]).unwrap(), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }

    #[test]
    fn of_nothing_there_is_no_spread() {
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn noise_is_relative_to_the_median() {
        let spread = Spread { median: 2.0, min: 1.5, max: 2.5 };
        assert_eq!(spread.noise_percent(), 50.0);
        assert_eq!(Spread { median: 0.0, min: 0.0, max: 0.0 }.noise_percent(), 0.0);
    }

    #[test]
    fn ratios_are_of_medians() {
        let (slow, fast) = (Spread::of([4.0, 6.0]).unwrap(), Spread::of([2.0]).unwrap());
        assert_eq!(slow.times(&fast), 2.5);
        assert!(slow.times(&Spread::of([0.0]).unwrap()).is_nan());
        assert_eq!(slow.per(2.0), Spread { median: 2.5, min: 2.0, max: 3.0 });
    }
}
