//! `/api/internal/prices`: the price table.

mod body;

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::{Shape, invalid_parameter};
use schemas::limits::NAME_BYTES;
use schemas::price::PriceKey;
use schemas::price::written::{WrittenPrice, moment_ms};
use schemas::timestamp::UnixMs;
use store::prices::Prices;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use body::{Origin, Price};

use super::change_error;
use crate::access::Caller;
use crate::params::{
    Flag, JsonBody, Pairs, Param, Text, choice_param, path_params, query_params, schema_of,
};

pub(crate) use body::{PriceList, PutPrice, RemovedPrices};

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
        Numbers are exact: up to 18 decimal places per token, which is 15 per thousand and 12 per million. \
        `request` is for one request and `service_tiers` are factors, whatever the unit"),
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
