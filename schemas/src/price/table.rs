//! All prices, laid out for look-ups: by the whole name, else by its longest prefix, else by the name without decoration.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::names::{self, Folded};
use super::{PriceKey, PriceRow, Priced, Rates, Usage};
use crate::timestamp::UnixMs;

/// All prices. Immutable: a change makes a new table.
///
/// A look-up costs one hash of the name and, if no row has that name, a binary search among the prefixes. If none of them
/// applies either, it costs one hash for each part of the name that is left without decoration: one or two for most
/// names. It does not allocate.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    exact: HashMap<Box<str>, Arc<Dated>>,
    /// Sorted, so that the longest prefix of a name is the last entry not after it, or one of its `shorter` ones.
    prefixes: Vec<Prefix>,
    /// The rows of `exact` by their folded names, and by other spellings of them.
    folded: HashMap<Box<str>, ByFolded>,
}

/// The rows of one name, oldest first; the last one not after a time applies then. Never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Dated(Vec<PriceRow>);

#[derive(Clone, Debug)]
enum ByFolded {
    One(Arc<Dated>),
    /// Several names fold to this: only the exact one counts.
    Several,
}

#[derive(Clone, Debug)]
struct Prefix {
    text: Box<str>,
    dated: Dated,
    /// Index of the longest other prefix that is a prefix of this one.
    shorter: Option<usize>,
}

impl Dated {
    fn in_force(&self, at_ms: UnixMs) -> Option<&PriceRow> {
        // Few rows, and runs are recent: the newest is nearly always the one.
        let mut newest_first = self.0.iter().rev();
        newest_first.find(|row| {
            row.key
                .effective_from
                .is_none_or(|from_ms| from_ms <= at_ms)
        })
    }
}

impl PriceTable {
    /// Of two rows with the same key the later one counts.
    pub fn new(rows: impl IntoIterator<Item = PriceRow>) -> Self {
        let by_key = |row: PriceRow| {
            let PriceKey {
                model,
                is_prefix,
                effective_from,
            } = row.key.clone();
            ((is_prefix, model, effective_from), row)
        };
        let by_key: BTreeMap<_, PriceRow> = rows.into_iter().map(by_key).collect();
        let mut exact: HashMap<Box<str>, Arc<Dated>> = HashMap::new();
        let mut prefixes: Vec<Prefix> = Vec::new();
        // In order of name and then of date.
        for ((is_prefix, model, _), row) in by_key {
            let dated = match (is_prefix, prefixes.last_mut()) {
                (false, _) => Arc::make_mut(exact.entry(model.into()).or_default()),
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
            dated.0.push(row);
        }
        Self {
            folded: folded(&exact),
            exact,
            prefixes,
        }
    }

    /// The cost of the call and the row that it is by; `None` when no row applies to the model. The caller has made sure
    /// that there are tokens to count: prompt and completion, or the total.
    pub fn charge(&self, usage: Usage<'_>) -> Option<Priced<'_>> {
        let row = self.row(usage.model, usage.at_ms)?;
        Some(Priced {
            charge: row.rates.charge(usage),
            row: &row.key,
        })
    }

    pub fn rates(&self, model: &str, at_ms: UnixMs) -> Option<&Rates> {
        self.row(model, at_ms).map(|row| &row.rates)
    }

    /// The row of a model at a time: with exactly this name, else with the longest prefix, else the first one found with
    /// less and less decoration ([`names`]). A row that does not apply at that time counts as absent.
    pub fn row(&self, model: &str, at_ms: UnixMs) -> Option<&PriceRow> {
        self.named(model, at_ms)
            .or_else(|| self.by_prefix(model, at_ms))
            .or_else(|| self.undecorated(model, at_ms))
    }

    fn named(&self, model: &str, at_ms: UnixMs) -> Option<&PriceRow> {
        self.exact.get(model)?.in_force(at_ms)
    }

    fn by_prefix(&self, model: &str, at_ms: UnixMs) -> Option<&PriceRow> {
        // Whatever sorts between a prefix of the name and the name has that prefix too.
        let after = self
            .prefixes
            .partition_point(|prefix| *prefix.text <= *model);
        let mut at = longest(&self.prefixes, after.checked_sub(1), model);
        while let Some(prefix) = at.and_then(|at| self.prefixes.get(at)) {
            if let Some(row) = prefix.dated.in_force(at_ms) {
                return Some(row);
            }
            at = prefix.shorter;
        }
        None
    }

    fn undecorated(&self, model: &str, at_ms: UnixMs) -> Option<&PriceRow> {
        let name = Folded::of(model)?;
        let name = name.text();
        names::find(name, |part| {
            let written = &model[part.start..part.end];
            let row = match self.folded.get(&name[part.start..part.end]) {
                Some(ByFolded::One(dated)) => dated.in_force(at_ms),
                Some(ByFolded::Several) => self.named(written, at_ms),
                None => None,
            };
            row.or_else(|| match part.is_for_prefixes {
                true => self.by_prefix(written, at_ms),
                false => None,
            })
        })
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty()
    }
}

/// The rows by their folded names; other spellings give way to names.
fn folded(exact: &HashMap<Box<str>, Arc<Dated>>) -> HashMap<Box<str>, ByFolded> {
    let mut all: HashMap<Box<str>, ByFolded> = HashMap::with_capacity(exact.len());
    for (name, dated) in exact {
        if let Some(folded) = Folded::of(name) {
            all.entry(folded.text().into())
                .and_modify(|rows| *rows = ByFolded::Several)
                .or_insert_with(|| ByFolded::One(dated.clone()));
        }
    }
    let mut spelled: Vec<(String, ByFolded)> = Vec::new();
    for (folded, rows) in &all {
        spelled.extend(names::spellings(folded).map(|other| (other, rows.clone())));
    }
    for (other, rows) in spelled {
        all.entry(other.into()).or_insert(rows);
    }
    all
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

#[cfg(test)]
mod tests;
