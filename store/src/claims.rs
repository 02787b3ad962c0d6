//! Who was first: names that one process of a deployment has for itself.
//!
//! The tables know no compare-and-swap, so whoever wants a name claims it and then looks: of two that claim the same
//! one, at least the second to look sees the other, because a claim is durable before the look begins. Whoever sees
//! another one's claim leaves the name. So nobody shares a name, and two that come at once may both leave it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::client::Store;
use crate::error::StoreError;

/// 2100-01-01: longer than any deployment lasts, and within what the column holds.
const FOREVER_UNIX_S: u32 = 4_102_444_800;
/// How often a claim is written again where a write of another process was under way: on clusters one write of a small
/// table goes after the other.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// How long a turn lasts at most, and how long its claim holds: longer than what was sent in it may be under way.
const TURN_TAKES: Duration = Duration::from_secs(10);
const TURN_HOLDS: Duration = Duration::from_secs(30);
/// How long the turn of another process is waited for, and how often it is asked for.
const TURN_WITHIN: Duration = Duration::from_secs(10);
const TURN_PAUSE_MS: std::ops::Range<u64> = 20..200;

/// The turns of one process: its own work under any name goes one after the other. Cheap to clone; all clones are the
/// same.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<TurnsInner>,
}

struct TurnsInner {
    /// Names this process in claims, anew at each start.
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

/// How long a claim holds, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// This long; afterwards anybody may claim the name.
    For(Duration),
    /// For ever.
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
    /// Claims a name; `true` when nobody else has it. The claim stays either way: see [`Store::withdraw`].
    ///
    /// # Errors
    /// It may have been claimed all the same.
    pub async fn claim(&self, name: &str, by: &str, holds: Holds) -> Result<bool, StoreError> {
        self.write_claim(name, by, holds).await?;
        let others = self
            .bounded_query(OTHERS)
            .param("name", name)
            .param("by", by);
        Ok(others.one::<u64>().await? == 0)
    }

    /// Does work that no other process of the deployment does at the same time under this name. It is done to its end
    /// even if the caller goes away. One process takes one turn after the other by itself: see [`Turns`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when others have the name for longer than a turn takes, or when the work takes too
    /// long: a statement under way may then still be carried out.
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
                // It may still be carried out: the claim ends by itself.
                Err(_) => return Err(StoreError::TimedOut(TURN_TAKES)),
            };
            store.withdraw(&name, by).await?;
            done
        });
        work.await
            .unwrap_or_else(|error| Err(StoreError::Shape(format!("a turn broke off: {error}"))))
    }

    /// Takes a claim back, so that it holds up nobody. Only for who did nothing with the name.
    pub async fn withdraw(&self, name: &str, by: &str) -> Result<(), StoreError> {
        self.write_claim(name, by, Holds::For(Duration::ZERO)).await
    }

    async fn write_claim(&self, name: &str, by: &str, holds: Holds) -> Result<(), StoreError> {
        let (forever, seconds) = match holds {
            Holds::Forever => (1_u8, 0),
            Holds::For(time) => (0, u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
        };
        let mut tries = 0;
        loop {
            let written = self
                .client
                .query_raw(CLAIM)
                .param("name", name)
                .param("by", by)
                .param("forever", forever)
                .param("until", FOREVER_UNIX_S)
                .param("seconds", seconds)
                .execute();
            let limit = self.config.query_timeout;
            let written = match tokio::time::timeout(limit, written).await {
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
