//! Dead letters: looking at what could not be processed, and putting it into the log again.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemas::fault::Fault;
use schemas::filter::invalid_parameter;
use schemas::run::Instant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::letters::{self, LETTERS_LISTED_MAX, LETTERS_NAMED_MAX, LetterPlace, Redrive};
use crate::params::{JsonBody, Pairs};
use crate::state::QueryState;

/// Letters in a page that asks for no other number.
const LETTERS_LISTED: usize = 50;

/// Something that could not be processed.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    /// Its place in the log of dead letters.
    #[schema(pattern = "^[0-9]+-[0-9]+$")]
    id: String,
    /// What is wrong with it.
    reason: String,
    /// The project it was reported for.
    project_id: Option<String>,
    /// The app it was reported for.
    app_id: Option<String>,
    /// When it was given up.
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Instant>,
    /// The topic it was read from.
    original_topic: Option<String>,
    /// The partition it was read from.
    original_partition: Option<u32>,
    /// The offset it was read from.
    original_offset: Option<u64>,
    /// Accepted events in it.
    events: u64,
    /// `event` for one event of a record, `record` for a record as a whole.
    #[schema(pattern = "^(event|record)$")]
    kind: &'static str,
    /// Bytes of its payload.
    bytes: u64,
    /// Whether it was put into the log of events again.
    redriven: bool,
    /// What was accepted; only when asked for, and only where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payload: Option<String>,
    /// The same as Base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payload_base64: Option<String>,
}

/// Dead letters.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetterList {
    /// Oldest first.
    data: Vec<DeadLetter>,
    /// Where the next page begins; null at the end.
    next_cursor: Option<String>,
}

/// Which letters to put into the log again: `all`, or `letters`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AskRedrive {
    /// Every letter that was not yet.
    all: bool,
    /// These, by their ids, even if they were before.
    #[schema(max_items = 1000)]
    letters: Vec<String>,
}

/// What was put into the log again.
#[derive(Serialize, ToSchema)]
pub(crate) struct Redriven {
    /// Letters.
    letters: u64,
    /// Accepted events in them.
    events: u64,
    /// Ids of letters that are not there, or that the log can never take.
    left: Vec<String>,
    /// Whether there are more letters than one request does: ask again.
    more: bool,
}

impl DeadLetter {
    fn new(letter: letters::Letter, has_payload: bool) -> Self {
        let bytes = letter.payload.len() as u64;
        let (payload, payload_base64) = match has_payload {
            false => (None, None),
            true => match String::from_utf8(letter.payload) {
                Ok(text) => (Some(text), None),
                Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
            },
        };
        Self {
            id: letter.place.to_string(),
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
/// What was accepted and cannot be processed, with the reason. It may hold what clients of any project sent.
#[utoipa::path(get, path = "/api/internal/dead-letters", operation_id = "list_dead_letters", tag = "administration",
    params(
        ("limit" = Option<u32>, Query, description = "Letters in the page at most, 50 unless given; fewer when they are large", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, or the id of the letter to begin with", pattern = "^[0-9]{1,9}-[0-9]{1,18}$"),
        ("payload" = Option<bool>, Query, description = "Whether to show what was accepted"),
    ),
    responses(
        (status = 200, description = "Oldest first", body = DeadLetterList),
        (status = 400, description = "An unknown parameter, or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin` for all projects", body = FaultBody),
        (status = 503, description = "The log or the database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<DeadLetterList>, Refusal> {
    caller.administers_all()?;
    let [limit, cursor, payload] = pairs.only(["limit", "cursor", "payload"])?;
    let limit = match limit {
        None => LETTERS_LISTED,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=LETTERS_LISTED_MAX).contains(limit))
            .ok_or_else(|| {
                let allowed = format!("a whole number from 1 to {LETTERS_LISTED_MAX}");
                invalid_parameter("limit", text, &allowed)
            })?,
    };
    let has_payload = match payload {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(invalid_parameter("payload", other, "`true` or `false`").into()),
    };
    let from = cursor.map(|text| {
        let allowed = "`next_cursor` of a page, or the id of a letter, such as 0-17";
        text.parse::<LetterPlace>()
            .map_err(|()| invalid_parameter("cursor", text, allowed))
    });
    let page = state.dead_letters()?.list(from.transpose()?, limit).await?;
    let letters = page.letters.into_iter();
    Ok(Json(DeadLetterList {
        data: letters
            .map(|letter| DeadLetter::new(letter, has_payload))
            .collect(),
        next_cursor: page.next.map(|place| place.to_string()),
    }))
}

/// Put dead letters into the log again
///
/// After what was wrong with them is mended. They are durable in the log of events before they count as redriven; a
/// letter that is still bad comes back as a new one. Safe to repeat.
#[utoipa::path(post, path = "/api/internal/dead-letters/redrive", operation_id = "redrive_dead_letters", tag = "administration",
    request_body = AskRedrive,
    responses(
        (status = 200, description = "What was done; where `more` is true, ask again", body = Redriven),
        (status = 400, description = "The body does not fit", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin` for all projects", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "A log is full or away, or the database is away; what was done until then is done", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn redrive(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
    JsonBody(body): JsonBody<AskRedrive>,
) -> Result<Json<Redriven>, Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let done = state.dead_letters()?.redrive(which(body)?).await?;
    Ok(Json(Redriven {
        letters: done.letters,
        events: done.events,
        left: done.left.iter().map(LetterPlace::to_string).collect(),
        more: done.is_more,
    }))
}

fn which(body: AskRedrive) -> Result<Redrive, Fault> {
    let invalid = |message: String| Fault::bad_request("invalid_body", message);
    match (body.all, body.letters) {
        (true, letters) if letters.is_empty() => Ok(Redrive::All),
        (false, letters) if (1..=LETTERS_NAMED_MAX).contains(&letters.len()) => {
            let place = |text: String| {
                let fault = || invalid(format!("`{text}` is no id of a letter, such as 0-17"));
                text.parse().map_err(|()| fault())
            };
            let mut places: Vec<LetterPlace> =
                letters.into_iter().map(place).collect::<Result<_, _>>()?;
            places.sort_unstable();
            places.dedup();
            Ok(Redrive::These(places))
        }
        _ => Err(invalid(format!(
            "either `all` is true, or `letters` names 1 to {LETTERS_NAMED_MAX} letters"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_is_of_all_or_of_named_letters() {
        let asked = |text: &str| which(serde_json::from_str(text).unwrap()).ok();
        assert_eq!(asked(r#"{"all":true}"#), Some(Redrive::All));
        let place = |offset| LetterPlace {
            partition: 0,
            offset,
        };
        assert_eq!(
            asked(r#"{"letters":["0-7","0-3","0-7"]}"#),
            Some(Redrive::These(vec![place(3), place(7)])),
            "each once"
        );
        for bad in [
            "{}",
            r#"{"all":false}"#,
            r#"{"all":true,"letters":["0-1"]}"#,
            r#"{"letters":["x"]}"#,
        ] {
            assert_eq!(asked(bad), None, "{bad}");
        }
    }
}
