//! SQL fragments for reads of threads. All of it is fixed text; values are parameters.

use schemas::filter::FeedbackFilter;
use schemas::thread::{ThreadQuery, WINDOW_GAP_MS};
use schemas::timestamp::UnixMs;

use crate::client::query::BoundedQuery;
use crate::reads::filter_sql::{Conditions, Value, time};

/// Time of a message, Unix milliseconds.
pub(super) const MS: &str = "toUnixTimestamp64Milli(timestamp)";
/// (timestamp, event id) as one number: many times faster to compare than tuples.
pub(super) const PLACE: &str =
    "bitOr(bitShiftLeft(toUInt256(toUnixTimestamp64Milli(timestamp)), 128), toUInt256(event_id))";
/// (timestamp, thread) as one number: the minimum over a run's messages determines the run's thread.
pub(super) const OWNER: &str =
    "bitOr(bitShiftLeft(toUInt128(toUnixTimestamp64Milli(timestamp)), 64), toUInt128(thread_key))";

/// A stretch of time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ms: UnixMs,
    pub(super) to_ms: UnixMs,
}

impl Stretch {
    /// The condition, with parameters of this fixed name.
    pub(super) fn condition(self) -> Conditions {
        let mut condition = Conditions::default();
        condition.and_with(
            "timestamp >= fromUnixTimestamp64Milli({stretch_from:Int64}, 'UTC')",
            "stretch_from",
            time(self.from_ms),
        );
        condition.and_with(
            "timestamp <= fromUnixTimestamp64Milli({stretch_to:Int64}, 'UTC')",
            "stretch_to",
            time(self.to_ms),
        );
        condition
    }

    /// With the pause after it, in which a window that ends here would continue.
    pub(super) fn with_pause(self) -> Self {
        Self {
            to_ms: self.to_ms.saturating_add(WINDOW_GAP_MS),
            ..self
        }
    }
}

/// The start of the slot that contains this time. Slots are as long as the longest pause, so messages of one slot are
/// always of one window, and messages of slots that do not touch never are.
pub(super) fn slot_start(time_ms: UnixMs) -> UnixMs {
    time_ms.div_euclid(WINDOW_GAP_MS) * WINDOW_GAP_MS
}

pub(super) fn slot() -> String {
    format!("intDiv({MS}, {WINDOW_GAP_MS})")
}

/// Messages without a thread that may inherit one.
pub(super) const MAY_INHERIT: &str = "thread_key = 0 AND inherits_thread";

/// How to find the runs whose thread messages without one inherit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inheritance {
    /// For few messages: their runs are looked up by index.
    LookedUp,
    /// For many messages: all runs are scanned once.
    GoneThrough,
    /// No message inherits a thread, or no run has one.
    Nothing,
}

/// `run_key`, `owner` and `last` of the runs whose thread is inherited by messages without one that satisfy `asking`:
/// the thread of the run's earliest message that names one; `last` is the latest time of messages that inherit.
pub(super) fn inherited(scope: &str, asking: &str, how: Inheritance) -> String {
    match how {
        Inheritance::LookedUp => {
            inherited_among(scope, asking, &format!("{asking} AND {MAY_INHERIT}"))
        }
        Inheritance::GoneThrough => inherited_where(scope, asking, ""),
        Inheritance::Nothing => inherited_where(scope, asking, " AND 0"),
    }
}

/// [`inherited`] among the runs of messages that satisfy `which`.
pub(super) fn inherited_among(scope: &str, asking: &str, which: &str) -> String {
    let only = format!(" AND run_key IN (SELECT run_key FROM messages WHERE {scope} AND {which})");
    inherited_where(scope, asking, &only)
}

fn inherited_where(scope: &str, asking: &str, only: &str) -> String {
    format!(
        "SELECT run_key, toUInt64(minIf({OWNER}, thread_key != 0)) AS owner, \
           maxIf({MS}, {MAY_INHERIT} AND {asking}) AS last \
         FROM messages WHERE {scope}{only} GROUP BY run_key HAVING owner != 0 AND last != 0"
    )
}

/// Excludes messages that inherit a thread: ` AND ...`, or empty if none can.
pub(super) fn without_inherited(scope: &str, asking: &str, how: Inheritance) -> String {
    match how {
        Inheritance::Nothing => String::new(),
        how => {
            let runs = format!("(SELECT run_key FROM ({}))", inherited(scope, asking, how));
            format!(" AND {}", outside_of(&runs))
        }
    }
}

/// The condition on a message to inherit no thread, if messages of these runs do.
pub(super) fn outside_of(runs: &str) -> String {
    format!("(NOT inherits_thread OR run_key NOT IN {runs})")
}

/// `run_key` of the runs and messages with this newest rating; for `none`, of rated ones. A comment alone does not undo
/// a rating, as on runs.
pub(super) fn judged(scope: &str, feedback: FeedbackFilter) -> String {
    let newest = match feedback {
        FeedbackFilter::Positive => "= 'positive'",
        FeedbackFilter::Negative => "= 'negative'",
        FeedbackFilter::Any | FeedbackFilter::None => "!= ''",
    };
    format!(
        "SELECT cityHash64(project_id, app_id, run_id) AS run_key FROM feedback WHERE {scope} \
         GROUP BY project_id, app_id, run_id HAVING argMaxIf(rating, (timestamp, event_id), rating != '') {newest}"
    )
}

pub(super) fn keys(keys: impl Iterator<Item = u64>) -> Conditions {
    let mut condition = Conditions::default();
    condition.give("keys", Value::Keys(keys.collect()));
    condition
}

/// Settings of these reads. The index is not used for sets of many keys: sorting half a million of them took half a
/// second, probing them a tenth.
pub(super) fn grouped(query: BoundedQuery) -> BoundedQuery {
    query
        .setting("use_index_for_in_with_subqueries_max_values", "20000")
        .setting("optimize_read_in_order", "0")
}

/// The condition on the rows of a thread taken together, which have `of_agent`, `of_user` and `of_run`.
pub(super) fn holds(scope: &Conditions, query: &ThreadQuery) -> Conditions {
    let mut holds = Conditions::default();
    let texts = [
        (
            "countIf(of_agent = {agent:String}) > 0",
            "agent",
            &query.agent,
        ),
        (
            "countIf(of_user = {user:String}) > 0",
            "user",
            &query.user_email,
        ),
    ];
    for (sql, name, value) in texts {
        if let Some(value) = value {
            holds.and_with(sql, name, Value::Text(value.clone()));
        }
    }
    if let Some(feedback) = query.feedback {
        let judged = judged(scope.sql(), feedback);
        let compared = match feedback {
            FeedbackFilter::None => "= 0",
            _ => "> 0",
        };
        holds.and(&format!("countIf(of_run IN ({judged})) {compared}"));
    }
    holds
}
