//! Users' changes over the shipped prices.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemas::price::{PriceKey, PriceRow, Rates};
use schemas::timestamp::UnixMs;

use super::PriceRecord;

/// A row of the stored table.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) key: PriceKey,
    /// `None` for a deleted row.
    pub(super) rates: Option<Rates>,
    pub(super) changed_at_ms: UnixMs,
}

/// The rows in force: users' rows, and the shipped rows that nothing hides.
///
/// A user's price of a name applies from its date until the user's next date, so it hides the shipped rows of this name
/// from that date on; a shipped price cut must not undo a user's price. A deleted row only hides the shipped one of the
/// same date.
pub(super) fn in_force(shipped: &[PriceRow], stored: &[Stored]) -> Vec<PriceRecord> {
    let touched: HashSet<&PriceKey> = stored.iter().map(|stored| &stored.key).collect();
    // `None`, for always, is the earliest date.
    let mut first_set: HashMap<(&str, bool), Option<UnixMs>> = HashMap::new();
    for Stored { key, .. } in stored.iter().filter(|stored| stored.rates.is_some()) {
        first_set
            .entry((&key.model, key.is_prefix))
            .and_modify(|first| *first = (*first).min(key.effective_from))
            .or_insert(key.effective_from);
    }
    let is_hidden = |key: &PriceKey| {
        let first = first_set.get(&(&key.model, key.is_prefix));
        touched.contains(key) || first.is_some_and(|first| *first <= key.effective_from)
    };
    let underneath = shipped
        .iter()
        .filter(|row| !is_hidden(&row.key))
        .map(|row| (row.clone(), None));
    let over = stored.iter().filter_map(|stored| {
        let row = PriceRow {
            key: stored.key.clone(),
            rates: stored.rates.clone()?,
        };
        Some((row, Some(stored.changed_at_ms)))
    });
    let sorted: BTreeMap<PriceKey, PriceRecord> = underneath
        .chain(over)
        .map(|(row, changed_at_ms)| (row.key.clone(), PriceRecord { row, changed_at_ms }))
        .collect();
    sorted.into_values().collect()
}

#[cfg(test)]
mod tests {
    use schemas::price::rate::{Per, Rate};

    use super::*;

    fn key(model: &str, effective_from: Option<UnixMs>) -> PriceKey {
        PriceKey {
            model: model.to_owned(),
            is_prefix: false,
            effective_from,
        }
    }

    fn rates(per_1m: u32) -> Rates {
        let rate = Rate::read(&per_1m.to_string(), Per::Million).unwrap();
        Rates {
            input: rate,
            output: rate,
            cached_input: None,
            total: None,
            special: None,
        }
    }

    fn shipped() -> Vec<PriceRow> {
        [("a", None, 1), ("a", Some(100), 2), ("b", None, 3)]
            .map(|(model, from, per_1m)| PriceRow {
                key: key(model, from),
                rates: rates(per_1m),
            })
            .to_vec()
    }

    fn stored(model: &str, from: Option<UnixMs>, per_1m: Option<u32>) -> Stored {
        Stored {
            key: key(model, from),
            rates: per_1m.map(rates),
            changed_at_ms: 7,
        }
    }

    /// Name, date and price per million, marked with `!` for a user's.
    #[track_caller]
    fn check(stored: &[Stored], expected: &[&str]) {
        let shown: Vec<String> = in_force(&shipped(), stored)
            .into_iter()
            .map(|PriceRecord { row, changed_at_ms }| {
                let from = row
                    .key
                    .effective_from
                    .map_or_else(String::new, |from| format!("@{from}"));
                let mark = if changed_at_ms.is_some() { "!" } else { "" };
                let price = row.rates.input.per(Per::Million);
                format!("{}{from}={price}{mark}", row.key.model)
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn without_changes_the_shipped_prices_count() {
        check(&[], &["a=1", "a@100=2", "b=3"]);
    }

    #[test]
    fn what_a_person_set_counts_from_its_date_on() {
        check(&[stored("a", None, Some(9))], &["a=9!", "b=3"]);
        check(
            &[stored("a", Some(50), Some(9))],
            &["a=1", "a@50=9!", "b=3"],
        );
        check(
            &[stored("a", Some(200), Some(9))],
            &["a=1", "a@100=2", "a@200=9!", "b=3"],
        );
        check(
            &[stored("c", None, Some(9))],
            &["a=1", "a@100=2", "b=3", "c=9!"],
        );
    }

    #[test]
    fn a_deleted_row_hides_the_shipped_one_of_its_date_alone() {
        check(&[stored("a", None, None)], &["a@100=2", "b=3"]);
        check(&[stored("a", Some(100), None)], &["a=1", "b=3"]);
        check(&[stored("b", None, None)], &["a=1", "a@100=2"]);
        check(&[stored("c", None, None)], &["a=1", "a@100=2", "b=3"]);
    }

    #[test]
    fn a_beginning_and_a_name_are_not_the_same() {
        let mut prefix = stored("a", None, Some(9));
        prefix.key.is_prefix = true;
        check(&[prefix], &["a=1", "a@100=2", "a=9!", "b=3"]);
    }
}
