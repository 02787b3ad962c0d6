//! Declarations of query and path parameters: each is the parser and the OpenAPI documentation.

use api::ErrorResponse;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::{Shape, instant_ms, invalid_parameter};
use schemas::limits::ID_BYTES;
use schemas::page;
use schemas::timestamp::UnixMs;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use super::run_filter::schema_of;

/// A kind of query parameter.
pub(crate) trait Param {
    type Value;

    /// # Errors
    /// 400 `invalid_parameter`.
    fn parse(name: &str, text: &str) -> Result<Self::Value, ApiError>;

    fn schema() -> Schema;
}

/// Text of 1 to 256 characters.
pub(crate) struct Text;
/// `true` or `false`.
pub(crate) struct Flag;
/// ISO 8601, or integer milliseconds since 1970.
pub(crate) struct Time;
/// A page size from 1 to `MAX`.
pub(crate) struct Limit<const MAX: usize>;

impl Param for Text {
    type Value = String;

    fn parse(_: &str, text: &str) -> Result<String, ApiError> {
        Ok(text.to_owned())
    }

    fn schema() -> Schema {
        schema_of(Shape::Text(ID_BYTES))
    }
}

impl Param for Flag {
    type Value = bool;

    fn parse(name: &str, text: &str) -> Result<bool, ApiError> {
        text.parse()
            .map_err(|_| invalid_parameter(name, text, "`true` or `false`"))
    }

    fn schema() -> Schema {
        schema_of(Shape::Flag)
    }
}

impl Param for Time {
    type Value = UnixMs;

    fn parse(name: &str, text: &str) -> Result<UnixMs, ApiError> {
        let allowed = "an ISO 8601 time, for example 2026-11-20T10:00:00.000Z";
        instant_ms(text).ok_or_else(|| invalid_parameter(name, text, allowed))
    }

    fn schema() -> Schema {
        schema_of(Shape::Time)
    }
}

impl<const MAX: usize> Param for Limit<MAX> {
    type Value = usize;

    fn parse(_: &str, text: &str) -> Result<usize, ApiError> {
        page::limit(text, MAX)
    }

    fn schema() -> Schema {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(1))
            .maximum(Some(MAX as u64))
            .into()
    }
}

/// An optional query parameter in the document.
pub(crate) fn query_parameter(name: &str, description: &str, schema: Schema) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description.trim()))
        .schema(Some(schema))
        .build()
}

/// A path parameter in the document.
pub(crate) fn path_parameter(name: &str, description: &str, schema: Schema) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description.trim()))
        .schema(Some(schema))
        .build()
}

/// A path parameter that is not validated before it is looked up.
pub(crate) fn any_text() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).into()
}

/// The decoded parameters of the path, in order.
pub(crate) async fn path_values<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<impl Iterator<Item = String>, ErrorResponse> {
    let params = RawPathParams::from_request_parts(parts, state);
    let params = params.await.map_err(|_| invalid_path())?;
    let values: Vec<String> = params.iter().map(|(_, value)| value.to_owned()).collect();
    Ok(values.into_iter())
}

pub(crate) fn invalid_path() -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, "the path is not UTF-8")
}

/// Declares the query parameters of an operation. Every field is optional and has the name of its parameter; its doc
/// comment is the description.
macro_rules! query_params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $kind:ty,)+
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $(pub(crate) $field: Option<<$kind as $crate::params::Param>::Value>,)+
        }

        impl $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// # Errors
            /// 400 for unknown, repeated and invalid parameters.
            #[allow(dead_code, reason = "some structs are read with `split` only")]
            pub(crate) fn read(
                pairs: &$crate::params::Pairs,
            ) -> Result<Self, schemas::api_error::ApiError> {
                let mut values = pairs.only([$(stringify!($field)),+])?.into_iter();
                Ok(Self {
                    $($field: values
                        .next()
                        .flatten()
                        .map(|text| {
                            <$kind as $crate::params::Param>::parse(stringify!($field), text)
                        })
                        .transpose()?,)+
                })
            }

            /// Reads these parameters and returns the others.
            ///
            /// # Errors
            /// 400 for repeated and invalid parameters.
            #[allow(dead_code, reason = "most structs are read with `read` only")]
            pub(crate) fn split(
                pairs: &$crate::params::Pairs,
            ) -> Result<(Self, $crate::params::Pairs), schemas::api_error::ApiError> {
                let (own, others) = pairs.partition(Self::NAMES);
                Ok((Self::read(&own)?, others))
            }
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                vec![$($crate::params::query_parameter(
                    stringify!($field),
                    concat!($($doc),+),
                    <$kind as $crate::params::Param>::schema(),
                )),+]
            }
        }
    };
}

/// Declares the path parameters of operations, in the order of the path: `"name" field`, with their schemas.
macro_rules! path_params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $param:literal $field:ident: $schema:expr,)+
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $(pub(crate) $field: String,)+
        }

        impl<S: Send + Sync> axum::extract::FromRequestParts<S> for $name {
            type Rejection = api::ErrorResponse;

            async fn from_request_parts(
                parts: &mut axum::http::request::Parts,
                state: &S,
            ) -> Result<Self, api::ErrorResponse> {
                let mut values = $crate::params::path_values(parts, state).await?;
                Ok(Self {
                    $($field: values.next().ok_or_else($crate::params::invalid_path)?,)+
                })
            }
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                vec![$($crate::params::path_parameter($param, concat!($($doc),+), $schema)),+]
            }
        }
    };
}

/// A query parameter with a fixed set of values: `Type: "a" => Type::A, ...`.
macro_rules! choice_param {
    ($kind:ident -> $value:ty { $($word:literal => $choice:expr),+ $(,)? }) => {
        pub(crate) struct $kind;

        impl $crate::params::Param for $kind {
            type Value = $value;

            fn parse(name: &str, text: &str) -> Result<$value, schemas::api_error::ApiError> {
                match text {
                    $($word => Ok($choice),)+
                    _ => Err(schemas::filter::invalid_parameter(
                        name,
                        text,
                        &[$(concat!("`", $word, "`")),+].join(", "),
                    )),
                }
            }

            fn schema() -> utoipa::openapi::schema::Schema {
                $crate::params::schema_of(schemas::filter::Shape::Choice(&[$($word),+]))
            }
        }
    };
}

pub(crate) use {choice_param, path_params, query_params};

query_params! {
    /// Selects a project.
    pub(crate) struct ProjectParams {
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

query_params! {
    /// Selects a run or message.
    pub(crate) struct AppParams {
        /// App
        app_id: Text,
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

path_params! {
    pub(crate) struct RunPath {
        /// Id of the run
        "run_id" run_id: any_text(),
    }
}

path_params! {
    pub(crate) struct IdPath {
        /// Public identifier
        "id" id: any_text(),
    }
}
