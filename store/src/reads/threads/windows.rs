//! Windows, complete: from the position of the last message backwards until there is a pause.
//!
//! Messages are read by slots of the length of the longest pause. Messages of one slot belong to one window; so do
//! neighboring slots when the first message of the later follows the last of the earlier by at most the pause.

use std::collections::{BTreeMap, HashMap, HashSet};

use clickhouse::Row;
use schemas::filter::FeedbackFilter;
use schemas::thread::{GroupedBy, ThreadPlace, WINDOW_GAP_MS};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use super::speakers::SpeakerCheck;
use super::sql::{self, Inheritance, PLACE, Stretch};
use super::{Asked, LinkedTotals, ThreadRecord};
use crate::client::Store;
use crate::client::query::ReadBounds;
use crate::error::StoreError;
use crate::reads::filter_sql::Conditions;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How far back the first look goes, and the growth of each further one.
pub(super) const FIRST_LOOK_MS: i64 = DAY_MS;
const GROWTH: i64 = 32;
/// Slots in one result: a thousand users over three weeks without a pause.
const SLOTS: u64 = 1_000_000;
/// Earlier than any accepted timestamp.
pub(super) const BEGINNING_MS: UnixMs = 0;

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

/// What is read of slots besides their messages' times.
#[derive(Clone, Copy)]
struct SlotQuery<'a> {
    /// Counts messages with this feedback.
    feedback: Option<FeedbackFilter>,
    /// Whether messages without a thread may inherit one.
    may_inherit: bool,
    speakers: &'a SpeakerCheck<'a>,
}

/// Known messages of some speakers: everything from `from_ms` on.
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

    /// The window that contains a message of this speaker at this time. `None` when the slot is not known.
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

    /// Whether the window may continue before what is known.
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

    /// The window as a thread, without the fields of its last message.
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
            totals: LinkedTotals::default(),
            preview: String::new(),
            last_turn: None,
        }
    }
}

impl Store {
    /// The candidates that end where they were found and satisfy the rest of the query.
    pub(super) async fn window_threads(
        &self,
        asked: &Asked<'_>,
        places: &[ThreadPlace],
        may_inherit: bool,
        speakers: &SpeakerCheck<'_>,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        let ends: Vec<(u64, UnixMs)> = places
            .iter()
            .map(|place| (place.key, place.ended_at_ms))
            .collect();
        let wanted = SlotQuery {
            feedback: asked.query.feedback,
            may_inherit,
            speakers,
        };
        let slots = self.slots_back_from(&asked.scope, &ends, wanted).await?;
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

    /// The slots of the windows with these messages, each given by speaker and time, back to their beginnings, and
    /// forward as far as the latest of them and one pause more.
    async fn slots_back_from(
        &self,
        scope: &Conditions,
        ends: &[(u64, UnixMs)],
        wanted: SlotQuery<'_>,
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
            let rows = self.slots(scope, &open, stretch, wanted).await?;
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
        wanted: SlotQuery<'_>,
    ) -> Result<Vec<Slot>, StoreError> {
        let keys = sql::keys(keys.iter().copied());
        let speakers = wanted.speakers.within(stretch).await?;
        let stretch = stretch.condition();
        let spoken = "speaker_key IN {keys:Array(UInt64)}";
        let asking = format!("{} AND {}", stretch.sql(), speakers.may(spoken));
        let inheritance = if wanted.may_inherit {
            Inheritance::LookedUp
        } else {
            Inheritance::Nothing
        };
        let judged = match wanted.feedback {
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
             FROM {messages} WHERE {scope} AND {stretch} AND {spoken} AND thread_key = 0{without_inherited} GROUP BY key, slot",
            slot = sql::slot(),
            messages = speakers.messages(scope.sql(), &asking),
            scope = scope.sql(),
            stretch = stretch.sql(),
            without_inherited = sql::without_inherited(scope.sql(), &asking, inheritance),
        );
        let bounds = ReadBounds {
            time: self.config().query_timeout,
            result_rows: SLOTS,
            ..ReadBounds::default()
        };
        let query = sql::grouped(self.bounded_query_within(&sql, bounds));
        let query = speakers.settings(query);
        keys.fill(stretch.fill(scope.fill(query))).rows().await
    }

    /// The window with this message, searched forward too.
    pub(super) async fn window_of(
        &self,
        scope: &Conditions,
        key: u64,
        ms: UnixMs,
        speakers: &SpeakerCheck<'_>,
    ) -> Result<Option<ThreadRecord>, StoreError> {
        let wanted = SlotQuery {
            feedback: None,
            may_inherit: true,
            speakers,
        };
        let mut end_ms = ms;
        loop {
            let ahead = Stretch {
                from_ms: sql::slot_start(end_ms),
                to_ms: end_ms.saturating_add(FIRST_LOOK_MS * GROWTH),
            };
            let mut slots = Slots::default();
            for slot in self.slots(scope, &[key], ahead, wanted).await? {
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
            .slots_back_from(scope, &[(key, end_ms)], wanted)
            .await?;
        Ok(slots.chain(key, end_ms).map(|chain| chain.into_thread(key)))
    }
}
