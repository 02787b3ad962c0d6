//! `/metrics`: authorization, and what each reader sees.
//!
//! Ids of projects are labels of some metrics. They name tenants, so they are shown only to a reader with the token of
//! `metrics.token`; other readers see the sum over all projects under one label.

use std::collections::BTreeMap;

use api::{AuthHeader, ErrorResponse};
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use schemas::api_error::ApiError;
use schemas::project_label;
use sha2::{Digest, Sha256};

use super::metered::Metered;

/// The label that names projects.
const PROJECT: &str = "project";

/// The sources of `/metrics`.
#[derive(Clone)]
pub(crate) struct Scrape {
    metered: Metered,
    /// SHA-256 of the readers' token, if one is required.
    token: Option<[u8; 32]>,
}

impl Scrape {
    pub(crate) fn new(metered: Metered, token: &str) -> Self {
        Self {
            metered,
            token: (!token.is_empty()).then(|| Sha256::digest(token).into()),
        }
    }

    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .with_state(self)
    }

    /// Whether the reader has the token; an error without it where one is required.
    fn is_known(&self, headers: &HeaderMap) -> Result<bool, ApiError> {
        let Some(token) = &self.token else {
            return Ok(false);
        };
        let header = AuthHeader::read(headers);
        let given = header.as_ref().and_then(AuthHeader::bearer);
        let given: [u8; 32] = Sha256::digest(given.unwrap_or_default()).into();
        // Compares all bytes, whichever differs, in constant time.
        let pairs = given.iter().zip(token);
        match pairs.fold(0, |differs, (one, other)| differs | (one ^ other)) {
            0 => Ok(true),
            _ => Err(ApiError::unauthorized(
                "the metrics need the token of `metrics.token`: send it as `Authorization: Bearer <token>`",
            )),
        }
    }
}

/// Metrics in Prometheus' text format.
///
/// Labels that name projects are shown with the token of `metrics.token` only, and it is needed where it is set.
#[utoipa::path(get, path = "/metrics", tag = "health", security((), ("bearer" = [])),
    responses(
        (status = 200, description = "All metrics", body = String, content_type = "text/plain; version=0.0.4"),
        (status = 401, description = "`metrics.token` is set, and this is not it"),
    ))]
pub(crate) async fn metrics(State(scrape): State<Scrape>, headers: HeaderMap) -> Response {
    let is_known = match scrape.is_known(&headers) {
        Ok(is_known) => is_known,
        Err(refused) => return ErrorResponse(refused).into_response(),
    };
    // Gathering reads files of the process and asks the engine's watcher.
    let text = tokio::task::spawn_blocking(move || {
        let mut families = scrape.metered.gather();
        if !is_known {
            families.iter_mut().for_each(without_projects);
        }
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&families, &mut text)
            .map(|()| text)
    });
    match text.await {
        Ok(Ok(text)) => (
            StatusCode::OK,
            [(CONTENT_TYPE, prometheus::TEXT_FORMAT)],
            text,
        )
            .into_response(),
        outcome => {
            tracing::error!(error.message = ?outcome.err(), "the metrics cannot be written");
            ErrorResponse(ApiError::internal()).into_response()
        }
    }
}

/// Adds up metrics that differ only in the project.
fn without_projects(family: &mut MetricFamily) {
    let names_projects = |metric: &Metric| {
        let mut labels = metric.get_label().iter();
        labels.any(|label| label.name() == PROJECT)
    };
    let kind = family.get_field_type();
    if !family.get_metric().iter().any(names_projects) {
        return;
    }
    let mut sums: BTreeMap<Vec<(String, String)>, Metric> = BTreeMap::new();
    for mut metric in family.take_metric() {
        let mut labels = metric.take_label();
        let of_project = labels.iter_mut().find(|label| label.name() == PROJECT);
        if let Some(label) = of_project {
            label.set_value(project_label::OTHER.to_owned());
        }
        let pair = |label: &LabelPair| (label.name().to_owned(), label.value().to_owned());
        let key = labels.iter().map(pair).collect();
        metric.set_label(labels);
        let Some(sum) = sums.get_mut(&key) else {
            sums.insert(key, metric);
            continue;
        };
        match kind {
            MetricType::COUNTER => {
                let mut total = sum.get_counter().clone();
                total.set_value(total.get_value() + metric.get_counter().get_value());
                sum.set_counter(total);
            }
            MetricType::GAUGE => {
                let mut total = sum.get_gauge().clone();
                total.set_value(total.get_value() + metric.get_gauge().get_value());
                sum.set_gauge(total);
            }
            // No such metric exists; what cannot be added up is left out rather than shown.
            _ => {}
        }
    }
    family.set_metric(sums.into_values().collect());
}

#[cfg(test)]
mod tests {
    use axum::http::header::AUTHORIZATION;
    use prometheus::{IntCounterVec, Opts};

    use super::*;

    fn bearer(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, text.parse().unwrap())])
    }

    #[test]
    fn a_token_is_needed_where_there_is_one_and_names_projects() {
        let open = Scrape::new(Metered::new().unwrap(), "");
        assert_eq!(open.is_known(&HeaderMap::new()), Ok(false));
        assert_eq!(open.is_known(&bearer("Bearer ")), Ok(false));
        let closed = Scrape::new(Metered::new().unwrap(), "secret");
        assert_eq!(closed.is_known(&bearer("Bearer secret")), Ok(true));
        assert_eq!(closed.is_known(&bearer("bearer secret")), Ok(true));
        for wrong in ["Bearer secre", "Basic secret", "secret", "Bearer "] {
            assert_eq!(closed.is_known(&bearer(wrong)).unwrap_err().status, 401);
        }
        assert!(closed.is_known(&HeaderMap::new()).is_err());
    }

    #[test]
    fn projects_are_added_up_for_readers_who_are_not_known() {
        let metered = Metered::new().unwrap();
        let counter = IntCounterVec::new(Opts::new("c", "c"), &[PROJECT, "reason"]).unwrap();
        metered.own.register(Box::new(counter.clone())).unwrap();
        for (project, reason, count) in [("a", "x", 1), ("b", "x", 2), ("b", "y", 4)] {
            counter.with_label_values(&[project, reason]).inc_by(count);
        }
        let mut families = metered.gather();
        families.iter_mut().for_each(without_projects);
        let text = TextEncoder::new().encode_to_string(&families).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "c{project=\"_other\",reason=\"x\"} 3",
                "c{project=\"_other\",reason=\"y\"} 4"
            ]
        );
    }
}
