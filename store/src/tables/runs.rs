//! The columns of `runs`, declared once. From the declaration follow the row to insert ([`RunRow`]), the row that reads
//! return ([`RunRecord`]) with its select lists, and the comparison of a rebuild.
//!
//! Adding a column takes a migration and a line here. Then the compiler demands its value where rows are made, and
//! where [`RunRecord`] becomes the API's run.

use clickhouse::Row;
use schemas::fold::{CostStatus, RunStatus};
use serde::Deserialize;

use crate::tables::decode;
use crate::tables::row_binary::{column_name, table_row};

/// The type of a column: the borrowed value in a row to insert, and the owned value in a row that was read.
pub trait ColumnType {
    type Inserted<'a>;
    type Read;
}

/// Empty for none.
pub enum Text {}
pub enum Texts {}
pub enum TextMap {}
pub enum Bytes {}
pub enum Numbers {}

impl ColumnType for Text {
    type Inserted<'a> = &'a str;
    type Read = String;
}

impl ColumnType for Texts {
    type Inserted<'a> = Vec<&'a str>;
    type Read = Vec<String>;
}

impl ColumnType for TextMap {
    type Inserted<'a> = Vec<(&'a str, &'a str)>;
    type Read = Vec<(String, String)>;
}

impl ColumnType for Bytes {
    type Inserted<'a> = &'a [u8];
    type Read = Vec<u8>;
}

impl ColumnType for Numbers {
    type Inserted<'a> = &'a [u64];
    type Read = Vec<u64>;
}

macro_rules! plain_columns {
    ($($type:ty),*) => {$(
        impl ColumnType for $type {
            type Inserted<'a> = $type;
            type Read = $type;
        }
    )*};
}
plain_columns!(
    u8,
    u64,
    i64,
    i128,
    Option<u64>,
    Option<i64>,
    RunStatus,
    CostStatus
);

/// [`RunRow::turn_at`] of a run that begins no turn of its thread.
pub const NO_TURN: i64 = 0;
/// [`RunRow::turn_at`] of a row of a version that knew no turns, as in the column's default.
pub const TURN_UNKNOWN: i64 = -1;

/// How a rebuild compares a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Part of the key, which rows are matched by.
    Key,
    /// The fold of the events: has to be equal.
    Folded,
    /// The run's own cost: may differ where the price table changed.
    OwnCost,
    /// The cost of the subtree: may differ where an own cost in it does.
    SubtreeCost,
    /// Depends on the history of the row.
    Bookkeeping,
}

pub(crate) struct RunColumn {
    pub(crate) name: &'static str,
    pub(crate) comparison: Comparison,
    /// The expression that lists select in place of the column; empty for the column itself.
    in_lists: &'static str,
}

/// `shown` are the columns on the API, in the order of [`RunRecord`]; `internal` the others. Each is `name: type,
/// comparison`, then `list "SQL"` where lists select another expression, and `by "function"` where serde needs help to
/// read it.
macro_rules! run_columns {
    (
        shown {
            $($(#[$shown_attribute:meta])* $shown:ident: $shown_type:ty, $shown_comparison:ident
                $(, list $in_lists:literal)? $(, by $read:literal)?;)*
        }
        internal {
            $($(#[$internal_attribute:meta])* $internal:ident: $internal_type:ty, $internal_comparison:ident;)*
        }
    ) => {
        table_row! {
            /// A row of `runs` to insert. Times are Unix milliseconds, costs are USD times 10^18.
            pub struct RunRow<'a> in "runs" {
                $($(#[$shown_attribute])* $shown: <$shown_type as ColumnType>::Inserted<'a>,)*
                $($(#[$internal_attribute])* $internal: <$internal_type as ColumnType>::Inserted<'a>,)*
            }
        }

        /// A stored run, without the columns that only the processor reads. Times are Unix milliseconds, costs are USD
        /// times 10^18. In lists and trees, some columns are empty.
        #[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
        pub struct RunRecord {
            $(
                $(#[$shown_attribute])*
                $(#[serde(deserialize_with = $read)])?
                pub $shown: <$shown_type as ColumnType>::Read,
            )*
        }

        const SHOWN: &[RunColumn] = &[$(RunColumn {
            name: column_name(stringify!($shown)),
            comparison: Comparison::$shown_comparison,
            in_lists: concat!($($in_lists)?),
        }),*];

        const INTERNAL: &[RunColumn] = &[$(RunColumn {
            name: column_name(stringify!($internal)),
            comparison: Comparison::$internal_comparison,
            in_lists: "",
        }),*];
    };
}

run_columns! {
    shown {
        project_id: Text, Key;
        app_id: Text, Key;
        /// Part of the key, so a run whose start moves leaves a tombstone behind.
        started_at: i64, Key;
        run_id: Text, Key;
        parent_run_id: Text, Folded;
        /// The topmost known ancestor; the run itself if it has none.
        root_run_id: Text, Folded;
        name: Text, Folded;
        /// `agent`, `llm`, `tool`, ...
        r#type: Text, Folded;
        status: RunStatus, Folded, by "decode::number";
        /// Its own agent or the nearest ancestor's.
        agent: Text, Folded;
        /// Its own user or the nearest ancestor's.
        user_email: Text, Folded;
        model: Text, Folded;
        /// Sorted.
        tags: Texts, Folded;
        /// Its own thread or the nearest ancestor's.
        thread_id: Text, Folded;
        ended_at: Option<i64>, Folded, list "addMilliseconds(started_at, latency_ms)";
        /// End minus start.
        latency_ms: Option<i64>, Folded;
        /// Own, like all token columns before the cost.
        prompt_tokens: Option<u64>, Folded;
        completion_tokens: Option<u64>, Folded;
        total_tokens: Option<u64>, Folded;
        /// Prompt tokens that came from a cache.
        cached_tokens: Option<u64>, Folded, list "CAST(NULL, 'Nullable(UInt64)')";
        /// Completion tokens used for reasoning.
        reasoning_tokens: Option<u64>, Folded, list "CAST(NULL, 'Nullable(UInt64)')";
        /// Milliseconds from the request to the first token of a model call.
        ttft_ms: Option<u64>, Folded;
        cost: i128, OwnCost;
        cost_status: CostStatus, OwnCost, by "decode::number";
        /// The run that counts the call, where this one does not.
        counted_run_id: Text, Folded;
        /// 1 when the cost is an estimate.
        cost_estimated: u8, OwnCost, list "toUInt8(0)";
        /// With all descendants, like the columns up to `error_count`: see [`schemas::fold::Totals`].
        total_cost: i128, SubtreeCost;
        total_prompt_tokens: u64, Folded, list "toUInt64(0)";
        total_completion_tokens: u64, Folded, list "toUInt64(0)";
        total_tokens_with_children: u64, Folded;
        llm_calls: u64, Folded;
        error_count: u64, Folded;
        error_name: Text, Folded;
        error_message: Text, Folded;
        /// 1 for a saved run.
        saved: u8, Folded;
        /// `positive`, `negative` or empty: of the newest feedback, like the next two.
        feedback_rating: Text, Folded;
        feedback_comment: Text, Folded;
        feedback_at: Option<i64>, Folded;
        input_preview: Text, Folded;
        output_preview: Text, Folded;
        /// Earliest timestamp of its events: with the next one, the key range of the run in `events`.
        first_event_at: i64, Folded, list "started_at";
        /// Latest timestamp of its events.
        last_event_at: i64, Folded, list "started_at";
    }
    internal {
        /// The row with the greatest version of a key counts.
        version: u64, Bookkeeping;
        /// 1 for a tombstone.
        is_deleted: u8, Folded;
        /// Own model calls.
        calls: u64, Folded;
        /// The nearest run of type `llm` above it.
        enclosing_call: Text, Folded;
        /// Where the run begins a turn of its thread, the time of the turn's last message; else [`NO_TURN`].
        turn_at: i64, Folded;
        /// Hashes that it has in common with runs that may report the same call.
        call_links: Numbers, Folded;
        /// Sorted by key.
        metadata: TextMap, Folded;
        /// Wall clock of this write.
        updated_at: i64, Bookkeeping;
        /// The fold's state, opaque here.
        state: Bytes, Bookkeeping;
    }
}

/// The columns that a rebuild compares in one of these ways.
pub(crate) fn compared_as(wanted: &'static [Comparison]) -> impl Iterator<Item = &'static str> {
    SHOWN
        .iter()
        .chain(INTERNAL)
        .filter(|column| wanted.contains(&column.comparison))
        .map(|column| column.name)
}

impl RunRecord {
    /// The columns that a list selects. Columns of the single run only are empty, and the end is computed: each column
    /// read from fifty granules costs about a millisecond.
    pub(crate) fn list_columns() -> String {
        let columns = SHOWN.iter().map(|column| match column.in_lists {
            "" => column.name.to_owned(),
            sql => format!("{sql} AS {}", column.name),
        });
        columns.collect::<Vec<_>>().join(", ")
    }
}
