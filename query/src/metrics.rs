//! Request durations.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{HistogramOpts, HistogramVec, Registry};

#[derive(Clone)]
pub(crate) struct RequestMetrics(HistogramVec);

impl RequestMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = HistogramOpts::new(
            "spindle_query_request_seconds",
            "Time from a request of the query tier to its response, by route and class of status",
        )
        .buckets(vec![
            0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
        ]);
        let seconds = HistogramVec::new(options, &["route", "status"])?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self(seconds))
    }
}

/// Measures a request. The label `route` has few values, because only routes of this tier pass through it.
pub(crate) async fn measure(
    State(RequestMetrics(seconds)): State<RequestMetrics>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    let class = match response.status().as_u16() {
        ..400 => "ok",
        400..500 => "refused",
        _ => "failed",
    };
    let labels = [route.as_deref().unwrap_or("none"), class];
    seconds
        .with_label_values(&labels)
        .observe(started.elapsed().as_secs_f64());
    response
}
