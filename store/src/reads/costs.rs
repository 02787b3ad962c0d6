//! Reads model calls to reprice them, in pages in order of time.
//!
//! A page is a range of the key, read merged: first the time at which so many rows are over is found without merging,
//! then the current rows up to there are read. So a page costs the same wherever it is.

use std::time::Duration;

use clickhouse::Row;
use schemas::fold::CostStatus;
use serde::Deserialize;

use crate::client::Store;
use crate::client::query::{BoundedQuery, ReadBounds};
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Value, time};
use crate::tables::decode;

/// A page takes a fraction of a second; a machine under other load gets more.
const PAGE_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(60),
    result_rows: 200_000,
    result_bytes: 512 << 20,
    memory_bytes: 1 << 30,
    threads: 2,
};

/// Whether the run's state may hold details of calls, by its format: see `schemas::fold`.
pub(crate) const HAS_CALL_DETAILS: &str = "ascii(state) >= 5";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Earliest start, Unix milliseconds, inclusive.
    pub from_ms: Option<i64>,
    /// Latest start, inclusive.
    pub to_ms: Option<i64>,
    pub app_id: Option<String>,
    pub model: Option<String>,
}

/// A position in the order of a project's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPlace {
    /// Unix milliseconds.
    pub started_at: i64,
    pub app_id: String,
    pub run_id: String,
}

/// A run with model calls of its own: what its cost depends on, and its stored cost.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct PricedCall {
    /// Unix milliseconds.
    pub started_at: i64,
    pub app_id: String,
    pub run_id: String,
    /// Empty for none.
    pub model: String,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// The reported total, else the sum of the two as far as known.
    pub total_tokens: Option<u64>,
    /// Prompt tokens that came from a cache.
    pub cached_tokens: Option<u64>,
    /// USD times 10^18.
    pub cost: i128,
    #[serde(deserialize_with = "decode::number")]
    pub cost_status: CostStatus,
    /// 1 when the cost is an estimate.
    pub cost_estimated: u8,
    /// The fold's state where the cost depends on more than these columns: on several calls, on one that a run of
    /// another type reports, or on kinds of usage. Empty otherwise.
    #[serde(deserialize_with = "decode::bytes")]
    pub state: Vec<u8>,
}

impl PricedCall {
    /// Whether the cost comes from the price table, or would if it had a row for the model.
    pub fn is_by_price(&self) -> bool {
        match self.cost_status {
            CostStatus::Priced | CostStatus::PartlyPriced | CostStatus::UnpricedModel => true,
            // A cost that the client estimated counts only for as long as there is no price.
            CostStatus::Provided => !self.state.is_empty(),
            _ => false,
        }
    }

    pub fn place(&self) -> CallPlace {
        CallPlace {
            started_at: self.started_at,
            app_id: self.app_id.clone(),
            run_id: self.run_id.clone(),
        }
    }
}

/// Some model calls in order.
#[derive(Clone, Debug, Default)]
pub struct CallPage {
    pub calls: Vec<PricedCall>,
    /// Where the next page continues; `None` after the last one.
    pub next: Option<CallPlace>,
}

impl Store {
    /// The projects that have runs, in order.
    pub async fn projects_with_runs(&self) -> Result<Vec<String>, StoreError> {
        // One value per granule is enough to find all values of the first column of the key.
        self.bounded_query_within(
            "SELECT DISTINCT project_id FROM runs ORDER BY project_id",
            PAGE_BOUNDS,
        )
        .rows()
        .await
    }

    /// Number of model calls of a project that satisfy the filter.
    pub async fn count_calls(&self, project: &str, filter: &CallFilter) -> Result<u64, StoreError> {
        let (at, calls) = conditions(project, filter);
        let sql = format!(
            "SELECT count() FROM runs FINAL PREWHERE {} WHERE {}",
            at.sql(),
            calls.sql()
        );
        let query = self.bounded_query_within(&sql, PAGE_BOUNDS);
        calls.fill(at.fill(whole_rows(query))).one().await
    }

    /// The model calls of a project after a position, or from the first one: the matching ones among the next `rows`
    /// rows of any type, replaced ones included. About 200 bytes each are held.
    pub async fn calls_after(
        &self,
        project: &str,
        filter: &CallFilter,
        after: Option<&CallPlace>,
        rows: u32,
    ) -> Result<CallPage, StoreError> {
        let (mut at, calls) = conditions(project, filter);
        if let Some(after) = after {
            at.and_with(
                "started_at >= fromUnixTimestamp64Milli({after_ms:Int64})",
                "after_ms",
                Value::Number(after.started_at),
            );
            at.give("after_app", Value::Text(after.app_id.clone()));
            at.and_with(
                "(started_at, app_id, run_id) > (fromUnixTimestamp64Milli({after_ms:Int64}), {after_app:String}, {after_run:String})",
                "after_run",
                Value::Text(after.run_id.clone()),
            );
        }
        let sql = format!(
            "SELECT started_at FROM runs PREWHERE {} ORDER BY started_at LIMIT 1 OFFSET {rows}",
            at.sql()
        );
        let query = at.fill(self.bounded_query_within(&sql, PAGE_BOUNDS));
        let end_ms: Option<i64> = query.optional().await?;
        if let Some(end_ms) = end_ms {
            at.and_with(
                "started_at <= fromUnixTimestamp64Milli({end_ms:Int64})",
                "end_ms",
                Value::Number(end_ms),
            );
        }
        let sql = format!(
            "SELECT {} FROM runs FINAL PREWHERE {} WHERE {} \
             ORDER BY started_at, app_id, run_id LIMIT {rows}",
            decode::columns_with::<PricedCall>(
                "state",
                &format!("if(calls > 1 OR type != 'llm' OR {HAS_CALL_DETAILS}, state, '')")
            ),
            at.sql(),
            calls.sql()
        );
        let query = self.bounded_query_within(&sql, PAGE_BOUNDS);
        let found: Vec<PricedCall> = calls.fill(at.fill(whole_rows(query))).rows().await?;
        let next = match (found.last(), end_ms) {
            (Some(last), _) if found.len() as u64 == u64::from(rows) => Some(last.place()),
            // Everything up to and including this time was read: continue after its last possible row.
            (_, Some(end_ms)) => Some(CallPlace {
                started_at: end_ms.saturating_add(1),
                ..CallPlace::default()
            }),
            (_, None) => None,
        };
        Ok(CallPage { calls: found, next })
    }

    /// Whether any run of the project, or of any project, is of this app.
    pub async fn is_app_used(
        &self,
        project: Option<&str>,
        app_id: &str,
    ) -> Result<bool, StoreError> {
        self.is_used("app_id", project, app_id).await
    }

    /// Whether any run of the project, or of any project, is of this model.
    pub async fn is_model_used(
        &self,
        project: Option<&str>,
        model: &str,
    ) -> Result<bool, StoreError> {
        self.is_used("model", project, model).await
    }

    async fn is_used(
        &self,
        column: &'static str,
        project: Option<&str>,
        value: &str,
    ) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT count() FROM (SELECT 1 FROM runs WHERE {{project:String}} IN ('', project_id) \
             AND {column} = {{value:String}} LIMIT 1)"
        );
        let query = self.bounded_query_within(&sql, PAGE_BOUNDS);
        let found: u64 = query
            .param("project", project.unwrap_or_default())
            .param("value", value)
            .one()
            .await?;
        Ok(found > 0)
    }
}

/// Conditions that the key can be searched by, and conditions on the merged row.
fn conditions(project: &str, filter: &CallFilter) -> (Conditions, Conditions) {
    let mut at = Conditions::default();
    at.and_with(
        "project_id = {project:String}",
        "project",
        Value::Text(project.to_owned()),
    );
    if let Some(app_id) = &filter.app_id {
        at.and_with("app_id = {app:String}", "app", Value::Text(app_id.clone()));
    }
    if let Some(from_ms) = filter.from_ms {
        at.and_with(
            "started_at >= fromUnixTimestamp64Milli({from_ms:Int64})",
            "from_ms",
            time(from_ms),
        );
    }
    if let Some(to_ms) = filter.to_ms {
        at.and_with(
            "started_at <= fromUnixTimestamp64Milli({to_ms:Int64})",
            "to_ms",
            time(to_ms),
        );
    }
    let mut calls = Conditions::default();
    calls.and("calls > 0");
    if let Some(model) = &filter.model {
        calls.and_with(
            "(model = {model:String} OR calls > 1 OR type != 'llm')",
            "model",
            Value::Text(model.clone()),
        );
    }
    (at, calls)
}

/// Keys never leave their partition, and an index must not hide the newer row of a key from the merge (P3).
fn whole_rows(query: BoundedQuery) -> BoundedQuery {
    query
        .setting("do_not_merge_across_partitions_select_final", "1")
        .setting("use_skip_indexes_if_final", "0")
}
