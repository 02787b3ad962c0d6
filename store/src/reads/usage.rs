//! Usage and outcome of runs, by group and by time: every current run once, summed exactly (P3).

use std::collections::{BTreeMap, HashMap};

use clickhouse::{Row, RowOwned, RowRead};
use schemas::money::Dollars;
use schemas::run::{Instant, Seconds};
use schemas::usage::{
    Activity, Bucket, Example, Failures, GROUPS_IN_SERIES_MAX, GROUPS_MAX, Group, GroupBy,
    Interval, Spend,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::current::{Current, Scope};

/// Characters of a message that stand for its reason: the rest is mostly details.
const REASON_CHARS: &str = "120";

#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    pub by: GroupBy,
    pub interval: Option<Interval>,
}

/// All figures of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown<F> {
    /// Over all runs.
    pub totals: F,
    /// Of the largest groups, largest first.
    pub groups: Vec<Group<F>>,
    /// Of the runs in no other group.
    pub other: Option<F>,
    /// By time, oldest first; may be empty.
    pub buckets: Vec<Bucket<F>>,
}

/// The group of a row: the index of its name in the list, 0 for the others; and its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    All,
    Group(u16),
    Bucket(i64),
    Both(u16, i64),
}

impl Place {
    /// From `grouping(k, b)`, which says what was summed over: 1 the buckets, 2 the groups.
    fn of(summed_over: u64, group: u16, bucket: i64) -> Self {
        match summed_over {
            0 => Self::Both(group, bucket),
            1 => Self::Group(group),
            2 => Self::Bucket(bucket),
            _ => Self::All,
        }
    }
}

/// One kind of figures: its columns, sums and order.
trait Figures: Clone + Default {
    type Row: RowOwned + RowRead + DeserializeOwned;
    /// Columns to read.
    const COLUMNS: &'static str;
    /// The sums, in the order of the row after its place.
    const SUMS: &'static str;
    /// The order of groups, greatest first; then by their names.
    const RANK: &'static str;

    /// A further condition on runs.
    fn condition(by: GroupBy) -> Option<&'static str>;
    fn of(row: Self::Row) -> (Place, Self);
    /// The same order as [`Figures::RANK`].
    fn rank(&self) -> (i128, u64);
}

impl Store {
    /// Tokens and cost by model or agent.
    pub async fn spend(
        &self,
        scope: Scope<'_>,
        grouping: Grouping,
    ) -> Result<Breakdown<Spend>, StoreError> {
        self.figures(scope, grouping).await
    }

    /// Outcome, usage and latency of runs; of model calls only when groups are models.
    pub async fn activity(
        &self,
        scope: Scope<'_>,
        grouping: Grouping,
    ) -> Result<Breakdown<Activity>, StoreError> {
        self.figures(scope, grouping).await
    }

    /// Failed runs by reason.
    pub async fn failures(
        &self,
        scope: Scope<'_>,
        grouping: Grouping,
    ) -> Result<Breakdown<Failures>, StoreError> {
        self.figures(scope, grouping).await
    }

    async fn figures<F: Figures>(
        &self,
        scope: Scope<'_>,
        grouping: Grouping,
    ) -> Result<Breakdown<F>, StoreError> {
        let limit = self.config().query_timeout;
        match tokio::time::timeout(limit, self.figures_by::<F>(scope, grouping)).await {
            Ok(found) => found,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    async fn figures_by<F: Figures>(
        &self,
        scope: Scope<'_>,
        grouping: Grouping,
    ) -> Result<Breakdown<F>, StoreError> {
        let layout = self.layout(scope.filter).await?;
        let current = Current::of(&layout, scope);
        let names = self.largest::<F>(&current, grouping).await?;
        let (column, name) = columns(grouping.by);
        let group = match names.is_empty() {
            true => "toUInt16(0)".to_owned(),
            false => format!(
                "transform({name}, {{names:Array(String)}}, CAST(range(1, {}), 'Array(UInt16)'), toUInt16(0))",
                names.len() + 1
            ),
        };
        // Sums over groups, buckets and both come from the same rows, so they agree.
        let (bucket, place, by) = match grouping.interval {
            None => (
                "0".to_owned(),
                "toUInt64(1 + 2 * grouping(k)), k, toInt64(0)",
                "k WITH ROLLUP",
            ),
            Some(interval) => (
                format!(
                    "intDiv(toUnixTimestamp64Milli(started_at), {})",
                    interval.length_ms()
                ),
                "toUInt64(grouping(k, b)), k, b",
                "k, b WITH CUBE",
            ),
        };
        let columns = format!("started_at, {column}, {}", F::COLUMNS);
        let sql = format!(
            "SELECT {place}, {sums} FROM (SELECT *, {group} AS k, {bucket} AS b FROM {rows}) GROUP BY {by}",
            sums = F::SUMS,
            rows = current.rows(&columns, F::condition(grouping.by)),
        );
        let query = current.query(self, &sql);
        let query = match names.is_empty() {
            true => query,
            false => query.param("names", &names),
        };
        // At most groups times buckets.
        let rows: Vec<F::Row> = query.rows().await?;
        Ok(assemble(
            rows.into_iter().map(F::of),
            names,
            grouping.interval,
        ))
    }

    /// The names of the groups listed separately: all if they are few, else the groups that rank first.
    async fn largest<F: Figures>(
        &self,
        current: &Current<'_>,
        grouping: Grouping,
    ) -> Result<Vec<String>, StoreError> {
        let most = match grouping.interval {
            None => GROUPS_MAX,
            Some(_) => GROUPS_IN_SERIES_MAX,
        };
        let (column, name) = columns(grouping.by);
        // Few values are found fast, without merging: a name that only replaced rows have costs nothing.
        let sql = format!(
            "SELECT DISTINCT toString({name}) FROM {} LIMIT {}",
            current.candidates(column, F::condition(grouping.by)),
            most + 1
        );
        let found: Vec<String> = current.query(self, &sql).rows().await?;
        if found.len() <= most {
            return Ok(found);
        }
        let sql = format!(
            "SELECT toString({name}) AS n FROM {} GROUP BY n ORDER BY {} DESC, n LIMIT {most}",
            current.rows(
                &format!("{column}, {}", F::COLUMNS),
                F::condition(grouping.by)
            ),
            F::RANK
        );
        current.query(self, &sql).rows().await
    }
}

/// The columns of a group, and its expression.
fn columns(by: GroupBy) -> (&'static str, String) {
    match by {
        GroupBy::Model => ("model", "model".to_owned()),
        GroupBy::Agent => ("agent", "agent".to_owned()),
        GroupBy::UserEmail => ("user_email", "user_email".to_owned()),
        GroupBy::AppId => ("app_id", "app_id".to_owned()),
        GroupBy::Reason => (
            "error_name, error_message",
            format!(
                "substringUTF8(if(error_name != '', error_name, error_message), 1, {REASON_CHARS})"
            ),
        ),
    }
}

/// Assembles figures by group and bucket, in the order of the groups.
fn assemble<F: Figures>(
    figures: impl Iterator<Item = (Place, F)>,
    names: Vec<String>,
    interval: Option<Interval>,
) -> Breakdown<F> {
    let mut all = Breakdown {
        totals: F::default(),
        groups: Vec::new(),
        other: None,
        buckets: Vec::new(),
    };
    let mut buckets: BTreeMap<i64, Vec<(Option<u16>, F)>> = BTreeMap::new();
    let mut groups: Vec<(u16, F)> = Vec::new();
    for (place, figures) in figures {
        match place {
            Place::All => all.totals = figures,
            Place::Group(0) => all.other = Some(figures),
            Place::Group(group) => groups.push((group, figures)),
            Place::Bucket(bucket) => buckets.entry(bucket).or_default().push((None, figures)),
            Place::Both(group, bucket) => {
                buckets
                    .entry(bucket)
                    .or_default()
                    .push((Some(group), figures));
            }
        }
    }
    let name = |group: u16| names.get(usize::from(group).wrapping_sub(1)).cloned();
    groups.sort_by(|(left, left_figures), (right, right_figures)| {
        (right_figures.rank().cmp(&left_figures.rank()))
            .then_with(|| name(*left).cmp(&name(*right)))
    });
    let order: HashMap<u16, usize> = groups
        .iter()
        .enumerate()
        .map(|(place, (group, _))| (*group, place))
        .collect();
    let shown = |(group, figures): (u16, F)| Group {
        key: name(group).filter(|name| !name.is_empty()),
        figures,
    };
    let length_ms = interval.map_or(0, Interval::length_ms);
    for (start, found) in buckets {
        let (mut totals, mut other, mut of_groups) = (F::default(), None, Vec::new());
        for (group, figures) in found {
            match group {
                None => totals = figures,
                Some(0) => other = Some(figures),
                Some(group) => of_groups.push((group, figures)),
            }
        }
        of_groups.sort_by_key(|(group, _)| order.get(group).copied());
        all.buckets.push(Bucket {
            start: Instant(start.saturating_mul(length_ms)),
            totals,
            groups: of_groups.into_iter().map(shown).collect(),
            other,
        });
    }
    all.groups = groups.into_iter().map(shown).collect();
    all
}

impl<F> Breakdown<F> {
    /// Applies `change` to every figure.
    pub fn each_mut(&mut self, change: &mut dyn FnMut(&mut F)) {
        let buckets = self.buckets.iter_mut().flat_map(|bucket| {
            let groups = bucket.groups.iter_mut().map(|group| &mut group.figures);
            groups.chain([&mut bucket.totals]).chain(&mut bucket.other)
        });
        let groups = self.groups.iter_mut().map(|group| &mut group.figures);
        groups
            .chain([&mut self.totals])
            .chain(&mut self.other)
            .chain(buckets)
            .for_each(change);
    }
}

#[derive(Row, Deserialize)]
struct SpendRow {
    summed_over: u64,
    group: u16,
    bucket: i64,
    runs: u64,
    calls: u64,
    prompt_tokens: u128,
    completion_tokens: u128,
    total_tokens: u128,
    cost: i128,
}

/// 128 bits for tokens: a client may report 2^53 of them at once. A call that another run counts is left out.
macro_rules! spend_sums {
    () => {
        "count(), sum(calls), sumIf(toUInt128(ifNull(prompt_tokens, 0)), cost_status != 'counted_elsewhere'), \
         sumIf(toUInt128(ifNull(completion_tokens, 0)), cost_status != 'counted_elsewhere'), \
         sumIf(toUInt128(ifNull(total_tokens, 0)), cost_status != 'counted_elsewhere'), sum(cost)"
    };
}

macro_rules! spend_columns {
    () => {
        "calls, prompt_tokens, completion_tokens, total_tokens, cost, cost_status"
    };
}

impl Figures for Spend {
    type Row = SpendRow;
    const COLUMNS: &'static str = spend_columns!();
    const SUMS: &'static str = spend_sums!();
    const RANK: &'static str = "(sum(cost), count())";

    fn condition(_: GroupBy) -> Option<&'static str> {
        None
    }

    fn of(row: SpendRow) -> (Place, Self) {
        let spend = Self {
            runs: row.runs,
            calls: row.calls,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            total_tokens: row.total_tokens,
            cost: Dollars(row.cost),
        };
        (Place::of(row.summed_over, row.group, row.bucket), spend)
    }

    fn rank(&self) -> (i128, u64) {
        (self.cost.0, self.runs)
    }
}

#[derive(Row, Deserialize)]
struct ActivityRow {
    summed_over: u64,
    group: u16,
    bucket: i64,
    runs: u64,
    calls: u64,
    prompt_tokens: u128,
    completion_tokens: u128,
    total_tokens: u128,
    cost: i128,
    errors: u64,
    finished: u64,
    lengths_ms: Vec<i32>,
    first_tokens: u64,
    ttfts_ms: Vec<u64>,
    generated: u128,
    generating_ms: u128,
}

/// Finished calls of the models: their tokens and times say how fast a model writes.
macro_rules! generating {
    () => {
        "type = 'llm' AND latency_key > 0 AND completion_tokens > 0 AND cost_status != 'counted_elsewhere'"
    };
}

impl Figures for Activity {
    type Row = ActivityRow;
    const COLUMNS: &'static str = concat!(spend_columns!(), ", status, latency_key, type, ttft_ms");
    const SUMS: &'static str = concat!(
        spend_sums!(),
        ", countIf(status = 'error'), countIf(latency_key > -2147483648), \
         quantilesExactIf(0.5, 0.95)(latency_key, latency_key > -2147483648), \
         count(ttft_ms), quantilesExactIf(0.5, 0.95)(assumeNotNull(ttft_ms), isNotNull(ttft_ms)), \
         sumIf(toUInt128(ifNull(completion_tokens, 0)), ",
        generating!(),
        "), sumIf(toUInt128(latency_key - if(ttft_ms < latency_key, toInt32(assumeNotNull(ttft_ms)), 0)), ",
        generating!(),
        ")"
    );
    const RANK: &'static str = Spend::RANK;

    fn condition(by: GroupBy) -> Option<&'static str> {
        (by == GroupBy::Model).then_some("calls > 0")
    }

    fn of(row: ActivityRow) -> (Place, Self) {
        let (place, spend) = Spend::of(SpendRow {
            summed_over: row.summed_over,
            group: row.group,
            bucket: row.bucket,
            runs: row.runs,
            calls: row.calls,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            total_tokens: row.total_tokens,
            cost: row.cost,
        });
        let length = |at: usize| {
            let length_ms = row.lengths_ms.get(at).filter(|_| row.finished > 0)?;
            Some(Seconds(i64::from(*length_ms)))
        };
        let first_token = |at: usize| {
            let ttft_ms = row.ttfts_ms.get(at).filter(|_| row.first_tokens > 0)?;
            Some(*ttft_ms)
        };
        let activity = Self {
            spend,
            errors: row.errors,
            error_rate: row.errors as f64 / row.runs.max(1) as f64,
            latency_p50_s: length(0),
            latency_p95_s: length(1),
            ttft_p50_ms: first_token(0),
            ttft_p95_ms: first_token(1),
            tokens_per_second: (row.generating_ms > 0).then(|| {
                let exact = row.generated as f64 * 10_000.0 / row.generating_ms as f64;
                exact.round() / 10.0
            }),
        };
        (place, activity)
    }

    fn rank(&self) -> (i128, u64) {
        self.spend.rank()
    }
}

#[derive(Row, Deserialize)]
struct FailureRow {
    summed_over: u64,
    group: u16,
    bucket: i64,
    count: u64,
    newest: (i64, String, String, String),
}

impl Figures for Failures {
    type Row = FailureRow;
    const COLUMNS: &'static str = "project_id, app_id, run_id, latency_ms";
    const SUMS: &'static str = "count(), max((toUnixTimestamp64Milli(started_at) + ifNull(latency_ms, 0), \
        toString(project_id), toString(app_id), run_id))";
    const RANK: &'static str = "count()";

    fn condition(_: GroupBy) -> Option<&'static str> {
        Some("status = 'error'")
    }

    fn of(row: FailureRow) -> (Place, Self) {
        let (seen_ms, project_id, app_id, run_id) = row.newest;
        let failures = Self {
            count: row.count,
            last_seen: Some(Instant(seen_ms)),
            example: Some(Example {
                project_id: Some(project_id),
                app_id,
                run_id,
            }),
        };
        (Place::of(row.summed_over, row.group, row.bucket), failures)
    }

    fn rank(&self) -> (i128, u64) {
        (i128::from(self.count), 0)
    }
}
