//! One thread with its messages and their feedback.

use std::collections::{HashMap, HashSet};

use clickhouse::Row;
use schemas::thread::{GroupedBy, ThreadQuery, WindowId};
use schemas::timestamp::UnixMs;
use serde::Deserialize;

use super::speakers::{SpeakerCheck, Speakers};
use super::sql::{self, Inheritance, MS, PLACE, Stretch};
use super::turns::{self, Owner, Turn};
use super::{IDS_OF_THREAD, ThreadRecord, chunks, column_text, linked, named, within};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::feedback::FeedbackRecord;
use crate::reads::filter_sql::{Conditions, Projects, Value};

/// Messages in one result, and bytes of their content: a bound on memory.
const MESSAGES: usize = 10_000;
const MESSAGES_BYTES: usize = 32 << 20;
/// Turns in one result: each has two messages.
const TURNS: usize = MESSAGES / 2;
/// Messages whose content is read by one query: each may have a megabyte.
const CONTENTS_PER_QUERY: usize = 200;
/// Maximum number of apps in the look-up of one thread id.
const APPS_OF_THREAD: usize = 100;

/// Names a thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadName<'a> {
    /// `None` for the app with the newest message.
    pub app_id: Option<&'a str>,
    /// The clients' name or the id of a window.
    pub thread_id: &'a str,
    /// Only a thread of this kind: a client may name a thread like a window.
    pub grouped_by: Option<GroupedBy>,
}

#[derive(Clone, Debug)]
pub struct MessagesOfThread {
    pub thread: ThreadRecord,
    /// By (timestamp, event id), each once.
    pub messages: Vec<MessageRecord>,
    /// Whether there are more.
    pub cut: bool,
    /// The newest rating by id.
    pub feedback: HashMap<String, FeedbackRecord>,
    /// The ids in messages that are runs.
    pub runs: HashSet<String>,
    /// Other apps of the same project with a thread of this name.
    pub also_in_apps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// Identity of its event.
    pub event_id: u128,
    /// Unix milliseconds.
    pub timestamp: UnixMs,
    /// The run or message id in the event.
    pub run_id: String,
    pub role: String,
    pub content: String,
}

#[derive(Row, Deserialize)]
struct Placed {
    timestamp: i64,
    event_id: u128,
    run_id: String,
    role: String,
}

#[derive(Row, Deserialize)]
struct Content {
    event_id: u128,
    content: String,
}

/// Project and app of a thread, its kind and key.
#[derive(Clone, Debug, Row, Deserialize)]
struct Home {
    project_id: String,
    app_id: String,
    key: u64,
}

/// The message in a window's id.
#[derive(Row, Deserialize)]
struct Naming {
    project_id: String,
    app_id: String,
    key: u64,
    owner: u64,
}

impl Store {
    /// The thread with this name in `projects`. Bounded in messages and bytes (Q1).
    pub async fn thread(
        &self,
        projects: &Projects,
        name: ThreadName<'_>,
    ) -> Result<Option<MessagesOfThread>, StoreError> {
        let limit = self.config().query_timeout;
        match tokio::time::timeout(limit, self.find_thread(projects, name)).await {
            Ok(found) => found,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    async fn find_thread(
        &self,
        projects: &Projects,
        name: ThreadName<'_>,
    ) -> Result<Option<MessagesOfThread>, StoreError> {
        let scope = within(projects, name.app_id);
        if name.grouped_by != Some(GroupedBy::Window) {
            let mut homes = self.homes(&scope, name.thread_id).await?.into_iter();
            if let Some(home) = homes.next() {
                let others = homes
                    .filter(|other| other.project_id == home.project_id)
                    .map(|other| other.app_id)
                    .collect();
                return self.named_thread(home, name.thread_id, others).await;
            }
        }
        if name.grouped_by == Some(GroupedBy::ThreadId) {
            return Ok(None);
        }
        let Some(id) = WindowId::decode(name.thread_id) else {
            return Ok(None);
        };
        let Some(naming) = self.naming(&scope, id).await? else {
            return Ok(None);
        };
        let home = Home {
            project_id: naming.project_id,
            app_id: naming.app_id,
            key: naming.key,
        };
        // The question arrived after the answer: a window's message belongs to a thread by now.
        if naming.owner != 0 {
            let key = naming.owner;
            let home = Home { key, ..home };
            return self.named_thread(home, "", Vec::new()).await;
        }
        self.window(home, id.timestamp_ms).await
    }

    /// The threads with this name, the one with the newest message or turn first.
    async fn homes(&self, scope: &Conditions, thread_id: &str) -> Result<Vec<Home>, StoreError> {
        let turns = turns::current_turns(
            scope.sql(),
            &format!("project_id, app_id, {} AS key, turn_at AS at", turns::KEY),
        );
        let sql = format!(
            "SELECT project_id, app_id, key FROM (\
               SELECT toString(project_id) AS project_id, toString(app_id) AS app_id, key, at FROM (\
                 SELECT project_id, app_id, thread_key AS key, {MS} AS at FROM messages \
                 WHERE {} AND thread_id IN {{names:Array(String)}} \
                 UNION ALL {turns})) \
             GROUP BY project_id, app_id, key ORDER BY max(at) DESC, project_id, app_id LIMIT {APPS_OF_THREAD}",
            scope.sql()
        );
        let named = turns::named(&[thread_id]);
        let query = named.fill(scope.fill(self.turn_query(&sql)));
        query.rows().await
    }

    /// The message in a window's id, and the thread that it belongs to by now, if any.
    async fn naming(&self, scope: &Conditions, id: WindowId) -> Result<Option<Naming>, StoreError> {
        let moment = Stretch {
            from_ms: id.timestamp_ms,
            to_ms: id.timestamp_ms,
        };
        let speakers = SpeakerCheck::new(self, scope).within(moment).await?;
        let mut at = moment.condition();
        at.and_with(
            "event_id = {event:UInt128}",
            "event",
            Value::Text(id.event_id.to_string()),
        );
        // A message has one row, and inherits from at most one run.
        let sql = format!(
            "SELECT project_id, app_id, speaker_key, thread_key FROM {} WHERE {} AND {} LIMIT 1",
            speakers.messages(scope.sql(), at.sql()),
            scope.sql(),
            at.sql()
        );
        let inherited = format!(
            "SELECT owner FROM ({}) LIMIT 1",
            sql::inherited(scope.sql(), at.sql(), Inheritance::LookedUp)
        );
        let fill = |query| at.fill(scope.fill(query));
        let (naming, inherited) = tokio::try_join!(
            fill(speakers.settings(self.bounded_query(&sql))).optional::<Naming>(),
            fill(self.bounded_query(&inherited)).optional::<u64>()
        )?;
        Ok(naming.map(|naming| Naming {
            owner: inherited.unwrap_or(naming.owner),
            ..naming
        }))
    }

    async fn named_thread(
        &self,
        home: Home,
        name: &str,
        also_in_apps: Vec<String>,
    ) -> Result<Option<MessagesOfThread>, StoreError> {
        let scope = home.scope();
        let mut found = self
            .whole_threads(&scope, &[home.key], &Conditions::default(), true)
            .await?;
        let Some(thread) = found.pop() else {
            let found = self.thread_of_runs(&home, name).await?;
            return Ok(found.map(|found| MessagesOfThread {
                also_in_apps,
                ..found
            }));
        };
        let keys = sql::keys([home.key].into_iter());
        let rows = named::rows_of_threads(
            scope.sql(),
            &format!("{MS} AS ms, event_id AS event, run_id AS run, role AS who, {PLACE} AS place"),
            true,
        );
        let sql = format!(
            "SELECT ms, event, run, who FROM ({rows}) ORDER BY place LIMIT 1 BY place LIMIT {}",
            MESSAGES + 1
        );
        let placed = keys
            .fill(scope.fill(sql::grouped(self.bounded_query(&sql))))
            .rows()
            .await?;
        let found = self
            .with_messages(&scope, thread, Speakers::Own, placed)
            .await?;
        Ok(Some(MessagesOfThread {
            also_in_apps,
            ..found
        }))
    }

    /// The thread of this name whose messages are made of its turns.
    async fn thread_of_runs(
        &self,
        home: &Home,
        name: &str,
    ) -> Result<Option<MessagesOfThread>, StoreError> {
        let scope = home.scope();
        let (names, any) = ([name], ThreadQuery::default());
        let (mut threads, mut turns) = tokio::try_join!(
            self.threads_of_runs(&scope, &names, &any),
            self.turns_of_thread(&scope, name, TURNS + 1)
        )?;
        threads.truncate(1);
        let mut cut = turns.len() > TURNS;
        turns.truncate(TURNS);
        let ids: Vec<&str> = turns.iter().map(|turn| turn.run_id.as_str()).collect();
        let owner = Owner {
            project: &home.project_id,
            app: &home.app_id,
        };
        let wanted = linked::Wanted {
            ids_of_thread: IDS_OF_THREAD,
            ids: IDS_OF_THREAD,
            may_inherit: false,
            speakers: Speakers::Own,
        };
        let (messages, feedback, ()) = tokio::try_join!(
            self.messages_of_turns(owner, &turns, MESSAGES_BYTES),
            self.newest_ratings(&scope, &ids),
            self.complete(&scope, &mut threads, wanted)
        )?;
        let counted = turns.iter().map(Turn::messages).sum::<usize>();
        cut |= messages.len() < counted;
        let runs = turns.into_iter().map(|turn| turn.run_id).collect();
        Ok(threads.pop().map(|thread| MessagesOfThread {
            thread,
            messages,
            cut,
            feedback,
            runs,
            also_in_apps: Vec::new(),
        }))
    }

    async fn window(
        &self,
        home: Home,
        at_ms: UnixMs,
    ) -> Result<Option<MessagesOfThread>, StoreError> {
        let scope = home.scope();
        let check = SpeakerCheck::new(self, &scope);
        let Some(thread) = self.window_of(&scope, home.key, at_ms, &check).await? else {
            return Ok(None);
        };
        let keys = sql::keys([home.key].into_iter());
        let stretch = Stretch {
            from_ms: thread.first.0,
            to_ms: thread.last.0,
        };
        let speakers = check.within(stretch).await?;
        let stretch = stretch.condition();
        let spoken = "speaker_key IN {keys:Array(UInt64)}";
        let asking = format!("{} AND {}", stretch.sql(), speakers.may(spoken));
        let sql = format!(
            "SELECT {MS} AS ms, event_id, run_id, role FROM {messages} \
             WHERE {scope} AND {stretch} AND {spoken} AND thread_key = 0{without_inherited} \
             ORDER BY ms, event_id LIMIT 1 BY ms, event_id LIMIT {most}",
            messages = speakers.messages(scope.sql(), &asking),
            scope = scope.sql(),
            stretch = stretch.sql(),
            without_inherited = sql::without_inherited(scope.sql(), &asking, Inheritance::LookedUp),
            most = MESSAGES + 1,
        );
        let query = speakers.settings(sql::grouped(self.bounded_query(&sql)));
        let placed = keys.fill(stretch.fill(scope.fill(query))).rows().await?;
        self.with_messages(&scope, thread, speakers, placed)
            .await
            .map(Some)
    }

    async fn with_messages(
        &self,
        scope: &Conditions,
        thread: ThreadRecord,
        speakers: Speakers,
        mut placed: Vec<Placed>,
    ) -> Result<MessagesOfThread, StoreError> {
        let mut cut = placed.len() > MESSAGES;
        placed.truncate(MESSAGES);
        let ids: HashSet<&str> = placed.iter().map(|placed| placed.run_id.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let mut threads = [thread];
        let wanted = linked::Wanted {
            ids_of_thread: IDS_OF_THREAD,
            ids: IDS_OF_THREAD,
            may_inherit: true,
            speakers,
        };
        let (contents, feedback, runs, ()) = tokio::try_join!(
            self.contents(scope, &placed),
            self.newest_ratings(scope, &ids),
            self.runs_among(scope, &ids),
            self.complete(scope, &mut threads, wanted)
        )?;
        let [thread] = threads;
        cut |= contents.len() < placed.len();
        let mut contents = contents;
        let messages = placed
            .into_iter()
            .map_while(|placed| {
                Some(MessageRecord {
                    content: contents.remove(&placed.event_id)?,
                    event_id: placed.event_id,
                    timestamp: placed.timestamp,
                    run_id: placed.run_id,
                    role: placed.role,
                })
            })
            .collect();
        Ok(MessagesOfThread {
            thread,
            messages,
            cut,
            feedback,
            runs,
            also_in_apps: Vec::new(),
        })
    }

    /// The contents of the messages, as many from the first as fit.
    async fn contents(
        &self,
        scope: &Conditions,
        placed: &[Placed],
    ) -> Result<HashMap<u128, String>, StoreError> {
        let mut contents = HashMap::with_capacity(placed.len());
        let mut bytes = 0;
        for chunk in placed.chunks(CONTENTS_PER_QUERY) {
            let mut at = scope.clone();
            let times = chunk.iter().map(|placed| column_text(placed.timestamp));
            let events = chunk.iter().map(|placed| placed.event_id.to_string());
            at.and_with(
                "timestamp IN {times:Array(DateTime64(3, 'UTC'))}",
                "times",
                Value::Texts(times.collect()),
            );
            at.and_with(
                "toString(event_id) IN {events:Array(String)}",
                "events",
                Value::Texts(events.collect()),
            );
            let sql = format!(
                "SELECT event_id, content FROM messages WHERE {} LIMIT 1 BY event_id",
                at.sql()
            );
            let rows: Vec<Content> = at.fill(self.bounded_query(&sql)).rows().await?;
            let found: HashMap<u128, String> = rows
                .into_iter()
                .map(|row| (row.event_id, row.content))
                .collect();
            // In order, so that messages that do not fit are at the end.
            let mut found = found;
            for placed in chunk {
                let Some(content) = found.remove(&placed.event_id) else {
                    continue;
                };
                bytes += content.len();
                if bytes > MESSAGES_BYTES {
                    return Ok(contents);
                }
                contents.insert(placed.event_id, content);
            }
        }
        Ok(contents)
    }

    /// The given ids that are runs in one project and app.
    async fn runs_among(
        &self,
        scope: &Conditions,
        ids: &[&str],
    ) -> Result<HashSet<String>, StoreError> {
        let mut known = HashSet::new();
        for ids in chunks(ids) {
            let mut at = scope.clone();
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            at.and_with("run_id IN {ids:Array(String)}", "ids", Value::Texts(ids));
            let sql = format!("SELECT run_id FROM runs FINAL PREWHERE {}", at.sql());
            let query = crate::reads::runs::by_run(self.bounded_query(&sql));
            known.extend(at.fill(query).rows::<String>().await?);
        }
        Ok(known)
    }
}

impl Home {
    /// Its project and app: whatever was found may be read, see the caller (T1).
    fn scope(&self) -> Conditions {
        within(
            &Projects::Only(vec![self.project_id.clone()]),
            Some(&self.app_id),
        )
    }
}
