//! Look-ups for the processor: the stored state of runs, their children, and which runs exist at all.
//!
//! These read without `FINAL`: the newest version per key is picked in the query, so that tombstones are seen
//! too and a look-up touches only the granules its bloom filters let through.

use std::time::Duration;

use clickhouse::Row;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::ReadBounds;
use crate::rows::raw_bytes;

/// Ids in one query. A look-up by bloom filter grows with the ids: 1000 take about as long as a person blinks.
const IDS_PER_QUERY: usize = 1000;
/// Bytes of ids in one query: a parameter of a request may have 128 KiB, and escaping can double it.
const ID_BYTES_PER_QUERY: usize = 56 << 10;
/// Links read of deep trees at a time: short rows, and what is not among them is looked up level by level.
pub const LINKS_MAX: usize = 200_000;
/// Look-ups run one after another within these: a thousand states of at most a few hundred KiB.
const LOOKUP_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(30),
    result_rows: 1_000_000,
    result_bytes: 1 << 30,
    memory_bytes: 1 << 30,
    threads: 2,
};
/// Adding up all children of some runs: the database looks at each of them, the answer is a row for each parent.
const TOTALS_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(60),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 2 << 30,
    threads: 2,
};
/// What a look-up reads of a run beside its totals and its state, in the order of [`StoredRun`].
const STATE_COLUMNS: &str = "run_id, started_at, version, is_deleted, parent_run_id, root_run_id, agent, user_email, \
    input_preview, output_preview, cost, cost_status, cost_estimated";
/// Reading one number per stored run, once at start.
const SCAN_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(600),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 512 << 20,
    threads: 2,
};

/// Rows that were written at the time `since` or later: all of them when that is 0. The index `by_update` finds them.
const SINCE: &str =
    "({since:Int64} = 0 OR updated_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC'))";

/// The newest row at one key of `runs`, tombstones included.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct StoredRun {
    /// The run. It may come several times, once per `started_at` it ever had.
    pub run_id: String,
    /// Start, Unix milliseconds: the rest of the key.
    pub started_at: i64,
    /// Version of the row.
    pub version: u64,
    /// 1 for a tombstone.
    pub is_deleted: u8,
    /// The parent, empty for none.
    pub parent_run_id: String,
    /// The topmost known ancestor.
    pub root_run_id: String,
    /// Its own agent or the nearest ancestor's.
    pub agent: String,
    /// Its own user or the nearest ancestor's.
    pub user_email: String,
    /// Beginning of the input: part of the fold's state.
    pub input_preview: String,
    /// Beginning of the output: part of the fold's state.
    pub output_preview: String,
    /// Own cost, USD times 10^18.
    pub cost: i128,
    /// Why the cost is what it is, as [`crate::rows::CostStatus`] numbers it.
    pub cost_status: i8,
    /// 1 when the cost is an estimate.
    pub cost_estimated: u8,
    /// Figures of the run and all its descendants.
    pub totals: StoredTotals,
    /// The rest of the fold's state.
    #[serde(with = "raw_bytes")]
    pub state: Vec<u8>,
}

/// What adds up over a tree, as it is stored of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct StoredTotals {
    /// USD times 10^18.
    pub cost: i128,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Tokens in all.
    pub tokens: u64,
    /// Model calls.
    pub llm_calls: u64,
    /// Errors.
    pub errors: u64,
}

/// The stored totals of a run's children, added up.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct ChildSum {
    /// The parent they name.
    pub parent_run_id: String,
    /// What they add up to, each with all its descendants.
    pub totals: StoredTotals,
}

/// The columns of [`StoredTotals`] as one value.
const TOTALS: &str = "(total_cost, total_prompt_tokens, total_completion_tokens, total_tokens_with_children, llm_calls, error_count) AS totals";

/// A run and its parent.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Child {
    /// The child.
    pub run_id: String,
    /// The parent it names.
    pub parent_run_id: String,
}

impl Store {
    /// What is stored of these runs: for each key the newest row, tombstones included, in no order.
    /// Unknown ids give nothing.
    pub async fn load_states(
        &self,
        project: &str,
        app: &str,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let runs = self.runs;
        let sql = format!(
            "SELECT {STATE_COLUMNS}, {TOTALS}, state FROM {runs} \
             WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND run_id IN {{ids:Array(String)}} \
             ORDER BY version DESC LIMIT 1 BY started_at, run_id"
        );
        let mut found = Vec::with_capacity(run_ids.len());
        for ids in chunks(run_ids) {
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            found.extend(
                query
                    .param("project", project)
                    .param("app", app)
                    .param("ids", ids)
                    .rows()
                    .await?,
            );
        }
        Ok(found)
    }

    /// The same for runs whose starts are known: the rows at these keys and no other, found by the table's own order.
    /// Give them in the order of their starts: each query reads from the first to the last of its part.
    pub async fn load_states_at(
        &self,
        project: &str,
        app: &str,
        placed: &[(&str, UnixMs)],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let runs = self.runs;
        let sql = format!(
            "SELECT {STATE_COLUMNS}, {TOTALS}, state FROM {runs} \
             WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND run_id IN {{ids:Array(String)}} \
               AND started_at >= fromUnixTimestamp64Milli({{first:Int64}}, 'UTC') \
               AND started_at <= fromUnixTimestamp64Milli({{last:Int64}}, 'UTC') \
             ORDER BY version DESC LIMIT 1 BY started_at, run_id"
        );
        let ids: Vec<&str> = placed.iter().map(|(run_id, _)| *run_id).collect();
        let mut found = Vec::with_capacity(placed.len());
        let mut starts = placed.iter().map(|(_, started_at)| *started_at);
        for ids in chunks(&ids) {
            let starts: Vec<UnixMs> = starts.by_ref().take(ids.len()).collect();
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            let rows: Vec<StoredRun> = query
                .param("project", project)
                .param("app", app)
                .param("ids", ids)
                .param("first", starts.iter().min().copied().unwrap_or_default())
                .param("last", starts.iter().max().copied().unwrap_or_default())
                .rows()
                .await?;
            found.extend(rows);
        }
        Ok(found)
    }

    /// For each of these parents that has any, the sum over its current children's stored totals; with `only`, over
    /// those of them that are named there. The database adds up, so any number of children takes no memory here.
    pub async fn child_sums(
        &self,
        project: &str,
        app: &str,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        let found_by = match only {
            None => "parent_run_id IN {ids:Array(String)}",
            Some(_) => "run_id IN {only:Array(String)}",
        };
        let runs = self.runs;
        let sql = format!(
            "SELECT parent_run_id, (sum(totals.1), sum(totals.2), sum(totals.3), sum(totals.4), sum(totals.5), sum(totals.6)) AS totals FROM (\
               SELECT run_id, parent_run_id, is_deleted, {TOTALS} FROM {runs} \
               WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND (started_at, run_id) IN (\
                 SELECT started_at, run_id FROM {runs} \
                 WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND {found_by}) \
               ORDER BY version DESC LIMIT 1 BY started_at, run_id) \
             WHERE is_deleted = 0 AND parent_run_id IN {{ids:Array(String)}} GROUP BY parent_run_id"
        );
        let mut sums = Vec::new();
        for parents in chunks(parent_ids) {
            let query = || {
                self.bounded_query_within(&sql, TOTALS_BOUNDS)
                    .param("project", project)
                    .param("app", app)
                    .param("ids", parents)
            };
            match only {
                None => sums.extend(query().rows::<ChildSum>().await?),
                Some(only) => {
                    for only in chunks(only) {
                        sums.extend(query().param("only", only).rows::<ChildSum>().await?);
                    }
                }
            }
        }
        Ok(sums)
    }

    /// The current runs whose parent is one of these and whose id is greater than `after`: the first `most` by id.
    pub async fn children_of(
        &self,
        project: &str,
        app: &str,
        parent_ids: &[&str],
        (after, most): (&str, usize),
    ) -> Result<Vec<Child>, StoreError> {
        // The inner query finds keys that ever had such a parent; the outer keeps those that still have.
        let runs = self.runs;
        let sql = format!(
            "SELECT run_id, parent_run_id FROM (\
                     SELECT run_id, parent_run_id, is_deleted FROM {runs} \
                     WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND (started_at, run_id) IN (\
                       SELECT started_at, run_id FROM {runs} \
                       WHERE project_id = {{project:String}} AND app_id = {{app:String}} \
                         AND parent_run_id IN {{ids:Array(String)}} AND run_id > {{after:String}}) \
                     ORDER BY version DESC LIMIT 1 BY started_at, run_id) \
                   WHERE is_deleted = 0 AND parent_run_id IN {{ids:Array(String)}} ORDER BY run_id LIMIT {{most:UInt64}}"
        );
        let mut found = Vec::new();
        for ids in chunks(parent_ids) {
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            let query = query.param("project", project).param("app", app);
            let query = query.param("ids", ids).param("after", after);
            found.extend(query.param("most", most).rows::<Child>().await?);
        }
        found.sort_unstable_by(|a, b| a.run_id.cmp(&b.run_id));
        found.truncate(most);
        Ok(found)
    }

    /// Calls `each` with run and parent of the rows with these roots, replaced ones too, at most [`LINKS_MAX`]: enough
    /// to know whom to load when a tree is deep, and nothing to rely on.
    pub async fn tree_links(
        &self,
        project: &str,
        app: &str,
        root_ids: &[&str],
        mut each: impl FnMut(Child) + Send,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT run_id, parent_run_id FROM {} \
             WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND root_run_id IN {{ids:Array(String)}} \
             LIMIT {{most:UInt64}}",
            self.runs
        );
        for ids in chunks(root_ids) {
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            let query = query.param("project", project).param("app", app);
            let mut cursor = query
                .param("ids", ids)
                .param("most", LINKS_MAX)
                .cursor::<Child>()
                .await?;
            while let Some(link) = cursor.next().await? {
                each(link);
            }
        }
        Ok(())
    }

    /// Calls `each` with [`run_hash`] of every run that has a row, some of them several times; returns how often.
    /// With `since`, only of those that say they were written then or later.
    pub async fn known_runs(
        &self,
        since: Option<UnixMs>,
        each: impl FnMut(u64) + Send,
    ) -> Result<u64, StoreError> {
        let runs = self.runs;
        let sql = format!(
            "SELECT xxh3(concat(project_id, '\\0', app_id, '\\0', run_id)) FROM {runs} WHERE {SINCE}"
        );
        self.stream_hashes(&sql, since, each).await
    }

    /// Calls `each` with [`run_hash`] of every parent that a run names without being rooted elsewhere: parents
    /// that were not known when the run was written. Some of them may be known by now, none is left out. With `since`,
    /// only of runs that say they were written then or later.
    pub async fn waiting_parents(
        &self,
        since: Option<UnixMs>,
        each: impl FnMut(u64) + Send,
    ) -> Result<u64, StoreError> {
        let runs = self.runs;
        let sql = format!(
            "SELECT xxh3(concat(project_id, '\\0', app_id, '\\0', parent_run_id)) FROM {runs} \
             WHERE is_deleted = 0 AND parent_run_id != '' AND root_run_id = run_id AND {SINCE}"
        );
        self.stream_hashes(&sql, since, each).await
    }

    async fn stream_hashes(
        &self,
        sql: &str,
        since: Option<UnixMs>,
        mut each: impl FnMut(u64) + Send,
    ) -> Result<u64, StoreError> {
        let mut cursor = self
            .bounded_query_within(sql, SCAN_BOUNDS)
            .param("since", since.unwrap_or(0))
            .cursor::<u64>()
            .await?;
        let mut count = 0;
        while let Some(hash) = cursor.next().await? {
            each(hash);
            count += 1;
        }
        Ok(count)
    }
}

/// The hash under which [`Store::known_runs`] and [`Store::waiting_parents`] name a run.
pub fn run_hash(project: &str, app: &str, run_id: &str) -> u64 {
    // One short copy and one pass: the streaming hasher would first have to set up half a kilobyte of state.
    let mut text = Vec::with_capacity(project.len() + app.len() + run_id.len() + 2);
    for part in [project, "\0", app, "\0", run_id] {
        text.extend_from_slice(part.as_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&text)
}

/// Cuts ids into lists that fit one query.
fn chunks<'a, 'b>(ids: &'a [&'b str]) -> impl Iterator<Item = &'a [&'b str]> {
    let mut rest = ids;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let fitting = rest.iter().take(IDS_PER_QUERY).take_while(|id| {
            bytes += id.len() + 3;
            bytes <= ID_BYTES_PER_QUERY
        });
        let (chunk, after) = rest.split_at(fitting.count().max(1));
        rest = after;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cut_by_number_and_by_bytes_and_none_is_lost() {
        let many: Vec<String> = (0..2500).map(|n| format!("run-{n}")).collect();
        let long: Vec<String> = (0..1000).map(|n| format!("{n:0256}")).collect();
        for ids in [many, long] {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let cut: Vec<&[&str]> = chunks(&ids).collect();
            assert!(cut.iter().all(|chunk| chunk.len() <= IDS_PER_QUERY));
            assert!(
                cut.iter()
                    .all(|chunk| chunk.iter().map(|id| id.len()).sum::<usize>()
                        <= ID_BYTES_PER_QUERY)
            );
            assert_eq!(cut.concat(), ids);
        }
    }
}
