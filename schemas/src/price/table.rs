//! All prices, laid out for look-ups: by the whole name, else by its longest prefix.

use std::collections::{BTreeMap, HashMap};

use super::{Charge, PriceRow, Rates, Usage};
use crate::timestamp::UnixMs;

/// All prices. Immutable: a change makes a new table.
///
/// A look-up costs one hash of the name and, if no row has that name, a binary search among the prefixes. It does not
/// allocate.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    exact: HashMap<Box<str>, Dated>,
    /// Sorted, so that the longest prefix of a name is the last entry not after it, or one of its `shorter` ones.
    prefixes: Vec<Prefix>,
}

/// The rates of one name, oldest first; the last one not after a time applies then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Dated(Vec<(UnixMs, Rates)>);

#[derive(Clone, Debug)]
struct Prefix {
    text: Box<str>,
    dated: Dated,
    /// Index of the longest other prefix that is a prefix of this one.
    shorter: Option<usize>,
}

impl Dated {
    fn in_force(&self, at_ms: UnixMs) -> Option<&Rates> {
        // Few rows, and runs are recent: the newest is nearly always the one.
        let mut newest_first = self.0.iter().rev();
        newest_first
            .find(|(from_ms, _)| *from_ms <= at_ms)
            .map(|(_, rates)| rates)
    }
}

impl PriceTable {
    /// Of two rows with the same key the later one counts.
    pub fn new(rows: impl IntoIterator<Item = PriceRow>) -> Self {
        let mut by_key: BTreeMap<_, Rates> = BTreeMap::new();
        for PriceRow { key, rates } in rows {
            let from_ms = key.effective_from.unwrap_or(UnixMs::MIN);
            by_key.insert((key.is_prefix, key.model, from_ms), rates);
        }
        let mut exact: HashMap<Box<str>, Dated> = HashMap::new();
        let mut prefixes: Vec<Prefix> = Vec::new();
        // In order of name and then of date.
        for ((is_prefix, model, from_ms), rates) in by_key {
            let dated = match (is_prefix, prefixes.last_mut()) {
                (false, _) => exact.entry(model.into()).or_default(),
                (true, Some(last)) if *last.text == *model => &mut last.dated,
                (true, _) => {
                    let shorter = prefixes.len().checked_sub(1);
                    prefixes.push(Prefix {
                        shorter: longest(&prefixes, shorter, &model),
                        text: model.into(),
                        dated: Dated::default(),
                    });
                    let at = prefixes.len() - 1;
                    &mut prefixes[at].dated
                }
            };
            dated.0.push((from_ms, rates));
        }
        Self { exact, prefixes }
    }

    /// The cost of the call; `None` when no row applies to the model. The caller has made sure that there are tokens to
    /// count: prompt and completion, or the total.
    pub fn charge(&self, usage: Usage<'_>) -> Option<Charge> {
        self.rates(usage.model, usage.at_ms)
            .map(|rates| rates.charge(usage))
    }

    /// The rates of a model at a time: of the row with exactly this name, else of the longest prefix. A row that does
    /// not apply at that time counts as absent.
    pub fn rates(&self, model: &str, at_ms: UnixMs) -> Option<&Rates> {
        let exact = self.exact.get(model);
        if let Some(rates) = exact.and_then(|dated| dated.in_force(at_ms)) {
            return Some(rates);
        }
        // Whatever sorts between a prefix of the name and the name has that prefix too.
        let after = self
            .prefixes
            .partition_point(|prefix| *prefix.text <= *model);
        let mut at = longest(&self.prefixes, after.checked_sub(1), model);
        while let Some(prefix) = at.and_then(|at| self.prefixes.get(at)) {
            if let Some(rates) = prefix.dated.in_force(at_ms) {
                return Some(rates);
            }
            at = prefix.shorter;
        }
        None
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty()
    }
}

/// Index of the longest prefix of `name`, among the prefix at `at` and its shorter ones.
fn longest(prefixes: &[Prefix], mut at: Option<usize>, name: &str) -> Option<usize> {
    while let Some(prefix) = at.and_then(|at| prefixes.get(at)) {
        if name.starts_with(&*prefix.text) {
            return at;
        }
        at = prefix.shorter;
    }
    None
}
