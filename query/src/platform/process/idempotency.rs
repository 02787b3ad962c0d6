//! Starts with an `Idempotency-Key`: the same start is carried out once.
//!
//! Requests with the same key run one by one in a lane of this process, and exclude other processes by a claim in the
//! tables.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use api::ErrorResponse;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::api_error::{ApiError, ErrorCode};
use store::platform::claims::Holds;
use store::platform::instances::InstanceRecord;
use store::reads::filter_sql::Projects;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::ProcessState;
use super::key::derived;
use super::starts::{StartPlan, new_instance, not_started, store_error};

/// Lanes: few enough to keep, and enough that different starts seldom share one.
const LANES: usize = 1024;
/// Bytes of begun starts (X1).
const BEGUN_BYTES: u64 = 32 << 20;
/// Size of a begun start beside its input.
const BEGUN_RECORD_BYTES: usize = 1 << 10;
/// How long begun starts are cached: longer than an append can run.
const BEGUN_FOR: Duration = Duration::from_secs(15 * 60);
/// How long a process holds a key. An instance is in the log at most ten seconds later, and in the table a second after
/// that unless the processor is behind: then a repeated request in another process may start another instance.
const CLAIM_HOLDS: Duration = Duration::from_secs(30);
/// The append begins within this time after the claim, or not at all.
const APPENDED_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for another process that holds the key.
const OTHER_WITHIN: Duration = Duration::from_secs(5);
/// Pause between two attempts to claim the key.
const OTHER_PAUSE_MS: std::ops::Range<u64> = 20..100;

pub(super) struct Lanes {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
    /// Begun starts, so that a request after an append with an unknown result appends the same record.
    begun: Cache<Uuid, InstanceRecord>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self {
            locks: (0..LANES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            begun: Cache::builder()
                .max_capacity(BEGUN_BYTES)
                .weigher(|_, begun: &InstanceRecord| {
                    u32::try_from(begun.input.len() + BEGUN_RECORD_BYTES).unwrap_or(u32::MAX)
                })
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(BEGUN_FOR)
                .build(),
        }
    }

    fn lane(&self, uuid: &Uuid) -> &Mutex<()> {
        // `locks` has `LANES` elements.
        &self.locks[(self.hasher.hash_one(uuid) % LANES as u64) as usize]
    }
}

/// The instance that was started with this key before, or a new one that `append` makes durable.
pub(super) async fn start_once(
    state: &ProcessState,
    plan: &StartPlan,
    key: &str,
    append: impl AsyncFnOnce(InstanceRecord) -> Result<InstanceRecord, ErrorResponse>,
) -> Result<InstanceRecord, ErrorResponse> {
    let uuid = derived(&[
        "start",
        &plan.project_id,
        &plan.app_id,
        &plan.build_id,
        &plan.process,
        &plan.started_by,
        key,
    ]);
    let _lane = state.runtime.starts.lanes.lane(&uuid).lock().await;
    let claimed_at = match claim(state, plan, &uuid).await? {
        Claim::Started(instance) => return Ok(*instance),
        Claim::Mine(since) => since,
    };
    let instance = begin(state, plan, uuid).await?;
    if claimed_at.elapsed() > APPENDED_WITHIN {
        return Err(not_started("it took too long to begin").into());
    }
    append(instance).await
}

/// The state of a key.
enum Claim {
    /// This process holds the key since then.
    Mine(Instant),
    /// The same request started this instance before.
    Started(Box<InstanceRecord>),
}

async fn claim(
    state: &ProcessState,
    plan: &StartPlan,
    uuid: &Uuid,
) -> Result<Claim, ErrorResponse> {
    let give_up = Instant::now() + OTHER_WITHIN;
    let process = state.runtime.starts.instances.process();
    let name = format!("start/{uuid}");
    loop {
        if let Some(found) = started(state, plan, uuid).await? {
            return Ok(Claim::Started(Box::new(found)));
        }
        let claimed_at = Instant::now();
        let claim = state.store.claim(&name, process, Holds::For(CLAIM_HOLDS));
        if claim.await.map_err(store_error)? {
            // The previous holder may have stored the instance since the read above.
            return Ok(match started(state, plan, uuid).await? {
                Some(found) => Claim::Started(Box::new(found)),
                None => Claim::Mine(claimed_at),
            });
        }
        let withdrawn = state.store.withdraw(&name, process).await;
        withdrawn.map_err(store_error)?;
        if Instant::now() >= give_up {
            return Err(not_started("another server is starting it with the same key").into());
        }
        let pause_ms = rand::random_range(OTHER_PAUSE_MS);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// The instance that was started under this UUID.
async fn started(
    state: &ProcessState,
    plan: &StartPlan,
    uuid: &Uuid,
) -> Result<Option<InstanceRecord>, ErrorResponse> {
    let project = Projects::Only(vec![plan.project_id.clone()]);
    let (instances, uuid) = (&state.runtime.starts.instances, uuid.to_string());
    let found = instances.one(&project, Some(&plan.app_id), &uuid);
    let Some(found) = found.await.map_err(store_error)? else {
        return Ok(None);
    };
    if found.fingerprint == plan.fingerprint() {
        return Ok(Some(found));
    }
    let message =
        "`Idempotency-Key` was used for a start with another body; use a new key for a new start";
    Err(ApiError::new(ErrorCode::IdempotencyKeyReused, message).into())
}

/// The instance that the same request began before, or a new one.
async fn begin(
    state: &ProcessState,
    plan: &StartPlan,
    uuid: Uuid,
) -> Result<InstanceRecord, ErrorResponse> {
    let begun = &state.runtime.starts.lanes.begun;
    let same = begun
        .get(&uuid)
        .filter(|begun| begun.fingerprint == plan.fingerprint());
    if let Some(same) = same {
        return Ok(same);
    }
    let new = new_instance(state, plan, uuid).await?;
    begun.insert(uuid, new.clone());
    Ok(new)
}
