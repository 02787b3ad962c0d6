//! The fragments that reads of threads are put together from. All of it is fixed text; values are parameters.

use schemas::filter::FeedbackFilter;
use schemas::thread::WINDOW_GAP_MS;
use schemas::timestamp::UnixMs;

use crate::filter_sql::{Conditions, Value, time};
use crate::reads::BoundedQuery;

/// Time of a message, Unix milliseconds.
pub(super) const MS: &str = "toUnixTimestamp64Milli(timestamp)";
/// (timestamp, event id) as one number: comparing two of them is many times quicker than comparing tuples.
pub(super) const PLACE: &str =
    "bitOr(bitShiftLeft(toUInt256(toUnixTimestamp64Milli(timestamp)), 128), toUInt256(event_id))";
/// (timestamp, thread) as one number: the least of a run's messages says which thread the run belongs to.
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

    /// With the pause after it in which a window that ends here would go on.
    pub(super) fn with_pause(self) -> Self {
        Self {
            to_ms: self.to_ms.saturating_add(WINDOW_GAP_MS),
            ..self
        }
    }
}

/// The beginning of the slot that holds this time. Slots are as long as the longest pause, so that messages of one slot
/// are always of one window, and messages of slots that do not touch never are.
pub(super) fn slot_start(time_ms: UnixMs) -> UnixMs {
    time_ms.div_euclid(WINDOW_GAP_MS) * WINDOW_GAP_MS
}

/// Slot of a message.
pub(super) fn slot() -> String {
    format!("intDiv({MS}, {WINDOW_GAP_MS})")
}

/// How runs are found that lend their thread to messages that name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lending {
    /// Few messages ask: their runs are looked up by index.
    LookedUp,
    /// Many ask: all runs are gone through once.
    GoneThrough,
    /// Nobody asks, or nobody could answer.
    Nothing,
}

/// `run_key`, `owner` and `last` of the runs whose thread the messages without one that fulfil `asking` inherit: the
/// thread of the run's earliest message that names one; `last` is the latest time of those that inherit.
pub(super) fn lending(scope: &str, asking: &str, lending: Lending) -> String {
    match lending {
        Lending::LookedUp => lending_among(scope, asking, &format!("{asking} AND thread_key = 0")),
        Lending::GoneThrough => lending_where(scope, asking, ""),
        Lending::Nothing => lending_where(scope, asking, " AND 0"),
    }
}

/// [`lending`], looked for only among the runs of messages of which `which` holds.
pub(super) fn lending_among(scope: &str, asking: &str, which: &str) -> String {
    let only = format!(" AND run_key IN (SELECT run_key FROM messages WHERE {scope} AND {which})");
    lending_where(scope, asking, &only)
}

fn lending_where(scope: &str, asking: &str, only: &str) -> String {
    format!(
        "SELECT run_key, toUInt64(minIf({OWNER}, thread_key != 0)) AS owner, \
           maxIf({MS}, thread_key = 0 AND {asking}) AS last \
         FROM messages WHERE {scope}{only} GROUP BY run_key HAVING owner != 0 AND last != 0"
    )
}

/// Leaves out the messages that inherit a thread: ` AND ...`, or nothing where none can.
pub(super) fn without_heirs(scope: &str, asking: &str, how: Lending) -> String {
    match how {
        Lending::Nothing => String::new(),
        how => format!(
            " AND run_key NOT IN (SELECT run_key FROM ({}))",
            lending(scope, asking, how)
        ),
    }
}

/// `run_key` of the runs and messages whose newest rating is this; for `none`, of those that have any. Words alone do
/// not take a rating back, as on runs.
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

/// Keys as a parameter.
pub(super) fn keys(keys: impl Iterator<Item = u64>) -> Conditions {
    let mut condition = Conditions::default();
    condition.give("keys", Value::Keys(keys.collect()));
    condition
}

/// Settings of these reads. Sets of many keys are not worth asking the index about: sorting half a million of them took
/// half a second, probing them a tenth.
pub(super) fn grouped(query: BoundedQuery) -> BoundedQuery {
    query
        .setting("use_index_for_in_with_subqueries_max_values", "20000")
        .setting("optimize_read_in_order", "0")
}
