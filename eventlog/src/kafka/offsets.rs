//! Queries for the bounds of partitions and the commits of a group, without joining it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::IntCounter;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::groups::GroupInfo;
use rdkafka::{Offset, TopicPartitionList};

use super::config::KafkaConfig;
use super::context::Lines;
use super::topic::blocking;
use super::{errors, settings, wire};
use crate::{Bounds, GroupState, Inventory, Lag, LogError};

type Client = Arc<BaseConsumer<Lines>>;

/// Groups that can be queried; a process has a handful.
const MAX_GROUPS: usize = 16;
/// Time-out of an inventory: a user waits for it.
const INVENTORY_WITHIN: Duration = Duration::from_secs(5);
/// Prefix of the brokers' internal topics.
const OWN_TOPICS: &str = "__";

/// The clients that only send queries.
pub(super) struct Offsets {
    config: Arc<KafkaConfig>,
    observer: Client,
    lost_records: IntCounter,
    /// One per queried group: the name of the group is a setting of the client.
    groups: Mutex<BTreeMap<String, Client>>,
}

impl Offsets {
    pub(super) fn new(
        config: Arc<KafkaConfig>,
        lost_records: IntCounter,
    ) -> Result<Self, LogError> {
        let observer = config
            .observer()
            .create_with_context(Lines::new("observer"))
            .map_err(|error| LogError::Settings(settings::description(error)))?;
        Ok(Self {
            config,
            observer: Arc::new(observer),
            lost_records,
            groups: Mutex::default(),
        })
    }

    pub(super) async fn bounds(&self, partitions: Vec<u32>) -> Result<Vec<Bounds>, LogError> {
        let begins = self.edge(&partitions, Offset::Beginning);
        let ends = self.edge(&partitions, Offset::End);
        let (begins, ends) = futures::try_join!(begins, ends)?;
        let bounds = begins.into_iter().zip(ends);
        let bounds = bounds.map(|((partition, begin), (_, end))| Bounds {
            partition,
            begin,
            // The two were read at different times: retention may have run in between.
            end: end.max(begin),
        });
        Ok(bounds.collect())
    }

    pub(super) async fn lag(
        &self,
        group: &str,
        partitions: Vec<u32>,
    ) -> Result<Vec<Lag>, LogError> {
        let committed = self.committed(group, &partitions).await?;
        let bounds = self.bounds(partitions).await?;
        let lag = bounds.into_iter().zip(committed);
        let lag = lag.map(|(bounds, (partition, committed))| Lag {
            partition,
            // Records dropped by age are no lag.
            committed: committed.unwrap_or(bounds.begin).max(bounds.begin),
            end: bounds.end,
        });
        Ok(lag.collect())
    }

    /// The brokers, and the topics that this client may see.
    pub(super) async fn inventory(&self) -> Result<Inventory, LogError> {
        let observer = Arc::clone(&self.observer);
        let patience = self.config.append_timeout.min(INVENTORY_WITHIN);
        let metadata = blocking(move || {
            serve(&observer);
            observer.fetch_metadata(None, patience)
        })
        .await?
        .map_err(|error| errors::away("metadata", &error))?;
        let topics = metadata.topics().iter();
        let topics = topics.filter(|topic| !topic.name().starts_with(OWN_TOPICS));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Inventory {
            brokers: count(metadata.brokers().len()),
            topics: count(topics.count()),
            bytes: None,
        })
    }

    pub(super) async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        let observer = Arc::clone(&self.observer);
        let config = Arc::clone(&self.config);
        let name = config.group_id(group);
        let state = blocking(move || {
            serve(&observer);
            let groups = observer.fetch_group_list(Some(&name), config.append_timeout);
            groups.map(|groups| {
                groups
                    .groups()
                    .first()
                    .map(|group| state(group, &config.topic))
            })
        });
        let state = state
            .await?
            .map_err(|error| errors::away("group", &error))?;
        state.ok_or_else(|| LogError::Unavailable(format!("no broker knows the group {group}")))
    }

    /// Where a member of the group begins: at the commit, or at the oldest record if there is none, or it is older, or
    /// the log ends before it. In the last case records were lost, and the records that have got their offsets since
    /// must not be skipped: processing a record again changes nothing.
    pub(super) async fn starts(
        &self,
        group: &str,
        partitions: Vec<u32>,
    ) -> Result<Vec<(u32, u64)>, LogError> {
        let committed = self.committed(group, &partitions);
        let bounds = self.bounds(partitions.clone());
        let (committed, bounds) = futures::try_join!(committed, bounds)?;
        let starts = committed.into_iter().zip(bounds);
        let starts = starts.map(|((partition, committed), bounds)| {
            let start = match committed {
                Some(offset) if offset > bounds.end => {
                    self.lost_records.inc();
                    tracing::error!(log.partition = partition, log.committed = offset, log.end = bounds.end, "the log ends before what was committed: records were lost; all that is there is read again");
                    bounds.begin
                }
                Some(offset) if offset < bounds.begin => {
                    let lost = bounds.begin - offset;
                    self.lost_records.inc_by(lost);
                    tracing::error!(log.partition = partition, log.committed = offset, log.begin = bounds.begin, "{lost} records expired in the log before they were processed; a longer `kafka.retention` bridges a longer outage");
                    bounds.begin
                }
                Some(offset) => offset,
                None => bounds.begin,
            };
            (partition, start)
        });
        Ok(starts.collect())
    }

    /// The first or the last offset of each, in the order of the partitions.
    async fn edge(&self, partitions: &[u32], edge: Offset) -> Result<Vec<(u32, u64)>, LogError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        // The protocol encodes "first" and "last" as special times.
        let list = self.list(partitions, edge)?;
        let observer = Arc::clone(&self.observer);
        let (topic, patience) = (self.config.topic.clone(), self.config.append_timeout);
        let found = blocking(move || {
            serve(&observer);
            match observer.offsets_for_times(list.clone(), patience) {
                // The client's metadata is older than a partition or a leader: it refreshes, and asks again.
                found if is_old_news(&found) => {
                    observer.fetch_metadata(Some(&topic), patience)?;
                    observer.offsets_for_times(list, patience)
                }
                found => found,
            }
        })
        .await?;
        let found = found.map_err(|error| errors::away("offsets", &error))?;
        self.each(partitions, &found)?
            .map(|(partition, offset)| match offset {
                Offset::Offset(raw) => Ok((partition, wire::offset(raw))),
                offset => Err(LogError::Unavailable(format!(
                    "offsets: partition {partition} is at {offset:?}"
                ))),
            })
            .collect()
    }

    /// The group's commit of each, in the order of the partitions.
    async fn committed(
        &self,
        group: &str,
        partitions: &[u32],
    ) -> Result<Vec<(u32, Option<u64>)>, LogError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let client = self.group(group)?;
        let list = self.list(partitions, Offset::Invalid)?;
        let patience = self.config.append_timeout;
        let found = blocking(move || {
            serve(&client);
            client.committed_offsets(list, patience)
        })
        .await?;
        let found = found.map_err(|error| errors::away("commits", &error))?;
        let each = self.each(partitions, &found)?;
        let each = each.map(|(partition, offset)| match offset {
            Offset::Offset(raw) => (partition, Some(wire::offset(raw))),
            _ => (partition, None),
        });
        Ok(each.collect())
    }

    fn group(&self, group: &str) -> Result<Client, LogError> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = groups.get(group) {
            return Ok(Arc::clone(client));
        }
        if groups.len() >= MAX_GROUPS {
            return Err(LogError::Full(format!(
                "{MAX_GROUPS} groups are asked about"
            )));
        }
        let client = self
            .config
            .committed(group)
            .create_with_context(Lines::new("commits"))
            .map_err(|error| LogError::Settings(settings::description(error)))?;
        let client = Arc::new(client);
        groups.insert(group.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    fn list(&self, partitions: &[u32], offset: Offset) -> Result<TopicPartitionList, LogError> {
        list(&self.config.topic, partitions.iter().map(|p| (*p, offset)))
    }

    /// The answers in the order of the request; an error of one partition is an error of all.
    fn each(
        &self,
        partitions: &[u32],
        found: &TopicPartitionList,
    ) -> Result<std::vec::IntoIter<(u32, Offset)>, LogError> {
        let mut each = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let raw = wire::raw_partition(*partition);
            let Some(element) = found.find_partition(&self.config.topic, raw) else {
                return Err(LogError::Unavailable(format!("no answer for {partition}")));
            };
            if let Err(error) = element.error() {
                return Err(errors::away("offsets", &error));
            }
            each.push((*partition, element.offset()));
        }
        Ok(each.into_iter())
    }
}

fn state(group: &GroupInfo, topic: &str) -> GroupState {
    let mut owners = BTreeMap::new();
    for member in group.members() {
        let owner = format!("{} ({})", member.client_id(), member.client_host());
        let assigned = wire::assigned(member.assignment().unwrap_or_default());
        let assigned = assigned.filter(|(of, _)| of == topic);
        owners.extend(assigned.map(|(_, partition)| (partition, owner.clone())));
    }
    GroupState {
        name: group.state().to_owned(),
        owners,
    }
}

/// Whether the client's metadata was older than one of the partitions or its leader.
fn is_old_news(found: &KafkaResult<TopicPartitionList>) -> bool {
    match found {
        Err(error) => errors::is_old_news(error),
        Ok(list) => {
            let errors = list.elements();
            let mut errors = errors.iter().filter_map(|element| element.error().err());
            errors.any(|error| errors::is_old_news(&error))
        }
    }
}

/// Lets a client that is never polled pass on its log lines.
fn serve(client: &BaseConsumer<Lines>) {
    while client.poll(std::time::Duration::ZERO).is_some() {}
}

/// Partitions of the topic with an offset each.
pub(super) fn list(
    topic: &str,
    positions: impl Iterator<Item = (u32, Offset)>,
) -> Result<TopicPartitionList, LogError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in positions {
        list.add_partition_offset(topic, wire::raw_partition(partition), offset)
            .map_err(|error: KafkaError| errors::away("offsets", &error))?;
    }
    Ok(list)
}
