//! `/api/internal/prices`: the price table.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::{Shape, invalid_parameter};
use schemas::limits::NAME_BYTES;
use schemas::money::Dollars;
use schemas::price::PriceKey;
use schemas::price::rate::{Per, Rate};
use schemas::price::written::{WrittenPrice, moment_ms};
use schemas::run::Instant;
use schemas::timestamp::UnixMs;
use serde::Serialize;
use store::prices::PriceRecord;
use store::prices::Prices;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::change_error;
use crate::access::Caller;
use crate::params::{
    Flag, JsonBody, Pairs, Param, Text, choice_param, path_params, query_params, schema_of,
};

/// `effective_from` of a price without a date, as a query parameter.
const NO_DATE: &str = "none";
/// What a schema can express of the dates that [`PriceDate`] accepts.
const DATE_PATTERN: &str = "^(none|20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?Z)?)$";

choice_param!(OriginParam -> Origin { "shipped" => Origin::Shipped, "changed" => Origin::Changed });

/// `effective_from` of a price; `none` for the price without a date.
pub(crate) struct PriceDate;

impl Param for PriceDate {
    type Value = Option<UnixMs>;

    fn parse(name: &str, text: &str) -> Result<Option<UnixMs>, ApiError> {
        if text == NO_DATE {
            return Ok(None);
        }
        let allowed = "an ISO 8601 time or a date from 2000-01-01 to 2199-12-31, or `none`";
        moment_ms(text)
            .map(Some)
            .ok_or_else(|| invalid_parameter(name, text, allowed))
    }

    fn schema() -> Schema {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(DATE_PATTERN))
            .into()
    }
}

query_params! {
    pub(crate) struct PriceListParams {
        /// Only prices with exactly this name
        model: Text,
        /// Only `shipped` or only `changed` prices
        origin: OriginParam,
    }
}

query_params! {
    pub(crate) struct PriceParams {
        /// Only the price of this date, written as it was set; `none` for the price without a date
        effective_from: PriceDate,
        /// Only prefixes, or only exact names
        prefix: Flag,
    }
}

path_params! {
    pub(crate) struct ModelPath {
        /// Model, up to 512 bytes; `/` as `%2F`
        "model" model: schema_of(Shape::Text(NAME_BYTES)),
    }
}

/// Prices of the tokens of a model in USD.
#[derive(Serialize, ToSchema)]
pub(crate) struct Price {
    /// Name of the model, or prefix of names.
    model: String,
    /// Whether it applies to all models whose names begin with `model`.
    prefix: bool,
    /// When it takes effect; `null` for always. A run has the price in effect at its start.
    #[schema(value_type = Option<String>, format = DateTime)]
    effective_from: Option<Instant>,
    /// A thousand prompt tokens.
    #[schema(value_type = f64)]
    input_per_1k: Dollars,
    /// A thousand completion tokens.
    #[schema(value_type = f64)]
    output_per_1k: Dollars,
    /// A thousand cached prompt tokens; `null` if they cost the same as others.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1k: Option<Dollars>,
    /// A thousand tokens of calls for which only the total is known; `null` if the prompt price is the estimate.
    #[schema(value_type = Option<f64>)]
    total_per_1k: Option<Dollars>,
    /// A million prompt tokens.
    #[schema(value_type = f64)]
    input_per_1m: Dollars,
    /// A million completion tokens.
    #[schema(value_type = f64)]
    output_per_1m: Dollars,
    /// A million cached prompt tokens.
    #[schema(value_type = Option<f64>)]
    cached_input_per_1m: Option<Dollars>,
    /// A million tokens of calls for which only the total is known.
    #[schema(value_type = Option<f64>)]
    total_per_1m: Option<Dollars>,
    /// `shipped` with the program, or `changed` by an administrator.
    #[schema(value_type = String, pattern = "^(shipped|changed)$")]
    origin: Origin,
    /// When it was set; `null` for a shipped price.
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
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
            effective_from: key.effective_from.map(Instant),
            input_per_1k: thousand(rates.input),
            output_per_1k: thousand(rates.output),
            cached_input_per_1k: rates.cached_input.map(thousand),
            total_per_1k: rates.total.map(thousand),
            input_per_1m: million(rates.input),
            output_per_1m: million(rates.output),
            cached_input_per_1m: rates.cached_input.map(million),
            total_per_1m: rates.total.map(million),
            origin: Origin::of(record),
            changed_at: record.changed_at_ms.map(Instant),
        }
    }
}

/// A price to set, for a thousand tokens or for a million.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "documents WrittenPrice, whose type allows fields per thousand beside fields per million"
)]
pub(crate) enum PutPrice {
    /// Per thousand tokens.
    Thousand(PutPricePerThousand),
    /// Per million tokens.
    Million(PutPricePerMillion),
}

/// A price to set, in USD per thousand tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerThousand {
    /// Prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    input_per_1k: f64,
    /// Completion tokens.
    #[schema(minimum = 0, maximum = 1000)]
    output_per_1k: f64,
    /// Cached prompt tokens; by default the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    cached_input_per_1k: Option<f64>,
    /// Tokens of calls for which only the total is known; by default estimated with the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000)]
    total_per_1k: Option<f64>,
    /// When it takes effect: ISO 8601, or a date, which begins at 00:00 UTC; by default always.
    effective_from: Option<String>,
    /// Whether it applies to all models whose names begin with the model.
    prefix: Option<bool>,
}

/// A price to set, in USD per million tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "documents what WrittenPrice reads")]
pub(crate) struct PutPricePerMillion {
    /// Prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    input_per_1m: f64,
    /// Completion tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    output_per_1m: f64,
    /// Cached prompt tokens; by default the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    cached_input_per_1m: Option<f64>,
    /// Tokens of calls for which only the total is known; by default estimated with the price of prompt tokens.
    #[schema(minimum = 0, maximum = 1000000)]
    total_per_1m: Option<f64>,
    /// When it takes effect: ISO 8601, or a date, which begins at 00:00 UTC; by default always.
    effective_from: Option<String>,
    /// Whether it applies to all models whose names begin with the model.
    prefix: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PriceList {
    /// By name, exact names before prefixes, oldest first.
    data: Vec<Price>,
}

/// The deleted prices.
#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedPrices {
    /// Prices that are not in effect any more.
    removed: Vec<Price>,
}

/// List prices
///
/// Prices in effect: the shipped ones, and the changed ones that take precedence over them.
#[utoipa::path(get, path = "/api/internal/prices", operation_id = "list_prices", tag = "administration",
    params(PriceListParams),
    responses(
        (status = 200, description = "All matching prices, at most some ten thousand", body = PriceList),
        errors::Common,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(prices): State<Prices>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<PriceList>, ErrorResponse> {
    caller.administered()?;
    let PriceListParams { model, origin } = PriceListParams::read(&pairs)?;
    // Includes changes by other processes.
    prices.refresh().await?;
    let records = prices.records();
    let data = records
        .iter()
        .filter(|record| {
            model
                .as_ref()
                .is_none_or(|model| record.row.key.model == *model)
        })
        .filter(|record| origin.is_none_or(|origin| Origin::of(record) == origin))
        .map(Price::from)
        .collect();
    Ok(Json(PriceList { data }))
}

/// Set a price
///
/// Applies to runs that are processed from now on and start at or after `effective_from`, until the next date of the
/// same name. Stored runs keep their cost until it is recalculated.
#[utoipa::path(put, path = "/api/internal/prices/{model}", operation_id = "put_price", tag = "administration",
    params(ModelPath),
    request_body(content = PutPrice, description = "All prices per thousand tokens or all per million. \
        Numbers are exact: up to 18 decimal places per token, which is 15 per thousand and 12 per million"),
    responses(
        (status = 200, description = "The stored price", body = Price),
        errors::AnyOf<(errors::Common, errors::RequestBody)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn put(
    State(prices): State<Prices>,
    caller: Caller,
    ModelPath { model }: ModelPath,
    pairs: Pairs,
    JsonBody(body): JsonBody<WrittenPrice>,
) -> Result<Json<Price>, ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    let row = body
        .row(&model)
        .map_err(|error| ApiError::new(ErrorCode::InvalidBody, error.to_string()))?;
    let record = prices.put(&row).await.map_err(change_error)?;
    Ok(Json(Price::from(&record)))
}

/// Delete prices
///
/// All prices of the name, including shipped ones, or only prices of one date or kind. Runs that are processed from now
/// on have the next best price.
#[utoipa::path(delete, path = "/api/internal/prices/{model}", operation_id = "delete_price", tag = "administration",
    params(ModelPath, PriceParams),
    responses(
        (status = 200, description = "The deleted prices", body = RemovedPrices),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn delete(
    State(prices): State<Prices>,
    caller: Caller,
    ModelPath { model }: ModelPath,
    pairs: Pairs,
) -> Result<Json<RemovedPrices>, ErrorResponse> {
    caller.administers_all()?;
    let params = PriceParams::read(&pairs)?;
    let chosen = |key: &PriceKey| {
        key.model == model
            && params
                .effective_from
                .is_none_or(|from| key.effective_from == from)
            && params.prefix.is_none_or(|prefix| key.is_prefix == prefix)
    };
    let removed = prices.delete(chosen).await.map_err(change_error)?;
    if removed.is_empty() {
        return Err(ApiError::not_found(format!("no matching price of `{model}` found")).into());
    }
    let removed = removed.iter().map(Price::from).collect();
    Ok(Json(RemovedPrices { removed }))
}
