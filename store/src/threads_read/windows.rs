//! Windows, whole: from the place of the last message backwards until there is a pause.
//!
//! Messages are read by slots of the length of the longest pause. Those of one slot are of one window; neighbouring
//! slots are when the first message of the later follows the last of the earlier by no more than the pause.

use std::collections::{BTreeMap, HashMap, HashSet};

use clickhouse::Row;
use schemas::filter::FeedbackFilter;
use schemas::thread::{GroupedBy, ThreadPlace, WINDOW_GAP_MS};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use super::sql::{self, Lending, PLACE, Stretch};
use super::{Asked, ThreadRecord, Totals};
use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::Conditions;
use crate::reads::ReadBounds;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How far back the first look goes, and how much further each next one.
const FIRST_LOOK_MS: i64 = DAY_MS;
const GROWTH: i64 = 32;
/// Slots of one answer: a thousand users over three weeks without a pause.
const SLOTS: u64 = 1_000_000;
/// Earlier than any accepted timestamp.
const BEGINNING_MS: UnixMs = 0;

/// The messages of one speaker in one slot.
#[derive(Clone, Debug, Row, Deserialize)]
struct Slot {
    key: u64,
    slot: i64,
    first_ms: i64,
    first_event: u128,
    last_ms: i64,
    last_event: u128,
    messages: u64,
    judged: u64,
}

/// What is known of the messages of some speakers: everything not before `from_ms`.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_key: HashMap<u64, BTreeMap<i64, Slot>>,
    from_ms: UnixMs,
}

/// The slots of one window, latest first.
pub(super) struct Chain<'a>(Vec<&'a Slot>);

impl Slots {
    fn add(&mut self, slot: Slot) {
        self.by_key
            .entry(slot.key)
            .or_default()
            .insert(slot.slot, slot);
    }

    /// The window that holds a message of this speaker at this time. `None` when the slot is not known.
    pub(super) fn chain(&self, key: u64, ms: UnixMs) -> Option<Chain<'_>> {
        let slots = self.by_key.get(&key)?;
        let at = ms.div_euclid(WINDOW_GAP_MS);
        let middle = slots.get(&at)?;
        let mut last = middle;
        while let Some(next) = slots.get(&(last.slot + 1)) {
            if next.first_ms - last.last_ms > WINDOW_GAP_MS {
                break;
            }
            last = next;
        }
        let mut chain = vec![last];
        let mut first = last;
        while let Some(before) = slots.get(&(first.slot - 1)) {
            if first.first_ms - before.last_ms > WINDOW_GAP_MS {
                break;
            }
            chain.push(before);
            first = before;
        }
        Some(Chain(chain))
    }

    /// Whether the window may go on before what is known.
    fn is_open(&self, chain: &Chain<'_>) -> bool {
        chain
            .0
            .last()
            .is_some_and(|first| first.first_ms - WINDOW_GAP_MS < self.from_ms)
    }
}

impl Chain<'_> {
    pub(super) fn first(&self) -> (UnixMs, u128) {
        self.0
            .last()
            .map_or((0, 0), |slot| (slot.first_ms, slot.first_event))
    }

    pub(super) fn last(&self) -> (UnixMs, u128) {
        self.0
            .first()
            .map_or((0, 0), |slot| (slot.last_ms, slot.last_event))
    }

    fn messages(&self) -> u64 {
        self.0.iter().map(|slot| slot.messages).sum()
    }

    fn judged(&self) -> u64 {
        self.0.iter().map(|slot| slot.judged).sum()
    }

    /// The window as a thread, without what is read from its last message.
    pub(super) fn into_thread(self, key: u64) -> ThreadRecord {
        ThreadRecord {
            project_id: String::new(),
            app_id: String::new(),
            place: ThreadPlace {
                ended_at_ms: self.last().0,
                grouped_by: GroupedBy::Window,
                key,
            },
            name: String::new(),
            agent: String::new(),
            user_email: String::new(),
            first: self.first(),
            last: self.last(),
            messages: self.messages(),
            totals: Totals::default(),
            preview: String::new(),
        }
    }
}

impl Store {
    /// The candidates that end where they were found and fulfil the rest of the question.
    pub(super) async fn window_threads(
        &self,
        asked: &Asked<'_>,
        places: &[ThreadPlace],
        may_inherit: bool,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        let ends: Vec<(u64, UnixMs)> = places
            .iter()
            .map(|place| (place.key, place.ended_at_ms))
            .collect();
        let slots = self
            .slots_back_from(&asked.scope, &ends, asked.query.feedback, may_inherit)
            .await?;
        let mut threads = Vec::with_capacity(places.len());
        for place in places {
            let Some(chain) = slots.chain(place.key, place.ended_at_ms) else {
                continue;
            };
            let is_judged = match asked.query.feedback {
                None => true,
                Some(FeedbackFilter::None) => chain.judged() == 0,
                Some(_) => chain.judged() > 0,
            };
            if chain.last().0 == place.ended_at_ms && is_judged {
                threads.push(chain.into_thread(place.key));
            }
        }
        Ok(threads)
    }

    /// The slots of the windows that hold these messages, each given by speaker and time, back to their beginnings, and
    /// forward as far as the latest of them and one pause more.
    pub(super) async fn slots_back_from(
        &self,
        scope: &Conditions,
        ends: &[(u64, UnixMs)],
        feedback: Option<FeedbackFilter>,
        may_inherit: bool,
    ) -> Result<Slots, StoreError> {
        let mut slots = Slots::default();
        let (Some(earliest), Some(latest)) = (
            ends.iter().map(|(_, ms)| *ms).min(),
            ends.iter().map(|(_, ms)| *ms).max(),
        ) else {
            return Ok(slots);
        };
        let mut to_ms = latest.saturating_add(WINDOW_GAP_MS);
        let mut look_ms = FIRST_LOOK_MS;
        let mut from_ms = sql::slot_start(earliest.saturating_sub(look_ms));
        let mut open: Vec<u64> = ends.iter().map(|(key, _)| *key).collect();
        loop {
            open.sort_unstable();
            open.dedup();
            let stretch = Stretch { from_ms, to_ms };
            let rows = self
                .slots(scope, &open, stretch, (feedback, may_inherit))
                .await?;
            for row in rows {
                slots.add(row);
            }
            slots.from_ms = from_ms;
            if from_ms <= BEGINNING_MS {
                return Ok(slots);
            }
            let still: HashSet<u64> = ends
                .iter()
                .filter(|(key, ms)| {
                    slots
                        .chain(*key, *ms)
                        .is_some_and(|chain| slots.is_open(&chain))
                })
                .map(|(key, _)| *key)
                .collect();
            if still.is_empty() {
                return Ok(slots);
            }
            open = still.into_iter().collect();
            to_ms = from_ms - 1;
            look_ms = look_ms.saturating_mul(GROWTH);
            from_ms = if look_ms > FIRST_LOOK_MS * GROWTH {
                BEGINNING_MS
            } else {
                sql::slot_start(from_ms.saturating_sub(look_ms)).max(BEGINNING_MS)
            };
        }
    }

    async fn slots(
        &self,
        scope: &Conditions,
        keys: &[u64],
        stretch: Stretch,
        (feedback, may_inherit): (Option<FeedbackFilter>, bool),
    ) -> Result<Vec<Slot>, StoreError> {
        let keys = sql::keys(keys.iter().copied());
        let stretch = stretch.condition();
        let asking = format!(
            "{} AND speaker_key IN {{keys:Array(UInt64)}}",
            stretch.sql()
        );
        let lending = if may_inherit {
            Lending::LookedUp
        } else {
            Lending::Nothing
        };
        let judged = match feedback {
            None => "toUInt64(0)".to_owned(),
            Some(feedback) => format!(
                "countIf(run_key IN ({}))",
                sql::judged(scope.sql(), feedback)
            ),
        };
        let sql = format!(
            "SELECT speaker_key AS key, {slot} AS slot, \
               toInt64(bitShiftRight(min({PLACE}), 128)), toUInt128(min({PLACE})), \
               toInt64(bitShiftRight(max({PLACE}), 128)), toUInt128(max({PLACE})), uniqExact(event_id), {judged} \
             FROM messages WHERE {scope} AND {asking} AND thread_key = 0{without_heirs} GROUP BY key, slot",
            slot = sql::slot(),
            scope = scope.sql(),
            without_heirs = sql::without_heirs(scope.sql(), &asking, lending),
        );
        let bounds = ReadBounds {
            time: self.config().query_timeout,
            result_rows: SLOTS,
            ..ReadBounds::default()
        };
        let query = sql::grouped(self.bounded_query_within(&sql, bounds));
        keys.fill(stretch.fill(scope.fill(query))).rows().await
    }

    /// The window that holds this message, looked for forward too.
    pub(super) async fn window_of(
        &self,
        scope: &Conditions,
        (key, ms): (u64, UnixMs),
    ) -> Result<Option<ThreadRecord>, StoreError> {
        let mut end_ms = ms;
        loop {
            let ahead = Stretch {
                from_ms: sql::slot_start(end_ms),
                to_ms: end_ms.saturating_add(FIRST_LOOK_MS * GROWTH),
            };
            let mut slots = Slots::default();
            for slot in self.slots(scope, &[key], ahead, (None, true)).await? {
                slots.add(slot);
            }
            let Some(chain) = slots.chain(key, end_ms) else {
                break;
            };
            end_ms = chain.last().0;
            if end_ms.saturating_add(WINDOW_GAP_MS) < ahead.to_ms {
                break;
            }
        }
        let slots = self
            .slots_back_from(scope, &[(key, end_ms)], None, true)
            .await?;
        Ok(slots.chain(key, end_ms).map(|chain| chain.into_thread(key)))
    }
}
