//! Threads as the API shows them, and what can be asked of their list.
//!
//! A thread is either named by its messages or its runs (`thread_id`), or a window: messages of one app, agent and user
//! with pauses of at most [`WINDOW_GAP_MS`]. Where no message names a thread, its messages are made of its turns: the
//! runs of the thread whose parents are not in it. A window has no name; its id consists of its first message, see [`WindowId`].

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api_error::ApiError;
use crate::cursor::{self, Position};
use crate::filter::{FeedbackFilter, RunQuery, unknown_parameters};
use crate::money::Dollars;
use crate::run::{Feedback, Instant};
use crate::timestamp::UnixMs;

/// The longest pause between two messages of one window, inclusive, milliseconds: interface.md section 8.
pub const WINDOW_GAP_MS: i64 = 30 * 60 * 1000;
/// Prefix of the ids of windows.
const WINDOW_PREFIX: &str = "w_";

/// What makes messages a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupedBy {
    /// They are of one app, agent and user and close in time.
    Window,
    /// They, or their runs, name the same thread.
    ThreadId,
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Thread {
    /// The project; only for callers who reach several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub project_id: Option<String>,
    /// What the thread is called: the clients' name, or the id of a window, which begins with `w_`.
    pub thread_id: String,
    /// The app.
    pub app_id: String,
    /// The agent of its newest message or turn that has one.
    pub agent: Option<String>,
    /// The user of its newest message or turn that has one.
    pub user_email: Option<String>,
    /// Time of its first message, or start of its first turn.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Instant,
    /// Time of its last message, or end of its last turn.
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Instant,
    /// Messages in it.
    pub message_count: u64,
    /// Tokens of its runs with everything below them.
    pub total_tokens: u64,
    /// Cost of its runs with everything below them in USD, exact.
    #[schema(value_type = f64)]
    pub total_cost: Dollars,
    /// Whether the thread has more runs than the totals count.
    pub totals_truncated: bool,
    /// Beginning of its last message.
    pub preview: Option<String>,
    /// What makes it a thread.
    #[schema(value_type = String, pattern = "^(thread_id|window)$")]
    pub grouped_by: GroupedBy,
}

/// A page of the thread list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ThreadPage {
    /// The threads, that with the newest message first.
    pub data: Vec<Thread>,
    /// Give it as `cursor` to go on; `null` on the last page.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

/// One message of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ThreadMessage {
    /// Identity of its event; of a message of a turn, an identity made of the run.
    pub event_id: String,
    /// `user` or `assistant`; from old clients also `system`, `tool` or what they say.
    pub role: String,
    /// What was said; of a turn the text of the run's input or output, else its JSON.
    pub content: String,
    /// When it was said: of a turn the start or the end of the run.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Instant,
    /// The run it names, or its own name.
    pub run_id: String,
    /// Path of the run of this id; `null` when there is none.
    pub run: Option<String>,
    /// The newest feedback on this id, on the assistant's messages of it when there are any.
    pub feedback: Option<Feedback>,
}

/// A thread with its messages.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ThreadDetail {
    /// What the list shows of it.
    #[serde(flatten)]
    pub thread: Thread,
    /// Its messages, oldest first.
    pub messages: Vec<ThreadMessage>,
    /// Whether there are more messages than are here.
    pub truncated: bool,
    /// Other apps of the same project that have a thread of this name, where `app_id` chose none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_in_apps: Vec<String>,
}

/// The id of a window: its first message when the id was made. If an earlier message arrives later, the window gets a
/// new id, and the old one still leads to it, because it is resolved by the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowId {
    /// Time of the message, Unix milliseconds.
    pub timestamp_ms: UnixMs,
    /// Identity of the message's event.
    pub event_id: u128,
}

impl WindowId {
    /// `w_` and 32 letters, digits, `-` or `_`.
    pub fn encode(&self) -> String {
        let mut bytes = self.timestamp_ms.to_be_bytes().to_vec();
        bytes.extend(self.event_id.to_be_bytes());
        format!("{WINDOW_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// `None` when the text is no such id.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text.strip_prefix(WINDOW_PREFIX)?)
            .ok()?;
        let (time, event) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            timestamp_ms: i64::from_be_bytes(*time),
            event_id: u128::from_be_bytes(event.try_into().ok()?),
        })
    }
}

/// A query of the thread list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadQuery {
    /// Only this project.
    pub project_id: Option<String>,
    /// Only threads of this app.
    pub app_id: Option<String>,
    /// Only threads with a message or a turn of this agent.
    pub agent: Option<String>,
    /// Only threads with a message or a turn of this user.
    pub user_email: Option<String>,
    /// Only threads with this feedback on a message.
    pub feedback: Option<FeedbackFilter>,
    /// Only threads whose last message is not before this time.
    pub from_ms: Option<UnixMs>,
    /// Only threads whose last message is not after this time.
    pub to_ms: Option<UnixMs>,
    pub limit: u32,
    /// The client's cursor.
    pub cursor: Option<String>,
    fingerprint: u64,
}

impl ThreadQuery {
    const PARAMETERS: [&str; 9] = [
        "project_id",
        "app_id",
        "agent",
        "user_email",
        "feedback",
        "from",
        "to",
        "limit",
        "cursor",
    ];

    /// Parses the pairs of a query string, each as in the run list.
    ///
    /// # Errors
    /// A 400 that names the parameter, the value and the rule.
    pub fn from_pairs<'a, I>(pairs: I) -> Result<Self, ApiError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)> + Clone,
    {
        let unknown = pairs
            .clone()
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !Self::PARAMETERS.contains(name))
            .collect::<std::collections::BTreeSet<_>>();
        if !unknown.is_empty() {
            return Err(unknown_parameters(&unknown));
        }
        let query = RunQuery::from_pairs(pairs)?;
        Ok(Self {
            fingerprint: query.fingerprint(),
            project_id: query.project_id,
            app_id: query.filter.app_id,
            agent: query.filter.agent,
            user_email: query.filter.user_email,
            feedback: query.filter.feedback,
            from_ms: query.filter.from_ms,
            to_ms: query.filter.to_ms,
            limit: query.limit,
            cursor: query.cursor,
        })
    }

    /// The position in the client's cursor.
    ///
    /// # Errors
    /// A 400 when the cursor is invalid, damaged, or of another filter.
    pub fn place(&self) -> Result<Option<ThreadPlace>, ApiError> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        cursor::decode(text, self.fingerprint).map(Some)
    }

    /// The cursor for the threads after `place`.
    pub fn cursor_after(&self, place: ThreadPlace) -> String {
        cursor::encode(&place, self.fingerprint)
    }
}

/// The position of a thread in the list, which is in descending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadPlace {
    /// Time of its last message, Unix milliseconds.
    pub ended_at_ms: UnixMs,
    pub grouped_by: GroupedBy,
    /// The store's key of the thread, or of the owner of the window.
    pub key: u64,
}

impl Position for ThreadPlace {
    const LIST: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::LIMIT_DEFAULT;
    use proptest::prelude::*;

    fn query(pairs: &[(&str, &str)]) -> Result<ThreadQuery, ApiError> {
        ThreadQuery::from_pairs(pairs.iter().copied())
    }

    proptest! {
        #[test]
        fn the_id_of_a_window_reads_back(timestamp_ms: i64, event_id: u128) {
            let id = WindowId { timestamp_ms, event_id };
            let text = id.encode();
            prop_assert!(text.len() == 34 && text.starts_with("w_"));
            prop_assert_eq!(WindowId::decode(&text), Some(id));
        }

        #[test]
        fn a_cursor_reads_back_and_is_bound_to_its_question(ended_at_ms: i64, key: u64, named: bool) {
            let grouped_by = if named { GroupedBy::ThreadId } else { GroupedBy::Window };
            let place = ThreadPlace { ended_at_ms, grouped_by, key };
            let text = query(&[("agent", "a")]).unwrap().cursor_after(place);
            let again = query(&[("agent", "a"), ("cursor", &text), ("limit", "3")]).unwrap();
            prop_assert_eq!(again.place(), Ok(Some(place)));
            let other = query(&[("agent", "b"), ("cursor", &text)]).unwrap();
            prop_assert_eq!(other.place().map_err(|fault| fault.status), Err(400));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            prop_assert_eq!(WindowId::decode(&text), None);
            let mut asked = query(&[]).unwrap();
            asked.cursor = Some(text);
            prop_assert_eq!(asked.place().map_err(|fault| fault.status), Err(400));
        }
    }

    #[test]
    fn what_is_asked_is_read_as_in_the_run_list() {
        let asked = query(&[
            ("app_id", "a"),
            ("feedback", "any"),
            ("from", "2026-11-20"),
            ("to", "2026-11-20"),
            ("limit", "7"),
        ])
        .unwrap();
        assert_eq!(
            (asked.app_id.as_deref(), asked.limit, asked.feedback),
            (Some("a"), 7, Some(FeedbackFilter::Any))
        );
        assert_eq!(asked.to_ms.unwrap() - asked.from_ms.unwrap(), 86_399_999);
        assert_eq!(query(&[]).unwrap().limit, LIMIT_DEFAULT);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_name() {
        for (pairs, named) in [
            (&[("model", "m")][..], "model"),
            (&[("limit", "0")], "limit"),
            (&[("limit", "1001")], "limit"),
            (&[("feedback", "good")], "feedback"),
            (&[("from", "soon")], "from"),
            (&[("from", "2026-11-21"), ("to", "2026-11-20")], "from"),
            (&[("agent", "a"), ("agent", "b")], "agent"),
            (&[("agent", "")], "agent"),
        ] {
            let fault = query(pairs).unwrap_err();
            assert_eq!(fault.status, 400);
            assert!(fault.message.contains(named), "{}", fault.message);
        }
    }
}
