//! The processor's step over the second table: the same code, other rows.

use async_trait::async_trait;
use eventlog::{Position, StoredRecord};
use prometheus::Registry;
use schemas::ids::{AppId, ProjectId};
use schemas::price::PriceTable;
use schemas::record::RecordHeader;
use schemas::reprice::Encoded;
use store::maintenance::rebuild::FoldEvent;
use store::reads::states::{Child, ChildSum, LinkedRun, RunPlace, StoredRun};
use store::{Store, StoreError};

use super::super::{JobError, JobParts};
use crate::config::Limits;
use crate::config::ProcessorConfig;
use crate::hot::HotRuns;
use crate::known_runs::KnownRuns;
use crate::metrics::Metrics;
use crate::run::Scope;
use crate::step;
use crate::step::Sources;
use crate::step::lease::Unleased;
use crate::step::slices::{self, InMemory, record};
use crate::tables::{Rows, Tables, insert_runs};

/// Memory for the states of runs that may change again soon.
const HOT_BYTES: u64 = 64 << 20;

pub(super) struct Shadow {
    tables: ShadowTables,
    known: KnownRuns,
    hot: HotRuns,
    /// Not registered: these events were counted when they were first stored (P4).
    metrics: Metrics,
}

impl Shadow {
    pub(super) async fn new(parts: &JobParts) -> Result<Self, JobError> {
        let tables = ShadowTables(parts.store.shadow());
        let known = KnownRuns::load(&tables).await?;
        let metrics = Metrics::new(&Registry::new()).map_err(StoreError::from)?;
        let hot = HotRuns::new(&ProcessorConfig {
            workers: 1,
            hot_bytes: HOT_BYTES,
            ..ProcessorConfig::default()
        });
        Ok(Self {
            tables,
            known,
            hot,
            metrics,
        })
    }

    pub(super) async fn fold(
        &self,
        events: Vec<FoldEvent>,
        prices: &PriceTable,
    ) -> Result<(), JobError> {
        // The rows get a time of writing close to the original, so that readers that follow changes do not take all of
        // them for new.
        let newest_ms = events.iter().map(|event| event.received_at).max();
        let mut records = records(events);
        let later = InMemory::default();
        let sources = Sources {
            tables: &self.tables,
            hot: &self.hot,
            known: &self.known,
            prices,
            metrics: &self.metrics,
            lease: &Unleased,
            continuations: &later,
            limits: Limits::default(),
            assume_partial_writes: false,
        };
        // A change in a large tree is completed before the events count as folded.
        while !records.is_empty() {
            step::store(&records, sources, newest_ms.unwrap_or_default()).await?;
            let position = Position {
                partition: 0,
                offset: 0,
            };
            records = slices::at(position, later.take());
        }
        Ok(())
    }
}

/// One record for each run's events of one app that were accepted at the same time.
fn records(events: Vec<FoldEvent>) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    let mut rest = events.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut payload = b"{\"events\":[".to_vec();
        payload.extend_from_slice(&first.payload);
        let mut count = 1;
        let is_of_record = |event: &FoldEvent| {
            (&event.project_id, &event.app_id, event.received_at)
                == (&first.project_id, &first.app_id, first.received_at)
        };
        while let Some(event) = rest.next_if(is_of_record) {
            payload.push(b',');
            payload.extend_from_slice(&event.payload);
            count += 1;
        }
        payload.extend_from_slice(b"]}");
        let header = RecordHeader {
            project: ProjectId::new(first.project_id),
            app: AppId::new(first.app_id),
            received_at_ms: first.received_at,
            events: count,
        };
        records.push(StoredRecord {
            // Versions start at the bottom, below every later write of the run (P3).
            position: Position {
                partition: 0,
                offset: 0,
            },
            record: record(Encoded {
                key: header.key(),
                headers: header.encode(),
                payload,
            }),
        });
    }
    records
}

/// Look-ups and inserts of runs in the second table; everything else is already stored.
struct ShadowTables(Store);

#[async_trait]
impl Tables for ShadowTables {
    async fn load_states(
        &self,
        scope: &Scope,
        run_ids: &[&str],
    ) -> Result<Vec<StoredRun>, StoreError> {
        Tables::load_states(&self.0, scope, run_ids).await
    }

    async fn load_states_near(
        &self,
        project: &ProjectId,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        Tables::load_states_near(&self.0, project, places).await
    }

    async fn child_sums(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        only: Option<&[&str]>,
    ) -> Result<Vec<ChildSum>, StoreError> {
        Tables::child_sums(&self.0, scope, parent_ids, only).await
    }

    async fn tree_links(
        &self,
        scope: &Scope,
        root_ids: &[&str],
        each: &mut (dyn FnMut(Child) + Send),
    ) -> Result<(), StoreError> {
        Tables::tree_links(&self.0, scope, root_ids, each).await
    }

    async fn children_of(
        &self,
        scope: &Scope,
        parent_ids: &[&str],
        after: &str,
        limit: usize,
    ) -> Result<Vec<Child>, StoreError> {
        Tables::children_of(&self.0, scope, parent_ids, after, limit).await
    }

    async fn insert(&self, rows: &Rows<'_>) -> Result<(), StoreError> {
        insert_runs(&self.0, &rows.runs).await?;
        insert_runs(&self.0, &rows.causes).await
    }

    async fn known_runs(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Tables::known_runs(&self.0, since, each).await
    }

    async fn waiting_parents(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Tables::waiting_parents(&self.0, since, each).await
    }

    async fn linked_runs(
        &self,
        scope: &Scope,
        links: &[u64],
        most: usize,
    ) -> Result<Vec<LinkedRun>, StoreError> {
        Tables::linked_runs(&self.0, scope, links, most).await
    }

    async fn call_links(
        &self,
        since: Option<i64>,
        each: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, StoreError> {
        Tables::call_links(&self.0, since, each).await
    }

    async fn placed_by(&self) -> Result<Option<u32>, StoreError> {
        Tables::placed_by(&self.0).await
    }

    async fn place_by(&self, partitions: u32) -> Result<(), StoreError> {
        Tables::place_by(&self.0, partitions).await
    }
}
