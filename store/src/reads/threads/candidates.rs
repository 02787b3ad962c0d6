//! Candidates: a walk backwards through time that yields the positions of threads, greatest first.
//!
//! A position is only where a thread's last message of the walked time is. Reading the thread completely shows whether
//! it continues after that; then it is no thread of this page: it was on an earlier one. It may also end before that: a
//! candidate comes from a replaced row of a run, or from a turn of a thread that has messages. Then it belongs to this
//! page if the walk has passed its end, and else is found there again.

use std::collections::{HashMap, HashSet};

use clickhouse::Row;
use schemas::filter::FeedbackFilter;
use schemas::thread::{GroupedBy, ThreadPlace, WINDOW_GAP_MS};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use super::Asked;
use super::speakers::{SpeakerCheck, Speakers};
use super::sql::{self, Inheritance, MAY_INHERIT, MS, Stretch};
use super::turns::{self, TURN_MS_MAX};
use super::windows::{BEGINNING_MS, FIRST_LOOK_MS};
use crate::client::Store;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// First stretch of a list without a filter, and of one with a filter.
const FIRST_MS: i64 = 30 * MINUTE_MS;
const FIRST_FILTERED_MS: i64 = DAY_MS;
/// Growth of the stretch after an empty one, and the minimum.
const GROWTH: i64 = 64;
const GROWTH_LEAST: i64 = 4;
/// A stretch that would leave less than this many times itself takes in the rest.
const REST: i64 = 2;
/// Up to this length of a stretch the runs of its messages are looked up one by one.
const LOOKED_UP_MS: i64 = DAY_MS;
/// Runs with an inherited thread that are sent back as a parameter, which is limited to 128 KiB.
const INHERITED_RUNS: usize = 4000;
/// Maximum number of candidates read together: beyond it one query would have too many keys.
const CANDIDATES: usize = 2000;

/// A thread's key and its last message in a stretch.
#[derive(Row, Deserialize)]
struct Found {
    key: u64,
    last: i64,
}

/// A thread of a turn.
#[derive(Row, Deserialize)]
struct FoundTurn {
    key: u64,
    last: i64,
    name: String,
}

/// A run whose thread is inherited by messages that name none.
#[derive(Row, Deserialize)]
struct InheritedThread {
    run_key: u64,
    owner: u64,
    /// Time of the latest of these messages.
    last: i64,
}

/// How the messages of windows are read.
#[derive(Clone, Copy)]
struct WindowMessages<'a> {
    speakers: Speakers,
    inheritance: Inheritance,
    /// The runs whose thread is inherited, where they are known.
    inherited: Option<&'a [InheritedThread]>,
}

/// The walk's position: positions below this one are still to come.
#[derive(Clone, Copy, Debug)]
struct Below {
    ms: UnixMs,
    /// The greatest keys at exactly that time that are still to come.
    named: Option<u64>,
    window: Option<u64>,
}

impl Below {
    fn time(ms: UnixMs) -> Self {
        Self {
            ms,
            named: Some(u64::MAX),
            window: Some(u64::MAX),
        }
    }

    fn place(place: ThreadPlace) -> Self {
        let below = place.key.checked_sub(1);
        let (named, window) = match place.grouped_by {
            GroupedBy::ThreadId => (below, Some(u64::MAX)),
            GroupedBy::Window => (None, below),
        };
        Self {
            ms: place.ended_at_ms,
            named,
            window,
        }
    }

    fn key(self, grouped_by: GroupedBy) -> Option<u64> {
        match grouped_by {
            GroupedBy::ThreadId => self.named,
            GroupedBy::Window => self.window,
        }
    }

    /// Whether the position is still to come.
    fn includes(self, place: &ThreadPlace) -> bool {
        let ms = place.ended_at_ms;
        let most = self.key(place.grouped_by);
        ms < self.ms || (ms == self.ms && most.is_some_and(|most| place.key <= most))
    }

    /// The condition on `last` and `key`.
    fn condition(self, grouped_by: GroupedBy) -> Conditions {
        let mut condition = Conditions::default();
        condition.give("below", Value::Number(self.ms));
        match self.key(grouped_by) {
            Some(key) => {
                condition.give("below_key", Value::Text(key.to_string()));
                condition.and("(last < {below:Int64} OR (last = {below:Int64} AND key <= {below_key:UInt64}))");
            }
            None => condition.and("last < {below:Int64}"),
        }
        condition
    }
}

/// The state of the walk.
pub(super) struct Walk<'a> {
    store: &'a Store,
    asked: &'a Asked<'a>,
    below: Below,
    width_ms: i64,
    /// No position is later than one `TURN_MS_MAX` after this time.
    newest_ms: UnixMs,
    /// The earliest time of a position.
    end_ms: UnixMs,
    is_over: bool,
    /// Named threads that were yielded: the walk meets their earlier messages further down.
    met: HashSet<u64>,
    /// The names of the candidates that have turns, by their keys.
    names: HashMap<u64, String>,
    /// Whether there are messages with a thread and messages without one; `None` until it was read.
    has_both: Option<bool>,
    speakers: SpeakerCheck<'a>,
}

impl<'a> Walk<'a> {
    pub(super) async fn new(
        store: &'a Store,
        asked: &'a Asked<'a>,
        after: Option<ThreadPlace>,
    ) -> Result<Self, StoreError> {
        // Answered from the engine's metadata of its partitions; of all projects, and used only as bounds.
        let extent = |time: &str, table: &str| {
            store.bounded_query(&format!(
                "SELECT toUnixTimestamp64Milli(min({time})), toUnixTimestamp64Milli(max({time})) FROM {table}"
            ))
        };
        let (messages, runs) = tokio::try_join!(
            extent("timestamp", "messages").one::<(i64, i64)>(),
            extent("started_at", "runs").one::<(i64, i64)>()
        )?;
        // Of an empty table both are 0.
        let oldest = match (messages, runs) {
            ((0, 0), (first, _)) | ((first, _), (0, 0)) => first,
            ((of_messages, _), (of_runs, _)) => of_messages.min(of_runs),
        };
        let newest = messages.1.max(runs.1);
        let latest = messages.1.max(runs.1.saturating_add(TURN_MS_MAX));
        let query = asked.query;
        let to_ms = query.to_ms.unwrap_or(latest).min(latest);
        let below = match after {
            Some(after) if after.ended_at_ms <= to_ms => Below::place(after),
            _ => Below::time(to_ms),
        };
        let filters =
            query.agent.is_some() || query.user_email.is_some() || query.feedback.is_some();
        Ok(Self {
            store,
            asked,
            below,
            width_ms: if filters { FIRST_FILTERED_MS } else { FIRST_MS },
            newest_ms: newest,
            end_ms: query.from_ms.unwrap_or(oldest).max(oldest),
            is_over: false,
            met: HashSet::new(),
            names: HashMap::new(),
            has_both: None,
            speakers: SpeakerCheck::new(store, &asked.scope),
        })
    }

    /// Whether messages may inherit threads, as far as the walk knows.
    pub(super) fn may_inherit(&self) -> bool {
        self.has_both != Some(false)
    }

    /// Whether messages take agent or user from runs, as far as the walk knows.
    pub(super) fn speakers(&self) -> &SpeakerCheck<'a> {
        &self.speakers
    }

    /// The names of those candidates that have turns.
    pub(super) fn names_of(&self, places: &[ThreadPlace]) -> Vec<&str> {
        let keys = places.iter().map(|place| place.key);
        let keys: HashSet<u64> = keys.collect();
        let names = keys.into_iter().filter_map(|key| self.names.get(&key));
        names.map(String::as_str).collect()
    }

    /// Whether a thread that ends at `place` is part of what the walk has yielded, if it was found as a candidate at
    /// `found`. One that ends further down will be found there.
    pub(super) fn takes(&mut self, place: &ThreadPlace, found: &ThreadPlace) -> bool {
        if place == found {
            return true;
        }
        let is_passed = self.is_over || !self.below.includes(place);
        if !is_passed {
            self.met.remove(&place.key);
        }
        is_passed && place < found && place.ended_at_ms >= self.end_ms
    }

    /// The next positions, about `wanted` of them, greatest first. `None` when there are no more.
    pub(super) async fn next(
        &mut self,
        wanted: usize,
    ) -> Result<Option<Vec<ThreadPlace>>, StoreError> {
        let wanted = wanted.clamp(1, CANDIDATES);
        while !self.is_over {
            let near_ms = self.below.ms;
            if near_ms < self.end_ms {
                break;
            }
            // After the newest start there may only be ends of turns.
            let far = near_ms.min(self.newest_ms).saturating_sub(self.width_ms);
            let far = sql::slot_start(far);
            let takes_all = far.saturating_sub(self.end_ms) <= self.width_ms.saturating_mul(REST);
            let stretch = Stretch {
                from_ms: if takes_all {
                    sql::slot_start(self.end_ms)
                } else {
                    far
                },
                to_ms: near_ms,
            };
            // Threads met before take up room in the result again.
            let ask = wanted + self.met.len();
            let (mut places, cut) = self.places_in(stretch, ask).await?;
            places.retain(|place| {
                place.ended_at_ms >= self.end_ms
                    && !(place.grouped_by == GroupedBy::ThreadId && self.met.contains(&place.key))
            });
            match cut {
                Some(cut) => self.below = Below::place(cut),
                None if takes_all => self.is_over = true,
                None => {
                    self.below = Below::time(stretch.from_ms - 1);
                    let found = i64::try_from(places.len()).unwrap_or(i64::MAX);
                    let missing = i64::try_from(wanted).unwrap_or(i64::MAX) - found;
                    let growth = match found {
                        0 => GROWTH,
                        _ => (2 * missing / found).clamp(GROWTH_LEAST, GROWTH),
                    };
                    self.width_ms = self.width_ms.saturating_mul(growth);
                }
            }
            self.met.extend(
                places
                    .iter()
                    .filter(|place| place.grouped_by == GroupedBy::ThreadId)
                    .map(|place| place.key),
            );
            if !places.is_empty() {
                return Ok(Some(places));
            }
        }
        Ok(None)
    }

    /// The greatest positions in a stretch, and the last of them when there may be more.
    async fn places_in(
        &mut self,
        stretch: Stretch,
        ask: usize,
    ) -> Result<(Vec<ThreadPlace>, Option<ThreadPlace>), StoreError> {
        let length_ms = stretch.to_ms.min(self.newest_ms) - stretch.from_ms;
        let inheritance = if length_ms <= LOOKED_UP_MS {
            match self.has_both {
                Some(false) => Inheritance::Nothing,
                _ => Inheritance::LookedUp,
            }
        } else if self.has_both().await? {
            Inheritance::GoneThrough
        } else {
            Inheritance::Nothing
        };
        let (named, turns, inherited, speakers) = tokio::try_join!(
            self.named(stretch, ask),
            self.turns(stretch, ask),
            self.inherited(stretch, inheritance),
            self.speakers.within(self.spoken_in(stretch))
        )?;
        let read = WindowMessages {
            speakers,
            inheritance,
            inherited: inherited.as_deref(),
        };
        let inheriting = async {
            match &inherited {
                Some(inherited) => Ok(self.inheriting_among(inherited, ask)),
                None => self.inheriting(stretch, ask, inheritance).await,
            }
        };
        let (inheriting, windows) = tokio::try_join!(inheriting, self.windows(stretch, ask, read))?;
        let turns: Vec<Found> = turns
            .into_iter()
            .map(|FoundTurn { key, last, name }| {
                self.names.insert(key, name);
                Found { key, last }
            })
            .collect();
        let place = |grouped_by| {
            move |found: &Found| ThreadPlace {
                ended_at_ms: found.last,
                grouped_by,
                key: found.key,
            }
        };
        let lists = [
            (&named, GroupedBy::ThreadId),
            (&turns, GroupedBy::ThreadId),
            (&inheriting, GroupedBy::ThreadId),
            (&windows, GroupedBy::Window),
        ];
        // Below the end of a list that was cut, positions may be missing.
        let cut = lists
            .iter()
            .filter(|(list, _)| list.len() >= ask)
            .filter_map(|(list, grouped_by)| list.last().map(place(*grouped_by)))
            .max();
        let mut places: Vec<ThreadPlace> = lists
            .iter()
            .flat_map(|(list, grouped_by)| list.iter().map(place(*grouped_by)))
            .filter(|place| cut.is_none_or(|cut| *place >= cut))
            .collect();
        places.sort_by(|left, right| right.cmp(left));
        // A thread's own messages, messages that inherit it and its turns come from separate queries.
        let mut seen = HashSet::new();
        places.retain(|place| place.grouped_by == GroupedBy::Window || seen.insert(place.key));
        Ok((places, cut))
    }

    /// Threads with messages that name them.
    async fn named(&self, stretch: Stretch, ask: usize) -> Result<Vec<Found>, StoreError> {
        let scope = &self.asked.scope;
        let filter = self.thread_filter("thread_key");
        let below = self.below.condition(GroupedBy::ThreadId);
        let at = stretch.condition();
        let sql = format!(
            "SELECT thread_key AS key, max({MS}) AS last FROM messages \
             WHERE {scope} AND {at} AND thread_key != 0 AND {filter} \
             GROUP BY key HAVING {below} ORDER BY last DESC, key DESC LIMIT {ask}",
            scope = scope.sql(),
            at = at.sql(),
            filter = filter.sql(),
            below = below.sql(),
        );
        let query = self.store.bounded_query(&sql);
        self.rows(query, [&at, &filter, &below]).await
    }

    /// Threads with turns. Replaced rows are among them.
    async fn turns(&self, stretch: Stretch, ask: usize) -> Result<Vec<FoundTurn>, StoreError> {
        let scope = &self.asked.scope;
        let filter = turns::filter(scope, self.asked.query);
        let below = self.below.condition(GroupedBy::ThreadId);
        let mut at = Conditions::default();
        for (sql, name, ms) in [
            (
                "turn_at >= {turns_from:Int64}",
                "turns_from",
                stretch.from_ms.max(1),
            ),
            ("turn_at <= {turns_to:Int64}", "turns_to", stretch.to_ms),
        ] {
            at.and_with(sql, name, Value::Number(ms));
        }
        at.and(&format!(
            "started_at >= fromUnixTimestamp64Milli({{turns_from:Int64}} - {TURN_MS_MAX}, 'UTC') \
             AND started_at <= fromUnixTimestamp64Milli({{turns_to:Int64}}, 'UTC')"
        ));
        // Each row is compared with the walk's position: a replaced one above it must not hide the current one.
        let sql = format!(
            "SELECT key, max(last) AS latest, any(name) FROM (\
               SELECT {key} AS key, turn_at AS last, thread_id AS name FROM runs \
               WHERE {scope} AND is_deleted = 0 AND {at} AND {filter}) \
             WHERE {below} GROUP BY key ORDER BY latest DESC, key DESC LIMIT {ask}",
            key = turns::KEY,
            scope = scope.sql(),
            at = at.sql(),
            filter = filter.sql(),
            below = below.sql(),
        );
        let query = scope.fill(sql::grouped(self.store.bounded_query(&sql)));
        let query = [&at, &filter, &below]
            .into_iter()
            .fold(query, |query, conditions| conditions.fill(query));
        query.rows().await
    }

    /// Threads with messages that inherit them.
    async fn inheriting(
        &self,
        stretch: Stretch,
        ask: usize,
        inheritance: Inheritance,
    ) -> Result<Vec<Found>, StoreError> {
        if inheritance == Inheritance::Nothing {
            return Ok(Vec::new());
        }
        let scope = self.asked.scope.sql();
        let filter = self.thread_filter("owner");
        let below = self.below.condition(GroupedBy::ThreadId);
        let at = stretch.condition();
        let runs = if self.has_filters() {
            // Few threads are wanted: only their runs have a thread to inherit.
            let wanted = self.thread_filter("thread_key");
            let which = format!("thread_key != 0 AND {}", wanted.sql());
            sql::inherited_among(scope, at.sql(), &which)
        } else {
            sql::inherited(scope, at.sql(), inheritance)
        };
        let sql = format!(
            "SELECT owner AS key, max(inherited.last) AS last FROM ({runs}) AS inherited WHERE {filter} \
             GROUP BY key HAVING {below} ORDER BY last DESC, key DESC LIMIT {ask}",
            filter = filter.sql(),
            below = below.sql(),
        );
        let query = self.store.bounded_query(&sql);
        self.rows(query, [&at, &filter, &below]).await
    }

    fn has_filters(&self) -> bool {
        let query = self.asked.query;
        query.agent.is_some() || query.user_email.is_some() || query.feedback.is_some()
    }

    /// The runs whose thread messages of the stretch inherit, if they are few and nothing is filtered: then the query
    /// of the windows need not look them up again.
    async fn inherited(
        &self,
        stretch: Stretch,
        inheritance: Inheritance,
    ) -> Result<Option<Vec<InheritedThread>>, StoreError> {
        if inheritance != Inheritance::LookedUp || self.has_filters() {
            return Ok(None);
        }
        let scope = &self.asked.scope;
        let at = stretch.with_pause().condition();
        let sql = format!(
            "{} LIMIT {}",
            sql::inherited(scope.sql(), at.sql(), inheritance),
            INHERITED_RUNS + 1
        );
        let query = sql::grouped(self.store.bounded_query(&sql));
        let inherited: Vec<InheritedThread> = at.fill(scope.fill(query)).rows().await?;
        Ok((inherited.len() <= INHERITED_RUNS).then_some(inherited))
    }

    /// Threads with messages that inherit them, of known runs.
    fn inheriting_among(&self, inherited: &[InheritedThread], ask: usize) -> Vec<Found> {
        let mut last: HashMap<u64, i64> = HashMap::new();
        for inherited in inherited {
            let at = last.entry(inherited.owner).or_insert(inherited.last);
            *at = inherited.last.max(*at);
        }
        let mut inheriting: Vec<Found> = last
            .into_iter()
            .map(|(key, last)| Found { key, last })
            .filter(|found| {
                found.last < self.below.ms
                    || (found.last == self.below.ms
                        && self.below.named.is_some_and(|most| found.key <= most))
            })
            .collect();
        inheriting.sort_by_key(|found| std::cmp::Reverse((found.last, found.key)));
        inheriting.truncate(ask);
        inheriting
    }

    /// The stretch of the messages that decide which windows end in this one, and of the first look back of these
    /// windows. A rating may be on any earlier message of a speaker.
    fn spoken_in(&self, stretch: Stretch) -> Stretch {
        let from_ms = match self.asked.query.feedback {
            None | Some(FeedbackFilter::None) => stretch.from_ms.saturating_sub(FIRST_LOOK_MS),
            Some(_) => BEGINNING_MS,
        };
        Stretch {
            from_ms: sql::slot_start(from_ms),
            ..stretch.with_pause()
        }
    }

    /// Windows that end in the stretch.
    async fn windows(
        &self,
        stretch: Stretch,
        ask: usize,
        read: WindowMessages<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let WindowMessages {
            speakers,
            inheritance,
            inherited,
        } = read;
        let scope = self.asked.scope.sql();
        let mut filter = self.window_filter(speakers);
        let below = self.below.condition(GroupedBy::Window);
        let at = stretch.with_pause().condition();
        let without_inherited = match inherited {
            Some(inherited) => {
                let runs = inherited
                    .iter()
                    .map(|inherited| inherited.run_key)
                    .collect();
                filter.and_with(
                    &sql::outside_of("{inherited:Array(UInt64)}"),
                    "inherited",
                    Value::Keys(runs),
                );
                String::new()
            }
            // Only messages that pass the filter may inherit. With columns from runs, asking it again costs more than it
            // saves.
            None if inheritance != Inheritance::Nothing
                && self.has_filters()
                && speakers == Speakers::Own =>
            {
                let asking = format!("{} AND {}", at.sql(), filter.sql());
                sql::without_inherited(scope, &asking, Inheritance::LookedUp)
            }
            None => sql::without_inherited(scope, at.sql(), inheritance),
        };
        let sql = format!(
            "SELECT key, last FROM (\
               SELECT key, last, leadInFrame(first) OVER (PARTITION BY key ORDER BY slot \
                   ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS following \
               FROM (SELECT speaker_key AS key, {slot} AS slot, min({MS}) AS first, max({MS}) AS last FROM {messages} \
                 WHERE {scope} AND {at} AND thread_key = 0 AND {filter}{without_inherited} GROUP BY key, slot)) \
             WHERE (following = 0 OR following - last > {WINDOW_GAP_MS}) AND {below} \
             ORDER BY last DESC, key DESC LIMIT {ask}",
            slot = sql::slot(),
            messages = speakers.messages(scope, &format!("{} AND thread_key = 0", at.sql())),
            at = at.sql(),
            filter = filter.sql(),
            below = below.sql(),
        );
        let query = speakers.settings(self.store.bounded_query(&sql));
        self.rows(query, [&at, &filter, &below]).await
    }

    async fn rows(
        &self,
        query: BoundedQuery,
        with: [&Conditions; 3],
    ) -> Result<Vec<Found>, StoreError> {
        let query = self.asked.scope.fill(sql::grouped(query));
        with.into_iter()
            .fold(query, |query, conditions| conditions.fill(query))
            .rows()
            .await
    }

    /// The condition on a named thread as a candidate: a little wider than the query.
    fn thread_filter(&self, key: &str) -> Conditions {
        let scope = self.asked.scope.sql();
        let query = self.asked.query;
        let mut filter = Conditions::default();
        let threads = |which: String| {
            format!(
                "{key} IN (SELECT thread_key FROM messages WHERE {scope} AND thread_key != 0 AND {which})"
            )
        };
        for (column, name, value) in [
            ("agent = {agent:String}", "agent", &query.agent),
            ("user_email = {user:String}", "user", &query.user_email),
        ] {
            let Some(value) = value else { continue };
            let which = format!(
                "({column} OR run_key IN (SELECT run_key FROM messages WHERE {scope} AND thread_key = 0 AND {column}))"
            );
            filter.and_with(&threads(which), name, Value::Text(value.clone()));
        }
        match query.feedback {
            None | Some(FeedbackFilter::None) => {}
            Some(feedback) => {
                let which = format!("run_key IN ({})", sql::judged(scope, feedback));
                filter.and(&threads(which));
            }
        }
        filter
    }

    /// The condition on a message for its window to be a candidate.
    fn window_filter(&self, speakers: Speakers) -> Conditions {
        let scope = self.asked.scope.sql();
        let query = self.asked.query;
        let mut filter = Conditions::default();
        for (sql, name, value) in [
            ("agent = {agent:String}", "agent", &query.agent),
            ("user_email = {user:String}", "user", &query.user_email),
        ] {
            if let Some(value) = value {
                filter.and_with(sql, name, Value::Text(value.clone()));
            }
        }
        match query.feedback {
            None | Some(FeedbackFilter::None) => {}
            Some(feedback) => {
                let rated = format!(
                    "thread_key = 0 AND run_key IN ({})",
                    sql::judged(scope, feedback)
                );
                filter.and(&format!(
                    "speaker_key IN (SELECT speaker_key FROM {} WHERE {scope} AND {rated})",
                    speakers.messages(scope, &rated)
                ));
            }
        }
        filter
    }

    /// Whether there are messages with a thread and messages that may inherit one: without both nothing is inherited.
    async fn has_both(&mut self) -> Result<bool, StoreError> {
        if let Some(known) = self.has_both {
            return Ok(known);
        }
        let scope = &self.asked.scope;
        let sql = format!(
            "SELECT toUInt8(countIf({MAY_INHERIT}) > 0 AND max(thread_key) != 0) FROM messages WHERE {}",
            scope.sql()
        );
        let both: u8 = scope.fill(self.store.bounded_query(&sql)).one().await?;
        self.has_both = Some(both != 0);
        Ok(both != 0)
    }
}
