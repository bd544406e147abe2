//! Measures how evenly keys of several sorts are spread.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::prefix::{Layout, Naming};

use crate::table::MarkdownTable;

/// Keys of each sort.
const KEYS: usize = 100_000;

/// One sort of keys under one naming.
#[derive(Clone, Debug, Serialize)]
pub struct Spreading {
    /// The sort.
    pub keys: &'static str,
    /// The naming.
    pub naming: &'static str,
    /// Prefixes.
    pub prefixes: u32,
    /// Keys below the prefix with the fewest.
    pub least: u32,
    /// Keys below the prefix with the most.
    pub most: u32,
    /// The deviation of the counts from even, as chi-square divided by its degrees of freedom: 1 is chance.
    pub chi_square: f64,
}

/// All sorts of keys under all namings.
pub(super) fn of(prefixes: u32) -> Vec<Spreading> {
    let mut random = fastrand::Rng::with_seed(1);
    let data = |id: u64| format!("{id}.data");
    let chosen = |naming: Naming| {
        let layout = Layout::new(naming, prefixes).ok();
        let first = layout.map(|layout| layout.name(&data(1)));
        (1_u64..).map(data).filter(move |key| layout.map(|layout| layout.name(key)) == first).take(KEYS / 10)
    };
    let sorts: [(&'static str, Vec<String>); 5] = [
        ("counting up", (0..KEYS as u64).map(data).collect()),
        ("random", (0..KEYS).map(|_| data(random.u64(..))).collect()),
        ("multiples of 2^32", (0..KEYS as u64).map(|id| data(id << 32)).collect()),
        ("chosen against decimal-id", chosen(Naming::DecimalId).collect()),
        ("chosen against base2", chosen(Naming::Base2).collect()),
    ];
    let mut found = Vec::new();
    for (keys, sort) in &sorts {
        for naming in [Naming::Base2, Naming::Decimal, Naming::DecimalId] {
            if let Ok(layout) = Layout::new(naming, prefixes) {
                found.push(Spreading::of(keys, sort, layout));
            }
        }
    }
    found
}

impl Spreading {
    fn of(keys: &'static str, sort: &[String], layout: Layout) -> Self {
        let mut counts: BTreeMap<String, u32> = layout.names().map(|name| (name, 0)).collect();
        for key in sort {
            *counts.entry(layout.name(key)).or_default() += 1;
        }
        let mean = sort.len() as f64 / f64::from(layout.count());
        let excess: f64 = counts.values().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
        Self {
            keys,
            naming: layout.naming().name(),
            prefixes: layout.count(),
            least: counts.values().copied().min().unwrap_or(0),
            most: counts.values().copied().max().unwrap_or(0),
            chi_square: excess / f64::from(layout.count().max(2) - 1),
        }
    }
}

pub(super) fn table(spreading: &[Spreading]) -> MarkdownTable {
    let mut table = MarkdownTable::new(["keys", "naming", "prefixes", "least", "most", "chi-square/df"]);
    for of in spreading {
        table.row([
            of.keys.to_owned(),
            of.naming.to_owned(),
            of.prefixes.to_string(),
            of.least.to_string(),
            of.most.to_string(),
            format!("{:.2}", of.chi_square),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_and_uneven_are_told_apart() {
        let found = of(128);
        let chi = |keys: &str, naming: &str| {
            found.iter().find(|of| of.keys == keys && of.naming == naming).unwrap().chi_square
        };
        for keys in ["counting up", "random"] {
            assert!((0.5..1.6).contains(&chi(keys, "base2")), "{keys}");
        }
        assert!((0.5..1.6).contains(&chi("chosen against decimal-id", "base2")));
        assert!(chi("chosen against base2", "base2") > 1000.0);
    }
}
