//! Agent and user of messages without a thread: together the speaker, by whom windows are grouped.
//!
//! A message that names no agent or no user takes it from its run, and so from the nearest ancestor of the run that
//! names one: the current row of a run has both resolved. The run may arrive after the message and may change, so
//! nothing of it is stored with the message (decision 0007).

use tokio::sync::Mutex;

use super::sql::{self, Stretch};
use crate::client::Store;
use crate::client::query::BoundedQuery;
use crate::error::StoreError;
use crate::reads::filter_sql::Conditions;
use crate::reads::runs::merged;

/// Messages that take agent or user from their run, if that has one.
const LACKING: &str = "thread_key = 0 AND (agent = '' OR user_email = '')";
/// The columns of messages that reads of windows use, besides agent, user and `speaker_key`.
const COLUMNS: &str = "project_id, app_id, timestamp, event_id, run_id, role, content, thread_key, run_key, inherits_thread";

/// How messages without a thread get their agent and user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speakers {
    /// As stored: no run has what a message lacks.
    Own,
    /// From the current row of the run with the message's `run_id`, else of the run with its `parent_run_id`.
    OfRuns,
}

impl Speakers {
    /// A table expression with the messages that satisfy `which`, a condition on stored columns. In it `agent`,
    /// `user_email` and `speaker_key` of messages without a thread are complete; query it with [`Speakers::settings`].
    ///
    /// For [`Speakers::Own`] it is the table itself, so a query repeats its conditions.
    pub(super) fn messages(self, scope: &str, which: &str) -> String {
        if self == Self::Own {
            return "messages".to_owned();
        }
        // All rows of a key share their run id, so a condition on it before the merge hides none of them.
        let runs = |named_by: &str, name: &str| {
            format!(
                "SELECT cityHash64(project_id, app_id, run_id) AS {name}_key, agent AS {name}_agent, \
                   user_email AS {name}_user \
                 FROM runs FINAL PREWHERE {scope} AND run_id IN (\
                   SELECT {named_by} FROM messages WHERE {scope} AND {which} AND {LACKING} AND {named_by} != '')"
            )
        };
        format!(
            "(SELECT {COLUMNS}, spoken_agent AS agent, spoken_user AS user_email, \
                cityHash64(project_id, app_id, spoken_agent, spoken_user) AS speaker_key \
              FROM (SELECT {COLUMNS}, \
                  multiIf(agent != '', agent, own_key != 0, own_agent, parent_agent) AS spoken_agent, \
                  multiIf(user_email != '', user_email, own_key != 0, own_user, parent_user) AS spoken_user \
                FROM messages \
                LEFT ANY JOIN ({own}) AS own_runs ON run_key = own_key \
                LEFT ANY JOIN ({parent}) AS parent_runs \
                  ON cityHash64(project_id, app_id, parent_run_id) = parent_key \
                WHERE {scope} AND {which}))",
            own = runs("run_id", "own"),
            parent = runs("parent_run_id", "parent"),
        )
    }

    /// The condition on stored columns that every message satisfies whose complete columns satisfy `spoken`.
    pub(super) fn may(self, spoken: &str) -> String {
        match self {
            Self::Own => spoken.to_owned(),
            Self::OfRuns => format!("({spoken} OR agent = '' OR user_email = '')"),
        }
    }

    /// The settings that a query of [`Speakers::messages`] needs.
    pub(super) fn settings(self, query: BoundedQuery) -> BoundedQuery {
        match self {
            Self::Own => query,
            Self::OfRuns => merged(query)
                .setting("use_skip_indexes_if_final", "1")
                .setting("use_skip_indexes_if_final_exact_mode", "0"),
        }
    }
}

/// Whether messages of a scope take agent or user from runs, determined stretch by stretch: a list pays for the time
/// that it reads, and reads plain rows where no message does.
pub(super) struct SpeakerCheck<'a> {
    store: &'a Store,
    scope: &'a Conditions,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// No message in it takes anything from a run.
    own: Option<Stretch>,
    /// A message somewhere does.
    of_runs: bool,
}

impl<'a> SpeakerCheck<'a> {
    pub(super) fn new(store: &'a Store, scope: &'a Conditions) -> Self {
        Self {
            store,
            scope,
            known: Mutex::default(),
        }
    }

    /// How to read the messages of this stretch.
    pub(super) async fn within(&self, stretch: Stretch) -> Result<Speakers, StoreError> {
        let mut known = self.known.lock().await;
        if known.of_runs {
            return Ok(Speakers::OfRuns);
        }
        for unknown in unknown(known.own, stretch) {
            if self.some_take(unknown).await? {
                known.of_runs = true;
                return Ok(Speakers::OfRuns);
            }
        }
        known.own = Some(match known.own {
            Some(own) => Stretch {
                from_ms: own.from_ms.min(stretch.from_ms),
                to_ms: own.to_ms.max(stretch.to_ms),
            },
            None => stretch,
        });
        Ok(Speakers::Own)
    }

    /// How to read the messages of all stretches so far.
    pub(super) async fn so_far(&self) -> Speakers {
        if self.known.lock().await.of_runs {
            Speakers::OfRuns
        } else {
            Speakers::Own
        }
    }

    /// Whether a run has what a message of the stretch lacks. Rows of runs that are replaced or deleted count too: a
    /// yes costs time and changes no result.
    async fn some_take(&self, stretch: Stretch) -> Result<bool, StoreError> {
        let scope = self.scope.sql();
        let at = stretch.condition();
        let fill = |sql: &str| {
            let query = sql::grouped(self.store.bounded_query(sql));
            at.fill(self.scope.fill(query))
        };
        let lacking = format!(
            "SELECT toUInt8(1) FROM messages WHERE {scope} AND {at} AND {LACKING} LIMIT 1",
            at = at.sql()
        );
        if fill(&lacking).optional::<u8>().await?.is_none() {
            return Ok(false);
        }
        let has = |column: &str| {
            format!(
                "({column} != '' AND run_id IN (SELECT arrayJoin([run_id, parent_run_id]) FROM messages \
                   WHERE {scope} AND {at} AND thread_key = 0 AND {column} = ''))",
                at = at.sql()
            )
        };
        let taken = format!(
            "SELECT toUInt8(1) FROM runs WHERE {scope} AND ({agent} OR {user}) LIMIT 1",
            agent = has("agent"),
            user = has("user_email"),
        );
        Ok(fill(&taken).optional::<u8>().await?.is_some())
    }
}

/// The parts of a stretch beyond the known one, with the gap between them: what is known stays one stretch.
fn unknown(known: Option<Stretch>, stretch: Stretch) -> Vec<Stretch> {
    let Some(known) = known else {
        return vec![stretch];
    };
    let before = Stretch {
        from_ms: stretch.from_ms,
        to_ms: known.from_ms - 1,
    };
    let after = Stretch {
        from_ms: known.to_ms + 1,
        to_ms: stretch.to_ms,
    };
    [after, before]
        .into_iter()
        .filter(|part| part.from_ms <= part.to_ms)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from_ms: i64, to_ms: i64) -> Stretch {
        Stretch { from_ms, to_ms }
    }

    #[test]
    fn only_what_is_beyond_the_known_stretch_is_checked_and_no_gap_is_left() {
        let known = Some(stretch(10, 20));
        for (asked, parts) in [
            (stretch(12, 18), vec![]),
            (stretch(5, 15), vec![stretch(5, 9)]),
            (stretch(1, 3), vec![stretch(1, 9)]),
            (stretch(5, 25), vec![stretch(21, 25), stretch(5, 9)]),
            (stretch(30, 40), vec![stretch(21, 40)]),
        ] {
            assert_eq!(unknown(known, asked), parts, "{asked:?}");
        }
        assert_eq!(unknown(None, stretch(1, 2)), [stretch(1, 2)]);
    }

    #[test]
    fn without_a_run_that_has_what_messages_lack_the_sql_is_that_of_the_table() {
        assert_eq!(Speakers::Own.messages("1", "1"), "messages");
        assert_eq!(Speakers::Own.may("speaker_key = 1"), "speaker_key = 1");
    }
}
