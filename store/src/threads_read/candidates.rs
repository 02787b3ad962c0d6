//! Where threads may end: a walk backwards through time that yields the places of threads, greatest first.
//!
//! A place is only where a thread's last message of the walked time lies. Who looks at the thread whole finds out whether
//! it goes on after that, and then it is no thread of this page: it was on an earlier one.

use std::collections::{HashMap, HashSet};

use clickhouse::Row;
use schemas::filter::FeedbackFilter;
use schemas::thread::{GroupedBy, ThreadPlace, WINDOW_GAP_MS};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use super::Asked;
use super::sql::{self, Lending, MS, Stretch};
use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Value};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// First stretch of a list that shows everything, and of one that filters.
const FIRST_MS: i64 = 30 * MINUTE_MS;
const FIRST_FILTERED_MS: i64 = DAY_MS;
/// How much longer the next stretch is after one with nothing in it, and at least.
const GROWTH: i64 = 64;
const GROWTH_LEAST: i64 = 4;
/// A stretch that would leave less than this many times itself takes in all that is left.
const REST: i64 = 2;
/// Up to this length of a stretch the runs of its messages are looked up one by one.
const LOOKED_UP_MS: i64 = DAY_MS;
/// Lending runs that are sent back as a parameter, which may have 128 KiB.
const LENT: usize = 4000;
/// Candidates looked at together at most: beyond it one query would hold too many keys.
const CANDIDATES: usize = 2000;

/// A thread's key and its last message in a stretch.
#[derive(Row, Deserialize)]
struct Found {
    key: u64,
    last: i64,
}

/// A run that lends its thread to messages that name none.
#[derive(Row, Deserialize)]
struct Lent {
    run_key: u64,
    owner: u64,
    /// Time of the latest of them.
    last: i64,
}

/// Where the walk stands: places below this one are still to come.
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

/// The walk.
pub(super) struct Walk<'a> {
    store: &'a Store,
    asked: &'a Asked<'a>,
    below: Below,
    width_ms: i64,
    /// The earliest time a place may have.
    end_ms: UnixMs,
    is_over: bool,
    /// Named threads that were yielded: their earlier messages are met again further down.
    met: HashSet<u64>,
    /// Whether there are messages that name a thread and such that do not; `None` until it was worth asking.
    has_both: Option<bool>,
}

impl<'a> Walk<'a> {
    pub(super) async fn new(
        store: &'a Store,
        asked: &'a Asked<'a>,
        after: Option<ThreadPlace>,
    ) -> Result<Self, StoreError> {
        // Answered from what the engine knows of its partitions; of all projects, and used only as bounds.
        let extent = "SELECT toUnixTimestamp64Milli(min(timestamp)), toUnixTimestamp64Milli(max(timestamp)) FROM messages";
        let (oldest, newest): (i64, i64) = store.bounded_query(extent).one().await?;
        let query = asked.query;
        let to_ms = query.to_ms.unwrap_or(newest).min(newest);
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
            end_ms: query.from_ms.unwrap_or(oldest).max(oldest),
            is_over: false,
            met: HashSet::new(),
            has_both: None,
        })
    }

    /// Whether messages may inherit threads, as far as the walk knows.
    pub(super) fn may_inherit(&self) -> bool {
        self.has_both != Some(false)
    }

    /// The next places, about `wanted` of them, greatest first. `None` when there are no more.
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
            let far = sql::slot_start(near_ms.saturating_sub(self.width_ms));
            let takes_all = far.saturating_sub(self.end_ms) <= self.width_ms.saturating_mul(REST);
            let stretch = Stretch {
                from_ms: if takes_all {
                    sql::slot_start(self.end_ms)
                } else {
                    far
                },
                to_ms: near_ms,
            };
            // Threads met before take up places in the answer once more.
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

    /// The greatest places in a stretch, and the last of them when there may be more.
    async fn places_in(
        &mut self,
        stretch: Stretch,
        ask: usize,
    ) -> Result<(Vec<ThreadPlace>, Option<ThreadPlace>), StoreError> {
        let lending = if stretch.to_ms - stretch.from_ms <= LOOKED_UP_MS {
            match self.has_both {
                Some(false) => Lending::Nothing,
                _ => Lending::LookedUp,
            }
        } else if self.has_both().await? {
            Lending::GoneThrough
        } else {
            Lending::Nothing
        };
        let (named, lent) =
            tokio::try_join!(self.named(stretch, ask), self.lent(stretch, lending))?;
        let heirs = async {
            match &lent {
                Some(lent) => Ok(self.heirs_among(lent, ask)),
                None => self.heirs(stretch, ask, lending).await,
            }
        };
        let (heirs, windows) = tokio::try_join!(
            heirs,
            self.windows(stretch, ask, (lending, lent.as_deref()))
        )?;
        let place = |grouped_by| {
            move |found: &Found| ThreadPlace {
                ended_at_ms: found.last,
                grouped_by,
                key: found.key,
            }
        };
        let lists = [
            (&named, GroupedBy::ThreadId),
            (&heirs, GroupedBy::ThreadId),
            (&windows, GroupedBy::Window),
        ];
        // What lies below the end of a list that was cut may not be complete.
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
        // A thread's own messages and those that inherit it were asked for apart.
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
        self.rows(&sql, [&at, &filter, &below]).await
    }

    /// Threads with messages that inherit them.
    async fn heirs(
        &self,
        stretch: Stretch,
        ask: usize,
        lending: Lending,
    ) -> Result<Vec<Found>, StoreError> {
        if lending == Lending::Nothing {
            return Ok(Vec::new());
        }
        let scope = self.asked.scope.sql();
        let filter = self.thread_filter("owner");
        let below = self.below.condition(GroupedBy::ThreadId);
        let at = stretch.condition();
        let runs = if self.has_filters() {
            // Few threads are wanted: only their runs can lend.
            let wanted = self.thread_filter("thread_key");
            let which = format!("thread_key != 0 AND {}", wanted.sql());
            sql::lending_among(scope, at.sql(), &which)
        } else {
            sql::lending(scope, at.sql(), lending)
        };
        let sql = format!(
            "SELECT owner AS key, max(heir.last) AS last FROM ({runs}) AS heir WHERE {filter} \
             GROUP BY key HAVING {below} ORDER BY last DESC, key DESC LIMIT {ask}",
            filter = filter.sql(),
            below = below.sql(),
        );
        self.rows(&sql, [&at, &filter, &below]).await
    }

    fn has_filters(&self) -> bool {
        let query = self.asked.query;
        query.agent.is_some() || query.user_email.is_some() || query.feedback.is_some()
    }

    /// The runs that lend their thread to messages of the stretch, where they are few and nothing is filtered: then they
    /// need not be looked up again for the windows.
    async fn lent(
        &self,
        stretch: Stretch,
        lending: Lending,
    ) -> Result<Option<Vec<Lent>>, StoreError> {
        if lending != Lending::LookedUp || self.has_filters() {
            return Ok(None);
        }
        let scope = &self.asked.scope;
        let at = stretch.with_pause().condition();
        let sql = format!(
            "{} LIMIT {}",
            sql::lending(scope.sql(), at.sql(), lending),
            LENT + 1
        );
        let query = sql::grouped(self.store.bounded_query(&sql));
        let lent: Vec<Lent> = at.fill(scope.fill(query)).rows().await?;
        Ok((lent.len() <= LENT).then_some(lent))
    }

    /// Threads with messages that inherit them, of runs that are known.
    fn heirs_among(&self, lent: &[Lent], ask: usize) -> Vec<Found> {
        let mut last: HashMap<u64, i64> = HashMap::new();
        for lent in lent {
            let at = last.entry(lent.owner).or_insert(lent.last);
            *at = lent.last.max(*at);
        }
        let mut heirs: Vec<Found> = last
            .into_iter()
            .map(|(key, last)| Found { key, last })
            .filter(|found| {
                found.last < self.below.ms
                    || (found.last == self.below.ms
                        && self.below.named.is_some_and(|most| found.key <= most))
            })
            .collect();
        heirs.sort_by_key(|found| std::cmp::Reverse((found.last, found.key)));
        heirs.truncate(ask);
        heirs
    }

    /// Windows that end in the stretch.
    async fn windows(
        &self,
        stretch: Stretch,
        ask: usize,
        (lending, lent): (Lending, Option<&[Lent]>),
    ) -> Result<Vec<Found>, StoreError> {
        let scope = self.asked.scope.sql();
        let mut filter = self.window_filter();
        let below = self.below.condition(GroupedBy::Window);
        let at = stretch.with_pause().condition();
        let without_heirs = match lent {
            Some(lent) => {
                let runs = lent.iter().map(|lent| lent.run_key).collect();
                filter.and_with(
                    "run_key NOT IN {lent:Array(UInt64)}",
                    "lent",
                    Value::Keys(runs),
                );
                String::new()
            }
            // Only messages that the filter leaves over may ask.
            None if lending != Lending::Nothing && self.has_filters() => {
                let asking = format!("{} AND {}", at.sql(), filter.sql());
                sql::without_heirs(scope, &asking, Lending::LookedUp)
            }
            None => sql::without_heirs(scope, at.sql(), lending),
        };
        let sql = format!(
            "SELECT key, last FROM (\
               SELECT key, last, leadInFrame(first) OVER (PARTITION BY key ORDER BY slot \
                   ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS following \
               FROM (SELECT speaker_key AS key, {slot} AS slot, min({MS}) AS first, max({MS}) AS last FROM messages \
                 WHERE {scope} AND {at} AND thread_key = 0 AND {filter}{without_heirs} GROUP BY key, slot)) \
             WHERE (following = 0 OR following - last > {WINDOW_GAP_MS}) AND {below} \
             ORDER BY last DESC, key DESC LIMIT {ask}",
            slot = sql::slot(),
            at = at.sql(),
            filter = filter.sql(),
            below = below.sql(),
        );
        self.rows(&sql, [&at, &filter, &below]).await
    }

    async fn rows(&self, sql: &str, with: [&Conditions; 3]) -> Result<Vec<Found>, StoreError> {
        let query = sql::grouped(self.store.bounded_query(sql));
        let query = self.asked.scope.fill(query);
        with.into_iter()
            .fold(query, |query, conditions| conditions.fill(query))
            .rows()
            .await
    }

    /// What a named thread must be to be a candidate: a little more than what is asked for.
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

    /// What a message of a window must be for its window to be a candidate.
    fn window_filter(&self) -> Conditions {
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
            Some(feedback) => filter.and(&format!(
                "speaker_key IN (SELECT speaker_key FROM messages WHERE {scope} AND thread_key = 0 AND run_key IN ({}))",
                sql::judged(scope, feedback)
            )),
        }
        filter
    }

    /// Whether there are messages that name a thread, and such that do not: without both nothing is inherited.
    async fn has_both(&mut self) -> Result<bool, StoreError> {
        if let Some(known) = self.has_both {
            return Ok(known);
        }
        let scope = &self.asked.scope;
        let sql = format!(
            "SELECT toUInt8(min(thread_key) = 0 AND max(thread_key) != 0) FROM messages WHERE {}",
            scope.sql()
        );
        let both: u8 = scope.fill(self.store.bounded_query(&sql)).one().await?;
        self.has_both = Some(both != 0);
        Ok(both != 0)
    }
}
