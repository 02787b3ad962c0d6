//! Reading model calls to price them again, in pages in order of time.
//!
//! A page is a range of the key, read merged: first the time at which so many rows are over is found without
//! merging, then the current rows up to there are read. So a page costs the same wherever it lies.

use std::time::Duration;

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Value, time};
use crate::reads::{BoundedQuery, ReadBounds};
use crate::rows::CostStatus;

/// A page takes a fraction of a second; a machine under other load gets more.
const PAGE_BOUNDS: ReadBounds = ReadBounds {
    time: Duration::from_secs(60),
    result_rows: 200_000,
    result_bytes: 512 << 20,
    memory_bytes: 1 << 30,
    threads: 2,
};

/// Which model calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Earliest start, Unix milliseconds, inclusive.
    pub from_ms: Option<i64>,
    /// Latest start, inclusive.
    pub to_ms: Option<i64>,
    /// Only of this app.
    pub app_id: Option<String>,
    /// Only of this model.
    pub model: Option<String>,
}

/// A place in the order of a project's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPlace {
    /// Start, Unix milliseconds.
    pub started_at: i64,
    /// App.
    pub app_id: String,
    /// Run.
    pub run_id: String,
}

/// A model call with what its cost depends on, and what it costs now.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct PricedCall {
    /// Start, Unix milliseconds.
    pub started_at: i64,
    /// App.
    pub app_id: String,
    /// Run.
    pub run_id: String,
    /// Model, empty for none.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u64>,
    /// Tokens in all: as given, else the sum of what is known of the two.
    pub total_tokens: Option<u64>,
    /// Cached part of the prompt's tokens.
    pub cached_tokens: Option<u64>,
    /// Cost, USD times 10^18.
    pub cost: i128,
    cost_status: i8,
    cost_estimated: u8,
}

impl PricedCall {
    /// Whether the cost comes from the price table, or would if it had a row for the model.
    pub fn is_by_price(&self) -> bool {
        self.cost_status == CostStatus::Priced as i8
            || self.cost_status == CostStatus::UnpricedModel as i8
    }

    /// Whether this is what is stored.
    pub fn has(&self, cost: i128, status: CostStatus, is_estimated: bool) -> bool {
        (self.cost, self.cost_status, self.cost_estimated != 0)
            == (cost, status as i8, is_estimated)
    }

    /// Where it stands.
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
    /// The calls.
    pub calls: Vec<PricedCall>,
    /// Where the next page goes on; `None` after the last one.
    pub next: Option<CallPlace>,
}

impl Store {
    /// The projects that have any runs, in order.
    pub async fn projects_with_runs(&self) -> Result<Vec<String>, StoreError> {
        // One value per granule is enough to find all values of the first column of the key.
        self.bounded_query_within(
            "SELECT DISTINCT project_id FROM runs ORDER BY project_id",
            PAGE_BOUNDS,
        )
        .rows()
        .await
    }

    /// How many model calls of a project the filter lets through.
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

    /// The model calls of a project after a place, or from the first one: those among the next `rows` rows of any
    /// type, replaced ones included, and at most as many calls. About 200 bytes each are held.
    pub async fn calls_after(
        &self,
        (project, filter): (&str, &CallFilter),
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
            "SELECT started_at, app_id, run_id, model, prompt_tokens, completion_tokens, total_tokens, cached_tokens, \
               cost, cost_status, cost_estimated FROM runs FINAL PREWHERE {} WHERE {} \
             ORDER BY started_at, app_id, run_id LIMIT {rows}",
            at.sql(),
            calls.sql()
        );
        let query = self.bounded_query_within(&sql, PAGE_BOUNDS);
        let found: Vec<PricedCall> = calls.fill(at.fill(whole_rows(query))).rows().await?;
        let next = match (found.last(), end_ms) {
            (Some(last), _) if found.len() as u64 == u64::from(rows) => Some(last.place()),
            // Everything up to and with this time has been seen: go on behind its last possible row.
            (_, Some(end_ms)) => Some(CallPlace {
                started_at: end_ms.saturating_add(1),
                ..CallPlace::default()
            }),
            (_, None) => None,
        };
        Ok(CallPage { calls: found, next })
    }

    /// Whether any run of the project, or of any one, is of this app.
    pub async fn is_app_used(
        &self,
        project: Option<&str>,
        app_id: &str,
    ) -> Result<bool, StoreError> {
        self.is_used("app_id", project, app_id).await
    }

    /// Whether any run of the project, or of any one, is of this model.
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

/// What the key can be searched by, and what has to be asked of the merged row.
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
    calls.and("type = 'llm'");
    if let Some(model) = &filter.model {
        calls.and_with(
            "model = {model:String}",
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
