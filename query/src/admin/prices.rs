//! The price table: what a model's tokens cost.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::filter::invalid_parameter;
use schemas::price::PriceKey;
use schemas::price::rate::{Per, Rate};
use schemas::price::written::{WrittenPrice, moment_ms};
use schemas::run::{Dollars, Instant};
use schemas::timestamp::UnixMs;
use serde::Serialize;
use store::prices::PriceRecord;
use utoipa::ToSchema;

use super::{instant, refused};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{JsonBody, Pairs, PathId};
use crate::state::QueryState;

/// In a query string, the date of a price that is in force since ever.
const SINCE_EVER: &str = "none";

/// What the tokens of a model cost in USD.
#[derive(Serialize, ToSchema)]
pub(crate) struct Price {
    /// Name of the model, or the beginning of names.
    model: String,
    /// Whether it is for all models whose names begin so.
    prefix: bool,
    /// From when it is in force, `null` for since ever. The price of a run is the one in force at its start.
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_from: Option<Instant>,
    /// A thousand tokens of the prompt.
    #[schema(value_type = f64)]
    input_per_1k: Dollars,
    /// A thousand tokens of the answer.
    #[schema(value_type = f64)]
    output_per_1k: Dollars,
    /// A thousand tokens of the prompt that came from a cache; `null` where they cost what others do.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1k: Option<Dollars>,
    /// A thousand tokens where only their total is known; `null` where the price of the prompt is the estimate.
    #[schema(value_type = Option<f64>)]
    total_per_1k: Option<Dollars>,
    /// A million tokens of the prompt.
    #[schema(value_type = f64)]
    input_per_1m: Dollars,
    /// A million tokens of the answer.
    #[schema(value_type = f64)]
    output_per_1m: Dollars,
    /// A million tokens of the prompt that came from a cache.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1m: Option<Dollars>,
    /// A million tokens where only their total is known.
    #[schema(value_type = Option<f64>)]
    total_per_1m: Option<Dollars>,
    /// `shipped` with the program, or `changed` by a person.
    #[schema(value_type = String, pattern = "^(shipped|changed)$")]
    origin: Origin,
    /// When a person set it, `null` for a shipped one.
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Instant>,
}

/// Where a price comes from.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Origin {
    Shipped,
    Changed,
}

impl Origin {
    fn of(record: &PriceRecord) -> Self {
        match record.changed_at_ms {
            None => Origin::Shipped,
            Some(_) => Origin::Changed,
        }
    }
}

impl From<&PriceRecord> for Price {
    fn from(record: &PriceRecord) -> Self {
        let (key, rates) = (&record.row.key, &record.row.rates);
        let thousand = |rate: Rate| rate.per(Per::Thousand);
        let million = |rate: Rate| rate.per(Per::Million);
        Self {
            model: key.model.clone(),
            prefix: key.is_prefix,
            effective_from: key.effective_from.map(instant),
            input_per_1k: thousand(rates.input),
            output_per_1k: thousand(rates.output),
            cached_input_per_1k: rates.cached_input.map(thousand),
            total_per_1k: rates.total.map(thousand),
            input_per_1m: million(rates.input),
            output_per_1m: million(rates.output),
            cached_input_per_1m: rates.cached_input.map(million),
            total_per_1m: rates.total.map(million),
            origin: Origin::of(record),
            changed_at: record.changed_at_ms.map(instant),
        }
    }
}

/// A price to set, for a thousand tokens or for a million.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "documents schemas::price::written::WrittenPrice, which cannot say that all fields are for as many tokens"
)]
pub(crate) enum PutPrice {
    /// For a thousand tokens.
    Thousand(PutPricePerThousand),
    /// For a million tokens.
    Million(PutPricePerMillion),
}

/// A price to set in USD for a thousand tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerThousand {
    /// Tokens of the prompt.
    #[schema(minimum = 0, maximum = 1000)]
    input_per_1k: f64,
    /// Tokens of the answer.
    #[schema(minimum = 0, maximum = 1000)]
    output_per_1k: f64,
    /// Tokens of the prompt that came from a cache; the price of the prompt without it.
    #[schema(minimum = 0, maximum = 1000)]
    cached_input_per_1k: Option<f64>,
    /// Tokens where only their total is known; the price of the prompt without it, as an estimate.
    #[schema(minimum = 0, maximum = 1000)]
    total_per_1k: Option<f64>,
    /// From when it is in force: ISO 8601, or a date, whose first moment in UTC is meant. Since ever without it.
    effective_from: Option<String>,
    /// Whether it is for all models whose names begin so.
    prefix: Option<bool>,
}

/// A price to set in USD for a million tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerMillion {
    /// Tokens of the prompt.
    #[schema(minimum = 0, maximum = 1000000)]
    input_per_1m: f64,
    /// Tokens of the answer.
    #[schema(minimum = 0, maximum = 1000000)]
    output_per_1m: f64,
    /// Tokens of the prompt that came from a cache; the price of the prompt without it.
    #[schema(minimum = 0, maximum = 1000000)]
    cached_input_per_1m: Option<f64>,
    /// Tokens where only their total is known; the price of the prompt without it, as an estimate.
    #[schema(minimum = 0, maximum = 1000000)]
    total_per_1m: Option<f64>,
    /// From when it is in force: ISO 8601, or a date, whose first moment in UTC is meant. Since ever without it.
    effective_from: Option<String>,
    /// Whether it is for all models whose names begin so.
    prefix: Option<bool>,
}

/// Prices.
#[derive(Serialize, ToSchema)]
pub(crate) struct PriceList {
    /// By name, whole names before beginnings, oldest first.
    data: Vec<Price>,
}

/// Prices that were deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedPrices {
    /// What is no longer in force.
    removed: Vec<Price>,
}

/// List prices
///
/// Those that count: the shipped ones and, over them, those that people set.
#[utoipa::path(get, path = "/api/internal/prices", operation_id = "list_prices", tag = "administration",
    params(
        ("model" = Option<String>, Query, description = "Only rows of exactly this name", min_length = 1, max_length = 256),
        ("origin" = Option<String>, Query, description = "Only `shipped` or only `changed` ones", pattern = "^(shipped|changed)$"),
    ),
    responses(
        (status = 200, description = "All of them, at most some ten thousand", body = PriceList),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<PriceList>, Refusal> {
    caller.administered()?;
    let [model, origin] = pairs.only(["model", "origin"])?;
    let origin = match origin {
        None => None,
        Some("shipped") => Some(Origin::Shipped),
        Some("changed") => Some(Origin::Changed),
        Some(other) => {
            return Err(invalid_parameter("origin", other, "`shipped` or `changed`").into());
        }
    };
    // What another process changed a moment ago is shown too.
    state.prices().refresh().await?;
    let records = state.prices().records();
    let data = records
        .iter()
        .filter(|record| model.is_none_or(|model| record.row.key.model == model))
        .filter(|record| origin.is_none_or(|origin| Origin::of(record) == origin))
        .map(Price::from)
        .collect();
    Ok(Json(PriceList { data }))
}

/// Set a price
///
/// In force for runs that are processed from now on and start at or after `effective_from`, until the next date that
/// is set for the same name. Runs that were stored before keep their cost until it is calculated again.
#[utoipa::path(put, path = "/api/internal/prices/{model}", operation_id = "put_price", tag = "administration",
    params(("model" = String, Path, description = "The model, up to 512 bytes; `/` as `%2F`", min_length = 1, max_length = 512)),
    request_body(content = PutPrice, description = "All prices for a thousand tokens or all for a million. \
        Numbers are kept exactly: up to 18 digits after the point for a token, which is 15 for a thousand and 12 for a million"),
    responses(
        (status = 200, description = "The price as it is now", body = Price),
        (status = 400, description = "The body does not fit; the message names the field and what is allowed", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not an unlimited token with the role `admin`", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn put(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(model): PathId,
    pairs: Pairs,
    JsonBody(body): JsonBody<WrittenPrice>,
) -> Result<Json<Price>, Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    let row = body
        .row(&model)
        .map_err(|fault| Fault::bad_request("invalid_body", fault.to_string()))?;
    let record = state.prices().put(&row).await.map_err(refused)?;
    Ok(Json(Price::from(&record)))
}

/// Delete prices
///
/// All rows of the name, shipped ones too, or those of one date or kind. Runs that are processed from now on cost what
/// the next best row says.
#[utoipa::path(delete, path = "/api/internal/prices/{model}", operation_id = "delete_price", tag = "administration",
    params(
        ("model" = String, Path, description = "The model, up to 512 bytes; `/` as `%2F`", min_length = 1, max_length = 512),
        ("effective_from" = Option<String>, Query, description = "Only the row of this date: as it was set, or `none` for the one in force since ever",
            pattern = "^(none|20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?Z)?)$"),
        ("prefix" = Option<bool>, Query, description = "Only rows for beginnings of names, or only those for the whole name"),
    ),
    responses(
        (status = 200, description = "What was deleted", body = RemovedPrices),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not an unlimited token with the role `admin`", body = FaultBody),
        (status = 404, description = "There is no such price", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn delete(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(model): PathId,
    pairs: Pairs,
) -> Result<Json<RemovedPrices>, Refusal> {
    caller.administers_all()?;
    let [from, prefix] = pairs.only(["effective_from", "prefix"])?;
    let from = from.map(date).transpose()?;
    let prefix = prefix.map(flag).transpose()?;
    let chosen = |key: &PriceKey| {
        key.model == model
            && from.is_none_or(|from| key.effective_from == from)
            && prefix.is_none_or(|prefix| key.is_prefix == prefix)
    };
    let removed = state.prices().delete(chosen).await.map_err(refused)?;
    if removed.is_empty() {
        return Err(Fault::not_found(format!("there is no such price of `{model}`")).into());
    }
    let removed = removed.iter().map(Price::from).collect();
    Ok(Json(RemovedPrices { removed }))
}

fn date(value: &str) -> Result<Option<UnixMs>, Fault> {
    if value == SINCE_EVER {
        return Ok(None);
    }
    let allowed = "an ISO 8601 time or a date from 2000-01-01 to 2199-12-31, or `none`";
    moment_ms(value)
        .map(Some)
        .ok_or_else(|| invalid_parameter("effective_from", value, allowed))
}

fn flag(value: &str) -> Result<bool, Fault> {
    value
        .parse()
        .map_err(|_| invalid_parameter("prefix", value, "`true` or `false`"))
}
