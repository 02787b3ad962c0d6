//! Permits that tenants share, so that no tenant takes all of them.
//!
//! A holder needs a permit of its credential, of its tenant and of the total, in this order. So whatever one tenant
//! requests, it uses or waits for at most its share of the total, and others proceed as if it requested no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Numbers of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareBounds {
    pub total: usize,
    pub tenant: usize,
    pub credential: usize,
    /// Queued requests of one credential; the next one is rejected (X1).
    pub waiting: usize,
}

impl ShareBounds {
    /// Half of the permits for one tenant and half of these for one credential, both rounded up.
    pub fn halves(total: usize, waiting: usize) -> Self {
        let total = total.max(1);
        let tenant = total.div_ceil(2);
        Self {
            total,
            tenant,
            credential: tenant.div_ceil(2),
            waiting,
        }
    }
}

/// The holder of a permit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The project, or what stands for the projects of a credential that reaches several.
    pub tenant: String,
    pub credential: String,
}

/// Why there is no permit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The credential holds its share, this many.
    Credential(usize),
    /// Its tenant holds its share, this many.
    Tenant(usize),
    /// All of them, this many, are held.
    Total(usize),
}

/// The permits of one kind of work. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub struct Shares {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bounds: ShareBounds,
    total: Arc<Semaphore>,
    groups: Mutex<HashMap<Name, Group>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Tenant(String),
    Credential(String),
}

/// The permits of one tenant or credential. It exists while one is held or waited for.
#[derive(Debug)]
struct Group {
    permits: Arc<Semaphore>,
    members: usize,
}

/// A permit; released when dropped.
#[derive(Debug)]
pub struct Share {
    _permits: [OwnedSemaphorePermit; 3],
    _memberships: [Membership; 2],
}

/// One member of a group.
#[derive(Debug)]
struct Membership {
    inner: Arc<Inner>,
    name: Name,
    permits: Arc<Semaphore>,
}

impl Shares {
    pub fn new(bounds: ShareBounds) -> Self {
        let inner = Inner {
            bounds,
            total: Arc::new(Semaphore::new(bounds.total)),
            groups: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// A permit without waiting.
    ///
    /// # Errors
    /// The share that is used up.
    pub fn take_now(&self, holder: &Holder) -> Result<Share, Full> {
        let bounds = self.inner.bounds;
        let memberships = self.join(holder, bounds.credential + bounds.waiting)?;
        let [credential, tenant] = &memberships;
        let now = |permits: &Arc<Semaphore>, full| {
            let permit = permits.clone().try_acquire_owned();
            permit.map_err(|_| full)
        };
        let permits = [
            now(&credential.permits, Full::Credential(bounds.credential))?,
            now(&tenant.permits, Full::Tenant(bounds.tenant))?,
            now(&self.inner.total, Full::Total(bounds.total))?,
        ];
        Ok(Share {
            _permits: permits,
            _memberships: memberships,
        })
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Full::Credential`] when too many requests of the credential are queued.
    pub async fn take(&self, holder: &Holder) -> Result<Share, Full> {
        let bounds = self.inner.bounds;
        let memberships = self.join(holder, bounds.credential + bounds.waiting)?;
        let [credential, tenant] = &memberships;
        let wait = async |permits: &Arc<Semaphore>| {
            let permit = permits.clone().acquire_owned().await;
            // No semaphore is ever closed.
            permit.map_err(|_| Full::Total(bounds.total))
        };
        let permits = [
            wait(&credential.permits).await?,
            wait(&tenant.permits).await?,
            wait(&self.inner.total).await?,
        ];
        Ok(Share {
            _permits: permits,
            _memberships: memberships,
        })
    }

    fn join(&self, holder: &Holder, members_max: usize) -> Result<[Membership; 2], Full> {
        let bounds = self.inner.bounds;
        let mut groups = self.inner.lock();
        let credential = Name::Credential(holder.credential.clone());
        let members = groups.get(&credential).map_or(0, |group| group.members);
        if members >= members_max {
            return Err(Full::Credential(bounds.credential));
        }
        let mut enter = |name: Name, permits: usize| {
            let group = groups.entry(name.clone()).or_insert_with(|| Group {
                permits: Arc::new(Semaphore::new(permits)),
                members: 0,
            });
            group.members += 1;
            Membership {
                inner: self.inner.clone(),
                name,
                permits: group.permits.clone(),
            }
        };
        let tenant = Name::Tenant(holder.tenant.clone());
        Ok([
            enter(credential, bounds.credential),
            enter(tenant, bounds.tenant),
        ])
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Name, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut groups = self.inner.lock();
        if let Some(group) = groups.get_mut(&self.name) {
            group.members -= 1;
            if group.members == 0 {
                groups.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(tenant: &str, credential: &str) -> Holder {
        Holder {
            tenant: tenant.to_owned(),
            credential: credential.to_owned(),
        }
    }

    #[test]
    fn a_share_is_half_and_at_least_one() {
        let of = |total| {
            let bounds = ShareBounds::halves(total, 0);
            (bounds.total, bounds.tenant, bounds.credential)
        };
        assert_eq!(of(0), (1, 1, 1));
        assert_eq!(of(1), (1, 1, 1));
        assert_eq!(of(6), (6, 3, 2));
        assert_eq!(of(32), (32, 16, 8));
    }

    #[test]
    fn no_credential_and_no_tenant_takes_more_than_its_share_and_all_comes_back_x1() {
        let shares = Shares::new(ShareBounds::halves(8, 0));
        let take = |tenant: &str, credential: &str| shares.take_now(&holder(tenant, credential));
        let mut held = vec![take("a", "a1").unwrap(), take("a", "a1").unwrap()];
        assert_eq!(take("a", "a1").unwrap_err(), Full::Credential(2));
        held.push(take("a", "a2").unwrap());
        held.push(take("a", "a2").unwrap());
        assert_eq!(take("a", "a3").unwrap_err(), Full::Tenant(4));
        for credential in ["b1", "b2"] {
            held.push(take("b", credential).unwrap());
            held.push(take("b", credential).unwrap());
        }
        assert_eq!(take("c", "c1").unwrap_err(), Full::Total(8));
        held.remove(0);
        held.push(take("c", "c1").unwrap());
        drop(held);
        assert!(shares.inner.lock().is_empty());
        assert_eq!(shares.inner.total.available_permits(), 8);
    }

    #[tokio::test]
    async fn a_tenant_in_line_holds_up_no_other_and_a_line_has_an_end_x1() {
        let shares = Shares::new(ShareBounds {
            total: 4,
            tenant: 2,
            credential: 2,
            waiting: 3,
        });
        let (greedy, other) = (holder("a", "a1"), holder("b", "b1"));
        let first = shares.take(&greedy).await.unwrap();
        let _second = shares.take(&greedy).await.unwrap();
        let mut line: Vec<_> = (0..3).map(|_| Box::pin(shares.take(&greedy))).collect();
        for waiting in &mut line {
            assert!(futures::poll!(waiting).is_pending());
        }
        let refused = shares.take(&greedy).await.unwrap_err();
        assert_eq!(refused, Full::Credential(2));
        shares.take(&other).await.unwrap();
        // A dropped request makes room in the queue, and the first in it is next.
        drop(line.pop());
        let mut again = Box::pin(shares.take(&greedy));
        assert!(futures::poll!(&mut again).is_pending());
        drop(first);
        assert!(futures::poll!(&mut line[0]).is_ready());
        assert!(futures::poll!(&mut again).is_pending());
    }
}
