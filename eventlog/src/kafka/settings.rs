//! Settings of the client library: the log's choices, with their reasons, overridden by the user's properties.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::config::{Compression, KafkaConfig};
use crate::LogError;

/// Upper bound on what a record batch, its headers and varints add to the bytes of one record.
pub(super) const BATCH_OVERHEAD: usize = 16 << 10;
/// Upper bound on what one record and each of its headers add to their bytes on the wire.
pub(super) const RECORD_OVERHEAD: usize = 64;
/// How often clients check whether the topic has grown.
pub(super) const METADATA_REFRESH: Duration = Duration::from_secs(5);
/// A client without an answer about the topic for this long asks the brokers of the settings again: those that it knows
/// may have been decommissioned.
const REBOOTSTRAP_AFTER: Duration = Duration::from_secs(30);
/// Longest interval of heartbeats: members notice a rebalance with the next one.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);
/// Batches are sent at this size though more is queued: the library's own default.
const BATCH_BYTES: usize = 1_000_000;
/// Records in the library's queue; the bytes are bounded by `max_in_flight_bytes` long before.
const MAX_QUEUED_RECORDS: usize = 1_000_000;
/// Time-outs of a commit in a row after which its answer is taken for lost.
const COMMIT_TIMEOUTS: u32 = 3;
/// A member that was not polled for so long counts as stuck and loses its partitions.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Bound on the (compressed) bytes of one broker response, unless one record is larger.
const MAX_FETCH_BYTES: usize = 8 << 20;
/// Upper bound on the size of a record: what fits into the library's numbers with room to spare.
const MAX_RECORD_BYTES: usize = 512 << 20;

/// Properties that the promises of the log rest on, or that have separate settings. Full names, or prefixes (ending in
/// a dot).
const OURS: [&str; 40] = [
    "acks",
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.servers",
    "client.id",
    "compression.codec",
    "compression.type",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    "linger.ms",
    "log.queue",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "message.max.bytes",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "plugin.library.paths",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "request.required.acks",
    "retries",
    "session.timeout.ms",
    "test.mock.num.brokers",
    "topic.metadata.refresh.interval.ms",
    "transactional.id",
];

impl KafkaConfig {
    /// All faults at once.
    pub(super) fn check(&self) -> Result<(), LogError> {
        let mut faults = Vec::new();
        let mut claim = |holds: bool, fault: &str| {
            if !holds {
                faults.push(fault.to_owned());
            }
        };
        claim(!self.brokers.trim().is_empty(), "brokers must be named");
        claim(
            is_topic_name(&self.topic),
            "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens",
        );
        claim(
            (1..=10_000).contains(&self.partitions),
            "partitions must be 1 to 10,000",
        );
        claim(
            (1..=i16::MAX as u32).contains(&self.replication),
            "replication must be 1 at least",
        );
        claim(
            (1..=self.replication).contains(&self.min_insync_replicas),
            "min_insync_replicas must be 1 to replication",
        );
        claim(
            (1..=MAX_RECORD_BYTES).contains(&self.max_record_bytes),
            "max_record_bytes must be 1 byte to 512 MiB",
        );
        claim(
            self.max_in_flight_bytes >= self.max_record_bytes,
            "max_in_flight_bytes must not be below max_record_bytes",
        );
        claim(self.members >= 1, "members must be 1 at least");
        claim(
            self.append_timeout >= Duration::from_millis(100) && self.append_timeout > self.linger,
            "append_timeout must be 100 ms at least, and longer than linger",
        );
        claim(
            (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.session_timeout),
            "session_timeout must be 1 second to 1 hour",
        );
        for (name, value) in &self.properties {
            if OURS.contains(&name.as_str()) {
                faults.push(format!(
                    "property {name} is the log's own and cannot be set"
                ));
            } else if let Err(error) = ClientConfig::new().set(name, value).create_native_config() {
                faults.push(format!("property {name}: {}", description(error)));
            }
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(LogError::Settings(faults.join("; ")))
        }
    }

    /// Bytes that one record may take in a request, and one batch in the topic.
    pub(super) fn max_batch_bytes(&self) -> usize {
        self.max_record_bytes + BATCH_OVERHEAD
    }

    /// Settings of every client.
    fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.client_id)
            .set("allow.auto.create.topics", "false")
            .set("socket.keepalive.enable", "true")
            // The linked OpenSSL knows no path of public certificate authorities: look where systems have them.
            .set("ssl.ca.location", "probe")
            // Small requests must not wait for others.
            .set("socket.nagle.disable", "true")
            // A response that takes longer than an append may is no response.
            .set("socket.timeout.ms", millis(self.append_timeout))
            // A broker that returns is found within seconds, not within the library's ten.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("retry.backoff.ms", "50")
            .set(
                "metadata.recovery.rebootstrap.trigger.ms",
                millis(REBOOTSTRAP_AFTER),
            )
            .set(
                "topic.metadata.refresh.interval.ms",
                millis(METADATA_REFRESH),
            )
            .set("message.max.bytes", self.max_batch_bytes().to_string())
            .set_log_level(RDKafkaLogLevel::Info);
        client
    }

    fn with_properties(&self, mut client: ClientConfig) -> ClientConfig {
        for (name, value) in &self.properties {
            client.set(name, value);
        }
        client
    }

    /// The client that only sends queries: metadata, offsets, topics.
    pub(super) fn observer(&self) -> ClientConfig {
        self.with_properties(self.client())
    }

    /// The client that reads the commits of a group, without joining it.
    pub(super) fn committed(&self, group: &str) -> ClientConfig {
        let mut client = self.client();
        client
            .set("group.id", self.group_id(group))
            .set("enable.auto.commit", "false");
        self.with_properties(client)
    }

    pub(super) fn producer(&self) -> ClientConfig {
        let compression = match self.compression {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        };
        // Never above the topic's limit.
        let batch = self.max_batch_bytes().min(BATCH_BYTES);
        // Our own bound is reached first; this one is for its sum with what the library adds.
        let queue_kib = self.max_in_flight_bytes / 1024 * 2 + 1024;
        let mut client = self.client();
        client
            // Retries neither duplicate nor reorder records (L2).
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("compression.type", compression)
            .set("linger.ms", millis(self.linger))
            .set("batch.size", batch.to_string())
            .set("message.timeout.ms", millis(self.append_timeout))
            // Half of it, so that a lost response leaves time for another attempt.
            .set("request.timeout.ms", millis(self.append_timeout / 2))
            .set(
                "queue.buffering.max.messages",
                MAX_QUEUED_RECORDS.to_string(),
            )
            .set(
                "queue.buffering.max.kbytes",
                queue_kib.min(2_097_151).to_string(),
            );
        self.with_properties(client)
    }

    /// The share of the prefetch that one member has.
    fn prefetch(&self, client: &mut ClientConfig) {
        let share = (self.max_prefetch_bytes / self.members.max(1) as usize).max(64 << 10);
        let one_answer = (share / 2).clamp(64 << 10, MAX_FETCH_BYTES);
        // Even below the size of the largest record the broker still returns one batch, so nothing gets stuck; the
        // library demands its bounds in this order.
        let fetch = one_answer.max(self.max_batch_bytes());
        client
            .set(
                "queued.max.messages.kbytes",
                (share / 1024).min(2_097_151).to_string(),
            )
            .set("fetch.message.max.bytes", one_answer.min(fetch).to_string())
            .set("fetch.max.bytes", fetch.to_string())
            .set("receive.message.max.bytes", (fetch + (1 << 20)).to_string())
            // How soon the library checks whether there is room again: with its default of a second a small share would
            // be read in bursts.
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.error.backoff.ms", "100")
            .set("check.crcs", "true");
    }

    pub(super) fn reader(&self) -> ClientConfig {
        let mut client = self.client();
        // Positions are assigned by hand: the library demands a name, no group is ever joined.
        client
            .set("group.id", format!("{}-reader", self.client_id))
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest");
        self.prefetch(&mut client);
        self.with_properties(client)
    }

    pub(super) fn member(&self, group: &str, instance: &str) -> ClientConfig {
        let mut client = self.client();
        client
            .set("group.id", self.group_id(group))
            .set("group.instance.id", instance)
            .set("group.protocol", "classic")
            // Members keep their partitions while others join and leave.
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", millis(self.session_timeout))
            .set("heartbeat.interval.ms", millis(self.heartbeat()))
            .set("max.poll.interval.ms", millis(self.max_poll_interval()))
            // When the library sees added partitions it joins again at once, even while it waits for partitions to be
            // given back. It then never answers a later rebalance (its revocation counts as unfinished for ever), and
            // the group waits for it until `max.poll.interval.ms`. So it does not look; the member does.
            .set("topic.metadata.refresh.interval.ms", "-1");
        self.prefetch(&mut client);
        self.with_properties(client)
    }

    /// The group's name at the brokers: several deployments on one cluster must not share a group.
    pub(super) fn group_id(&self, group: &str) -> String {
        format!("{}.{group}", self.topic)
    }

    /// Interval of heartbeats; a few may be lost within the session time-out.
    pub(super) fn heartbeat(&self) -> Duration {
        (self.session_timeout / 15).clamp(Duration::from_millis(50), HEARTBEAT_MAX)
    }

    /// After this long without an answer to a commit the client is given up. No shorter than the session, so that every
    /// lease, which rests on an earlier commit, is over by then.
    pub(super) fn commit_deadline(&self) -> Duration {
        (self.append_timeout * COMMIT_TIMEOUTS).max(self.session_timeout)
    }

    /// How long a member may go without a poll, and how long the group waits for it in a rebalance.
    pub(super) fn max_poll_interval(&self) -> Duration {
        MAX_POLL_INTERVAL.max(self.session_timeout * 2)
    }

    /// Safety margin of a lease: clocks that run at different rates, and the last heartbeat.
    pub(super) fn lease_margin(&self) -> Duration {
        (self.session_timeout / 10).max(self.heartbeat())
    }
}

fn is_topic_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".."
}

fn millis(duration: Duration) -> String {
    duration.as_millis().min(i32::MAX as u128).to_string()
}

/// The error without the value, which may be a secret (X2).
pub(super) fn description(error: KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, value) if value.is_empty() => {
            format!("{name} is not known or not supported")
        }
        KafkaError::ClientConfig(_, description, name, value) => {
            format!("{name}: {}", description.replace(&value, "..."))
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KafkaConfig {
        KafkaConfig::new("127.0.0.1:1", "spindle.events")
    }

    fn clients(config: &KafkaConfig) -> [ClientConfig; 5] {
        [
            config.producer(),
            config.member("g", "a-0"),
            config.reader(),
            config.observer(),
            config.committed("g"),
        ]
    }

    #[test]
    fn every_fault_is_named_at_once_and_no_value() {
        let mut config = config();
        config.partitions = 0;
        config.min_insync_replicas = 3;
        for (name, value) in [
            ("enable.idempotence", "false"),
            ("acks", "1"),
            ("no.such.property", "hunter2"),
            ("ssl.endpoint.identification.algorithm", "hunter2"),
        ] {
            config.properties.insert(name.to_owned(), value.to_owned());
        }
        let error = config.check().unwrap_err();
        assert!(matches!(error, LogError::Settings(_)));
        let text = error.to_string();
        for part in [
            "partitions must",
            "min_insync_replicas",
            "enable.idempotence",
            "acks",
            "no.such.property",
            "ssl.endpoint.identification.algorithm",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn properties_win_over_our_choices() {
        let mut config = config();
        let some = [("security.protocol", "SSL"), ("retry.backoff.ms", "7")];
        for (name, value) in some {
            config.properties.insert(name.to_owned(), value.to_owned());
        }
        config.check().unwrap();
        for client in clients(&config) {
            assert_eq!(client.get("retry.backoff.ms"), Some("7"));
            assert_eq!(client.get("security.protocol"), Some("SSL"));
        }
    }

    #[test]
    fn a_rebalance_is_noticed_within_a_second_and_a_lost_broker_is_replaced_from_the_settings() {
        let mut config = config();
        let heartbeat = |config: &KafkaConfig| {
            let client = config.member("g", "a-0");
            let interval = client.get("heartbeat.interval.ms").unwrap();
            interval.parse::<u64>().unwrap()
        };
        for (session_s, expected_ms) in [(1, 66), (6, 400), (15, 1000), (45, 1000), (1800, 1000)] {
            config.session_timeout = Duration::from_secs(session_s);
            assert_eq!(heartbeat(&config), expected_ms);
            assert!(config.commit_deadline() >= config.session_timeout);
        }
        for client in clients(&config) {
            let trigger = client.get("metadata.recovery.rebootstrap.trigger.ms");
            assert_eq!(trigger, Some("30000"));
        }
    }

    #[test]
    fn the_library_takes_what_we_choose_whatever_the_sizes() {
        for max_record_bytes in [1, 100_000, 4 << 20, MAX_RECORD_BYTES] {
            for max_prefetch_bytes in [0, 1 << 20, 4 << 30] {
                let mut config = config();
                config.max_record_bytes = max_record_bytes;
                config.max_in_flight_bytes = MAX_RECORD_BYTES * 2;
                config.max_prefetch_bytes = max_prefetch_bytes;
                config.members = 4;
                config.check().unwrap();
                let _: rdkafka::consumer::BaseConsumer =
                    config.member("g", "a-0").create().unwrap();
                let _: rdkafka::producer::BaseProducer = config.producer().create().unwrap();
            }
        }
    }
}
