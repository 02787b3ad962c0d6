//! Creates the topic, or checks the existing one.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use tokio::time::Instant;

use super::config::KafkaConfig;
use super::context::Lines;
use super::{errors, settings};
use crate::LogError;

/// Polling interval for the leaders of a new topic.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Creates the topic if it is missing, waits until it is usable, and checks it. Returns its number of partitions.
pub(super) async fn ensure(config: &KafkaConfig) -> Result<u32, LogError> {
    let admin: AdminClient<Lines> = config
        .observer()
        .create_with_context(Lines::new("admin"))
        .map_err(|error| LogError::Settings(settings::description(error)))?;
    let until = Instant::now() + config.append_timeout;
    let mut made = false;
    loop {
        match look(config).await? {
            Found::Ready(partitions) => {
                if config.manage_topic && !made {
                    check(config, &admin, partitions).await?;
                }
                return Ok(partitions);
            }
            Found::Nothing if !config.manage_topic => {
                return Err(LogError::Settings(format!(
                    "there is no topic {}",
                    config.topic
                )));
            }
            Found::Nothing if !made => {
                make(config, &admin).await?;
                made = true;
            }
            Found::Nothing | Found::NotReady => {}
        }
        if Instant::now() >= until {
            return Err(LogError::Unavailable(format!(
                "topic {} has partitions without a leader",
                config.topic
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

enum Found {
    Nothing,
    NotReady,
    Ready(u32),
}

async fn look(config: &KafkaConfig) -> Result<Found, LogError> {
    let client = config.observer();
    let (topic, patience) = (config.topic.clone(), config.append_timeout);
    let metadata = blocking(move || {
        // A separate client: other clients cache the answer about a missing topic for a while.
        let observer: BaseConsumer<Lines> = client.create_with_context(Lines::new("observer"))?;
        observer.fetch_metadata(Some(&topic), patience)
    })
    .await?
    .map_err(|error| of_admin("metadata", &error))?;
    let Some(topic) = metadata.topics().first() else {
        return Ok(Found::Nothing);
    };
    let no_error = |error: Option<RDKafkaRespErr>| error.is_none();
    match topic.error().map(RDKafkaErrorCode::from) {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            return Ok(Found::Nothing);
        }
        Some(code) if errors::is_of_settings(code) => {
            return Err(LogError::Settings(format!(
                "topic {}: {code}",
                config.topic
            )));
        }
        Some(_) => return Ok(Found::NotReady),
        None => {}
    }
    let partitions = topic.partitions();
    let led = |partition: &rdkafka::metadata::MetadataPartition| {
        partition.leader() >= 0 && no_error(partition.error())
    };
    if partitions.is_empty() || !partitions.iter().all(led) {
        return Ok(Found::NotReady);
    }
    Ok(Found::Ready(
        u32::try_from(partitions.len()).unwrap_or(u32::MAX),
    ))
}

async fn make(config: &KafkaConfig, admin: &AdminClient<Lines>) -> Result<(), LogError> {
    let retention = config
        .retention
        .as_millis()
        .min(i64::MAX as u128)
        .to_string();
    let min_insync = config.min_insync_replicas.to_string();
    let max_message = config.max_batch_bytes().to_string();
    let partitions = i32::try_from(config.partitions).unwrap_or(i32::MAX);
    let replication = i32::try_from(config.replication).unwrap_or(i32::MAX);
    let topic = NewTopic::new(
        &config.topic,
        partitions,
        TopicReplication::Fixed(replication),
    )
    .set("cleanup.policy", "delete")
    .set("retention.ms", &retention)
    .set("min.insync.replicas", &min_insync)
    .set("max.message.bytes", &max_message);
    let results = admin.create_topics([&topic], &options(config)).await;
    let results = results.map_err(|error| of_admin("create topic", &error))?;
    match results.into_iter().next() {
        Some(Ok(_)) => {
            tracing::info!(topic = config.topic, partitions, replication, "topic made");
            Ok(())
        }
        // Another process was faster.
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((_, code))) => Err(of_admin("create topic", &KafkaError::AdminOp(code))),
        None => Err(LogError::Unavailable("create topic: no answer".to_owned())),
    }
}

/// Checks what must fit, and warns of what should.
async fn check(
    config: &KafkaConfig,
    admin: &AdminClient<Lines>,
    partitions: u32,
) -> Result<(), LogError> {
    let topic = config.topic.as_str();
    let specifier = ResourceSpecifier::Topic(topic);
    let described = admin.describe_configs([&specifier], &options(config)).await;
    let described = match described {
        Ok(resources) => resources
            .into_iter()
            .next()
            .unwrap_or(Err(RDKafkaErrorCode::NoEnt)),
        Err(error) => Err(error
            .rdkafka_error_code()
            .ok_or_else(|| of_admin("describe topic", &error))?),
    };
    let entries = match described {
        Ok(resource) => resource,
        Err(code) if errors::is_of_rights(code) => {
            tracing::warn!(topic, "the topic's settings cannot be checked: {code}");
            return Ok(());
        }
        Err(code) => return Err(of_admin("describe topic", &KafkaError::AdminOp(code))),
    };
    let number = |name: &str| -> Option<i64> { entries.get(name)?.value.as_ref()?.parse().ok() };
    let wanted = i64::try_from(config.max_batch_bytes()).unwrap_or(i64::MAX);
    if let Some(limit) = number("max.message.bytes")
        && limit < wanted
    {
        return Err(LogError::Settings(format!(
            "topic {topic} takes messages of {limit} bytes, and records of {} need {wanted}: \
             raise the topic's max.message.bytes, or lower max_record_bytes",
            config.max_record_bytes
        )));
    }
    if partitions < config.partitions {
        let wanted = config.partitions;
        tracing::warn!(topic, partitions, wanted, "the topic has fewer partitions");
    }
    if let Some(retention_ms) = number("retention.ms")
        && retention_ms >= 0
        && (retention_ms as u128) < config.retention.as_millis()
    {
        tracing::warn!(
            topic,
            retention_ms,
            "the topic keeps records for a shorter time"
        );
    }
    if let Some(min_insync) = number("min.insync.replicas")
        && min_insync < i64::from(config.min_insync_replicas)
    {
        tracing::warn!(
            topic,
            min_insync,
            "records are acknowledged by fewer replicas"
        );
    }
    if let Some(policy) = entries
        .get("cleanup.policy")
        .and_then(|entry| entry.value.as_ref())
        && policy.contains("compact")
    {
        return Err(LogError::Settings(format!(
            "topic {topic} is compacted: records would vanish; set its cleanup.policy to delete"
        )));
    }
    Ok(())
}

fn options(config: &KafkaConfig) -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(config.append_timeout))
        .operation_timeout(Some(config.append_timeout))
}

fn of_admin(what: &str, error: &KafkaError) -> LogError {
    let code = match error {
        KafkaError::AdminOp(code) => Some(*code),
        error => error.rdkafka_error_code(),
    };
    match code {
        Some(code) if errors::is_of_settings(code) => LogError::Settings(format!("{what}: {code}")),
        _ => errors::away(what, error),
    }
}

/// Runs a blocking call on a thread where blocking is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LogError> {
    let done = tokio::task::spawn_blocking(call).await;
    done.map_err(|_| LogError::Unavailable("the call was given up".to_owned()))
}
