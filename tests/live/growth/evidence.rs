//! What a failed comparison leaves behind: where the records of wrong rows lie in the topic, and what is committed.

use std::collections::BTreeSet;
use std::time::Duration;

use eventlog::{Fetch, KafkaConfig, KafkaLog, Log, Position};
use prometheus::Registry;

use super::expected::Difference;
use crate::deployment::Deployment;

/// Prints the lag of each partition, and the records that name the app and the run of these rows.
pub(super) async fn show(deployment: &Deployment, wrong: &[Difference]) {
    let config = KafkaConfig::new(deployment.kafka.bootstrap(), "spindle.events");
    let log = KafkaLog::open(config, &Registry::new()).await.unwrap();
    for lag in log.lag("processor").await.unwrap() {
        eprintln!("{lag:?}");
    }
    let runs: BTreeSet<(&str, String)> = wrong
        .iter()
        .filter_map(|wrong| {
            let mut columns = wrong.row.split('\t');
            Some((columns.next()?, format!("\"{}\"", columns.next()?)))
        })
        .collect();
    let bounds = log.bounds().await.unwrap().into_iter();
    let begins = bounds.map(|bounds| Position {
        partition: bounds.partition,
        offset: bounds.begin,
    });
    let mut reader = log.reader(begins.collect()).await.unwrap();
    let fetch = Fetch {
        max_bytes: 4 << 20,
        max_wait: Duration::from_secs(2),
    };
    loop {
        let records = reader.next(fetch).await.unwrap();
        if records.is_empty() {
            return;
        }
        for stored in records {
            let key = String::from_utf8_lossy(&stored.record.key);
            let payload = String::from_utf8_lossy(&stored.record.payload);
            let names = |(app, run): &&(&str, String)| key.ends_with(app) && payload.contains(run);
            for (app, run) in runs.iter().filter(names) {
                let headers = stored.record.headers.iter().map(|(name, _)| name);
                let headers: Vec<&String> = headers.collect();
                eprintln!("{:?} names {run} of {app}, {headers:?}", stored.position);
            }
        }
    }
}
