//! Look-ups of the processor: the stored state of runs, their children, and the ids of all stored runs.
//!
//! These read without `FINAL`: the query picks the newest version per key, so that it sees tombstones too and touches
//! only the granules that pass its bloom filters.

mod near;

use std::time::Duration;

use clickhouse::Row;
use schemas::fold::{CostStatus, Totals};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::client::query::ReadBounds;
use crate::error::StoreError;
use crate::tables::decode;
pub use near::RunPlace;

/// Ids in one query. A look-up by bloom filter grows with the ids: 1000 take some tenths of a second.
const IDS_PER_QUERY: usize = 1000;
/// Bytes of ids in one query: a parameter is limited to 128 KiB, and escaping can double it.
const ID_BYTES_PER_QUERY: usize = 56 << 10;
/// Links read of deep trees at a time: short rows, and other links are looked up level by level.
pub const LINKS_MAX: usize = 200_000;
/// Look-ups run one after another within these bounds: a thousand states of at most a few hundred KiB.
const LOOKUP_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(30),
    result_rows: 1_000_000,
    result_bytes: 1 << 30,
    memory_bytes: 1 << 30,
    threads: 2,
};
/// Adding up all children of some runs: the database reads each of them, the result is a row for each parent.
const TOTALS_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(60),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 2 << 30,
    threads: 2,
};
/// Reading one number per stored run, once at start.
const SCAN_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(600),
    result_rows: 0,
    result_bytes: 0,
    memory_bytes: 512 << 20,
    threads: 2,
};

/// Rows written at or after `since`: all of them when that is 0. The index `by_update` finds them.
const SINCE: &str =
    "({since:Int64} = 0 OR updated_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC'))";

/// The newest row at one key of `runs`, tombstones included.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct StoredRun {
    pub app_id: String,
    /// A run may have several rows, one per `started_at` it ever had.
    pub run_id: String,
    pub started_at: i64,
    pub version: u64,
    /// 1 for a tombstone.
    pub is_deleted: u8,
    pub parent_run_id: String,
    pub root_run_id: String,
    pub agent: String,
    pub user_email: String,
    pub thread_id: String,
    /// See [`crate::tables::rows::RunRow`].
    pub turn_at: i64,
    /// Part of the fold's state, as `output_preview`.
    pub input_preview: String,
    pub output_preview: String,
    pub cost: i128,
    #[serde(deserialize_with = "decode::number")]
    pub cost_status: CostStatus,
    pub cost_estimated: u8,
    /// The run that counts its call, where it does not.
    pub counted_run_id: String,
    /// The nearest run of type `llm` above it.
    pub enclosing_call: String,
    /// Hashes that it has in common with runs that may report the same call.
    pub call_links: Vec<u64>,
    /// Of the run and all its descendants.
    pub totals: Totals,
    /// The rest of the fold's state.
    #[serde(deserialize_with = "decode::bytes")]
    pub state: Vec<u8>,
}

/// The sum of the stored subtree totals of a run's children.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct ChildSum {
    pub parent_run_id: String,
    pub totals: Totals,
}

/// Runs of one app that are looked up with one query.
#[derive(Clone, Copy)]
struct Part<'a> {
    project: &'a str,
    app: &'a str,
    ids: &'a [&'a str],
    /// The first and the last start, where they are known.
    starts: Option<(UnixMs, UnixMs)>,
}

/// The versions of a run of which a query reads all columns.
#[derive(Clone, Copy)]
enum Versions {
    /// One pass: few versions wait to be merged, and their states are small.
    All,
    /// Two passes, the first over the short columns.
    Newest,
}

fn state_columns() -> String {
    let totals = format!("({})", Totals::COLUMNS.join(", "));
    decode::columns_with::<StoredRun>("totals", &totals)
}

#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct Child {
    pub run_id: String,
    pub parent_run_id: String,
}

/// A run, and one of its links.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct LinkedRun {
    pub run_id: String,
    pub link: u64,
}

/// A page of the children of some runs, in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct ChildPage<'a> {
    /// Only ids greater than this one.
    pub after: &'a str,
    pub limit: usize,
}

impl Store {
    /// The newest row of each key of these runs, tombstones included, in no order. Unknown ids yield nothing.
    pub async fn load_states(
        &self,
        project: &str,
        app: &str,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let mut found = Vec::with_capacity(run_ids.len());
        for ids in chunks(run_ids) {
            let part = Part {
                project,
                app,
                ids,
                starts: None,
            };
            found.extend(self.newest(part).await?);
        }
        Ok(found)
    }

    /// [`Store::load_states`] for runs with known starts: only the rows at these keys, found by the table's own order.
    /// Pass them in the order of their starts: each query reads from the first to the last of its part.
    pub async fn load_states_at(
        &self,
        project: &str,
        app: &str,
        placed: &[(&str, UnixMs)],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let ids: Vec<&str> = placed.iter().map(|(run_id, _)| *run_id).collect();
        let mut found = Vec::with_capacity(placed.len());
        let mut starts = placed.iter().map(|(_, started_at)| *started_at);
        for ids in chunks(&ids) {
            let starts: Vec<UnixMs> = starts.by_ref().take(ids.len()).collect();
            let first = starts.iter().min().copied().unwrap_or_default();
            let last = starts.iter().max().copied().unwrap_or_default();
            let part = Part {
                project,
                app,
                ids,
                starts: Some((first, last)),
            };
            found.extend(self.newest(part).await?);
        }
        Ok(found)
    }

    /// The newest rows of a part. A state can have megabytes, and replaced versions are read too: what exceeds the
    /// bounds is read in halves, and a single run by its newest version, which takes a second query on the same rows.
    async fn newest(&self, part: Part<'_>) -> Result<Vec<StoredRun>, StoreError> {
        let mut found = Vec::with_capacity(part.ids.len());
        let mut rest = vec![part];
        while let Some(part) = rest.pop() {
            match self.versions(part, Versions::All).await {
                Ok(rows) => found.extend(rows),
                Err(error) if !error.is_too_large() => return Err(error),
                Err(_) if part.ids.len() > 1 => {
                    let (left, right) = part.ids.split_at(part.ids.len() / 2);
                    rest.extend([left, right].map(|ids| Part { ids, ..part }));
                }
                Err(_) => found.extend(self.versions(part, Versions::Newest).await?),
            }
        }
        Ok(found)
    }

    async fn versions(
        &self,
        part: Part<'_>,
        versions: Versions,
    ) -> Result<Vec<StoredRun>, StoreError> {
        let runs = self.runs;
        let columns = state_columns();
        let mut of_part = "project_id = {project:String} AND app_id = {app:String} \
                           AND run_id IN {ids:Array(String)}"
            .to_owned();
        if part.starts.is_some() {
            of_part.push_str(
                " AND started_at >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
                  AND started_at <= fromUnixTimestamp64Milli({last:Int64}, 'UTC')",
            );
        }
        let newest = match versions {
            Versions::All => String::new(),
            Versions::Newest => format!(
                " AND (started_at, run_id, version) IN (\
                   SELECT started_at, run_id, max(version) FROM {runs} WHERE {of_part} GROUP BY started_at, run_id)"
            ),
        };
        let sql = format!(
            "SELECT {columns} FROM {runs} WHERE {of_part}{newest} \
             ORDER BY version DESC LIMIT 1 BY started_at, run_id"
        );
        let mut query = self
            .bounded_query_within(&sql, LOOKUP_BOUNDS)
            .param("project", part.project)
            .param("app", part.app)
            .param("ids", part.ids);
        if let Some((first, last)) = part.starts {
            query = query.param("first", first).param("last", last);
        }
        query.rows().await
    }

    /// For each of these parents that has any, the sum over its current children's stored totals; with `only`, over the
    /// parents named there. The database adds up, so any number of children takes no memory here.
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
        let columns = Totals::COLUMNS.join(", ");
        let sums = Totals::COLUMNS
            .iter()
            .map(|column| format!("sum({column})"))
            .collect::<Vec<_>>()
            .join(", ");
        let sql = format!(
            "SELECT parent_run_id, ({sums}) AS totals FROM (\
               SELECT run_id, parent_run_id, is_deleted, {columns} FROM {runs} \
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

    /// One page of the current runs whose parent is one of these.
    pub async fn children_of(
        &self,
        project: &str,
        app: &str,
        parent_ids: &[&str],
        page: ChildPage<'_>,
    ) -> Result<Vec<Child>, StoreError> {
        // The inner query finds keys that ever had such a parent; the outer keeps the ones that still have.
        let runs = self.runs;
        let sql = format!(
            "SELECT run_id, parent_run_id FROM (\
                     SELECT run_id, parent_run_id, is_deleted FROM {runs} \
                     WHERE project_id = {{project:String}} AND app_id = {{app:String}} AND (started_at, run_id) IN (\
                       SELECT started_at, run_id FROM {runs} \
                       WHERE project_id = {{project:String}} AND app_id = {{app:String}} \
                         AND parent_run_id IN {{ids:Array(String)}} AND run_id > {{after:String}}) \
                     ORDER BY version DESC LIMIT 1 BY started_at, run_id) \
                   WHERE is_deleted = 0 AND parent_run_id IN {{ids:Array(String)}} ORDER BY run_id LIMIT {{limit:UInt64}}"
        );
        let mut found = Vec::new();
        for ids in chunks(parent_ids) {
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            let query = query.param("project", project).param("app", app);
            let query = query.param("ids", ids).param("after", page.after);
            found.extend(query.param("limit", page.limit).rows::<Child>().await?);
        }
        found.sort_unstable_by(|a, b| a.run_id.cmp(&b.run_id));
        found.truncate(page.limit);
        Ok(found)
    }

    /// Calls `each` with run and parent of the rows with these roots, replaced ones too, at most [`LINKS_MAX`]: enough
    /// to know which runs to load when a tree is deep, but possibly incomplete.
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

    /// Calls `each` with [`run_hash`] of every run that has a row, some of them several times; returns how often. With
    /// `since`, only of runs written then or later, by their own time.
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

    /// Calls `each` with [`run_hash`] of every parent that a run names without being rooted elsewhere: parents that
    /// were unknown when the run was written. Some of them may be known by now, none is left out. With `since`, only of
    /// runs written then or later, by their own time.
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

    /// The runs that have one of these links, each with the links that it has: at most `most` runs of a link.
    pub async fn runs_by_call_links(
        &self,
        project: &str,
        app: &str,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        let sql = format!(
            "SELECT DISTINCT run_id, arrayJoin(arrayIntersect(call_links, {{links:Array(UInt64)}})) AS link FROM {} FINAL \
             WHERE project_id = {{project:String}} AND app_id = {{app:String}} \
               AND hasAny(call_links, {{links:Array(UInt64)}}) \
             ORDER BY link, run_id LIMIT {{most:UInt64}} BY link",
            self.runs
        );
        let mut found = Vec::new();
        for links in links.chunks(IDS_PER_QUERY) {
            let query = self.bounded_query_within(&sql, LOOKUP_BOUNDS);
            let query = query.param("project", project).param("app", app);
            let query = query.param("links", links).param("most", most);
            // The index finds the places that are merged: older rows with a link do not hide that the newest has none.
            let query = query
                .setting("do_not_merge_across_partitions_select_final", "1")
                .setting("use_skip_indexes_if_final", "1")
                .setting("use_skip_indexes_if_final_exact_mode", "1");
            found.extend(query.rows::<LinkedRun>().await?);
        }
        Ok(found)
    }

    /// Calls `each` with every link of a run, some of them several times. With `since`, only of runs written then or
    /// later, by their own time.
    pub async fn call_links(
        &self,
        since: Option<UnixMs>,
        each: impl FnMut(u64) + Send,
    ) -> Result<u64, StoreError> {
        let runs = self.runs;
        let sql = format!(
            "SELECT arrayJoin(call_links) FROM {runs} WHERE notEmpty(call_links) AND {SINCE}"
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

/// The hash of a run in [`Store::known_runs`] and [`Store::waiting_parents`].
pub fn run_hash(project: &str, app: &str, run_id: &str) -> u64 {
    // One short copy and one pass: the streaming hasher would first have to set up half a kilobyte of state.
    let mut text = Vec::with_capacity(project.len() + app.len() + run_id.len() + 2);
    for part in [project, "\0", app, "\0", run_id] {
        text.extend_from_slice(part.as_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&text)
}

/// What runs that may report the same model call have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLink<'a> {
    /// The identifier that the provider gave to the response.
    Response(&'a str),
    /// The nearest run of type `llm` above.
    Enclosed(&'a str),
    /// The fingerprint of what was said.
    Fingerprint(u64),
}

impl CallLink<'_> {
    /// Its hash, which the column `call_links` holds. Never changes.
    pub fn hash(self, project: &str, app: &str) -> u64 {
        let fingerprint: String;
        let (kind, text) = match self {
            Self::Response(id) => ("response", id),
            Self::Enclosed(run_id) => ("enclosed", run_id),
            Self::Fingerprint(number) => {
                fingerprint = number.to_string();
                ("fingerprint", fingerprint.as_str())
            }
        };
        let mut bytes = Vec::with_capacity(project.len() + app.len() + text.len() + 11);
        for part in [project, "\0", app, "\0", kind, "\0", text] {
            bytes.extend_from_slice(part.as_bytes());
        }
        xxhash_rust::xxh3::xxh3_64(&bytes)
    }
}

/// Divides ids into lists that fit into one query.
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
