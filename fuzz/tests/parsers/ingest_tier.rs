//! The ingest tier over a log in memory: the response to a request, and what is in the log afterwards.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use eventlog::{MemoryLog, StoredRecord};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use ingest::{AuthUnavailable, Authenticator, IngestConfig, IngestState};
use processor::step::decode;
use prometheus::Registry;
use schemas::credential::{Credential, Scope};
use schemas::ids::{AppId, ProjectId};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

pub(crate) const TRACES: &str = "/v1/traces";
pub(crate) const LOGS: &str = "/v1/logs";
/// Decompressed bytes of a body: small enough that edits pass it.
pub(crate) const BODY_BYTES: usize = 128 << 10;

struct OneKey;

#[async_trait]
impl Authenticator for OneKey {
    async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        let key = Credential::Key {
            id: "k".to_owned(),
            project: ProjectId::new("acme"),
            default_app: AppId::new("main"),
            scopes: vec![Scope::Report],
        };
        Ok((secret == "good").then(|| Arc::new(key)))
    }

    async fn keyless(&self, _: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        Ok(None)
    }

    fn keyless_possible(&self) -> bool {
        false
    }
}

/// A response, and the records in the log when it is given.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) records: Vec<StoredRecord>,
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn post(path: &str, content_type: &str) -> http::request::Builder {
    Request::post(path)
        .header(AUTHORIZATION, "Bearer good")
        .header(CONTENT_TYPE, content_type)
}

/// Sends a request to a new tier.
pub(crate) fn send(runtime: &Runtime, request: http::request::Builder, body: &[u8]) -> Answer {
    let log = MemoryLog::new(1);
    let config = IngestConfig {
        body_bytes: BODY_BYTES,
        keyless_body_bytes: BODY_BYTES,
        // Seeds keep their age, and edits move it.
        max_event_age: Duration::ZERO,
        old_days_per_second: 0,
        ..IngestConfig::default()
    };
    let (log_of_tier, auth) = (Arc::new(log.clone()), Arc::new(OneKey));
    let state =
        IngestState::new(config, log_of_tier, auth, Arc::new(()), &Registry::new()).unwrap();
    let body = Full::new(Bytes::copy_from_slice(body));
    let answer = runtime.block_on(async {
        let response = ingest::router(state).oneshot(request.body(body).unwrap());
        let (head, body) = response.await.unwrap().into_parts();
        let body = body.collect().await.unwrap();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            trailers: body.trailers().cloned().unwrap_or_default(),
            body: body.to_bytes(),
            records: log.contents(),
        }
    });
    check(&answer);
    answer
}

/// What holds for every request: the fault is never the server's, rejected events are not in the log, and the processor
/// reads what is in the log as ingest did.
fn check(answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    assert!(answer.status < 500, "{}: {text}", answer.status);
    assert!(
        (200..300).contains(&answer.status) || answer.records.is_empty(),
        "refused, and in the log"
    );
    for record in &answer.records {
        let header = decode::header(record).expect("headers that the processor reads");
        assert_eq!(
            header.project.as_str(),
            "acme",
            "the project is the credential's (T1)"
        );
        assert_eq!(record.record.key, header.key());
        let mut events = 0;
        let bad = |reason: String, raw: &str| panic!("{reason}: {raw}");
        decode::events(record, &header, |_| events += 1, bad).expect("a payload of events");
        assert_eq!(events, header.events, "the header counts the events");
    }
}

impl Answer {
    /// Number of events in the log.
    pub(crate) fn events(&self) -> u64 {
        let events = |record| u64::from(decode::header(record).unwrap().events);
        self.records.iter().map(events).sum()
    }

    /// App and payload of each record.
    pub(crate) fn payloads(&self) -> Vec<(&Bytes, &str)> {
        let records = self.records.iter().map(|stored| &stored.record);
        records
            .map(|record| (&record.key, std::str::from_utf8(&record.payload).unwrap()))
            .collect()
    }
}
