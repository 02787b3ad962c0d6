//! `/api/internal/dead-letters`: list and redrive.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::cursor;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::access::Caller;
use crate::params::{Flag, JsonBody, Limit, Pairs, Param, query_params};
use crate::ports::Port;
use crate::ports::dead_letters::{
    DEAD_LETTERS_LISTED_MAX, DEAD_LETTERS_NAMED_MAX, DeadLetterId, DeadLetterRecord, DeadLetters,
    Redrive,
};

/// Default page size.
const DEAD_LETTERS_LISTED: usize = 50;

/// The id of the first dead letter of a page.
pub(crate) struct DeadLetterCursor;

impl Param for DeadLetterCursor {
    type Value = DeadLetterId;

    fn parse(_: &str, text: &str) -> Result<DeadLetterId, ApiError> {
        text.parse().map_err(|()| {
            cursor::invalid(
                "cursor must be `next_cursor` of a page or the id of a dead letter, for example 0-17",
            )
        })
    }

    fn schema() -> Schema {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]{1,9}-[0-9]{1,18}$"))
            .into()
    }
}

query_params! {
    pub(crate) struct DeadLetterParams {
        /// Largest page size, default 50; pages of large payloads are smaller
        limit: Limit<DEAD_LETTERS_LISTED_MAX>,
        /// `next_cursor` of the previous page, or the id of the first dead letter
        cursor: DeadLetterCursor,
        /// Whether to include payloads
        payload: Flag,
    }
}

/// A record or event that could not be processed.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    /// Partition and offset in the dead-letter topic.
    #[schema(pattern = "^[0-9]+-[0-9]+$")]
    id: String,
    /// Why it could not be processed.
    reason: String,
    /// Project of the report.
    project_id: Option<String>,
    /// App of the report.
    app_id: Option<String>,
    /// When it was dead-lettered.
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Instant>,
    /// Topic of the original record.
    original_topic: Option<String>,
    /// Partition of the original record.
    original_partition: Option<u32>,
    /// Offset of the original record.
    original_offset: Option<u64>,
    /// Number of accepted events.
    events: u64,
    /// `event` for one event of a record, `record` for a whole record.
    #[schema(pattern = "^(event|record)$")]
    kind: &'static str,
    /// Size of the payload.
    bytes: u64,
    /// Whether it was redriven.
    redriven: bool,
    /// The payload, with `payload=true`, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payload: Option<String>,
    /// The payload in Base64, with `payload=true`, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payload_base64: Option<String>,
}

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetterList {
    /// Oldest first.
    data: Vec<DeadLetter>,
    /// `cursor` of the next page; null on the last.
    next_cursor: Option<String>,
}

/// The dead letters to redrive: `all`, or `letters`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RedriveBody {
    /// All that were not redriven before.
    all: bool,
    /// Ids of dead letters, redriven before or not.
    #[schema(max_items = 1000)]
    letters: Vec<String>,
}

/// The result of a redrive.
#[derive(Serialize, ToSchema)]
pub(crate) struct Redriven {
    /// Number of redriven dead letters.
    letters: u64,
    /// Number of accepted events in them.
    events: u64,
    /// Ids that do not exist, and dead letters that are too large for the log.
    left: Vec<String>,
    /// Whether dead letters are left; send the request again.
    more: bool,
}

impl DeadLetter {
    fn new(letter: DeadLetterRecord, has_payload: bool) -> Self {
        let bytes = letter.payload.len() as u64;
        let (payload, payload_base64) = match has_payload {
            false => (None, None),
            true => match String::from_utf8(letter.payload) {
                Ok(text) => (Some(text), None),
                Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
            },
        };
        Self {
            id: letter.id.to_string(),
            reason: letter.reason,
            project_id: letter.project,
            app_id: letter.app,
            at: letter.at_ms.map(Instant),
            original_topic: letter.topic,
            original_partition: letter.source_partition,
            original_offset: letter.source_offset,
            events: letter.events,
            kind: if letter.is_event { "event" } else { "record" },
            bytes,
            redriven: letter.is_redriven,
            payload,
            payload_base64,
        }
    }
}

/// List dead letters
///
/// Accepted records and events that could not be processed, with the reason. They contain data of all projects.
#[utoipa::path(get, path = "/api/internal/dead-letters", operation_id = "list_dead_letters", tag = "administration",
    params(DeadLetterParams),
    responses(
        (status = 200, description = "Oldest first", body = DeadLetterList),
        errors::AnyOf<(errors::Common, errors::Paged)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(dead_letters): State<Port<dyn DeadLetters>>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<DeadLetterList>, ErrorResponse> {
    caller.administers_all()?;
    let params = DeadLetterParams::read(&pairs)?;
    let limit = params.limit.unwrap_or(DEAD_LETTERS_LISTED);
    let has_payload = params.payload.unwrap_or_default();
    let page = dead_letters.required()?.list(params.cursor, limit).await?;
    let letters = page.letters.into_iter();
    Ok(Json(DeadLetterList {
        data: letters
            .map(|letter| DeadLetter::new(letter, has_payload))
            .collect(),
        next_cursor: page.next.map(|id| id.to_string()),
    }))
}

/// Redrive dead letters
///
/// Appends them to the event log again, for use after the cause is fixed. They are durable in the event log before they
/// count as redriven; one that still cannot be processed becomes a new dead letter. Safe to repeat.
#[utoipa::path(post, path = "/api/internal/dead-letters/redrive", operation_id = "redrive_dead_letters", tag = "administration",
    request_body = RedriveBody,
    responses(
        (status = 200, description = "What was redriven; while `more` is true, send the request again", body = Redriven),
        errors::AnyOf<(errors::Common, errors::RequestBody)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn redrive(
    State(dead_letters): State<Port<dyn DeadLetters>>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<RedriveBody>,
) -> Result<Json<Redriven>, ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let done = dead_letters.required()?.redrive(selection(body)?).await?;
    Ok(Json(Redriven {
        letters: done.letters,
        events: done.events,
        left: done.left.iter().map(DeadLetterId::to_string).collect(),
        more: done.is_more,
    }))
}

fn selection(body: RedriveBody) -> Result<Redrive, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidBody, message);
    match (body.all, body.letters) {
        (true, letters) if letters.is_empty() => Ok(Redrive::All),
        (false, letters) if (1..=DEAD_LETTERS_NAMED_MAX).contains(&letters.len()) => {
            let id = |text: String| {
                let parsed = text.parse();
                parsed.map_err(|()| {
                    invalid(format!(
                        "`letters` must contain ids of dead letters, for example 0-17, got `{text}`"
                    ))
                })
            };
            let mut ids: Vec<DeadLetterId> =
                letters.into_iter().map(id).collect::<Result<_, _>>()?;
            ids.sort_unstable();
            ids.dedup();
            Ok(Redrive::Named(ids))
        }
        _ => Err(invalid(format!(
            "either `all` must be true or `letters` must contain 1 to {DEAD_LETTERS_NAMED_MAX} ids"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_is_of_all_or_of_named_dead_letters() {
        let selected = |text: &str| selection(serde_json::from_str(text).unwrap()).ok();
        assert_eq!(selected(r#"{"all":true}"#), Some(Redrive::All));
        let id = |offset| DeadLetterId {
            partition: 0,
            offset,
        };
        assert_eq!(
            selected(r#"{"letters":["0-7","0-3","0-7"]}"#),
            Some(Redrive::Named(vec![id(3), id(7)])),
            "each once"
        );
        for bad in [
            "{}",
            r#"{"all":false}"#,
            r#"{"all":true,"letters":["0-1"]}"#,
            r#"{"letters":["x"]}"#,
        ] {
            assert_eq!(selected(bad), None, "{bad}");
        }
    }
}
