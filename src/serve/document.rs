//! What the binary itself answers, and the OpenAPI document of everything on the port.

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
    use super::*;

    /// The client of the web UI is made from this copy, before there is a binary to ask.
    const COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web/openapi.json");

    #[test]
    fn the_web_is_made_from_the_document_as_it_is() {
        let expected = whole().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(COPY, &expected).unwrap();
        }
        let found = std::fs::read_to_string(COPY).unwrap_or_default();
        assert!(
            found == expected,
            "web/openapi.json is old: UPDATE=1 cargo test --workspace --bin spindle the_web_is_made"
        );
    }
}
