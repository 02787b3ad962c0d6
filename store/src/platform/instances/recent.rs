//! Instances that this process started recently: durable in the log, and possibly not yet in the table.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::{InstanceQuery, InstanceRecord};
use crate::reads::filter_sql::Projects;

/// Maximum bytes of all: twenty thousand of typical size (X1).
const BYTES_MAX: u64 = 32 << 20;
/// Bytes of one besides its texts.
const RECORD_BYTES: usize = 600;
/// How long one is kept. The table has it within a second; later when the processor lags.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

pub(super) struct Recent {
    by_uuid: Cache<String, Arc<InstanceRecord>>,
}

impl Recent {
    pub(super) fn new() -> Self {
        let by_uuid = Cache::builder()
            .max_capacity(BYTES_MAX)
            .weigher(|_: &String, one: &Arc<InstanceRecord>| {
                let texts = one.input.len() + one.tokens.len() + one.process.len();
                u32::try_from(RECORD_BYTES + texts).unwrap_or(u32::MAX)
            })
            // The newest is the one that is requested; how often others were is no indication.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(KEPT_FOR)
            .build();
        Self { by_uuid }
    }

    pub(super) fn put(&self, one: InstanceRecord) {
        self.by_uuid.insert(one.uuid.clone(), Arc::new(one));
    }

    /// The one with this identity, of any of these projects and of this app.
    pub(super) fn one(
        &self,
        projects: &Projects,
        app_id: Option<&str>,
        uuid: &str,
    ) -> Option<InstanceRecord> {
        let one = self.by_uuid.get(uuid)?;
        let is_it = projects.has(&one.project_id) && app_id.is_none_or(|app| app == one.app_id);
        is_it.then(|| InstanceRecord::clone(&one))
    }

    /// A page of the table, with recent instances that belong on it and are not stored yet.
    pub(super) fn complete(
        &self,
        page: Vec<InstanceRecord>,
        projects: &Projects,
        query: &InstanceQuery,
    ) -> Vec<InstanceRecord> {
        let known: HashSet<String> = page.iter().map(|one| one.uuid.clone()).collect();
        let recent = self.by_uuid.iter().map(|(_, one)| one);
        let missing = recent.filter(|one| {
            !known.contains(&one.uuid) && projects.has(&one.project_id) && query.asks_for(one)
        });
        let mut all = page;
        all.extend(missing.map(|one| InstanceRecord {
            input: String::new(),
            ..InstanceRecord::clone(&one)
        }));
        all.sort_by_cached_key(|one| Reverse((one.started_at, one.uuid.clone())));
        all.truncate(query.limit);
        all
    }
}

impl InstanceQuery {
    /// Whether the instance is on this page or a later one.
    fn asks_for(&self, one: &InstanceRecord) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        let follows = |(started_at, uuid): &(i64, String)| {
            (one.started_at, one.uuid.as_str()) < (*started_at, uuid.as_str())
        };
        is(&self.app_id, &one.app_id)
            && is(&self.build_id, &one.build_id)
            && is(&self.process, &one.process)
            && self.from_ms.is_none_or(|from| one.started_at >= from)
            && self.to_ms.is_none_or(|to| one.started_at <= to)
            && self.after.as_ref().is_none_or(follows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_however_many_were_started_x1() {
        let recent = Recent::new();
        let input = "x".repeat(64 << 10);
        for number in 0..1000 {
            recent.put(InstanceRecord {
                uuid: number.to_string(),
                input: input.clone(),
                ..InstanceRecord::default()
            });
            let found = recent.one(&Projects::All, None, &number.to_string());
            assert!(found.is_some(), "{number}");
            recent.by_uuid.run_pending_tasks();
            let found = recent.one(&Projects::All, None, &number.to_string());
            assert!(found.is_some(), "{number} was not let in");
        }
        assert!(recent.by_uuid.weighted_size() <= BYTES_MAX);
    }
}
