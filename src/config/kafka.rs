//! The settings of `[kafka]`: one set for all topics of a deployment.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytesize::ByteSize;
use eventlog::{Compression, KafkaConfig};

use super::reader::Reader;
use super::{ms, secs};

/// Ingest limits records to 2 MiB (`schemas::limits::RECORD_BYTES`); key and headers are added to that.
const RECORD_BYTES_LEAST: ByteSize = ByteSize::kib(2048 + 64);
/// Retention of control messages. Processes do not read old ones; an operator may, to find an error.
const CONTROL_RETENTION: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Debug)]
pub(crate) struct KafkaSettings {
    /// Prefix of the topics' names.
    prefix: String,
    dead_letter_retention: Duration,
    /// The topic of events; the methods describe how the others differ.
    events: KafkaConfig,
}

impl KafkaSettings {
    /// The topic of events.
    pub(crate) fn events(&self) -> KafkaConfig {
        self.events.clone()
    }

    /// The dead-letter topic. One partition: there are few, and operators want them in order.
    pub(crate) fn dead_letters(&self) -> KafkaConfig {
        KafkaConfig {
            topic: format!("{}.dead-letter", self.prefix),
            partitions: 1,
            retention: self.dead_letter_retention,
            ..self.events.clone()
        }
    }

    /// The control topic. One partition, so that all processes receive messages in one order.
    pub(crate) fn control(&self) -> KafkaConfig {
        KafkaConfig {
            topic: format!("{}.control", self.prefix),
            partitions: 1,
            retention: CONTROL_RETENTION,
            // Processes wait for control messages.
            linger: Duration::ZERO,
            ..self.events.clone()
        }
    }
}

/// `None` without brokers. The workers of the processor share the prefetch.
pub(crate) fn read(from: &mut Reader, workers: usize) -> Option<KafkaSettings> {
    let brokers = from.list("kafka.brokers");
    let prefix = from.text("kafka.topic_prefix");
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    // Kafka limits a topic's name to 249 bytes.
    if !(1..=200).contains(&prefix.len()) || !prefix.bytes().all(is_name) {
        from.fault(format!(
            "`kafka.topic_prefix` is \"{prefix}\", but must be 1 to 200 letters, digits, `.`, `_` and `-`"
        ));
    }
    let compressions = [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    let instance_id = from.text("kafka.instance_id");
    let days: RangeInclusive<Duration> = secs(3600)..=secs(3660 * 86_400);
    let number = |from: &mut Reader, key: &str, most: u64| {
        u32::try_from(from.number(key, 1..=most)).unwrap_or(u32::MAX)
    };
    let gib = ByteSize::mib(1)..=ByteSize::gib(64);
    let events = KafkaConfig {
        client_id: from.text("kafka.client_id"),
        partitions: number(from, "kafka.partitions", 10_000),
        replication: number(from, "kafka.replication", 100),
        min_insync_replicas: number(from, "kafka.min_insync_replicas", 100),
        retention: from.duration("kafka.retention", days.clone()),
        max_record_bytes: from.size(
            "kafka.max_record_bytes",
            // Ingest writes records of up to 2 MiB; one that is moved or dead-lettered gets additional headers.
            RECORD_BYTES_LEAST..=ByteSize::mib(512),
        ),
        compression: from
            .choice("kafka.compression", &compressions)
            .unwrap_or_default(),
        linger: from.duration("kafka.linger", ms(0)..=secs(10)),
        max_in_flight_bytes: from.size("kafka.max_in_flight_bytes", gib.clone()),
        append_timeout: from.duration("kafka.append_timeout", ms(100)..=secs(600)),
        session_timeout: from.duration("kafka.session_timeout", secs(1)..=secs(1800)),
        instance_id: (!instance_id.is_empty()).then_some(instance_id),
        members: u32::try_from(workers.max(1)).unwrap_or(u32::MAX),
        max_prefetch_bytes: from.size("kafka.max_prefetch_bytes", gib),
        properties: from.secret_pairs("kafka.properties"),
        ..KafkaConfig::new(brokers.join(","), format!("{prefix}.events"))
    };
    if events.min_insync_replicas > events.replication {
        from.fault("`kafka.min_insync_replicas` must not be more than `kafka.replication`");
    }
    if events.max_in_flight_bytes < events.max_record_bytes {
        from.fault("`kafka.max_in_flight_bytes` must not be less than `kafka.max_record_bytes`");
    }
    let settings = KafkaSettings {
        dead_letter_retention: from.duration("kafka.dead_letter_retention", days),
        prefix,
        events,
    };
    (!brokers.is_empty()).then_some(settings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::DEFAULT_FILE;
    use super::*;

    fn settings(file: &str) -> Result<Option<KafkaSettings>, String> {
        let mut reader = Reader::new(DEFAULT_FILE, file, [], BTreeMap::new());
        let config = super::super::Config::read(&mut reader);
        match reader.finish() {
            Ok(_) => Ok(config.kafka),
            Err(faults) => Err(faults.to_string()),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_log() {
        assert!(settings("").unwrap().is_none(), "embedded");
        let kafka = settings("[kafka]\nbrokers = \"a:1,b:2\"").unwrap().unwrap();
        let expected = KafkaConfig {
            // One for each worker of the processor.
            members: 2,
            ..KafkaConfig::new("a:1,b:2", "spindle.events")
        };
        assert_eq!(kafka.events(), expected);
    }

    #[test]
    fn every_topic_has_the_prefix_and_a_shape_of_its_own() {
        let file = "[kafka]\nbrokers = \"a:1\"\ntopic_prefix = \"p\"\nreplication = 3\nproperties = [\"sasl.password=hunter2\"]";
        let kafka = settings(file).unwrap().unwrap();
        let (events, letters, control) = (kafka.events(), kafka.dead_letters(), kafka.control());
        assert_eq!(
            [&events.topic, &letters.topic, &control.topic],
            ["p.events", "p.dead-letter", "p.control"]
        );
        assert_eq!((letters.partitions, control.partitions), (1, 1));
        assert!(letters.retention > events.retention && control.retention < events.retention);
        for config in [events, letters, control] {
            assert_eq!((config.replication, config.properties.len()), (3, 1));
        }
        assert!(!format!("{kafka:?}").contains("hunter2"), "(X2)");
    }

    #[test]
    fn what_excludes_each_other_is_a_fault() {
        for (file, word) in [
            ("min_insync_replicas = 2", "replication"),
            ("topic_prefix = \"a b\"", "topic_prefix"),
            ("max_record_bytes = \"65 MiB\"", "max_in_flight_bytes"),
        ] {
            let faults = settings(&format!("[kafka]\n{file}")).unwrap_err();
            assert!(faults.contains(word), "{faults}");
        }
    }
}
