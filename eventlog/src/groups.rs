//! Ownership of partitions: the members of the groups of one process, and cooperative rebalancing among them.
//!
//! A pure state machine: no clock, no task. A member calls [`Groups::poll`] each time it asks for more, and receives
//! what has changed for it. A partition moves from one member to another only in these steps: the owner receives
//! `Revoked`, keeps the partition until it polls again, and only then the next owner receives `Assigned`. So no two
//! members ever own a partition, and a member that never polls again keeps its partitions (it leaves when dropped).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::GroupState;

/// Never used twice in one process.
pub(crate) type MemberId = u64;

/// What a member learns when it polls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The member owns these from now on.
    Assigned(Vec<u32>),
    /// The member loses these when it polls again.
    Revoked(Vec<u32>),
    /// The member no longer owns these.
    Lost(Vec<u32>),
}

/// All groups of one log in this process.
pub(crate) struct Groups {
    partitions: AtomicU32,
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    next_member: MemberId,
    groups: BTreeMap<String, Group>,
}

#[derive(Default)]
struct Group {
    /// In the order of joining.
    members: Vec<MemberId>,
    slots: Vec<Slot>,
    lost: BTreeMap<MemberId, BTreeSet<u32>>,
    /// Considered dead; they are members again when they poll.
    expelled: BTreeSet<MemberId>,
}

/// One partition within a group.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The member that may commit it now.
    owner: Option<MemberId>,
    /// Whether the owner was informed of the revocation.
    releasing: bool,
    /// The member that shall own it.
    target: Option<MemberId>,
}

impl Groups {
    pub(crate) fn new(partitions: u32, changed: watch::Sender<u64>) -> Self {
        Groups {
            partitions: AtomicU32::new(partitions),
            inner: Mutex::default(),
            changed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code in here panics half way through a change, so a poisoned lock holds consistent data.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    pub(crate) fn join(&self, group: &str) -> MemberId {
        let mut inner = self.lock();
        inner.next_member += 1;
        let id = inner.next_member;
        let partitions = self.partitions.load(Ordering::Acquire) as usize;
        let group = inner.groups.entry(group.to_owned()).or_default();
        group.slots.resize(partitions, Slot::default());
        group.members.push(id);
        group.balance();
        drop(inner);
        self.wake();
        id
    }

    pub(crate) fn leave(&self, group: &str, id: MemberId) {
        let mut inner = self.lock();
        if let Some(group) = inner.groups.get_mut(group) {
            group.members.retain(|member| *member != id);
            group.lost.remove(&id);
            group.expelled.remove(&id);
            for slot in &mut group.slots {
                if slot.owner == Some(id) {
                    *slot = Slot::default();
                }
            }
            group.balance();
        }
        drop(inner);
        self.wake();
    }

    /// The next change for this member since its last poll: losses first, then revocations, then assignments.
    pub(crate) fn poll(&self, group: &str, id: MemberId) -> Option<Change> {
        let mut inner = self.lock();
        let group = inner.groups.get_mut(group)?;
        let mut released = group.release(id);
        if group.expelled.remove(&id) {
            group.members.push(id);
            group.balance();
            released = true;
        }
        let change = group.change(id);
        drop(inner);
        if released {
            self.wake();
        }
        change
    }

    pub(crate) fn owns(&self, group: &str, id: MemberId, partition: u32) -> bool {
        let inner = self.lock();
        inner
            .groups
            .get(group)
            .and_then(|group| group.slots.get(partition as usize))
            .is_some_and(|slot| slot.owner == Some(id))
    }

    /// Adds partitions up to this number.
    pub(crate) fn grow(&self, partitions: u32) {
        self.partitions.store(partitions, Ordering::Release);
        let mut inner = self.lock();
        for group in inner.groups.values_mut() {
            group.slots.resize(partitions as usize, Slot::default());
            group.balance();
        }
        drop(inner);
        self.wake();
    }

    /// The group with the owners of its partitions.
    pub(crate) fn state(&self, group: &str) -> GroupState {
        let inner = self.lock();
        let slots = inner.groups.get(group).map(|group| group.slots.as_slice());
        let owners = (0..).zip(slots.unwrap_or_default());
        let owners = owners.filter_map(|(partition, slot)| Some((partition, slot.owner?)));
        GroupState {
            name: "Stable".to_owned(),
            owners: owners
                .map(|(partition, id)| (partition, format!("member {id}")))
                .collect(),
        }
    }

    /// Number of members of the group in this process.
    pub(crate) fn members(&self, group: &str) -> usize {
        self.lock().groups.get(group).map_or(0, |g| g.members.len())
    }

    /// Takes every partition from its owner without notice, like a broker that has given up on a member.
    pub(crate) fn lose(&self, group: &str) {
        let mut inner = self.lock();
        if let Some(group) = inner.groups.get_mut(group) {
            for (partition, slot) in group.slots.iter_mut().enumerate() {
                if let Some(owner) = slot.owner.take() {
                    slot.releasing = false;
                    // There are at most u32::MAX partitions.
                    group
                        .lost
                        .entry(owner)
                        .or_default()
                        .insert(partition as u32);
                }
            }
        }
        drop(inner);
        self.wake();
    }

    /// Expels all members, like a broker that has received no heartbeats: the first to return receive the partitions.
    pub(crate) fn expel(&self, group: &str) {
        self.lose(group);
        let mut inner = self.lock();
        if let Some(group) = inner.groups.get_mut(group) {
            group.expelled.extend(group.members.drain(..));
            group.balance();
        }
        drop(inner);
        self.wake();
    }
}

impl Group {
    /// Releases the partitions that the member was asked to give up: its return acknowledges that.
    fn release(&mut self, id: MemberId) -> bool {
        let mut released = false;
        for slot in &mut self.slots {
            if slot.owner == Some(id) && slot.releasing {
                slot.owner = None;
                slot.releasing = false;
                released = true;
            }
        }
        released
    }

    fn change(&mut self, id: MemberId) -> Option<Change> {
        if let Some(lost) = self.lost.remove(&id) {
            return Some(Change::Lost(lost.into_iter().collect()));
        }
        let mut revoked = Vec::new();
        let mut assigned = Vec::new();
        for (partition, slot) in self.slots.iter_mut().enumerate() {
            if slot.owner == Some(id) && slot.target != Some(id) {
                slot.releasing = true;
                revoked.push(partition as u32);
            }
        }
        if !revoked.is_empty() {
            return Some(Change::Revoked(revoked));
        }
        for (partition, slot) in self.slots.iter_mut().enumerate() {
            if slot.owner.is_none() && slot.target == Some(id) {
                slot.owner = Some(id);
                assigned.push(partition as u32);
            }
        }
        (!assigned.is_empty()).then_some(Change::Assigned(assigned))
    }

    /// Decides the targets: as even as possible, with as few moves as possible.
    fn balance(&mut self) {
        let held: Vec<Option<MemberId>> = self
            .slots
            .iter()
            .map(|slot| slot.owner.or(slot.target))
            .collect();
        for (slot, target) in self.slots.iter_mut().zip(balanced(&held, &self.members)) {
            slot.target = target;
        }
    }
}

/// An even assignment of the partitions to the members that keeps as many partitions as possible where they are.
fn balanced(held: &[Option<MemberId>], members: &[MemberId]) -> Vec<Option<MemberId>> {
    if members.is_empty() {
        return vec![None; held.len()];
    }
    let count = |id: MemberId| held.iter().filter(|owner| **owner == Some(id)).count();
    let least = held.len() / members.len();
    let extra = held.len() % members.len();
    // The members that hold most get the quotas that are one larger; the sort is stable, so earlier ones first.
    let mut order: Vec<MemberId> = members.to_vec();
    order.sort_by_key(|id| std::cmp::Reverse(count(*id)));
    let mut quota: BTreeMap<MemberId, usize> = order
        .iter()
        .enumerate()
        .map(|(rank, id)| (*id, least + usize::from(rank < extra)))
        .collect();

    let mut take = |id: MemberId| -> bool {
        match quota.get_mut(&id) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    };
    let mut result: Vec<Option<MemberId>> = held
        .iter()
        .map(|owner| owner.filter(|id| take(*id)))
        .collect();
    for slot in result.iter_mut().filter(|slot| slot.is_none()) {
        *slot = order.iter().copied().find(|id| take(*id));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(partitions: u32) -> Groups {
        Groups::new(partitions, watch::Sender::new(0))
    }

    #[test]
    fn a_single_member_gets_everything_once() {
        let groups = groups(3);
        let a = groups.join("g");
        assert_eq!(groups.poll("g", a), Some(Change::Assigned(vec![0, 1, 2])));
        assert_eq!(groups.poll("g", a), None);
        assert!(groups.owns("g", a, 2));
        assert!(!groups.owns("g", a, 3));
    }

    #[test]
    fn a_second_member_waits_until_the_first_comes_back() {
        let groups = groups(4);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        assert_eq!(groups.poll("g", b), None);
        assert_eq!(groups.poll("g", a), Some(Change::Revoked(vec![2, 3])));
        assert!(groups.owns("g", a, 2), "it may still commit");
        assert_eq!(groups.poll("g", b), None);
        assert_eq!(groups.poll("g", a), None);
        assert!(!groups.owns("g", a, 2));
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![2, 3])));
    }

    #[test]
    fn a_member_that_leaves_frees_its_partitions() {
        let groups = groups(2);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        groups.poll("g", a);
        groups.poll("g", a);
        groups.poll("g", b);
        groups.leave("g", a);
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![0])));
        assert_eq!(groups.members("g"), 1);
    }

    #[test]
    fn lost_partitions_are_gone_at_once_and_come_back_as_assigned() {
        let groups = groups(2);
        let a = groups.join("g");
        groups.poll("g", a);
        groups.lose("g");
        assert!(!groups.owns("g", a, 0));
        assert_eq!(groups.poll("g", a), Some(Change::Lost(vec![0, 1])));
        assert_eq!(groups.poll("g", a), Some(Change::Assigned(vec![0, 1])));
    }

    #[test]
    fn what_members_taken_for_dead_had_goes_to_those_that_come_back_first() {
        let groups = groups(2);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        groups.expel("g");
        assert!(!groups.owns("g", a, 0));
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![0, 1])));
        assert_eq!(groups.poll("g", a), Some(Change::Lost(vec![0, 1])));
        assert_eq!(groups.poll("g", b), Some(Change::Revoked(vec![1])));
    }

    #[test]
    fn partitions_that_are_added_are_shared_out() {
        let groups = groups(2);
        let a = groups.join("g");
        groups.poll("g", a);
        groups.grow(4);
        assert_eq!(groups.poll("g", a), Some(Change::Assigned(vec![2, 3])));
    }

    /// A member that waits for the answer to a commit does not poll.
    #[test]
    fn a_member_that_waits_for_an_answer_keeps_what_others_are_to_have_until_it_is_gone() {
        let groups = groups(4);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        assert_eq!(groups.poll("g", a), Some(Change::Revoked(vec![2, 3])));
        groups.grow(6);
        // Partitions that are added do not wait for it; those that were revoked do.
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![4, 5])));
        assert_eq!(groups.poll("g", b), None);
        assert_eq!(groups.state("g").owners[&3], format!("member {a}"));
        groups.leave("g", a);
        let rest = Change::Assigned(vec![0, 1, 2, 3]);
        assert_eq!(groups.poll("g", b), Some(rest));
    }

    #[test]
    fn partitions_added_while_a_member_joins_are_shared_out_with_the_others() {
        let groups = groups(4);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        groups.grow(6);
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![4, 5])));
        assert_eq!(groups.poll("g", a), Some(Change::Revoked(vec![3])));
        assert_eq!(groups.poll("g", a), None);
        assert_eq!(groups.poll("g", b), Some(Change::Assigned(vec![3])));
    }

    #[test]
    fn a_partition_between_two_owners_goes_to_another_member_if_the_next_one_ends() {
        let groups = groups(2);
        let a = groups.join("g");
        groups.poll("g", a);
        let b = groups.join("g");
        assert_eq!(groups.poll("g", a), Some(Change::Revoked(vec![1])));
        assert_eq!(groups.poll("g", a), None);
        assert!(!groups.state("g").owners.contains_key(&1));
        groups.leave("g", b);
        assert_eq!(groups.poll("g", a), Some(Change::Assigned(vec![1])));
    }

    #[test]
    fn groups_do_not_see_each_other() {
        let groups = groups(1);
        let a = groups.join("g");
        let b = groups.join("h");
        assert_eq!(groups.poll("g", a), Some(Change::Assigned(vec![0])));
        assert_eq!(groups.poll("h", b), Some(Change::Assigned(vec![0])));
    }

    proptest::proptest! {
        /// Whatever joins, leaves, polls, losses, expulsions and added partitions happen: one owner per partition, as the
        /// members see it, and an even spread once all have polled.
        #[test]
        fn a_partition_is_never_at_two_members(steps in proptest::collection::vec((0u8..8, 0usize..4), 1..80)) {
            let groups = groups(5);
            let mut partitions = 5;
            let mut members: Vec<(MemberId, BTreeSet<u32>, BTreeSet<u32>)> = Vec::new();
            let apply = |member: &mut (MemberId, BTreeSet<u32>, BTreeSet<u32>)| {
                let (id, own, going) = member;
                for partition in std::mem::take(going) {
                    own.remove(&partition);
                }
                match groups.poll("g", *id) {
                    Some(Change::Assigned(p)) => own.extend(p),
                    Some(Change::Revoked(p)) => going.extend(p),
                    Some(Change::Lost(p)) => p.iter().for_each(|p| { own.remove(p); }),
                    None => return false,
                }
                true
            };
            for (what, who) in steps {
                match what {
                    0 if members.len() < 4 => {
                        members.push((groups.join("g"), BTreeSet::new(), BTreeSet::new()));
                    }
                    1 if who < members.len() => groups.leave("g", members.remove(who).0),
                    2 => groups.lose("g"),
                    3 if partitions < 9 => {
                        partitions += 1;
                        groups.grow(partitions);
                    }
                    4 => groups.expel("g"),
                    _ if who < members.len() => { apply(&mut members[who]); }
                    _ => {}
                }
                for partition in 0..partitions {
                    let owners = members.iter().filter(|m| groups.owns("g", m.0, partition)).count();
                    proptest::prop_assert!(owners <= 1);
                    for (id, own, _) in &members {
                        // Its recorded owner believes so too.
                        proptest::prop_assert!(!groups.owns("g", *id, partition) || own.contains(&partition));
                    }
                }
            }
            // The return of an expelled member is a change for others only.
            for _ in 0..40 {
                for member in &mut members {
                    apply(member);
                }
            }
            if !members.is_empty() {
                let mut all: Vec<u32> = members.iter().flat_map(|m| m.1.iter().copied()).collect();
                all.sort_unstable();
                proptest::prop_assert_eq!(all, (0..partitions).collect::<Vec<_>>());
                let most = members.iter().map(|m| m.1.len()).max().unwrap_or(0);
                let fewest = members.iter().map(|m| m.1.len()).min().unwrap_or(0);
                proptest::prop_assert!(most - fewest <= 1);
            }
        }
    }
}
