//! Threads of runs: what runs name by their thread, where no message does.
//!
//! A turn is a run whose parent is not in its thread, as the processor resolved it. Its row has the time of the turn's
//! last message, `turn_at`: that is the turn's place in the list, and most rows have none, so an index skips them.
//!
//! Rows that were replaced are read as candidates too, and may say a later time than the current row. So may a turn of
//! a thread that has messages, by which alone its place is decided. Whole threads are read by current rows; the walk
//! finds the place of such a thread further down again.

use std::collections::HashMap;

use clickhouse::Row;
use schemas::filter::FeedbackFilter;
use schemas::fold::full::FullRun;
use schemas::ids::EventId;
use schemas::limits::PREVIEW_CHARS;
use schemas::thread::{GroupedBy, ThreadPlace, ThreadQuery};
use schemas::timestamp::UnixMs;
use schemas::turn_text;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::messages::MessageRecord;
use super::sql;
use super::{LinkedTotals, ThreadRecord, chunks};
use crate::client::Store;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;
use crate::reads::events::{EventsOfRun, NamedRun};
use crate::reads::filter_sql::{Conditions, Value};
use crate::reads::runs::{merged, seek};
use crate::reads::states::run_hash;

/// The key of a run's thread, as `thread_key` of messages.
pub(super) const KEY: &str = "cityHash64(project_id, app_id, thread_id)";
/// Longest time from the start of a turn to its place, as the processor writes it.
pub(super) const TURN_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// Turns whose events are read together, and bytes of these events.
const TURNS_TOGETHER: usize = 100;
const EVENT_BYTES_TOGETHER: usize = 16 << 20;
/// Previews of one page that take a read of events: those that do not tell what was said.
const UNTOLD_PREVIEWS: usize = 50;

/// A thread of runs.
#[derive(Row, Deserialize)]
struct WholeTurns {
    key: u64,
    project_id: String,
    app_id: String,
    name: String,
    agent: String,
    user_email: String,
    messages: u64,
    first_ms: i64,
    last_ms: i64,
    /// The last turn.
    run_id: String,
    started_at_ms: i64,
    question: String,
    answer: String,
}

/// One turn of a thread.
#[derive(Clone, Debug, Row, Deserialize)]
pub(super) struct Turn {
    pub(super) run_id: String,
    started_at_ms: i64,
    ended_at_ms: i64,
    /// Beginnings of input and output; empty for none.
    question: String,
    answer: String,
}

impl Turn {
    /// How many messages it has.
    pub(super) fn messages(&self) -> usize {
        usize::from(!self.question.is_empty()) + usize::from(!self.answer.is_empty())
    }
}

/// A run of one project and app whose input and output are wanted.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    run_id: &'a str,
    started_at_ms: i64,
}

/// Project and app of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) project: &'a str,
    pub(super) app: &'a str,
}

/// What was said in a turn.
#[derive(Clone, Debug, Default)]
struct Texts {
    question: Option<String>,
    answer: Option<String>,
}

/// The last turn of a thread, whose text is its preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastTurn {
    run_id: String,
    started_at_ms: i64,
    has_answer: bool,
}

impl WholeTurns {
    fn into_thread(self) -> ThreadRecord {
        let has_answer = !self.answer.is_empty();
        ThreadRecord {
            project_id: self.project_id,
            app_id: self.app_id,
            place: ThreadPlace {
                ended_at_ms: self.last_ms,
                grouped_by: GroupedBy::ThreadId,
                key: self.key,
            },
            name: self.name,
            agent: self.agent,
            user_email: self.user_email,
            first: (self.first_ms, 0),
            last: (self.last_ms, 0),
            messages: self.messages,
            totals: LinkedTotals::default(),
            preview: if has_answer {
                self.answer
            } else {
                self.question
            },
            last_turn: Some(LastTurn {
                run_id: self.run_id,
                started_at_ms: self.started_at_ms,
                has_answer,
            }),
        }
    }
}

impl Store {
    /// The threads of these names that no message names, and that satisfy the query.
    pub(super) async fn threads_of_runs(
        &self,
        scope: &Conditions,
        names: &[&str],
        query: &ThreadQuery,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        let holds = sql::holds(scope, query);
        let mut threads = Vec::new();
        for names in chunks(names) {
            let named = named(names);
            let rows = current_turns(
                scope.sql(),
                &format!(
                    "{KEY} AS key, project_id AS project, app_id AS app, thread_id AS name, agent AS of_agent, \
                     user_email AS of_user, toUnixTimestamp64Milli(started_at) AS started_ms, turn_at AS at, \
                     run_id AS run, input_preview AS question, output_preview AS answer, \
                     cityHash64(project_id, app_id, run_id) AS of_run"
                ),
            );
            let sql = format!(
                "SELECT key, any(project), any(app), any(name), argMaxIf(of_agent, (at, run), of_agent != ''), \
                   argMaxIf(of_user, (at, run), of_user != ''), \
                   toUInt64(countIf(question != '') + countIf(answer != '')), min(started_ms), max(at), \
                   argMax(run, (at, run)) AS last_run, argMax(started_ms, (at, run)), \
                   argMax(question, (at, run)), argMax(answer, (at, run)) \
                 FROM ({rows}) \
                 WHERE key NOT IN (SELECT thread_key FROM messages WHERE {scope} AND thread_id IN {{names:Array(String)}}) \
                 GROUP BY key HAVING {holds}",
                scope = scope.sql(),
                holds = holds.sql(),
            );
            let query = self.turn_query(&sql);
            let found: Vec<WholeTurns> = holds.fill(named.fill(scope.fill(query))).rows().await?;
            threads.extend(found.into_iter().map(WholeTurns::into_thread));
        }
        Ok(threads)
    }

    /// The first turns of one thread, in order.
    pub(super) async fn turns_of_thread(
        &self,
        scope: &Conditions,
        name: &str,
        most: usize,
    ) -> Result<Vec<Turn>, StoreError> {
        let named = named(&[name]);
        let rows = current_turns(
            scope.sql(),
            "run_id, toUnixTimestamp64Milli(started_at) AS started_ms, turn_at, input_preview, output_preview",
        );
        let sql = format!("SELECT * FROM ({rows}) ORDER BY started_ms, run_id LIMIT {most}");
        named.fill(scope.fill(self.turn_query(&sql))).rows().await
    }

    pub(super) fn turn_query(&self, sql: &str) -> BoundedQuery {
        sql::grouped(merged(seek(self.bounded_query(sql))))
    }

    /// Question and answer of each turn, as many from the first as have together at most `max_bytes`.
    pub(super) async fn messages_of_turns(
        &self,
        owner: Owner<'_>,
        turns: &[Turn],
        max_bytes: usize,
    ) -> Result<Vec<MessageRecord>, StoreError> {
        let mut messages = Vec::with_capacity(2 * turns.len());
        let mut bytes = 0;
        'turns: for chunk in turns.chunks(TURNS_TOGETHER) {
            let asked = chunk.iter().map(|turn| Asked {
                run_id: &turn.run_id,
                started_at_ms: turn.started_at_ms,
            });
            let mut texts = self.texts(owner, asked.collect()).await?;
            for turn in chunk {
                let Texts { question, answer } = texts.remove(&turn.run_id).unwrap_or_default();
                let event_id = u128::from(run_hash(owner.project, owner.app, &turn.run_id)) << 1;
                // As counted in the list, which knows the beginnings.
                for (role, text, preview, timestamp) in [
                    ("user", question, &turn.question, turn.started_at_ms),
                    ("assistant", answer, &turn.answer, turn.ended_at_ms),
                ] {
                    if preview.is_empty() {
                        continue;
                    }
                    let content = text.unwrap_or_else(|| preview.clone());
                    bytes += content.len();
                    if bytes > max_bytes {
                        break 'turns;
                    }
                    messages.push(MessageRecord {
                        event_id: event_id | u128::from(role == "assistant"),
                        timestamp,
                        run_id: turn.run_id.clone(),
                        role: role.to_owned(),
                        content,
                    });
                }
            }
        }
        // Turns may overlap. The order of turns decides between messages of one moment, so this keeps it.
        messages.sort_by_key(|message| message.timestamp);
        Ok(messages)
    }

    /// Replaces the previews of threads of runs that do not tell what was said: the beginning of an object, or of a
    /// list of messages.
    pub(super) async fn tell_previews(
        &self,
        threads: &mut [ThreadRecord],
    ) -> Result<(), StoreError> {
        let mut untold: HashMap<(String, String), Vec<usize>> = HashMap::new();
        let mut count = 0;
        for (at, thread) in threads.iter_mut().enumerate() {
            let Some(last) = &thread.last_turn else {
                continue;
            };
            if !thread.preview.starts_with(['[', '{']) {
                continue;
            }
            if let Ok(whole) = serde_json::from_str::<&RawValue>(&thread.preview) {
                let told = match last.has_answer {
                    true => turn_text::answer(whole),
                    false => turn_text::question(whole),
                };
                if let Some(told) = told {
                    thread.preview = told;
                }
            } else if count < UNTOLD_PREVIEWS {
                count += 1;
                let owner = (thread.project_id.clone(), thread.app_id.clone());
                untold.entry(owner).or_default().push(at);
            }
        }
        for ((project, app), places) in untold {
            let owner = Owner {
                project: &project,
                app: &app,
            };
            let asked = places
                .iter()
                .filter_map(|at| threads[*at].last_turn.as_ref())
                .map(|last| Asked {
                    run_id: &last.run_id,
                    started_at_ms: last.started_at_ms,
                });
            let mut texts = self.texts(owner, asked.collect()).await?;
            for at in places {
                let thread = &mut threads[at];
                let Some(last) = &thread.last_turn else {
                    continue;
                };
                let Texts { question, answer } = texts.remove(&last.run_id).unwrap_or_default();
                let told = if last.has_answer { answer } else { question };
                if let Some(told) = told {
                    thread.preview = told.chars().take(PREVIEW_CHARS).collect();
                }
            }
        }
        Ok(())
    }

    /// Question and answer of runs, from their events. What is no text is JSON.
    async fn texts(
        &self,
        owner: Owner<'_>,
        runs: Vec<Asked<'_>>,
    ) -> Result<HashMap<String, Texts>, StoreError> {
        let mut folded: HashMap<String, FullRun> = HashMap::new();
        let mut open = vec![runs];
        while let Some(mut runs) = open.pop() {
            let Some(first) = runs.first().copied() else {
                continue;
            };
            let named: Vec<NamedRun<'_>> = runs
                .iter()
                .map(|run| NamedRun {
                    app: owner.app,
                    run_id: run.run_id,
                    started_at: run.started_at_ms,
                })
                .collect();
            let events = self.events_of_runs(owner.project, &named, EVENT_BYTES_TOGETHER);
            match events.await? {
                Some(events) => {
                    for event in &events {
                        let run = folded.entry(event.run_id.clone()).or_default();
                        apply(run, event.event_id, &event.payload);
                    }
                }
                None if runs.len() > 1 => {
                    let half = runs.split_off(runs.len() / 2);
                    open.extend([runs, half]);
                }
                // A single run has its own bounds, at which its events are cut.
                None => {
                    let of = EventsOfRun {
                        project: owner.project,
                        app: owner.app,
                        run_id: first.run_id,
                        first_ms: schemas::limits::EARLIEST_TIMESTAMP_MS,
                        last_ms: LATEST_MS,
                    };
                    let run = folded.entry(first.run_id.to_owned()).or_default();
                    for event in self.events_of_run(of).await?.events {
                        apply(run, event.event_id, &event.payload);
                    }
                }
            }
        }
        let texts = folded.into_iter().map(|(run_id, run)| {
            let texts = Texts {
                question: run.input().map(|input| text(input, turn_text::question)),
                answer: run.output().map(|output| text(output, turn_text::answer)),
            };
            (run_id, texts)
        });
        Ok(texts.collect())
    }
}

/// Later than any accepted timestamp, within the range of the column: 2299-12-31.
const LATEST_MS: UnixMs = 10_413_705_600_000;

fn apply(run: &mut FullRun, event_id: u128, payload: &[u8]) {
    let Ok(payload) = std::str::from_utf8(payload) else {
        return;
    };
    let Ok(fields) = serde_json::from_str(payload) else {
        return;
    };
    if let Ok(event) = schemas::event::Event::from_fields(fields, 0, i64::MAX / 2) {
        run.apply(&event, EventId(event_id));
    }
}

fn text(json: &str, find: fn(&RawValue) -> Option<String>) -> String {
    let value = serde_json::from_str::<&RawValue>(json).ok();
    let told = value.and_then(find);
    told.unwrap_or_else(|| serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()))
}

/// The current rows of the turns of the threads in `names`, with these columns.
pub(super) fn current_turns(scope: &str, columns: &str) -> String {
    let of_names = "turn_at > 0 AND thread_id IN {names:Array(String)}";
    format!(
        "SELECT {columns} FROM runs FINAL PREWHERE {scope} AND (started_at, run_id) IN (\
           SELECT started_at, run_id FROM runs WHERE {scope} AND is_deleted = 0 AND {of_names}) \
         WHERE {of_names}"
    )
}

pub(super) fn named(names: &[&str]) -> Conditions {
    let mut named = Conditions::default();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    named.give("names", Value::Texts(names));
    named
}

/// The condition on a turn for its thread to be a candidate: a little wider than the query.
pub(super) fn filter(scope: &Conditions, query: &ThreadQuery) -> Conditions {
    let scope = scope.sql();
    let mut filter = Conditions::default();
    let threads = |which: &str| {
        format!("{KEY} IN (SELECT {KEY} FROM runs WHERE {scope} AND turn_at > 0 AND {which})")
    };
    for (sql, name, value) in [
        ("agent = {agent:String}", "agent", &query.agent),
        ("user_email = {user:String}", "user", &query.user_email),
    ] {
        if let Some(value) = value {
            filter.and_with(&threads(sql), name, Value::Text(value.clone()));
        }
    }
    match query.feedback {
        None | Some(FeedbackFilter::None) => {}
        Some(feedback) => {
            let judged = sql::judged(scope, feedback);
            let which = format!("cityHash64(project_id, app_id, run_id) IN ({judged})");
            filter.and(&threads(&which));
        }
    }
    filter
}
