//! Errors of the client library as errors of the log.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::LogError;

/// The broker, or what it said, cannot be had now.
pub(super) fn away(what: &str, error: &KafkaError) -> LogError {
    LogError::Unavailable(format!("{what}: {error}"))
}

/// Why a record was not appended.
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

/// What the answer to a commit means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The member is none any more: its partitions are others'.
    NotMember,
    /// The group is being put together; ask again.
    Rebalancing,
    /// No answer, or none that says anything about the member.
    Away,
}

pub(super) fn refusal(error: &KafkaError) -> Refusal {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::UnknownMemberId
            | Code::IllegalGeneration
            | Code::FencedInstanceId
            | Code::FencedMemberEpoch
            | Code::StaleMemberEpoch
            | Code::AssignmentLost
            | Code::Fenced
            // The library lets no more commits through after a fatal error: the member was fenced.
            | Code::Fatal,
        ) => Refusal::NotMember,
        Some(Code::RebalanceInProgress) => Refusal::Rebalancing,
        _ => Refusal::Away,
    }
}

/// Whether a client has to be made anew after this.
pub(super) fn is_fatal(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumptionFatal(_))
        || error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal)
}

/// Whether a consumer's error event is worth an error of ours: the others mend themselves.
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

/// Whether the client asked by what it knew before the cluster changed.
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

/// Whether a person has to change something before it can work.
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

/// Whether a question cannot be answered for us, although the rest may work: not everyone who may write may look at
/// settings, and not everything that speaks Kafka's protocol knows them.
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
