//! Claims: names that one process of a deployment has exclusively.
//!
//! The tables have no compare-and-swap, so a process claims a name and then reads the claims: of two processes that
//! claim the same name, at least the second to read sees the other, because a claim is durable before the read begins.
//! A process that sees another claim gives the name up. So no two processes share a name, and two that claim at once
//! may both give it up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clickhouse::query::Query;
use tokio::sync::Mutex;

use crate::client::Store;
use crate::error::StoreError;

/// 2100-01-01: longer than any deployment lives, and within the range of the column.
const FOREVER_UNIX_S: u32 = 4_102_444_800;
/// Attempts of a write that meets another one: on clusters writes of a small table are sequential.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Maximum length of a turn, and of its claim: longer than statements sent in it may be in flight.
const TURN_TAKES: Duration = Duration::from_secs(10);
const TURN_HOLDS: Duration = Duration::from_secs(30);
/// How long to wait for another process's turn, and the interval of attempts.
const TURN_WITHIN: Duration = Duration::from_secs(10);
const TURN_PAUSE_MS: std::ops::Range<u64> = 20..200;

/// The turns of one process, whose own work under any name is sequential. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<TurnsInner>,
}

struct TurnsInner {
    /// Identifies this process in claims; new at each start.
    process: String,
    turn: Mutex<()>,
}

impl Default for Turns {
    fn default() -> Self {
        let inner = TurnsInner {
            process: format!("{:032x}", rand::random::<u128>()),
            turn: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }
}

/// How long a claim lasts, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Afterwards any process may claim the name.
    For(Duration),
    Forever,
}

const CLAIM: &str = "INSERT INTO claims (name, claimed_by, version, expires_at) \
    SELECT {name:String}, {by:String}, \
      greatest(toUInt64(toUnixTimestamp64Micro(now64(6))), (SELECT max(version) + 1 FROM claims \
        WHERE name = {name:String} AND claimed_by = {by:String})), \
      if({forever:UInt8} = 1, toDateTime({until:UInt32}, 'UTC'), now('UTC') + toIntervalSecond({seconds:UInt32}))";
const OTHERS: &str = "SELECT count() FROM claims FINAL \
    WHERE name = {name:String} AND claimed_by != {by:String} AND expires_at > now()";

impl Store {
    /// Claims a name; `true` when no other process has it. The claim is stored either way: see [`Store::withdraw`].
    ///
    /// # Errors
    /// The claim may be stored nevertheless.
    pub async fn claim(&self, name: &str, by: &str, holds: Holds) -> Result<bool, StoreError> {
        self.write_claim(name, by, holds).await?;
        let others = self
            .bounded_query(OTHERS)
            .param("name", name)
            .param("by", by);
        Ok(others.one::<u64>().await? == 0)
    }

    /// Does work that no other process of the deployment does at the same time under this name. It completes even if
    /// the caller is dropped. One process takes one turn at a time: see [`Turns`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when other processes have the name for longer than a turn takes, or when the work
    /// takes too long: a running statement may then still complete.
    pub async fn exclusively<T: Send + 'static>(
        &self,
        turns: &Turns,
        name: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, turns) = (self.clone(), turns.clone());
        let work = tokio::spawn(async move {
            let _turn = turns.inner.turn.lock().await;
            let (name, by) = (format!("turn/{name}"), &turns.inner.process);
            let give_up = Instant::now() + TURN_WITHIN;
            while !store.claim(&name, by, Holds::For(TURN_HOLDS)).await? {
                store.withdraw(&name, by).await?;
                if Instant::now() >= give_up {
                    return Err(StoreError::Unavailable(
                        "another process is changing the same".to_owned(),
                    ));
                }
                let pause_ms = rand::random_range(TURN_PAUSE_MS);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            let done = match tokio::time::timeout(TURN_TAKES, work).await {
                Ok(done) => done,
                // It may still complete: the claim expires by itself.
                Err(_) => return Err(StoreError::TimedOut(TURN_TAKES)),
            };
            store.withdraw(&name, by).await?;
            done
        });
        work.await
            .unwrap_or_else(|error| Err(StoreError::Shape(format!("a turn broke off: {error}"))))
    }

    /// Withdraws a claim, so that it delays no other process. Only for a name that was not used.
    pub async fn withdraw(&self, name: &str, by: &str) -> Result<(), StoreError> {
        self.write_claim(name, by, Holds::For(Duration::ZERO)).await
    }

    async fn write_claim(&self, name: &str, by: &str, holds: Holds) -> Result<(), StoreError> {
        let (forever, seconds) = match holds {
            Holds::Forever => (1_u8, 0),
            Holds::For(time) => (0, u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
        };
        self.write_small(|| {
            self.client
                .query_raw(CLAIM)
                .param("name", name)
                .param("by", by)
                .param("forever", forever)
                .param("until", FOREVER_UNIX_S)
                .param("seconds", seconds)
        })
        .await
    }

    /// Executes a write of a small table, with retries where it meets another one.
    pub(crate) async fn write_small(&self, write: impl Fn() -> Query) -> Result<(), StoreError> {
        let limit = self.config.query_timeout;
        let mut tries = 0;
        loop {
            let written = match tokio::time::timeout(limit, write().execute()).await {
                Ok(written) => written.map_err(StoreError::from),
                Err(_) => Err(StoreError::TimedOut(limit)),
            };
            match written {
                Err(StoreError::Overloaded { .. }) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
