//! Which parts of the server are ready, and the endpoints that tell.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemas::fault::Fault;
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

/// A part without which the server cannot do all it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// ClickHouse, embedded or not, answers.
    Engine,
    /// The tables are those this version works with.
    Migrations,
    /// The event log is open.
    Log,
    /// API keys and tokens can be checked.
    Credentials,
    /// Events are being taken from the log.
    Processor,
}

/// Something that needs a person, while every part works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concern {
    /// Accepted records are missing from the log.
    Log,
    /// Stored rows are missing or damaged.
    Tables,
}

/// The state of every part of this process. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    parts: &'static [Part],
    missing: watch::Sender<BTreeMap<Part, String>>,
    concerns: watch::Sender<BTreeMap<Concern, String>>,
}

impl Health {
    /// None of these parts works yet. What is said of others is not heeded: it does not matter to this process.
    pub(crate) fn new(parts: &'static [Part]) -> Self {
        let starting = parts.iter().map(|part| (*part, "starting".to_owned()));
        Self {
            parts,
            missing: watch::Sender::new(starting.collect()),
            concerns: watch::Sender::default(),
        }
    }

    /// The part works.
    pub(crate) fn ready(&self, part: Part) {
        self.missing
            .send_if_modified(|missing| missing.remove(&part).is_some());
    }

    /// The part does not work, and why: a word or two, shown to anyone who asks.
    pub(crate) fn missing(&self, part: Part, why: &str) {
        if !self.parts.contains(&part) {
            return;
        }
        self.missing.send_if_modified(|missing| {
            missing.insert(part, why.to_owned()).as_deref() != Some(why)
        });
    }

    /// Says what needs a person, in words for anyone who asks, or that nothing of the kind does. The process stays ready:
    /// what is there is served, and taking it out of service would not bring back what is not.
    pub(crate) fn degraded(&self, concern: Concern, what: Option<String>) {
        self.concerns.send_modify(|concerns| {
            match what {
                Some(what) => concerns.insert(concern, what),
                None => concerns.remove(&concern),
            };
        });
    }

    /// Whether this part works now.
    pub(crate) fn has(&self, part: Part) -> bool {
        !self.missing.borrow().contains_key(&part)
    }

    /// Waits until this part works.
    pub(crate) async fn part_ready(&self, part: Part) {
        // The sender lives as long as this does, so waiting cannot fail.
        let _ = self
            .missing
            .subscribe()
            .wait_for(|missing| !missing.contains_key(&part))
            .await;
    }

    /// Waits until every part works.
    pub(crate) async fn all_ready(&self) {
        let _ = self.missing.subscribe().wait_for(BTreeMap::is_empty).await;
    }

    /// What does not work, and why.
    pub(crate) fn missing_parts(&self) -> Vec<(String, String)> {
        let missing = self.missing.borrow();
        let missing = missing.iter();
        missing
            .map(|(part, why)| (part_name(*part).to_owned(), why.clone()))
            .collect()
    }

    /// The answer of `/health/ready`.
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
        fault(
            Fault {
                code: "not_ready",
                ..Fault::unavailable(message, 1)
            }
            .with_details(details),
        )
    }
}

/// The answer of both health endpoints when all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Healthy {
    /// `live` or `ready`.
    pub(crate) status: &'static str,
    /// What was lost and needs a person, while everything works; absent when nothing was.
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

/// A fault as a response.
pub(crate) fn fault(fault: Fault) -> Response {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = fault.retry_after_s;
    let mut response = (status, Json(fault)).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(axum::http::header::RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
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
