//! How far a job is, for people: a bar on a terminal, a line now and then elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Cells of the bar.
const BAR_CELLS: u64 = 30;
/// Pause between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows one job on standard error.
pub(super) struct Progress {
    is_terminal: bool,
    /// When the last line was written, and what it said.
    last: Option<(Instant, String)>,
}

impl Progress {
    /// Begins with the job's name.
    pub(super) fn new(job: &Value) -> Self {
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        eprintln!("job {} ({})", text("job_id"), text("kind"));
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Shows how far it is now.
    pub(super) fn show(&mut self, job: &Value) {
        let line = line(job);
        if self.is_terminal {
            eprint!("\r\x1b[2K{} {line}", bar(job));
            // Only decoration: if it cannot be written there is nobody to see it.
            let _ = std::io::stderr().flush();
            return;
        }
        let is_news = self
            .last
            .as_ref()
            .is_none_or(|(at, said)| *said != line && at.elapsed() >= LINE_INTERVAL);
        if is_news {
            eprintln!("{line}");
            self.last = Some((Instant::now(), line));
        }
    }

    /// Shows the end.
    pub(super) fn end(&mut self, job: &Value) {
        match self.is_terminal {
            true => eprintln!("\r\x1b[2K{} {}", bar(job), line(job)),
            false => eprintln!("{}", line(job)),
        }
    }
}

fn number(job: &Value, name: &str) -> u64 {
    job[name].as_u64().unwrap_or(0)
}

fn bar(job: &Value) -> String {
    let (done, total) = (number(job, "done"), number(job, "total"));
    let full = match total {
        0 => 0,
        total => BAR_CELLS * done.min(total) / total,
    };
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    format!("[{}{}]", cells(full, "="), cells(BAR_CELLS - full, " "))
}

fn line(job: &Value) -> String {
    let state = job["state"].as_str().unwrap_or_default();
    let (done, total) = (number(job, "done"), number(job, "total"));
    let mut line = state.to_owned();
    if total > 0 {
        // Writing to a String cannot fail.
        let _ = write!(line, " {done} of {total}");
    }
    let changed = number(job, "changed");
    if changed > 0 {
        let _ = write!(line, ", {changed} {}", changed_word(job));
    }
    line
}

fn changed_word(job: &Value) -> &'static str {
    match job["kind"].as_str() {
        Some("retention") => "rows go",
        Some("rebuild" | "check") => "runs differ",
        _ => "runs cost something else",
    }
}

/// Whether the job did what it was asked to; a check also has to have found nothing.
pub(super) fn is_good(job: &Value) -> bool {
    job["state"] == "done" && (job["kind"] != "check" || number(job, "changed") == 0)
}

/// What is printed of a job in the words of the server.
#[derive(Deserialize)]
struct Outcome {
    error: Option<String>,
    cost_before: Option<Box<RawValue>>,
    cost_after: Option<Box<RawValue>>,
    report: Option<Value>,
}

/// What came of it, a line for each thing.
pub(super) fn outcome(job: &str) -> serde_json::Result<String> {
    let job: Outcome = serde_json::from_str(job)?;
    let mut text = String::new();
    let costs = [
        ("cost before", &job.cost_before),
        ("cost after", &job.cost_after),
    ];
    for (word, cost) in costs {
        if let Some(cost) = cost {
            let _ = writeln!(text, "{word}: {} USD", cost.get());
        }
    }
    if let Some(error) = &job.error {
        let _ = writeln!(text, "error: {error}");
    }
    let report = job.report.unwrap_or_default();
    for (name, value) in report.as_object().into_iter().flatten() {
        match value {
            Value::Array(rows) => {
                for row in rows {
                    let _ = writeln!(text, "{name}: {}", fields(row));
                }
            }
            Value::String(value) => {
                let _ = writeln!(text, "{}: {value}", name.replace('_', " "));
            }
            value => {
                let _ = writeln!(text, "{}: {value}", name.replace('_', " "));
            }
        }
    }
    Ok(text)
}

fn fields(row: &Value) -> String {
    let fields = row.as_object().into_iter().flatten();
    let fields: Vec<String> = fields
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            value => format!("{name}={value}"),
        })
        .collect();
    fields.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bar_is_as_full_as_the_job_is_far() {
        let at = |done, total| bar(&json!({"done": done, "total": total}));
        assert_eq!(at(0, 0), format!("[{}]", " ".repeat(30)));
        assert_eq!(at(5, 10), format!("[{}{}]", "=".repeat(15), " ".repeat(15)));
        assert_eq!(at(11, 10), format!("[{}]", "=".repeat(30)), "never beyond");
    }

    #[test]
    fn a_check_that_found_something_is_not_good() {
        let job = |kind, state, changed| json!({"kind": kind, "state": state, "changed": changed});
        assert!(is_good(&job("check", "done", 0)) && is_good(&job("recalculate", "done", 7)));
        assert!(!is_good(&job("check", "done", 1)));
        assert!(
            !is_good(&job("rebuild", "failed", 0)) && !is_good(&job("retention", "cancelled", 0))
        );
    }

    #[test]
    fn costs_are_printed_with_every_digit() {
        let job = r#"{"cost_before": 123456789.123456789012345678, "cost_after": 0, "error": null, "report": null}"#;
        assert_eq!(
            outcome(job).unwrap(),
            "cost before: 123456789.123456789012345678 USD\ncost after: 0 USD\n"
        );
    }
}
