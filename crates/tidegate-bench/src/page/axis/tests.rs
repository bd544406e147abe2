use super::*;

fn names(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn an_axis_from_zero_ends_at_a_round_number() {
    assert_eq!(names(&Axis::from_zero([5.24, 0.33])), ["0", "2", "4", "6"]);
    assert_eq!(names(&Axis::from_zero([0.4])), ["0", "0.1", "0.2", "0.3", "0.4"]);
    assert_eq!(names(&Axis::from_zero([657.1])), ["0", "200", "400", "600", "800"]);
    assert_eq!(names(&Axis::from_zero([])), ["0", "0.5", "1"]);
    assert_eq!(names(&Axis::from_zero([f64::NAN, 0.0, -1.0])), ["0", "0.5", "1"]);
    let axis = Axis::from_zero([5.24]);
    assert_eq!([axis.at(0.0), axis.at(3.0), axis.at(6.0)], [Some(0.0), Some(0.5), Some(1.0)]);
    assert_eq!([axis.at(-1.0), axis.at(7.0), axis.at(f64::NAN), axis.at(f64::INFINITY)], [None; 4]);
}

#[test]
fn a_logarithmic_axis_has_round_numbers_around_its_values() {
    assert_eq!(names(&Axis::logarithmic([0.3, 2.0])), ["0.2", "0.5", "1", "2"]);
    assert_eq!(names(&Axis::logarithmic([17.5, 2240.0])), ["10", "100", "1000"]);
    assert_eq!(names(&Axis::logarithmic([1.0, 1e12])).len(), 7);
    assert_eq!(names(&Axis::logarithmic([])), ["1", "2", "5", "10"]);
    let axis = Axis::logarithmic([1.0, 100.0]);
    assert!((axis.at(10.0).unwrap() - 0.5).abs() < 1e-9);
    assert_eq!([axis.at(0.0), axis.at(-1.0), axis.at(f64::NAN)], [None; 3]);
}

#[test]
fn every_value_is_on_the_axis_that_is_made_of_it() {
    for power in -9..=9 {
        for lead in [1.0, 1.999, 2.0, 3.3, 5.0, 9.99] {
            let value = lead * 10_f64.powi(power);
            for axis in [Axis::from_zero([value]), Axis::logarithmic([value])] {
                assert!(axis.at(value).is_some(), "{value}: {axis:?}");
                assert!((2..=8).contains(&axis.ticks.len()), "{value}: {axis:?}");
                assert!(axis.ticks.iter().all(|(tick, _)| axis.at(*tick).is_some()), "{axis:?}");
            }
        }
    }
}

#[test]
fn names_have_places() {
    let axis = Axis::places(["a", "b", "c"].map(str::to_owned).into());
    assert_eq!([axis.at(0.0), axis.at(1.0), axis.at(2.0)], [Some(0.0), Some(0.5), Some(1.0)]);
    assert_eq!(Axis::places(vec!["a".to_owned()]).at(0.0), Some(0.0));
    let axis = Axis::named(vec![(4.0, "4".to_owned()), (16.0, "16".to_owned())]);
    assert!((axis.at(8.0).unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(Axis::named(vec![(4.0, "4".to_owned())]).at(4.0), Some(0.5));
}

#[test]
fn numbers_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (0.05, "0.05"),
        (1.456, "1.46"),
        (10.0, "10"),
        (123.4, "123"),
        (12_800_000.0, "12800000"),
        (1e-12, "0"),
        (f64::NAN, "–"),
        (f64::INFINITY, "–"),
    ] {
        assert_eq!(short(value), text);
    }
}
