//! The rows of `events` and `runs` for inserts: borrowed, column by column.
//!
//! Times are Unix milliseconds, costs are the decimal times 10^18, empty text means none.

use schemas::start::Start;

use crate::tables::row_binary::table_row;
pub use crate::tables::runs::{NO_TURN, RunRow, TURN_UNKNOWN};

table_row! {
    pub struct EventRow<'a> in "events" {
        project_id: &'a str,
        app_id: &'a str,
        /// The event's own time, Unix milliseconds.
        timestamp: i64,
        run_id: &'a str,
        /// Two rows with the same identity are the same event.
        event_id: u128,
        name: &'a str,
        /// The event's own JSON bytes.
        payload: &'a [u8],
        /// When it was accepted, Unix milliseconds.
        received_at: i64,
        /// When this row was written, Unix milliseconds.
        stored_at: i64,
    }
}

table_row! {
    /// One chat event.
    pub struct MessageRow<'a> in "messages" {
        project_id: &'a str,
        app_id: &'a str,
        /// Unix milliseconds.
        timestamp: i64,
        /// Identity of the event.
        event_id: u128,
        /// The run or message id in the event; the event's identity if it has none.
        run_id: &'a str,
        /// Empty for none.
        parent_run_id: &'a str,
        /// Empty for none.
        thread_id: &'a str,
        /// Empty for none.
        agent: &'a str,
        /// Empty for none.
        user_email: &'a str,
        /// `user`, `assistant`, `system` or `tool`.
        role: &'a str,
        content: &'a str,
        /// 1 if a message without a thread takes the one that another message of its run names.
        inherits_thread: u8,
    }
}

table_row! {
    /// One feedback event.
    pub struct FeedbackRow<'a> in "feedback" {
        project_id: &'a str,
        app_id: &'a str,
        /// The rated run or message.
        run_id: &'a str,
        /// Unix milliseconds.
        timestamp: i64,
        /// Identity of the event.
        event_id: u128,
        /// `positive`, `negative`, or empty where an old client sent a comment alone.
        rating: &'a str,
        comment: &'a str,
    }
}

table_row! {
    /// One start of a process.
    pub struct InstanceRow<'a> in "process_instances" {
        project_id: &'a str,
        app_id: &'a str,
        /// Unix milliseconds.
        started_at: i64,
        uuid: &'a str,
        /// Of two rows with one identity the first one counts, so an equal one changes nothing.
        version: u64,
        instance_id: u64,
        build_id: &'a str,
        /// Status of the build at the start.
        build_status: &'a str,
        process: &'a str,
        /// Identifier of the process definition.
        process_uuid: &'a str,
        /// Empty for none.
        parent_app_id: &'a str,
        /// Empty for none.
        root_app_id: &'a str,
        state: &'a str,
        /// A JSON list.
        tokens: &'a str,
        /// JSON as it was sent.
        input: &'a str,
        /// The platform according to the client.
        platform: &'a str,
        /// Public identifier of the credential.
        started_by: &'a str,
        /// Identifies repetitions of the same request.
        fingerprint: &'a str,
    }
}

impl<'a> InstanceRow<'a> {
    pub fn of(project_id: &'a str, app_id: &'a str, start: &'a Start, input: &'a str) -> Self {
        Self {
            project_id,
            app_id,
            started_at: start.started_at_ms,
            uuid: &start.uuid,
            version: start.instance_id,
            instance_id: start.instance_id,
            build_id: &start.build_id,
            build_status: &start.build_status,
            process: &start.process,
            process_uuid: &start.process_uuid,
            parent_app_id: &start.parent_app_id,
            root_app_id: &start.root_app_id,
            state: &start.state,
            tokens: &start.tokens,
            input,
            platform: &start.platform,
            started_by: &start.started_by,
            fingerprint: &start.fingerprint,
        }
    }
}
