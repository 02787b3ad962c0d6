//! Progress of a job on standard error: a bar on a terminal, a line every few seconds elsewhere.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const BAR: &str = "[{bar:30}] {msg}";
/// Interval of lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    /// Hidden without a terminal.
    bar: ProgressBar,
    last: Option<(Instant, String)>,
}

impl Progress {
    /// Prints the job's id and kind.
    pub(super) fn new(job: &Value) -> Self {
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        eprintln!("job {} ({})", text("job_id"), text("kind"));
        Self {
            bar: bar(),
            last: None,
        }
    }

    /// Shows the current state.
    pub(super) fn show(&mut self, job: &Value) {
        let line = line(job);
        if !self.bar.is_hidden() {
            update(&self.bar, job);
            self.bar.set_message(line);
            return;
        }
        let is_due = self
            .last
            .as_ref()
            .is_none_or(|(at, last)| *last != line && at.elapsed() >= LINE_INTERVAL);
        if is_due {
            eprintln!("{line}");
            self.last = Some((Instant::now(), line));
        }
    }

    /// Shows the final state, which stays on the terminal.
    pub(super) fn end(&mut self, job: &Value) {
        match self.bar.is_hidden() {
            true => eprintln!("{}", line(job)),
            false => {
                update(&self.bar, job);
                self.bar.abandon_with_message(line(job));
            }
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style.progress_chars("=  "))
}

fn update(bar: &ProgressBar, job: &Value) {
    let (done, total) = (number(job, "done"), number(job, "total"));
    bar.set_length(total);
    bar.set_position(done.min(total));
}

fn number(job: &Value, name: &str) -> u64 {
    job[name].as_u64().unwrap_or(0)
}

fn line(job: &Value) -> String {
    let state = job["state"].as_str().unwrap_or_default();
    let (done, total) = (number(job, "done"), number(job, "total"));
    let mut line = state.to_owned();
    if let Some(position) = job["position"].as_u64() {
        // Writing to a String cannot fail.
        let _ = write!(line, ", number {position} in the queue");
    }
    if total > 0 {
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

/// Whether the job succeeded; a check must also have found no difference.
pub(super) fn is_good(job: &Value) -> bool {
    job["state"] == "done" && (job["kind"] != "check" || number(job, "changed") == 0)
}

/// The printed fields of a job, in the server's words.
#[derive(Deserialize)]
struct Outcome {
    error: Option<String>,
    cost_before: Option<Box<RawValue>>,
    cost_after: Option<Box<RawValue>>,
    report: Option<Value>,
}

/// The result, one line per item.
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
        assert!(ProgressStyle::with_template(BAR).is_ok());
        let at = |done, total| {
            let bar = bar();
            update(&bar, &json!({"done": done, "total": total}));
            (bar.position(), bar.length())
        };
        assert_eq!(at(0, 0), (0, Some(0)));
        assert_eq!(at(5, 10), (5, Some(10)));
        assert_eq!(at(11, 10), (10, Some(10)), "never beyond");
    }

    #[test]
    fn a_queued_job_has_its_place() {
        let queued = json!({"state": "queued", "position": 2, "done": 0, "total": 0});
        assert_eq!(line(&queued), "queued, number 2 in the queue");
        let running = json!({"state": "running", "position": null, "done": 1, "total": 3});
        assert_eq!(line(&running), "running 1 of 3");
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
