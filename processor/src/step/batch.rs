//! A micro-batch: from decoded events to the runs to write.
//!
//! [`MicroBatch::fold`] is pure. [`super::Working`] loads the stored state of the runs and of related runs, and
//! resolves their lineage.

use std::collections::HashMap;
use std::sync::Arc;

use eventlog::StoredRecord;
use schemas::event::Custom;
use schemas::fold::{self, RunState};
use schemas::ids::{AppId, ProjectId};
use schemas::reprice::{Reprice, Slice};
use serde_json::value::RawValue;

use super::again;
use super::decode::{self, DecodedEvent, EventLine, FeedbackLine, MessageLine, StartLine};
use crate::dead_letter::{Code, Poison};
use crate::run::{KeyMap, Scope};

#[derive(Debug)]
pub struct Delta {
    pub(crate) scope: usize,
    pub(crate) run_id: Arc<str>,
    pub(crate) state: Box<RunState>,
}

/// A run to reprice.
#[derive(Clone, Debug)]
pub struct Repriced {
    pub(crate) scope: usize,
    pub(crate) run_id: Arc<str>,
    /// The start of its stored row when the request was made.
    pub(crate) started_at_ms: i64,
    /// Whether the run is to be priced, or only its relations resolved.
    pub(crate) is_priced: bool,
}

/// A change in a large tree to continue from these runs.
#[derive(Clone, Debug)]
pub struct Resumed {
    pub(crate) scope: usize,
    pub(crate) runs: Vec<Arc<str>>,
    pub(crate) slice: Slice,
}

/// What a micro-batch changes.
#[derive(Debug, Default)]
pub struct Changes {
    pub deltas: KeyMap<Delta>,
    pub repriced: Vec<Repriced>,
    /// Changes in large trees to continue.
    pub resumed: Vec<Resumed>,
}

#[derive(Debug, Default)]
pub struct MicroBatch<'a> {
    pub scopes: Vec<Scope>,
    places: HashMap<(ProjectId, AppId), usize>,
    /// Every readable event.
    pub lines: Vec<EventLine<'a>>,
    pub changes: Changes,
    pub messages: Vec<MessageLine<'a>>,
    pub feedback: Vec<FeedbackLine<'a>>,
    /// The starts of processes that its events report.
    pub starts: Vec<StartLine<'a>>,
    pub poison: Vec<Poison>,
    /// Records that were at least partly readable.
    pub good_records: u64,
    /// Readable events by scope, without events that were processed before.
    pub accepted: Vec<u64>,
}

impl<'a> MicroBatch<'a> {
    /// Pure: the same records give the same batch.
    pub fn fold(records: &'a [StoredRecord]) -> Self {
        let mut batch = Self::default();
        for (at, record) in records.iter().enumerate() {
            let (lines, bad) = (batch.lines.len(), batch.poison.len());
            let added = batch.add(at, record);
            let is_good = batch.lines.len() > lines || batch.poison.len() == bad;
            batch.good_records += u64::from(added.is_ok() && is_good);
            if let Err(reason) = added {
                let header = decode::header(record);
                let events = header.map_or(1, |header| u64::from(header.events));
                batch.poison.push(Poison {
                    record: at,
                    reason,
                    part: None,
                    events,
                    code: Code::Record,
                });
            }
        }
        batch
    }

    fn add(&mut self, at: usize, record: &'a StoredRecord) -> Result<(), String> {
        let header = decode::header(record)?;
        let start = decode::start(record)?;
        let scope = self.scope(&header.project, &header.app, record.position.offset + 1);
        let before = self.lines.len();
        if decode::is_reprice(record) {
            return self.add_reprice(scope, record);
        }
        let Self {
            scopes,
            lines,
            changes,
            messages,
            feedback,
            poison,
            ..
        } = self;
        let mut input = None;
        let each = |decoded: DecodedEvent<'a>| {
            let DecodedEvent { event, id, raw } = decoded;
            input = event.input;
            if event.custom.is_none_or(fold::is_mark) {
                let delta = changes
                    .deltas
                    .entry(scopes[scope].key(&event.run_id))
                    .or_insert_with(|| Delta {
                        scope,
                        run_id: event.run_id.as_ref().into(),
                        state: Box::default(),
                    });
                delta.state.apply(&event, id);
            }
            match event.custom {
                Some(Custom::Chat) => {
                    messages.extend(MessageLine::of(scope, &event, id));
                    // An old client sends the rating of a message along with the message.
                    feedback.extend(FeedbackLine::of(scope, &event, id));
                }
                Some(Custom::Feedback) => feedback.extend(FeedbackLine::of(scope, &event, id)),
                _ => {}
            }
            lines.push(EventLine {
                scope,
                timestamp_ms: event.timestamp_ms,
                run_id: event.run_id,
                id,
                name: event.name,
                raw,
                received_at_ms: header.received_at_ms,
            });
        };
        let bad = |reason, raw: &str| {
            poison.push(Poison {
                record: at,
                reason,
                part: Some(raw.to_owned()),
                events: 1,
                code: Code::Event,
            });
        };
        let outcome = decode::events(record, &header, each, bad);
        // The event of a start has a record to itself.
        if let Some(start) = start
            && outcome.is_ok()
        {
            let input = input.map_or("null", RawValue::get);
            self.starts.push(StartLine {
                scope,
                start,
                input,
            });
        }
        if !again::is_again(record) {
            self.accepted[scope] += (self.lines.len() - before) as u64;
        }
        outcome
    }

    fn add_reprice(&mut self, scope: usize, record: &StoredRecord) -> Result<(), String> {
        let reprice = Reprice::decode(&record.record.payload).map_err(|error| error.to_string())?;
        if let Some(slice) = reprice.slice {
            let runs = reprice.runs.into_iter();
            self.changes.resumed.push(Resumed {
                scope,
                runs: runs.map(|(run_id, _)| run_id.into()).collect(),
                slice,
            });
            return Ok(());
        }
        let is_priced = !decode::is_recompute(record);
        let runs = reprice.runs.into_iter();
        self.changes
            .repriced
            .extend(runs.map(|(run_id, started_at_ms)| Repriced {
                scope,
                run_id: run_id.into(),
                started_at_ms,
                is_priced,
            }));
        Ok(())
    }

    fn scope(&mut self, project: &ProjectId, app: &AppId, next_offset: u64) -> usize {
        let place = (project.clone(), app.clone());
        let at = *self.places.entry(place).or_insert_with(|| {
            self.scopes
                .push(Scope::new(project.clone(), app.clone(), next_offset));
            self.accepted.push(0);
            self.scopes.len() - 1
        });
        let scope = &mut self.scopes[at];
        scope.next_offset = scope.next_offset.max(next_offset);
        at
    }
}
