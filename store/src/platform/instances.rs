//! Instances of processes: their numbers, and reads of them.
//!
//! An instance is durable in the log before its client gets a response, and the processor writes its row. Until then
//! the process that started it keeps it in memory ([`Instances::remember`]), so that the client finds it.

mod ids;
mod recent;

use std::sync::Arc;

use clickhouse::Row;
use schemas::start::Start;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Projects, Value, scope};
use crate::tables::decode::{columns_of, columns_with};

#[derive(Clone, Debug, Default, PartialEq, Eq, Row, Deserialize)]
pub struct InstanceRecord {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    /// Unix milliseconds.
    pub started_at: UnixMs,
    /// Globally unique.
    pub uuid: String,
    /// Unique in the deployment and exact in JavaScript.
    pub instance_id: u64,
    pub build_id: String,
    /// Status of the build at the start.
    pub build_status: String,
    pub process: String,
    /// Identifier of the process definition.
    pub process_uuid: String,
    /// Empty for none.
    pub parent_app_id: String,
    /// Empty for none.
    pub root_app_id: String,
    pub state: String,
    /// A JSON list.
    pub tokens: String,
    /// JSON as it was sent; empty in lists.
    pub input: String,
    /// The platform according to the client.
    pub platform: String,
    /// Public identifier of the credential.
    pub started_by: String,
    /// Identifies repetitions of the same request.
    pub fingerprint: String,
}

impl InstanceRecord {
    /// The part of it that the log carries beside its event.
    pub fn start(&self) -> Start {
        Start {
            uuid: self.uuid.clone(),
            instance_id: self.instance_id,
            started_at_ms: self.started_at,
            build_id: self.build_id.clone(),
            build_status: self.build_status.clone(),
            process: self.process.clone(),
            process_uuid: self.process_uuid.clone(),
            parent_app_id: self.parent_app_id.clone(),
            root_app_id: self.root_app_id.clone(),
            state: self.state.clone(),
            tokens: self.tokens.clone(),
            platform: self.platform.clone(),
            started_by: self.started_by.clone(),
            fingerprint: self.fingerprint.clone(),
        }
    }
}

/// A query of instances, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceQuery {
    pub app_id: Option<String>,
    pub build_id: Option<String>,
    pub process: Option<String>,
    /// Started at or after this time, Unix milliseconds.
    pub from_ms: Option<UnixMs>,
    /// Started at or before this time.
    pub to_ms: Option<UnixMs>,
    /// Start and identity of the previous page's last instance.
    pub after: Option<(UnixMs, String)>,
    pub limit: usize,
}

/// The instances that one process starts. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Instances {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// Identifies this process in claims; new at each start.
    process: String,
    ids: ids::Ids,
    recent: recent::Recent,
}

impl Instances {
    pub fn new(store: Store) -> Self {
        let inner = Inner {
            store,
            process: format!("{:032x}", rand::random::<u128>()),
            ids: ids::Ids::default(),
            recent: recent::Recent::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Identifies this process; new at each start.
    pub fn process(&self) -> &str {
        &self.inner.process
    }

    /// The first of `count` consecutive numbers, unique in the deployment, all below 2^53.
    pub async fn numbers(&self, count: u64) -> Result<u64, StoreError> {
        let inner = &self.inner;
        inner.ids.take(&inner.store, &inner.process, count).await
    }

    /// Keeps an instance that is durable in the log until its row is stored.
    pub fn remember(&self, instance: InstanceRecord) {
        self.inner.recent.put(instance);
    }

    /// The instance with this identity, of any of these projects. A known app makes the search shorter.
    pub async fn one(
        &self,
        projects: &Projects,
        app_id: Option<&str>,
        uuid: &str,
    ) -> Result<Option<InstanceRecord>, StoreError> {
        if let Some(recent) = self.inner.recent.one(projects, app_id, uuid) {
            return Ok(Some(recent));
        }
        let mut wanted = scope(projects);
        if let Some(app_id) = app_id {
            let app = Value::Text(app_id.to_owned());
            wanted.and_with("app_id = {app:String}", "app", app);
        }
        wanted.and_with("uuid = {uuid:String}", "uuid", Value::Text(uuid.to_owned()));
        // The first row with an identity is the one that the client received.
        let sql = format!(
            "SELECT {} FROM process_instances WHERE {} ORDER BY started_at, version LIMIT 1",
            columns_of::<InstanceRecord>(),
            wanted.sql()
        );
        wanted
            .fill(self.inner.store.bounded_query(&sql))
            .optional()
            .await
    }

    /// Instances without their input, newest first, at most `limit` of them.
    pub async fn list(
        &self,
        projects: &Projects,
        query: &InstanceQuery,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let wanted = conditions(projects, query);
        // The wide columns are read only for the rows on the page.
        let order = format!(
            "ORDER BY started_at DESC, uuid DESC LIMIT 1 BY uuid LIMIT {}",
            query.limit
        );
        let sql = format!(
            "SELECT {columns} FROM process_instances WHERE {conditions} AND (started_at, uuid) IN \
               (SELECT started_at, uuid FROM process_instances WHERE {conditions} {order}) {order}",
            columns = columns_with::<InstanceRecord>("input", "''"),
            conditions = wanted.sql(),
        );
        let page = wanted
            .fill(self.inner.store.bounded_query(&sql))
            .rows()
            .await?;
        Ok(self.inner.recent.complete(page, projects, query))
    }
}

fn conditions(projects: &Projects, query: &InstanceQuery) -> Conditions {
    let mut wanted = scope(projects);
    let texts = [
        ("app_id = {app:String}", "app", &query.app_id),
        ("build_id = {build:String}", "build", &query.build_id),
        ("process = {process:String}", "process", &query.process),
    ];
    for (sql, name, value) in texts {
        if let Some(value) = value {
            wanted.and_with(sql, name, Value::Text(value.clone()));
        }
    }
    let times = [
        (
            "started_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')",
            "from",
            query.from_ms,
        ),
        (
            "started_at <= fromUnixTimestamp64Milli({to:Int64}, 'UTC')",
            "to",
            query.to_ms,
        ),
    ];
    for (sql, name, value) in times {
        if let Some(value) = value {
            wanted.and_with(sql, name, Value::Number(value));
        }
    }
    if let Some((started_at, uuid)) = &query.after {
        let sql = "(started_at, uuid) < (fromUnixTimestamp64Milli({after:Int64}, 'UTC'), {after_uuid:String})";
        wanted.and_with(sql, "after", Value::Number(*started_at));
        wanted.give("after_uuid", Value::Text(uuid.clone()));
    }
    wanted
}
