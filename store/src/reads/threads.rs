//! Reads of threads: their list, and one with its messages.
//!
//! A thread is never stored. It follows from the set of messages and runs at the time of reading, so it is exact whatever the
//! order of their arrival: a late message that bridges two windows makes them one (decision 0007).
//!
//! A message belongs to the thread that it names. One of an old client that names none, but whose `run_id` another message
//! with a thread has, belongs to that thread: these clients name the thread only with the question. All others are
//! windows.
//!
//! A thread that no message names may be named by runs: then its messages are made of its turns (decision 0029).
//!
//! A list goes backwards through time in growing ranges. In each, the threads whose last message may be there are found
//! by their keys alone; only the threads of the page are then read completely. Rows that are in the table twice until
//! they are merged count once, because events are counted by their identity.

mod candidates;
mod linked;
mod messages;
mod named;
mod speakers;
mod sql;
mod turns;
mod windows;

use std::collections::HashMap;

use clickhouse::Row;
use schemas::money::Dollars;
use schemas::run::Instant;
use schemas::thread::{GroupedBy, Thread, ThreadPlace, ThreadQuery, WindowId};
use schemas::timestamp::{UnixMs, to_text};
use serde::Deserialize;

pub use messages::{MessageRecord, MessagesOfThread, ThreadName};

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Projects, Value, scope};
use candidates::Walk;
pub(crate) use linked::chunks;
use linked::{LinkedTotals, Wanted};
use speakers::Speakers;
use turns::LastTurn;

/// Run ids that the totals of one page of threads cover, and of one thread in a list. A thread with more is marked.
const IDS_OF_PAGE: usize = 5000;
const IDS_OF_LISTED_THREAD: usize = 1000;
/// Run ids that the totals of a single thread cover.
const IDS_OF_THREAD: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The project.
    pub project_id: String,
    pub app_id: String,
    /// Its position in the list.
    pub place: ThreadPlace,
    /// The clients' name, empty for a window.
    pub name: String,
    agent: String,
    user_email: String,
    first: (UnixMs, u128),
    last: (UnixMs, u128),
    messages: u64,
    totals: LinkedTotals,
    preview: String,
    /// Where its messages are made of turns.
    last_turn: Option<LastTurn>,
}

impl ThreadRecord {
    /// The thread on the API.
    pub fn into_thread(self) -> Thread {
        let given = |text: String| (!text.is_empty()).then_some(text);
        Thread {
            project_id: Some(self.project_id),
            thread_id: match self.place.grouped_by {
                GroupedBy::ThreadId => self.name,
                GroupedBy::Window => WindowId {
                    timestamp_ms: self.first.0,
                    event_id: self.first.1,
                }
                .encode(),
            },
            app_id: self.app_id,
            agent: given(self.agent),
            user_email: given(self.user_email),
            started_at: Instant(self.first.0),
            ended_at: Instant(self.last.0),
            message_count: self.messages,
            total_tokens: self.totals.tokens,
            total_cost: Dollars(self.totals.cost),
            totals_truncated: self.totals.truncated,
            preview: given(self.preview),
            grouped_by: self.place.grouped_by,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ListedThreads {
    /// In order.
    pub threads: Vec<ThreadRecord>,
    /// Where to continue, if there are more.
    pub next: Option<ThreadPlace>,
}

/// The parameters of a query of threads.
struct Asked<'a> {
    /// The project (T1), and the app if one is chosen.
    scope: Conditions,
    query: &'a ThreadQuery,
}

impl Store {
    /// One page of the threads in `projects` that satisfy `query`, after `after` if given.
    ///
    /// Bounded in rows, memory and time by each of its queries, and in time as a whole (Q1). Over the pages of a list
    /// no thread is repeated or missed, unless it gets a message meanwhile, which puts it at the front, or an agent or
    /// user from a run, which may make it part of another.
    pub async fn list_threads(
        &self,
        projects: &Projects,
        query: &ThreadQuery,
        after: Option<ThreadPlace>,
    ) -> Result<ListedThreads, StoreError> {
        let limit = self.config().query_timeout;
        match tokio::time::timeout(limit, self.thread_page(projects, query, after)).await {
            Ok(page) => page,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    async fn thread_page(
        &self,
        projects: &Projects,
        query: &ThreadQuery,
        after: Option<ThreadPlace>,
    ) -> Result<ListedThreads, StoreError> {
        let asked = Asked {
            scope: within(projects, query.app_id.as_deref()),
            query,
        };
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let mut walk = Walk::new(self, &asked, after).await?;
        let mut threads = Vec::new();
        while threads.len() <= limit {
            let Some(found) = walk.next(limit + 1 - threads.len()).await? else {
                break;
            };
            let mut matching = self.matching(&asked, &found, &mut walk).await?;
            matching.sort_by_key(|thread| std::cmp::Reverse(thread.place));
            threads.extend(matching);
        }
        let has_more = threads.len() > limit;
        threads.truncate(limit);
        let wanted = Wanted {
            ids_of_thread: IDS_OF_LISTED_THREAD,
            ids: IDS_OF_PAGE,
            may_inherit: walk.may_inherit(),
            speakers: walk.speakers().so_far().await,
        };
        self.complete(&asked.scope, &mut threads, wanted).await?;
        let next = threads
            .last()
            .filter(|_| has_more)
            .map(|thread| thread.place);
        Ok(ListedThreads { threads, next })
    }

    /// The candidates that match the query: complete, their last message where it was found.
    async fn matching(
        &self,
        asked: &Asked<'_>,
        found: &[ThreadPlace],
        walk: &mut Walk<'_>,
    ) -> Result<Vec<ThreadRecord>, StoreError> {
        let (named, windows): (Vec<ThreadPlace>, Vec<ThreadPlace>) = found
            .iter()
            .partition(|place| place.grouped_by == GroupedBy::ThreadId);
        let names = walk.names_of(&named);
        let (mut threads, of_runs, windows) = tokio::try_join!(
            self.named_threads(asked, &named, walk.may_inherit()),
            self.threads_of_runs(&asked.scope, &names, asked.query),
            self.window_threads(asked, &windows, walk.may_inherit(), walk.speakers())
        )?;
        threads.extend(of_runs);
        let found: HashMap<u64, ThreadPlace> =
            named.into_iter().map(|place| (place.key, place)).collect();
        threads.retain(|thread| {
            let found = found.get(&thread.place.key);
            found.is_some_and(|found| walk.takes(&thread.place, found))
        });
        threads.extend(windows);
        Ok(threads)
    }

    /// Adds what only returned threads need: the beginning of the last message, and the totals of their runs.
    async fn complete(
        &self,
        scope: &Conditions,
        threads: &mut [ThreadRecord],
        wanted: Wanted,
    ) -> Result<(), StoreError> {
        if threads.is_empty() {
            return Ok(());
        }
        let (last, said) = tokio::try_join!(
            self.last_messages(scope, threads, wanted.speakers),
            self.said_runs(scope, threads, wanted)
        )?;
        for thread in threads.iter_mut() {
            if thread.last_turn.is_some() {
                continue;
            }
            let Some(last) = last.get(&thread.last.1) else {
                continue;
            };
            thread.preview.clone_from(&last.preview);
            if thread.place.grouped_by == GroupedBy::Window {
                thread.project_id.clone_from(&last.project_id);
                thread.app_id.clone_from(&last.app_id);
                thread.agent.clone_from(&last.agent);
                thread.user_email.clone_from(&last.user_email);
            }
        }
        self.tell_previews(threads).await?;
        let totals = self.totals(scope, threads, said, wanted).await?;
        for (thread, totals) in threads.iter_mut().zip(totals) {
            thread.totals = totals;
        }
        Ok(())
    }

    /// The last message of each thread, by its event.
    async fn last_messages(
        &self,
        scope: &Conditions,
        threads: &[ThreadRecord],
        speakers: Speakers,
    ) -> Result<HashMap<u128, LastMessage>, StoreError> {
        let mut at = scope.clone();
        let times = threads.iter().map(|thread| column_text(thread.last.0));
        let events = threads.iter().map(|thread| thread.last.1.to_string());
        at.and_with(
            "timestamp IN {last_times:Array(DateTime64(3, 'UTC'))}",
            "last_times",
            Value::Texts(times.collect()),
        );
        at.and_with(
            "toString(event_id) IN {last_events:Array(String)}",
            "last_events",
            Value::Texts(events.collect()),
        );
        let sql = format!(
            "SELECT event_id, project_id, app_id, agent, user_email, substringUTF8(content, 1, {}) AS preview \
             FROM {} WHERE {}",
            schemas::limits::PREVIEW_CHARS,
            speakers.messages(scope.sql(), at.sql()),
            at.sql()
        );
        let query = speakers.settings(self.bounded_query(&sql));
        let rows: Vec<LastMessage> = at.fill(query).rows().await?;
        Ok(rows.into_iter().map(|row| (row.event_id, row)).collect())
    }
}

#[derive(Row, Deserialize)]
struct LastMessage {
    event_id: u128,
    project_id: String,
    app_id: String,
    agent: String,
    user_email: String,
    preview: String,
}

/// The projects that may be read (T1), and the app if one is chosen. Holds for messages, feedback and runs alike.
fn within(projects: &Projects, app_id: Option<&str>) -> Conditions {
    let mut within = scope(projects);
    if let Some(app_id) = app_id {
        within.and_with(
            "app_id = {app:String}",
            "app",
            Value::Text(app_id.to_owned()),
        );
    }
    within
}

/// A time in the format of the column.
fn column_text(time_ms: UnixMs) -> String {
    to_text(time_ms).replace('T', " ").replace('Z', "")
}
