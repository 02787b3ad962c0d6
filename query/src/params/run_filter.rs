//! The parameters of reads of runs in the OpenAPI document, from their declarations in `schemas`.

use schemas::filter::{
    CURSOR_CHARS, FILTER_COUNT_MAX, FILTER_NUMBER_MAX, FILTERS, LIMIT_DEFAULT, LIMIT_MAX, Shape,
    Sort,
};
use schemas::limits::{ID_BYTES, NAME_BYTES};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type,
};

use super::declared::{Limit, Param, query_parameter};

/// The filters of runs and the choice of a project, which [`schemas::filter::RunQuery::from_pairs`] parses.
pub(crate) struct RunFilterParams;

/// Order and page of the run list, which [`schemas::filter::RunQuery::from_pairs`] parses.
pub(crate) struct PageParams;

impl IntoParams for RunFilterParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = FILTERS.iter().map(|declared| {
            let name = match declared.shape {
                Shape::Entries => format!("{}.<key>", declared.name),
                _ => declared.name.to_owned(),
            };
            query_parameter(&name, declared.description, schema_of(declared.shape))
        });
        let project = query_parameter(
            "project_id",
            "One of the projects that the credential reaches; all of them without it",
            text(ID_BYTES),
        );
        filters.chain([project]).collect()
    }
}

impl IntoParams for PageParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let sorts = Sort::ALL.map(|(_, name)| name);
        let pattern = format!("^({})$", sorts.join("|"));
        let sort = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern));
        let order = format!("Order: `{}`; default `{}`", sorts.join("`, `"), sorts[0]);
        let limit = format!("Largest page size, default {LIMIT_DEFAULT}");
        let cursor = "`next_cursor` of the previous page, with the same filter and sort";
        let count = "Whether to count all matching runs, up to 10,000";
        vec![
            query_parameter("sort", &order, sort.into()),
            query_parameter("limit", &limit, Limit::<{ LIMIT_MAX as usize }>::schema()),
            query_parameter("cursor", cursor, text(CURSOR_CHARS)),
            query_parameter("count", count, schema_of(Shape::Flag)),
        ]
    }
}

/// Run filters with these names.
pub(crate) fn filter_parameters(names: &[&str]) -> Vec<Parameter> {
    let declared = FILTERS
        .iter()
        .filter(|declared| names.contains(&declared.name));
    declared
        .map(|declared| {
            query_parameter(
                declared.name,
                declared.description,
                schema_of(declared.shape),
            )
        })
        .collect()
}

/// The schema of a run filter, for lists of something else with the same parameter.
pub(crate) fn filter_schema(name: &str) -> Schema {
    let declared = FILTERS.iter().find(|declared| declared.name == name);
    schema_of(declared.map_or(Shape::Text(ID_BYTES), |declared| declared.shape))
}

pub(crate) fn schema_of(shape: Shape) -> Schema {
    match shape {
        Shape::Text(max_chars) => text(max_chars),
        Shape::Entries => text(NAME_BYTES),
        Shape::Choice(words) => ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(format!("^({})$", words.join("|"))))
            .into(),
        Shape::Flag => ObjectBuilder::new().schema_type(Type::Boolean).into(),
        Shape::Seconds | Shape::Dollars => ObjectBuilder::new()
            .schema_type(Type::Number)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
            .minimum(Some(-(FILTER_NUMBER_MAX as f64)))
            .maximum(Some(FILTER_NUMBER_MAX as f64))
            .into(),
        Shape::Count => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .maximum(Some(FILTER_COUNT_MAX))
            .into(),
        Shape::Time => ObjectBuilder::new().schema_type(Type::String).into(),
        Shape::Tags => ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String))
            .into(),
    }
}

fn text(max_chars: usize) -> Schema {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(max_chars))
        .into()
}
