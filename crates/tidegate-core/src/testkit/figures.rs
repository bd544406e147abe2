//! What a program sees that installs a recorder of the `metrics` facade.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// Adds up what is recorded, by name and labels. Of a histogram the number of values counts.
#[derive(Clone, Debug, Default)]
pub struct Figures(Arc<Mutex<BTreeMap<String, f64>>>);

pub struct Figure {
    of: Figures,
    name: String,
}

impl Figure {
    fn add(&self, more: f64) {
        *self.of.0.lock().unwrap().entry(self.name.clone()).or_default() += more;
    }
}

impl CounterFn for Figure {
    fn increment(&self, more: u64) {
        self.add(more as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("no counter is set");
    }
}

impl GaugeFn for Figure {
    fn increment(&self, more: f64) {
        self.add(more);
    }

    fn decrement(&self, less: f64) {
        self.add(-less);
    }

    fn set(&self, _: f64) {
        unreachable!("engines of one process add up");
    }
}

impl HistogramFn for Figure {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{}: {value}", self.name);
        self.add(1.0);
    }
}

impl Figures {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = key.name().strip_prefix("tidegate_").unwrap();
        Arc::new(Figure { of: self.clone(), name: format!("{name}{{{}}}", labels.join(",")) })
    }

    /// The figure with this name and these labels, as `name{label=value}`; 0 if nothing was recorded.
    pub fn of(&self, name: &str) -> f64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.figure(key).into()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.figure(key).into()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.figure(key).into()
    }
}
