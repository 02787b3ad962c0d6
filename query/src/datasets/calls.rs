//! The model calls of a dataset as lines for fine-tuning, and the report on those that cannot be one.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use schemas::run::{self, Run};
use serde::Serialize;
use store::StoreError;
use store::reads::runs::RunRecord;
use utoipa::ToSchema;

use super::chat::{self, LeftOut};
use super::whole::{Reader, together};
use crate::export::{Encoder, Records, Row, RowSource};

/// Approximate number of model calls that are read together.
const CALLS_TOGETHER: usize = 1000;
/// Runs in a report.
const EXAMPLES: usize = 20;
/// Time for one report; the next one continues after its last run.
const REPORT_TIME: Duration = Duration::from_secs(8);

/// The saved runs, or the model calls below them.
pub(crate) struct ModelCalls {
    records: Records,
    reader: Reader,
    with_children: bool,
    waiting: VecDeque<RunRecord>,
    /// The last saved run whose calls were returned.
    last: Option<ExportRow>,
    runs: u64,
}

impl ModelCalls {
    pub(crate) fn new(records: Records, reader: Reader, with_children: bool) -> Self {
        Self {
            records,
            reader,
            with_children,
            waiting: VecDeque::new(),
            last: None,
            runs: 0,
        }
    }

    /// The model calls below a saved run that are not below a nearer saved run, so that each occurs once.
    async fn below(&self, record: RunRecord) -> Result<Vec<RunRecord>, StoreError> {
        let top = record.run_id.clone();
        let tree = self.reader.store.tree(record).await?;
        let runs: HashMap<String, Run> = tree
            .runs
            .iter()
            .map(|run| (run.run_id.clone(), run.clone().into_run(self.reader.now_ms)))
            .collect();
        let is_nearest = |call: &RunRecord| {
            let mut passed = HashSet::new();
            let mut at = call.run_id.as_str();
            while at != top && passed.insert(at) {
                match runs.get(at) {
                    Some(run) if !run.saved => match &run.parent_run_id {
                        Some(parent) => at = parent,
                        None => return false,
                    },
                    _ => return false,
                }
            }
            at == top
        };
        let calls = tree.runs.iter().filter(|run| run.r#type == "llm");
        Ok(calls.filter(|run| is_nearest(run)).cloned().collect())
    }
}

impl RowSource for ModelCalls {
    async fn next(&mut self) -> Result<Vec<Row>, StoreError> {
        if self.waiting.is_empty() {
            self.waiting = self.records.next().await?.into();
        }
        let mut rows = Vec::new();
        while rows.is_empty() && !self.waiting.is_empty() {
            // Trees are read one by one, so fewer runs are read together.
            let mut calls = Vec::new();
            while calls.len() < CALLS_TOGETHER
                && let Some(record) = self.waiting.front().cloned()
            {
                if self.with_children && record.r#type != "llm" {
                    let below = self.below(record.clone()).await?;
                    if below.is_empty() {
                        calls.push(record.clone());
                    }
                    calls.extend(below);
                } else {
                    calls.push(record.clone());
                }
                self.last = Some(ExportRow::of(&record));
                self.runs += 1;
                self.waiting.pop_front();
            }
            let mut calls = VecDeque::from(calls);
            while !calls.is_empty() {
                rows.extend(self.reader.rows(together(&mut calls)).await?);
            }
        }
        Ok(rows)
    }
}

fn line(row: &Row) -> Result<serde_json::Value, LeftOut> {
    if row.run.kind.as_deref() != Some("llm") {
        return Err(LeftOut::NotLlm);
    }
    let whole = row.whole.as_ref();
    let input = whole.and_then(|whole| whole.input.as_ref());
    let output = whole.and_then(|whole| whole.output.as_ref());
    chat::line(input.map(|json| json.get()), output.map(|json| json.get()))
}

/// Writes a line for each model call that the format can represent.
pub(crate) struct ChatLines;

impl Encoder for ChatLines {
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()> {
        for line in rows.iter().filter_map(|row| line(row).ok()) {
            serde_json::to_writer(&mut *out, &line)?;
            out.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// Content of an export for fine-tuning.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct ChatReport {
    /// Checked saved runs.
    runs: u64,
    /// Lines of the export.
    lines: u64,
    /// Runs and model calls without a line.
    left_out: u64,
    /// Their number by reason: `not_llm`, `no_input`, `input_shape`, `no_output`, `output_shape`.
    reasons: BTreeMap<&'static str, u64>,
    /// The first of them, at most 20.
    examples: Vec<LeftOutRun>,
    /// Whether all runs were checked. If not, continue with the `after_` parameters of `last`.
    complete: bool,
    /// The last checked saved run.
    last: Option<ExportRow>,
}

/// A run without a line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeftOutRun {
    app_id: String,
    run_id: String,
    reason: &'static str,
}

/// The row after which an export continues.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ExportRow {
    /// For `after_started_at`.
    #[schema(value_type = String, format = DateTime)]
    started_at: run::Instant,
    /// For `after_project_id`.
    project_id: String,
    /// For `after_app_id`.
    app_id: String,
    /// For `after_run_id`.
    run_id: String,
}

impl ExportRow {
    fn of(record: &RunRecord) -> Self {
        Self {
            started_at: run::Instant(record.started_at),
            project_id: record.project_id.clone(),
            app_id: record.app_id.clone(),
            run_id: record.run_id.clone(),
        }
    }
}

/// Checks the runs of an export within [`REPORT_TIME`].
pub(crate) async fn report(mut calls: ModelCalls) -> Result<ChatReport, StoreError> {
    let started = Instant::now();
    let mut report = ChatReport::default();
    while started.elapsed() < REPORT_TIME {
        let rows = calls.next().await?;
        if rows.is_empty() {
            report.complete = true;
            break;
        }
        for row in rows {
            match line(&row) {
                Ok(_) => report.lines += 1,
                Err(reason) => {
                    report.left_out += 1;
                    *report.reasons.entry(reason.as_str()).or_default() += 1;
                    if report.examples.len() < EXAMPLES {
                        report.examples.push(LeftOutRun {
                            app_id: row.run.app_id,
                            run_id: row.run.run_id,
                            reason: reason.as_str(),
                        });
                    }
                }
            }
        }
    }
    report.runs = calls.runs;
    report.last = calls.last;
    Ok(report)
}
