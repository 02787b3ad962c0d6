//! The answer of the clear operation.

use axum::Json;
use schemas::api_error::ApiError;
use schemas::run::Instant;
use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::now_ms;
use crate::ports::processes::{Cleared, ClearedHere};

/// Seconds after which a client can retry when nothing could be cleared.
const RETRY_S: u32 = 2;

/// The result of clearing caches.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClearAnswer {
    /// `success` or `error`.
    pub(super) status: Outcome,
    pub(super) message: String,
    /// The cleared caches; only with `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) cleared_caches: Option<Vec<String>>,
    /// Unknown names of the request, if there are any. Then nothing was cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) invalid_caches: Option<Vec<String>>,
    /// Time of completion.
    #[schema(value_type = String, format = DateTime)]
    pub(super) timestamp: Instant,
}

/// Whether caches were cleared.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// All of them.
    Success,
    /// None, or not all.
    Error,
}

pub(super) fn cleared_answer(
    names: Vec<String>,
    cleared: Result<Cleared, String>,
) -> Result<Json<ClearAnswer>, ApiError> {
    let cleared = cleared.map_err(|reason| ApiError::unavailable(reason, RETRY_S))?;
    let Cleared { confirmed, of, .. } = cleared;
    let is_confirmed_by_all = confirmed == of && of > 1;
    if cleared.here != ClearedHere::Done || !(cleared.is_published || is_confirmed_by_all) {
        return Err(ApiError::unavailable(not_cleared(&cleared), RETRY_S));
    }
    let processes = if of == 1 { "process" } else { "processes" };
    let message = if confirmed < of {
        format!("cleared in {confirmed} of {of} {processes}; the others have not confirmed it")
    } else {
        format!("cleared in {confirmed} of {of} {processes}")
    };
    Ok(Json(ClearAnswer {
        status: Outcome::Success,
        message,
        cleared_caches: Some(names),
        invalid_caches: None,
        timestamp: Instant(now_ms()),
    }))
}

/// The message where too little was done for a success.
fn not_cleared(cleared: &Cleared) -> String {
    let Cleared { confirmed, of, .. } = *cleared;
    let (confirmed_here, here) = match cleared.here {
        ClearedHere::Done => (1, "this process cleared its caches"),
        ClearedHere::Failed => (
            0,
            "this process could not load its caches again and retries until the database answers",
        ),
        ClearedHere::UnderWay => (0, "this process has not finished clearing its caches"),
    };
    let confirmed = confirmed.saturating_sub(confirmed_here);
    let others = of.saturating_sub(1).max(confirmed);
    match (cleared.is_published, others) {
        (false, _) => format!(
            "{here}; the control message may not have reached the others; {confirmed} of {others} confirmed it"
        ),
        (true, 0) => here.to_owned(),
        (true, _) => format!("{here}; {confirmed} of {others} others confirmed it"),
    }
}

#[cfg(test)]
mod tests {
    use ClearedHere::{Done, Failed, UnderWay};

    use super::*;

    #[test]
    fn the_answer_contains_the_number_of_processes() {
        let cleared = |here, is_published, confirmed, of| {
            let order = "o".to_owned();
            let cleared = Cleared {
                order,
                here,
                is_published,
                confirmed,
                of,
            };
            cleared_answer(vec!["c".to_owned()], Ok(cleared))
        };
        let message =
            |published, confirmed, of| cleared(Done, published, confirmed, of).unwrap().0.message;
        assert_eq!(message(true, 1, 1), "cleared in 1 of 1 process");
        assert_eq!(message(false, 2, 2), "cleared in 2 of 2 processes");
        assert_eq!(
            message(true, 2, 3),
            "cleared in 2 of 3 processes; the others have not confirmed it"
        );
        for (here, is_published, confirmed, of, end) in [
            (Failed, true, 0, 1, "retries until the database answers"),
            (Failed, true, 2, 3, "; 2 of 2 others confirmed it"),
            (UnderWay, true, 0, 1, "has not finished clearing its caches"),
            (UnderWay, true, 1, 3, "; 1 of 2 others confirmed it"),
            (
                Done,
                false,
                1,
                1,
                "may not have reached the others; 0 of 0 confirmed it",
            ),
            (
                Done,
                false,
                2,
                3,
                "may not have reached the others; 1 of 2 confirmed it",
            ),
            (Failed, false, 0, 3, "; 0 of 2 confirmed it"),
        ] {
            let error = cleared(here, is_published, confirmed, of).unwrap_err();
            assert_eq!((error.status, error.retry_after_s), (503, Some(2)));
            assert!(error.message.ends_with(end), "{}", error.message);
        }
        let unpublished = cleared_answer(Vec::new(), Err("log is away".to_owned())).unwrap_err();
        assert_eq!(unpublished.message, "log is away");
    }
}
