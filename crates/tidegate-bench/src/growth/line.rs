//! Fits straight lines through points.

use serde::Serialize;

/// The straight line closest to some points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LineFit {
    /// The rise for each unit of x.
    pub slope: f64,
    /// The value at x = 0.
    pub intercept: f64,
    /// The largest vertical distance of a point from the line, in percent of the highest point. In percent of a
    /// point's own height, the lowest point would always be the farthest.
    pub farthest_percent: f64,
}

impl LineFit {
    /// The line of these points; `None` unless they have at least two different x and are all numbers.
    #[must_use]
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let x_mean = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let y_mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let across: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let both: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        let slope = both / across;
        if !slope.is_finite() {
            return None;
        }
        let line = Self { slope, intercept: y_mean - slope * x_mean, farthest_percent: 0.0 };
        let farthest = points.iter().map(|(x, y)| (y - line.at(*x)).abs()).fold(0.0, f64::max);
        let highest = points.iter().map(|(_, y)| y.abs()).fold(0.0, f64::max);
        let farthest_percent = if highest > 0.0 { farthest / highest * 100.0 } else { 0.0 };
        Some(Self { farthest_percent, ..line })
    }

    /// The line's value at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The ratio of the last point to the line through all points before it. A line through all points would hide a
/// deviation: when sizes double, the last point pulls the line towards itself. `None` for fewer than three
/// points.
pub(super) fn beyond(points: &[(f64, f64)]) -> Option<f64> {
    let [before @ .., (x, y)] = points else { return None };
    let expected = LineFit::of(before)?.at(*x);
    (expected > 0.0).then_some(y / expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let line = LineFit::of(&[(1.0, 5.0), (2.0, 7.0), (64.0, 131.0)]).unwrap();
        let [slope, intercept] = [line.slope - 2.0, line.intercept - 3.0].map(f64::abs);
        assert!(slope < 1e-9 && intercept < 1e-9 && line.farthest_percent < 1e-9, "{line:?}");
        assert!((line.at(10.0) - 23.0).abs() < 1e-9);
    }

    #[test]
    fn the_farthest_point_is_told_by_the_highest() {
        // Computed by hand: the mean is (1, 2), the slope 12/2, and the residuals are 1, -2 and 1 times 2.
        let line = LineFit::of(&[(0.0, 0.0), (1.0, -2.0), (2.0, 8.0)]).unwrap();
        assert_eq!((line.slope, line.intercept), (4.0, -2.0));
        assert_eq!(line.farthest_percent, 4.0 / 8.0 * 100.0);
        assert_eq!(LineFit::of(&[(1.0, 0.0), (2.0, 0.0)]).unwrap().farthest_percent, 0.0);
    }

    #[test]
    fn there_is_no_line_through_one_place() {
        for points in [&[][..], &[(1.0, 1.0)], &[(1.0, 1.0), (1.0, 2.0)], &[(1.0, 1.0), (2.0, f64::NAN)]] {
            assert_eq!(LineFit::of(points), None, "{points:?}");
        }
    }

    #[test]
    fn what_is_beyond_is_held_against_what_came_before() {
        let of = |figure: fn(f64) -> f64| {
            let points: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0].map(|size| (size, figure(size))).into();
            beyond(&points).unwrap()
        };
        assert!((of(|size| 0.3 + 2.0 * size) - 1.0).abs() < 1e-9);
        // Twice the size takes 2.8 times as long.
        assert!(of(|size| size.powf(1.5)) > 1.2);
        assert!(of(f64::sqrt) < 0.9);
        assert_eq!(beyond(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(beyond(&[]), None);
    }
}
