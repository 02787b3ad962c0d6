//! The command that scans the platform and prints a table.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use super::server::{Access, Ask, Server};

#[derive(Args)]
pub(crate) struct DiscoverArgs {
    #[command(flatten)]
    access: Access,
}

pub(super) async fn run(args: DiscoverArgs) -> anyhow::Result<()> {
    let access = args.access;
    let ask = Ask::get("/api/platform/discover");
    let answer = Server::of(&access)?.ask(&ask).await?;
    if access.json {
        println!("{answer}");
    } else {
        print!("{}", rendered(&serde_json::from_str(&answer)?));
    }
    Ok(())
}

/// The report as text.
fn rendered(report: &Value) -> String {
    let mut rows = vec![["", "STATUS", "VERSION", "WHERE", ""].map(str::to_owned)];
    let services = report["services"].as_object();
    for (key, service) in services.into_iter().flatten() {
        rows.push([
            key.clone(),
            text(&service["status"]),
            text(&service["version"]),
            text(&service["endpoint"]),
            text(&service["error"]),
        ]);
    }
    let systems = ["infrastructure", "externalIntegrations"].map(|part| report[part].as_object());
    for (key, system) in systems.into_iter().flatten().flatten() {
        let place = match &system["endpoint"] {
            Value::Null => &system["type"],
            endpoint => endpoint,
        };
        rows.push([
            key.clone(),
            text(&system["status"]),
            text(&system["version"]),
            text(place),
            figures(system),
        ]);
    }
    let mut all = table(&rows);
    let summary = &report["summary"];
    // Writing to a String cannot fail.
    let _ = writeln!(
        all,
        "\n{} services: {} healthy, {} unhealthy. {} new, {} changes of configuration, {} issues. Took {}.",
        report["totalServices"],
        report["healthyServices"],
        report["unhealthyServices"],
        summary["newServicesFound"],
        summary["configurationChanges"],
        summary["issuesDetected"],
        text(&summary["scanDuration"]),
    );
    let recommendations = summary["recommendations"].as_array();
    for recommendation in recommendations.into_iter().flatten() {
        let _ = writeln!(all, "- {}", text(recommendation));
    }
    all
}

/// The figures of a system.
fn figures(system: &Value) -> String {
    let (pool, memory) = (&system["connections"], &system["memory"]);
    if pool.is_object() {
        return format!("{} of {} reads under way", pool["active"], pool["max"]);
    }
    if memory.is_object() {
        let (used, free) = (text(&memory["used"]), text(&memory["available"]));
        return format!("{used} used, {free} free");
    }
    let counted = ["brokers", "topics", "buckets"]
        .into_iter()
        .filter_map(|what| {
            let count = system[what].as_u64()?;
            Some(format!("{count} {what}"))
        });
    counted.collect::<Vec<_>>().join(", ")
}

/// Columns side by side, each as wide as its widest cell.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut all = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        all.push_str(cells.join("  ").trim_end());
        all.push('\n');
    }
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_a_table_and_what_to_do() {
        let report = json!({
            "totalServices": 2, "healthyServices": 1, "unhealthyServices": 1,
            "services": {
                "a": {"status": "healthy", "version": "1.0", "endpoint": "http://a"},
                "svcCms": {"status": "unhealthy", "version": "unknown", "endpoint": "http://cms", "error": "timed out after 3 s"},
            },
            "infrastructure": {
                "database": {"type": "ClickHouse", "status": "healthy", "version": "26.1", "connections": {"active": 1, "idle": 31, "max": 32}},
                "messageBroker": {"type": "kafka", "status": "healthy", "version": "unknown", "brokers": 3, "topics": 9},
                "cacheStore": {"type": "in-memory", "status": "healthy", "version": "0.1.0", "memory": {"used": "1.0 MiB", "available": "2.0 MiB"}},
            },
            "externalIntegrations": {"documentStorage": {"status": "healthy", "endpoint": "http://s3", "buckets": 2}},
            "summary": {"scanDuration": "0.100s", "newServicesFound": 0, "configurationChanges": 1, "issuesDetected": 1, "recommendations": ["Do."]},
        });
        let expected = "                 STATUS     VERSION  WHERE
a                healthy    1.0      http://a
svcCms           unhealthy  unknown  http://cms  timed out after 3 s
database         healthy    26.1     ClickHouse  1 of 32 reads under way
messageBroker    healthy    unknown  kafka       3 brokers, 9 topics
cacheStore       healthy    0.1.0    in-memory   1.0 MiB used, 2.0 MiB free
documentStorage  healthy             http://s3   2 buckets

2 services: 1 healthy, 1 unhealthy. 0 new, 1 changes of configuration, 1 issues. Took 0.100s.
- Do.
";
        let mut sorted: Vec<&str> = expected.lines().collect();
        let rendered = rendered(&report);
        let mut found: Vec<&str> = rendered.lines().collect();
        // The order of an object's keys depends on its parser.
        sorted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, sorted, "{rendered}");
    }
}
