//! The price table: the shipped rows, overridden by users' changes.
//!
//! [`Prices`] holds both in memory, so that pricing a call costs a look-up and no query. A change applies in this
//! process before the call that made it returns, and in others at their next [`Prices::refresh`].

mod layers;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use clickhouse::Row;
use schemas::price::rate::Rate;
use schemas::price::shipped::shipped;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates, SpecialRates};
use schemas::timestamp::UnixMs;
use serde::Deserialize;
use tokio::sync::{Mutex, watch};

use crate::client::Store;
use crate::error::StoreError;
use layers::Stored;

/// Rows that users may store: a hundred times the number of models, and a look-up stays below a microsecond (X1).
/// Deleted rows count, but those that hide nothing make room when it is needed.
pub const CHANGED_ROWS_MAX: usize = 10_000;
/// Approximate bytes of a row: its name and its rates, once for users and once for pricing, where it is also found by its
/// folded name.
const ROW_BYTES: usize = 1000;
/// Rows written by one statement: their names fit into a parameter, which is limited to 128 KiB. Only deleted rows are
/// written together, and they have no details; the details of one row have at most some 20 KiB.
const ROWS_PER_WRITE: usize = 50;

/// A price in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRecord {
    pub row: PriceRow,
    /// When a user set it, Unix milliseconds; `None` for a shipped one.
    pub changed_at_ms: Option<UnixMs>,
}

/// The price table of one process. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Prices {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    shipped: Vec<PriceRow>,
    /// Prices in force, for lists.
    records: RwLock<Arc<Vec<PriceRecord>>>,
    /// Prices in force, for pricing.
    table: watch::Sender<Arc<PriceTable>>,
    /// Number of changes that this process made.
    made_here: watch::Sender<u64>,
    /// State of the stored table at the last read. Locked while reading and writing: an older reading must not replace
    /// a newer one.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    marks: Option<Marks>,
    /// Stored keys, and whether the row is deleted and hides nothing: then it can be removed.
    stored: HashMap<PriceKey, bool>,
}

/// Changes whenever the table does: versions grow over the whole table.
#[derive(Clone, Copy, PartialEq, Eq, Row, Deserialize)]
struct Marks {
    rows: u64,
    version: u64,
}

#[derive(Row, Deserialize)]
struct StoredPrice {
    model: String,
    is_prefix: u8,
    effective_from: i64,
    is_deleted: u8,
    input: i128,
    output: i128,
    cached_input: Option<i128>,
    total: Option<i128>,
    details: String,
    changed_at: i64,
}

/// One change: the rates of a key, or none to delete it.
struct Change<'a> {
    key: &'a PriceKey,
    rates: Option<&'a Rates>,
}

const MARKS: &str = "SELECT count() AS rows, max(version) AS version FROM prices";
const STORED: &str = "SELECT model, is_prefix, effective_from, is_deleted, input, output, cached_input, total, details, \
    changed_at FROM prices FINAL ORDER BY model, is_prefix, effective_from";
const WRITE: &str = "INSERT INTO prices \
    (model, is_prefix, effective_from, version, is_deleted, input, output, cached_input, total, details, changed_at) \
    SELECT m, p, fromUnixTimestamp64Milli(f, 'UTC'), \
      greatest(toUInt64(toUnixTimestamp64Micro(now64(6))), (SELECT max(version) + 1 FROM prices)), d, \
      toDecimal128(i, 18), toDecimal128(o, 18), toDecimal128OrNull(c, 18), toDecimal128OrNull(t, 18), e, now64(3) \
    FROM (SELECT {models:Array(String)} AS m, {prefixes:Array(UInt8)} AS p, {froms:Array(Int64)} AS f, \
      {deleted:Array(UInt8)} AS d, {inputs:Array(String)} AS i, {outputs:Array(String)} AS o, \
      {cached:Array(String)} AS c, {totals:Array(String)} AS t, {details:Array(String)} AS e) \
    ARRAY JOIN m, p, f, d, i, o, c, t, e";
/// All versions of these rows: removing only the newest would restore the one before it.
const FORGET: &str = "ALTER TABLE prices DELETE WHERE version <= {version:UInt64} \
      AND has(arrayZip({models:Array(String)}, {prefixes:Array(UInt8)}, {froms:Array(Int64)}), \
        (model, is_prefix, toUnixTimestamp64Milli(effective_from))) \
    SETTINGS mutations_sync = 2";

impl Prices {
    /// The shipped prices; [`Prices::refresh`] adds users' changes.
    pub fn new(store: Store) -> Result<Self, StoreError> {
        let shipped = shipped()
            .map_err(|fault| StoreError::Invalid(fault.to_string()))?
            .rows;
        let records = layers::in_force(&shipped, &[]);
        let (table, _) = watch::channel(table_of(&records));
        let inner = Inner {
            store,
            shipped,
            records: RwLock::new(Arc::new(records)),
            table,
            made_here: watch::Sender::new(0),
            seen: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub fn current(&self) -> Arc<PriceTable> {
        self.inner.table.borrow().clone()
    }

    /// The current prices and every change.
    pub fn subscribe(&self) -> watch::Receiver<Arc<PriceTable>> {
        self.inner.table.subscribe()
    }

    /// Changes whenever this process set or deleted a price, so that it is published to the others.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.inner.made_here.subscribe()
    }

    /// Every row in force, by name, exact ones first, oldest first.
    pub fn records(&self) -> Arc<Vec<PriceRecord>> {
        match self.inner.records.read() {
            Ok(records) => records.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    /// Loads changes of the stored table. Call it before the first call is priced and then every few seconds; an error
    /// leaves everything unchanged.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        self.take_over(&mut seen).await
    }

    /// Reloads the table, even if it looks unchanged. While the database is away, the prices stay: calls without a
    /// price would cost nothing, which is worse than an old price. They are reloaded as soon as possible.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        // A request waits, so comparing the table is left to the next refresh, which reloads once more.
        seen.marks = None;
        self.read(&mut seen).await
    }

    /// Number of rows in force, approximate bytes in use, and maximum bytes.
    pub fn sizes(&self) -> (u64, u64, u64) {
        let rows = self.records().len();
        let most = CHANGED_ROWS_MAX + self.inner.shipped.len();
        let bytes = |rows: usize| (rows * ROW_BYTES) as u64;
        (rows as u64, bytes(rows), bytes(most))
    }

    /// Sets the rates of a key; returns the row in force. Applies in this process when this returns.
    pub async fn put(&self, row: &PriceRow) -> Result<PriceRecord, StoreError> {
        let mut seen = self.inner.seen.lock().await;
        self.take_over(&mut seen).await?;
        // A deleted key still has its row.
        let is_full = seen.stored.len() >= CHANGED_ROWS_MAX && !seen.stored.contains_key(&row.key);
        if is_full && !self.make_room(&mut seen).await? {
            return Err(StoreError::Invalid(format!(
                "there are {CHANGED_ROWS_MAX} changed prices already, which is the most there may be"
            )));
        }
        let change = Change {
            key: &row.key,
            rates: Some(&row.rates),
        };
        self.write(&[change]).await?;
        self.take_over(&mut seen).await?;
        self.records()
            .iter()
            .find(|record| record.row.key == row.key)
            .cloned()
            .ok_or_else(|| StoreError::Shape("a price that was just written is not there".into()))
    }

    /// Deletes the rows in force that `chosen` selects, shipped ones too, and returns them. Applies in this process
    /// when this returns.
    pub async fn delete(
        &self,
        chosen: impl Fn(&PriceKey) -> bool,
    ) -> Result<Vec<PriceRecord>, StoreError> {
        let mut seen = self.inner.seen.lock().await;
        self.take_over(&mut seen).await?;
        let mut gone = Vec::new();
        // A user's row may hide a shipped row of a later date, which reappears when it is deleted.
        loop {
            let records = self.records();
            let picked = records.iter().filter(|record| chosen(&record.row.key));
            let picked: Vec<PriceRecord> = picked.cloned().collect();
            if picked.is_empty() {
                return Ok(gone);
            }
            let changes: Vec<Change<'_>> = picked
                .iter()
                .map(|record| Change {
                    key: &record.row.key,
                    rates: None,
                })
                .collect();
            self.write(&changes).await?;
            self.take_over(&mut seen).await?;
            gone.extend(picked);
        }
    }

    async fn take_over(&self, seen: &mut Seen) -> Result<(), StoreError> {
        let marks: Marks = self.inner.store.bounded_query(MARKS).one().await?;
        if seen.marks == Some(marks) {
            return Ok(());
        }
        self.read(seen).await?;
        seen.marks = Some(marks);
        Ok(())
    }

    async fn read(&self, seen: &mut Seen) -> Result<(), StoreError> {
        let rows: Vec<StoredPrice> = self.inner.store.bounded_query(STORED).rows().await?;
        let stored: Vec<Stored> = rows
            .into_iter()
            .map(StoredPrice::into_stored)
            .collect::<Result<_, _>>()?;
        let records = layers::in_force(&self.inner.shipped, &stored);
        self.inner.table.send_replace(table_of(&records));
        match self.inner.records.write() {
            Ok(mut held) => *held = Arc::new(records),
            Err(poisoned) => *poisoned.into_inner() = Arc::new(records),
        }
        let shipped: HashSet<&PriceKey> = self.inner.shipped.iter().map(|row| &row.key).collect();
        let hides_nothing =
            |stored: &Stored| stored.rates.is_none() && !shipped.contains(&stored.key);
        let stored = stored.into_iter();
        seen.stored = stored
            .map(|stored| (hides_nothing(&stored), stored))
            .map(|(is_idle, stored)| (stored.key, is_idle))
            .collect();
        Ok(())
    }

    /// Removes some deleted rows that hide nothing; `false` when there are none. A concurrent write of another process
    /// has a newer version and stays.
    async fn make_room(&self, seen: &mut Seen) -> Result<bool, StoreError> {
        let Some(marks) = seen.marks else {
            return Ok(false);
        };
        let idle = seen.stored.iter().filter(|(_, is_idle)| **is_idle);
        let keys: Vec<&PriceKey> = idle.map(|(key, _)| key).take(ROWS_PER_WRITE).collect();
        if keys.is_empty() {
            return Ok(false);
        }
        let models: Vec<&str> = keys.iter().map(|key| key.model.as_str()).collect();
        let prefixes: Vec<u8> = keys.iter().map(|key| u8::from(key.is_prefix)).collect();
        let froms = keys
            .iter()
            .map(|key| key.effective_from.unwrap_or_default());
        let query = self.inner.store.client.query_raw(FORGET);
        query
            .param("models", models)
            .param("prefixes", prefixes)
            .param("froms", froms.collect::<Vec<i64>>())
            .param("version", marks.version)
            .execute()
            .await?;
        self.take_over(seen).await?;
        Ok(seen.stored.len() < CHANGED_ROWS_MAX)
    }

    async fn write(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let none = Rates::default();
        for changes in changes.chunks(ROWS_PER_WRITE) {
            let list = |of: &dyn Fn(&Rates) -> Option<Rate>| -> Vec<String> {
                let rates = changes.iter().map(|change| change.rates.unwrap_or(&none));
                rates.map(|rates| text(of(rates))).collect()
            };
            let keys = || changes.iter().map(|change| change.key);
            let models: Vec<&str> = keys().map(|key| key.model.as_str()).collect();
            let prefixes: Vec<u8> = keys().map(|key| u8::from(key.is_prefix)).collect();
            let froms: Vec<i64> = keys()
                .map(|key| key.effective_from.unwrap_or_default())
                .collect();
            let deleted: Vec<u8> = changes
                .iter()
                .map(|change| u8::from(change.rates.is_none()))
                .collect();
            self.inner
                .store
                .client
                .query_raw(WRITE)
                .param("models", models)
                .param("prefixes", prefixes)
                .param("froms", froms)
                .param("deleted", deleted)
                .param("inputs", list(&|rates| Some(rates.input)))
                .param("outputs", list(&|rates| Some(rates.output)))
                .param("cached", list(&|rates| rates.cached_input))
                .param("totals", list(&|rates| rates.total))
                .param("details", changes.iter().map(details).collect::<Vec<_>>())
                .execute()
                .await?;
            self.inner.made_here.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

fn details(change: &Change<'_>) -> String {
    let special = change.rates.and_then(|rates| rates.special.as_deref());
    special.map_or_else(String::new, SpecialRates::to_text)
}

/// USD per token with all digits; empty for none.
fn text(rate: Option<Rate>) -> String {
    rate.map_or_else(String::new, |rate| {
        schemas::money::Dollars(rate.units()).to_string()
    })
}

fn table_of(records: &[PriceRecord]) -> Arc<PriceTable> {
    let rows = records.iter().map(|record| record.row.clone());
    Arc::new(PriceTable::new(rows))
}

impl StoredPrice {
    fn into_stored(self) -> Result<Stored, StoreError> {
        let rate = |units: i128| {
            Rate::from_units(units)
                .ok_or_else(|| StoreError::Shape(format!("a price of {units} units")))
        };
        let rates = Rates {
            input: rate(self.input)?,
            output: rate(self.output)?,
            cached_input: self.cached_input.map(rate).transpose()?,
            total: self.total.map(rate).transpose()?,
            special: SpecialRates::from_text(&self.details)
                .map_err(|fault| StoreError::Shape(fault.to_string()))?,
        };
        Ok(Stored {
            key: PriceKey {
                model: self.model,
                is_prefix: self.is_prefix != 0,
                // No price applies from 1970 on; it stands for always.
                effective_from: (self.effective_from != 0).then_some(self.effective_from),
            },
            rates: (self.is_deleted == 0).then_some(rates),
            changed_at_ms: self.changed_at,
        })
    }
}
