//! Errors of the client library as errors of the log.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::LogError;

/// The broker, or its answer, is not available now.
pub(super) fn away(what: &str, error: &KafkaError) -> LogError {
    LogError::Unavailable(format!("{what}: {error}"))
}

pub(super) fn append(error: &KafkaError, bytes: usize, limit: usize) -> LogError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::QueueFull) => {
            LogError::Full("the queue to the brokers is full".to_owned())
        }
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::MessageBatchTooLarge) => {
            LogError::TooLarge { bytes, limit }
        }
        _ => away("append", error),
    }
}

/// Why a commit was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The member was expelled: other members own its partitions.
    NotMember,
    /// Another process has the name of this static member.
    Fenced,
    /// The generation that the client knows is over. A member receives the new one soon.
    OldGeneration,
    /// A rebalance is in progress; try again.
    Rebalancing,
    /// No answer, or none that says anything about the member.
    Away,
}

pub(super) fn refusal(error: &KafkaError) -> Refusal {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::UnknownMemberId
            | Code::FencedMemberEpoch
            | Code::StaleMemberEpoch
            | Code::AssignmentLost,
        ) => Refusal::NotMember,
        // The library rejects commits after a fatal error: the member was fenced.
        Some(Code::FencedInstanceId | Code::Fenced | Code::Fatal) => Refusal::Fenced,
        Some(Code::IllegalGeneration) => Refusal::OldGeneration,
        Some(Code::RebalanceInProgress) => Refusal::Rebalancing,
        _ => Refusal::Away,
    }
}

/// Whether a client has to be recreated after this.
pub(super) fn is_fatal(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumptionFatal(_))
        || error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
}

/// Whether a consumer's error event has to become an error of ours; the others are transient.
pub(super) fn is_worth_telling(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::AllBrokersDown
                | Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::SSL
                | Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::InvalidSessionTimeout
                | Code::InconsistentGroupProtocol
                | Code::GroupMaxSizeReached
        )
    )
}

/// Whether the client used metadata from before a change of the cluster.
pub(super) fn is_old_news(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
        )
    )
}

/// Whether an operator has to change something.
pub(super) fn is_of_settings(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::InvalidReplicationFactor
            | Code::InvalidPartitions
            | Code::InvalidConfig
            | Code::InvalidTopic
            | Code::PolicyViolation
            | Code::UnknownTopicOrPartition
            | Code::Authentication
            | Code::SaslAuthenticationFailed
    )
}

/// Whether a query is not permitted or not supported, although the rest may work: a client with the right to write may
/// lack the right to read settings, and not everything that speaks Kafka's protocol has them.
pub(super) fn is_of_rights(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::UnsupportedFeature
            | Code::UnsupportedVersion
    )
}
