//! Instances of processes: their numbers, and how they are read back.
//!
//! An instance is durable in the log before anybody is told of it, and its row is written by the processor. Until then
//! the process that started it knows it from memory ([`Instances::remember`]), so that whoever was answered finds it.

mod ids;
mod recent;

use std::sync::Arc;

use clickhouse::Row;
use schemas::start::Start;
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::filter_sql::{Conditions, Projects, Value, scope};

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Row, Deserialize)]
pub struct InstanceRecord {
    /// The tenant.
    pub project_id: String,
    /// The application.
    pub app_id: String,
    /// Unix milliseconds.
    pub started_at: UnixMs,
    /// Identity, unique everywhere.
    pub uuid: String,
    /// A number that is unique in the deployment and exact in JavaScript.
    pub instance_id: u64,
    /// The build.
    pub build_id: String,
    /// Status of the build at the start.
    pub build_status: String,
    /// Name of the process.
    pub process: String,
    /// Identifier of the process definition.
    pub process_uuid: String,
    /// Empty for none.
    pub parent_app_id: String,
    /// Empty for none.
    pub root_app_id: String,
    /// State.
    pub state: String,
    /// JSON, a list.
    pub tokens: String,
    /// JSON as it was sent; empty in lists.
    pub input: String,
    /// What the client said it runs on.
    pub platform: String,
    /// Public identifier of the credential.
    pub started_by: String,
    /// Tells whether another request is the same.
    pub fingerprint: String,
}

impl InstanceRecord {
    /// What the log carries of it beside its event.
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

/// Which instances, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceQuery {
    /// Only of this application.
    pub app_id: Option<String>,
    /// Only of this build.
    pub build_id: Option<String>,
    /// Only of this process.
    pub process: Option<String>,
    /// Started then or later, Unix milliseconds.
    pub from_ms: Option<UnixMs>,
    /// Started then or earlier.
    pub to_ms: Option<UnixMs>,
    /// The last one of the page before: start and identity.
    pub after: Option<(UnixMs, String)>,
    /// How many at most.
    pub limit: usize,
}

const COLUMNS: &str = "project_id, app_id, started_at, uuid, instance_id, build_id, build_status, process, process_uuid, \
    parent_app_id, root_app_id, state, tokens, input, platform, started_by, fingerprint";
const LIST_COLUMNS: &str = "project_id, app_id, started_at, uuid, instance_id, build_id, build_status, process, process_uuid, \
    parent_app_id, root_app_id, state, tokens, '' AS input, platform, started_by, fingerprint";

/// The instances as one process starts them. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Instances {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// Names this process in claims, anew at each start.
    process: String,
    ids: ids::Ids,
    recent: recent::Recent,
}

impl Instances {
    /// The instances in this store.
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

    /// Names this process, anew at each start.
    pub fn process(&self) -> &str {
        &self.inner.process
    }

    /// The first of `count` numbers in a row, which no process of the deployment gives again, all below 2^53.
    pub async fn numbers(&self, count: u64) -> Result<u64, StoreError> {
        let inner = &self.inner;
        inner.ids.take(&inner.store, &inner.process, count).await
    }

    /// Knows an instance that is durable in the log, until its row is there.
    pub fn remember(&self, instance: InstanceRecord) {
        self.inner.recent.put(instance);
    }

    /// The instance with this identity, of any of these projects. Of an app, if it is known: that is a shorter search.
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
        // The first one that was stored under an identity is the one that was answered.
        let sql = format!(
            "SELECT {COLUMNS} FROM process_instances WHERE {} ORDER BY started_at, version LIMIT 1",
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
        // What the wide columns hold is read of the rows on the page alone.
        let order = format!(
            "ORDER BY started_at DESC, uuid DESC LIMIT 1 BY uuid LIMIT {}",
            query.limit
        );
        let sql = format!(
            "SELECT {LIST_COLUMNS} FROM process_instances WHERE {conditions} AND (started_at, uuid) IN \
               (SELECT started_at, uuid FROM process_instances WHERE {conditions} {order}) {order}",
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
