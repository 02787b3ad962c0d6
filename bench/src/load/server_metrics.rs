//! The server's own counts, read from `/metrics`.

use anyhow::{Context, ensure};

use crate::connection::{Connection, Target};

/// Events the processor has stored, over all labels.
const STORED: &str = "spindle_processor_stored_events_total";

/// Events ingest has appended to the log, with or without a response.
const APPENDED: &str = "spindle_ingest_appended_events_total";

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCounts {
    pub(super) stored: u64,
    /// `None` where ingest is another process.
    pub(super) appended: Option<u64>,
}

impl ServerCounts {
    pub(super) async fn read(target: &Target) -> anyhow::Result<Self> {
        let answer = Connection::default()
            .get(target, "/metrics")
            .await
            .context("/metrics")?;
        ensure!(
            answer.status.is_success(),
            "/metrics answers {}",
            answer.status
        );
        let text = std::str::from_utf8(&answer.body).context("/metrics is not text")?;
        let stored = sum(text, STORED).with_context(|| format!("/metrics has no {STORED}"))?;
        Ok(Self {
            stored: stored as u64,
            appended: sum(text, APPENDED).map(|count| count as u64),
        })
    }

    /// The increase since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        let appended = self.appended.zip(before.appended);
        Self {
            stored: self.stored.saturating_sub(before.stored),
            appended: appended.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// The sum of a metric over its labels, `None` if it is not there.
fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest
            .strip_prefix('{')
            .map_or(Some(rest), |labelled| Some(labelled.rsplit_once('}')?.1))?;
        value
            .strip_prefix(' ')?
            .split(' ')
            .next()?
            .parse::<f64>()
            .ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_told_from_longer_names() {
        let text =
            "# HELP a_total x\na_total{p=\"} 7\"} 2\na_total{p=\"b\"} 3\na_total_more 9\nb 1.5\n";
        assert_eq!(sum(text, "a_total"), Some(5.0));
        assert_eq!(sum(text, "b"), Some(1.5));
        assert_eq!(sum(text, "c"), None);
    }
}
