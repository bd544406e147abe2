//! Statistics of several runs.

use serde::Serialize;

/// The median of some values, and their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunSpread {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl RunSpread {
    /// The spread of some values; `None` if there are no values.
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

    /// The range of the values in percent of the median: the noise of a measurement.
    #[must_use]
    pub fn noise_percent(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median * 100.0 } else { 0.0 }
    }

    /// The ratio to `other`, by the medians.
    #[must_use]
    pub fn times(&self, other: &Self) -> f64 {
        if other.median > 0.0 { self.median / other.median } else { f64::NAN }
    }

    /// Whether this is above `other` by more than the noise of either, and by more than 15%, because a few runs
    /// do not show all noise.
    #[must_use]
    pub fn is_above(&self, other: &Self) -> bool {
        let noise = self.noise_percent().max(other.noise_percent()).max(15.0);
        self.times(other) > 1.0 + noise / 100.0
    }

    /// All three divided by `by`.
    #[must_use]
    pub fn per(&self, by: f64) -> Self {
        Self { median: self.median / by, min: self.min / by, max: self.max / by }
    }
}

/// The distribution of some values, in the columns of the published table of strategies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values there are.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample; 0 for one value.
    pub std: f64,
    /// The smallest value.
    pub min: f64,
    /// The median; this and the following by nearest rank.
    pub p50: f64,
    /// Three quarters of the values are at most this.
    pub p75: f64,
    /// Nine tenths of the values are at most this.
    pub p90: f64,
    /// 99 of 100 values are at most this.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
}

impl Distribution {
    /// The distribution of some values; `None` if there are no values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max, count) = (*values.first()?, *values.last()?, values.len());
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let [p50, p75, p90, p99] = [0.5, 0.75, 0.9, 0.99].map(|share| quantile(&values, share));
        Some(Self { count, mean, std, min, p50, p75, p90, p99, max })
    }
}

/// The value below which `share` of the sorted values lie, by nearest rank; NaN if there are no values.
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
    fn a_distribution_is_of_the_sample() {
        let found = Distribution::of([4.0, 2.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((found.count, found.mean, found.min, found.max), (8, 5.0, 2.0, 9.0));
        assert_eq!((found.p50, found.p75, found.p99), (4.0, 5.0, 9.0));
        assert!((found.std - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Distribution::of([3.0]).unwrap().std, 0.0);
        assert_eq!(Distribution::of([]), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = RunSpread::of([3.0, 1.0, 10.0]).unwrap();
        assert_eq!(spread, RunSpread { median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(RunSpread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(RunSpread::of([7.0]).unwrap(), RunSpread { median: 7.0, min: 7.0, max: 7.0 });
    }

    #[test]
    fn of_nothing_there_is_no_spread() {
        assert_eq!(RunSpread::of([]), None);
    }

    #[test]
    fn noise_is_relative_to_the_median() {
        let spread = RunSpread { median: 2.0, min: 1.5, max: 2.5 };
        assert_eq!(spread.noise_percent(), 50.0);
        assert_eq!(RunSpread { median: 0.0, min: 0.0, max: 0.0 }.noise_percent(), 0.0);
    }

    #[test]
    fn what_is_within_the_noise_is_not_above() {
        let spread = |min, median, max| RunSpread { median, min, max };
        let one = spread(1.0, 1.0, 1.0);
        assert!(!spread(1.14, 1.14, 1.14).is_above(&one) && spread(1.16, 1.16, 1.16).is_above(&one));
        assert!(!spread(0.9, 1.3, 1.4).is_above(&one) && spread(1.2, 1.3, 1.3).is_above(&one));
    }

    #[test]
    fn ratios_are_of_medians() {
        let (slow, fast) = (RunSpread::of([4.0, 6.0]).unwrap(), RunSpread::of([2.0]).unwrap());
        assert_eq!(slow.times(&fast), 2.5);
        assert!(slow.times(&RunSpread::of([0.0]).unwrap()).is_nan());
        assert_eq!(slow.per(2.0), RunSpread { median: 2.5, min: 2.0, max: 3.0 });
    }
}
