//! The readiness of the server's parts, and the health endpoints.

use std::collections::BTreeMap;

use api::ErrorResponse;
use axum::Json;
use axum::response::{IntoResponse, Response};
use schemas::api_error::{ApiError, ErrorCode};
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

/// A part that the server needs for its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// ClickHouse, embedded or not, answers.
    Engine,
    /// The tables have this version's schema.
    Migrations,
    Log,
    /// API keys and tokens can be looked up.
    Credentials,
    /// Records are being processed.
    Processor,
}

/// A problem that an operator has to handle, while every part works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concern {
    /// Accepted records are missing from the log.
    Log,
    /// Stored rows are missing or damaged.
    Tables,
    /// Records wait in a partition, and nothing is committed.
    Partitions,
}

/// Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    parts: &'static [Part],
    missing: watch::Sender<BTreeMap<Part, String>>,
    concerns: watch::Sender<BTreeMap<Concern, String>>,
}

impl Health {
    /// None of these parts is ready yet. Other parts are ignored: this process does not need them.
    pub(crate) fn new(parts: &'static [Part]) -> Self {
        let starting = parts.iter().map(|part| (*part, "starting".to_owned()));
        Self {
            parts,
            missing: watch::Sender::new(starting.collect()),
            concerns: watch::Sender::default(),
        }
    }

    pub(crate) fn ready(&self, part: Part) {
        self.missing
            .send_if_modified(|missing| missing.remove(&part).is_some());
    }

    /// `why` is a word or two, shown without authentication.
    pub(crate) fn missing(&self, part: Part, why: &str) {
        if !self.parts.contains(&part) {
            return;
        }
        self.missing.send_if_modified(|missing| {
            missing.insert(part, why.to_owned()).as_deref() != Some(why)
        });
    }

    /// Sets or clears a problem that an operator has to handle, shown without authentication. The process stays ready:
    /// it serves what is there, and taking it out of service would not help.
    pub(crate) fn degraded(&self, concern: Concern, what: Option<String>) {
        self.concerns.send_modify(|concerns| {
            match what {
                Some(what) => concerns.insert(concern, what),
                None => concerns.remove(&concern),
            };
        });
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        !self.missing.borrow().contains_key(&part)
    }

    pub(crate) async fn part_ready(&self, part: Part) {
        // This holds the sender, so waiting cannot fail.
        let _ = self
            .missing
            .subscribe()
            .wait_for(|missing| !missing.contains_key(&part))
            .await;
    }

    pub(crate) async fn all_ready(&self) {
        let _ = self.missing.subscribe().wait_for(BTreeMap::is_empty).await;
    }

    /// The parts that are not ready, with reasons.
    pub(crate) fn missing_parts(&self) -> Vec<(String, String)> {
        let missing = self.missing.borrow();
        let missing = missing.iter();
        missing
            .map(|(part, why)| (part_name(*part).to_owned(), why.clone()))
            .collect()
    }

    /// The response of `/health/ready`.
    pub(crate) fn readiness(&self) -> Response {
        let missing = self.missing.borrow().clone();
        if missing.is_empty() {
            let degraded = self.concerns.borrow().values().cloned().collect();
            return Json(Healthy {
                status: "ready",
                degraded,
            })
            .into_response();
        }
        let names = missing
            .iter()
            .map(|(part, why)| format!("{}: {why}", part_name(*part)));
        let message = format!("not ready: {}", names.collect::<Vec<_>>().join("; "));
        let details = missing
            .iter()
            .map(|(part, why)| (part_name(*part), serde_json::Value::from(why.as_str())));
        let details =
            serde_json::Value::Object(details.map(|(name, why)| (name.to_owned(), why)).collect());
        let error = ApiError::new(ErrorCode::NotReady, message).with_retry_after(1);
        ErrorResponse(error.with_details(details)).into_response()
    }
}

/// The answer of both health endpoints when all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Healthy {
    /// `live` or `ready`.
    pub(crate) status: &'static str,
    /// What was lost or is stalled, while everything works; absent when nothing is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) degraded: Vec<String>,
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Engine => "engine",
        Part::Migrations => "migrations",
        Part::Log => "log",
        Part::Credentials => "credentials",
        Part::Processor => "processor",
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn readiness_names_each_missing_part_until_all_work() {
        const PARTS: &[Part] = &[Part::Engine, Part::Log, Part::Processor];
        let health = Health::new(PARTS);
        health.missing(Part::Credentials, "not of this process");
        for &part in PARTS {
            let response = health.readiness();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key("retry-after"));
            let body = axum::body::to_bytes(response.into_body(), 1 << 16)
                .await
                .unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(
                body.contains(part_name(part)) && !body.contains("credentials"),
                "{body}"
            );
            health.ready(part);
        }
        assert_eq!(health.readiness().status(), StatusCode::OK);
        health.degraded(Concern::Tables, Some("rows are missing".to_owned()));
        let response = health.readiness();
        assert_eq!(response.status(), StatusCode::OK);
        let body = axum::body::to_bytes(response.into_body(), 1 << 16)
            .await
            .unwrap();
        assert_eq!(
            body,
            r#"{"status":"ready","degraded":["rows are missing"]}"#
        );
        health.missing(Part::Engine, "restarting");
        assert_eq!(health.readiness().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
