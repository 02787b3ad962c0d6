//! Named threads, complete: their own messages and messages that inherit them.

use clickhouse::Row;
use schemas::thread::{GroupedBy, ThreadPlace};
use serde::Deserialize;

use super::sql::{self, OWNER, PLACE};
use super::{Asked, LinkedTotals, ThreadRecord};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::Conditions;

#[derive(Row, Deserialize)]
struct Whole {
    key: u64,
    project_id: String,
    app_id: String,
    name: String,
    agent: String,
    user_email: String,
    messages: u64,
    first_ms: i64,
    first_event: u128,
    last_ms: i64,
    last_event: u128,
}

impl Store {
    /// The candidates that satisfy the rest of the query, wherever they end.
    pub(super) async fn named_threads(
        &self,
        asked: &Asked<'_>,
        places: &[ThreadPlace],
        may_inherit: bool,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        let keys: Vec<u64> = places.iter().map(|place| place.key).collect();
        let holds = sql::holds(&asked.scope, asked.query);
        self.whole_threads(&asked.scope, &keys, &holds, may_inherit)
            .await
    }

    /// The threads of these keys whose messages satisfy the condition.
    pub(super) async fn whole_threads(
        &self,
        scope: &Conditions,
        keys: &[u64],
        holds: &Conditions,
        may_inherit: bool,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = sql::keys(keys.iter().copied());
        let columns = format!(
            "project_id AS project, app_id AS app, thread_id AS named, agent AS of_agent, user_email AS of_user, \
             event_id AS event, run_key AS of_run, {PLACE} AS place"
        );
        let sql = format!(
            "SELECT key, any(project), any(app), anyIf(named, named != ''), argMaxIf(of_agent, place, of_agent != ''), \
               argMaxIf(of_user, place, of_user != ''), uniqExact(event), \
               toInt64(bitShiftRight(min(place), 128)), toUInt128(min(place)), \
               toInt64(bitShiftRight(max(place), 128)), toUInt128(max(place)) \
             FROM ({rows}) GROUP BY key HAVING {holds}",
            rows = rows_of_threads(scope.sql(), &columns, may_inherit),
            holds = holds.sql(),
        );
        let query = sql::grouped(self.bounded_query(&sql));
        let whole: Vec<Whole> = holds.fill(keys.fill(scope.fill(query))).rows().await?;
        Ok(whole.into_iter().map(Whole::into_thread).collect())
    }
}

impl Whole {
    fn into_thread(self) -> ThreadRecord {
        ThreadRecord {
            project_id: self.project_id,
            app_id: self.app_id,
            place: ThreadPlace {
                ended_at_ms: self.last_ms,
                grouped_by: GroupedBy::ThreadId,
                key: self.key,
            },
            name: self.name,
            agent: self.agent,
            user_email: self.user_email,
            first: (self.first_ms, self.first_event),
            last: (self.last_ms, self.last_event),
            messages: self.messages,
            totals: LinkedTotals::default(),
            preview: String::new(),
            last_turn: None,
        }
    }
}

/// The messages of the threads in `keys`, with their `key` and these columns, each of which has a distinct name.
pub(super) fn rows_of_threads(scope: &str, columns: &str, may_inherit: bool) -> String {
    let own = format!(
        "SELECT thread_key AS key, {columns} FROM messages WHERE {scope} AND thread_key IN {{keys:Array(UInt64)}}"
    );
    if !may_inherit {
        return own;
    }
    // All messages of the runs in question, each with its own thread or the one inherited from its run.
    format!(
        "SELECT * FROM (\
           SELECT multiIf(thread_key != 0, thread_key, \
               inherits_thread, toUInt64(minIf({OWNER}, thread_key != 0) OVER (PARTITION BY run_key)), 0) AS key, \
             {columns} \
           FROM messages WHERE {scope} AND run_key IN (\
             SELECT run_key FROM messages WHERE {scope} AND thread_key IN {{keys:Array(UInt64)}})) \
         WHERE key IN {{keys:Array(UInt64)}}"
    )
}
