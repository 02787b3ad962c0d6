//! The binary's own endpoints, and the OpenAPI document of all endpoints.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::health::{Health, Healthy};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Spindle",
        description = "Events of agents in; runs, filters and trees out."
    ),
    paths(live, ready, super::scrape::metrics),
    modifiers(&Credentials)
)]
struct Own;

/// How a caller shows who it is; operations refer to it by this name.
struct Credentials;

impl utoipa::Modify for Credentials {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some("An API key of a project, a token of a person, or a JWT of the identity provider where one is set. Where none is sent, the cookie of a session stands for it, from the pages of this server.".to_owned());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// Every endpoint of every tier.
pub(crate) fn whole() -> utoipa::openapi::OpenApi {
    let mut document = Own::openapi();
    document.merge(ingest::openapi());
    document.merge(query::openapi());
    document
}

/// Whether the process serves.
#[utoipa::path(get, path = "/health/live", tag = "health", security(()),
    responses((status = 200, description = "The process serves", body = Healthy)))]
pub(crate) async fn live() -> Json<Healthy> {
    Json(Healthy {
        status: "live",
        degraded: Vec::new(),
    })
}

/// Whether every part works, and which do not.
#[utoipa::path(get, path = "/health/ready", tag = "health", security(()),
    responses(
        (status = 200, description = "Every part works", body = Healthy),
        (status = 503, description = "The message and the details name each part that does not")
    ))]
pub(crate) async fn ready(State(health): State<Health>) -> Response {
    health.readiness()
}

#[cfg(test)]
mod tests {
    use schemas::filter::{FILTERS, Shape};

    use super::*;

    /// The client of the web UI is generated from this copy, before a binary exists.
    const COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web/openapi.json");

    /// The filters of runs for the web UI.
    const FILTERS_COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web/src/filters/declared.ts");

    #[test]
    fn the_web_is_made_from_the_document_as_it_is() {
        for (copy, expected) in [
            (COPY, whole().to_pretty_json().unwrap() + "\n"),
            (FILTERS_COPY, declared_filters()),
        ] {
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(copy, &expected).unwrap();
            }
            let found = std::fs::read_to_string(copy).unwrap_or_default();
            assert!(
                found == expected,
                "{copy} is old: UPDATE=1 cargo test --workspace --bin spindle the_web_is_made"
            );
        }
    }

    /// A TypeScript module with a line for each filter.
    fn declared_filters() -> String {
        let lines = FILTERS.iter().map(|declared| {
            let kind = match declared.shape {
                Shape::Text(_) => "text",
                Shape::Choice(_) => "choice",
                Shape::Flag => "flag",
                Shape::Seconds => "seconds",
                Shape::Dollars => "dollars",
                Shape::Count => "count",
                Shape::Time => "time",
                Shape::Tags => "tags",
                Shape::Entries => "entries",
            };
            let words = match declared.shape {
                Shape::Choice(words) => format!(", words: [\"{}\"]", words.join("\", \"")),
                _ => String::new(),
            };
            let (name, label) = (declared.name, declared.label);
            format!("  {{ name: \"{name}\", label: \"{label}\", kind: \"{kind}\"{words} }},\n")
        });
        let lines: String = lines.collect();
        format!(
            "/** The filters of runs, made from their declarations in the server by `make openapi`. Pure. */\n\n\
             /** Each filter: its query parameter, its label and the kind of its values. */\n\
             export const FILTERS = [\n{lines}] as const;\n"
        )
    }
}
