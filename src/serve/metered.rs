//! The metric registries of a process, and their combined output.

use std::collections::BTreeMap;

use anyhow::Context;
use prometheus::Registry;
use prometheus::proto::MetricFamily;

/// Label with the name of the log, like topics of Kafka have it.
const LOG_LABEL: &str = "topic";

/// The embedded logs, which all have the same metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogName {
    Events,
    /// The dead letters.
    DeadLetter,
}

/// One registry for the process, and one for each embedded log. Clones are the same.
#[derive(Clone)]
pub(crate) struct Metered {
    /// Metrics that exist once.
    pub(crate) own: Registry,
    logs: [Registry; 2],
}

impl Metered {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let of_log = |name: &str| {
            let labels = [(LOG_LABEL.to_owned(), name.to_owned())];
            Registry::new_custom(None, Some(labels.into())).context("cannot create the metrics")
        };
        Ok(Self {
            own: Registry::new(),
            logs: [of_log("events")?, of_log("dead-letter")?],
        })
    }

    /// The registry of a log, whose metrics carry its name.
    pub(crate) fn of(&self, name: LogName) -> &Registry {
        match name {
            LogName::Events => &self.logs[0],
            LogName::DeadLetter => &self.logs[1],
        }
    }

    /// All metrics, by name.
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
        let all = std::iter::once(&self.own).chain(&self.logs);
        for mut family in all.flat_map(Registry::gather) {
            match families.get_mut(family.name()) {
                Some(known) => known.mut_metric().append(&mut family.take_metric()),
                None => {
                    families.insert(family.name().to_owned(), family);
                }
            }
        }
        families.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder, IntCounter, TextEncoder};

    use super::*;

    #[test]
    fn the_same_metric_of_two_logs_is_one_family_with_their_names() {
        let metered = Metered::new().unwrap();
        for (at, name) in [LogName::Events, LogName::DeadLetter]
            .into_iter()
            .enumerate()
        {
            let counter = IntCounter::new("appended_total", "Appended").unwrap();
            counter.inc_by(at as u64 + 1);
            metered.of(name).register(Box::new(counter)).unwrap();
        }
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&metered.gather(), &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("# TYPE appended_total").count(), 1, "{text}");
        for line in [
            "appended_total{topic=\"events\"} 1",
            "appended_total{topic=\"dead-letter\"} 2",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
