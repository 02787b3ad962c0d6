//! Notices partitions that are stalled, says so, and has the member in question join the group again.

use std::time::Instant;

use eventlog::Lag;
use schemas::control::{STALLED_MAX, StalledPartition};

use crate::config::GROUP;
use crate::dependencies::Shared;
use crate::stalls::{Stall, Stalls};
use crate::worker::activity::Activity;

/// Looks once; returns what is stalled and is this process's to report: partitions of its own workers, and those that
/// have no owner in the group.
pub(crate) async fn look(
    shared: &Shared,
    workers: &[Activity],
    stalls: &mut Stalls,
    lags: &[Lag],
) -> Vec<StalledPartition> {
    let stalls = stalls.look(lags, Instant::now());
    if stalls.is_empty() {
        return Vec::new();
    }
    let is_own = |stall: &Stall| workers.iter().any(|worker| worker.has(stall.partition));
    let group = match stalls.iter().all(is_own) {
        true => None,
        // What the group does is not known then, and nothing is done to it.
        false => shared.dependencies.log.group_state(GROUP).await.ok(),
    };
    let mut stalled = Vec::new();
    let mut rejoining = vec![false; workers.len()];
    let can_rejoin: Vec<usize> = (0..workers.len())
        .filter(|at| workers[*at].can_rejoin())
        .collect();
    for stall in stalls {
        let own = workers
            .iter()
            .position(|worker| worker.has(stall.partition));
        let (owner, state) = match (own, &group) {
            (Some(own), _) => (format!("worker {own} here"), workers[own].does().to_owned()),
            (None, Some(group)) if !group.owners.contains_key(&stall.partition) => {
                (String::new(), group.name.clone())
            }
            // Its owner reports it, unless that is a member that no process knows any more.
            (None, Some(group)) if stall.lasts >= shared.config.stalled_after * 2 => {
                let owner = group.owners.get(&stall.partition).cloned();
                (owner.unwrap_or_default(), group.name.clone())
            }
            _ => continue,
        };
        if stall.is_due {
            tracing::warn!(
                log.partition = stall.partition,
                log.committed = stall.committed,
                log.lag_records = stall.lag_records,
                stall.seconds = stall.lasts.as_secs(),
                stall.owner = owner,
                stall.state = state,
                "records wait in a partition, and nothing is committed; a member joins the group again"
            );
            // Where no member has the partition, one worker at a time: each that joins moves partitions of others.
            let concerned = match own {
                Some(own) => can_rejoin.contains(&own).then_some(own),
                None if owner.is_empty() && !can_rejoin.is_empty() => {
                    Some(can_rejoin[stall.rounds as usize % can_rejoin.len()])
                }
                None => None,
            };
            if let Some(at) = concerned {
                rejoining[at] = true;
            }
        }
        stalled.push(StalledPartition {
            partition: stall.partition,
            committed: stall.committed,
            lag_records: stall.lag_records,
            seconds: stall.lasts.as_secs(),
            owner,
            state,
        });
    }
    for (worker, is_rejoining) in workers.iter().zip(rejoining) {
        if is_rejoining {
            shared.metrics.stall_rejoins.inc();
            worker.rejoin();
        }
    }
    stalled.truncate(STALLED_MAX);
    stalled
}
