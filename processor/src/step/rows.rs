//! From the lines of a micro-batch to rows.

use schemas::event::Rating;
use store::tables::rows::{EventRow, FeedbackRow, InstanceRow, MessageRow};

use super::decode::{EventLine, FeedbackLine, MessageLine, StartLine};
use crate::run::Scope;

pub fn event<'a>(line: &'a EventLine<'a>, scopes: &'a [Scope], now_ms: i64) -> EventRow<'a> {
    let scope = &scopes[line.scope];
    EventRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        timestamp: line.timestamp_ms,
        run_id: &line.run_id,
        event_id: line.id.0,
        name: &line.name,
        payload: line.raw.as_bytes(),
        received_at: line.received_at_ms,
        stored_at: now_ms,
    }
}

pub fn message<'a>(line: &'a MessageLine<'a>, scopes: &'a [Scope]) -> MessageRow<'a> {
    let scope = &scopes[line.scope];
    MessageRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        timestamp: line.timestamp_ms,
        event_id: line.id.0,
        run_id: &line.run_id,
        parent_run_id: line.parent_run_id.as_deref().unwrap_or_default(),
        thread_id: line.thread_id.as_deref().unwrap_or_default(),
        agent: line.agent.as_deref().unwrap_or_default(),
        user_email: line.user_email.as_deref().unwrap_or_default(),
        role: &line.message.role,
        content: &line.message.content,
        inherits_thread: u8::from(line.inherits_thread),
    }
}

pub fn feedback<'a>(line: &'a FeedbackLine<'a>, scopes: &'a [Scope]) -> FeedbackRow<'a> {
    let scope = &scopes[line.scope];
    FeedbackRow {
        project_id: scope.project.as_str(),
        app_id: scope.app.as_str(),
        run_id: &line.run_id,
        timestamp: line.timestamp_ms,
        event_id: line.id.0,
        rating: line.feedback.rating.map(Rating::as_str).unwrap_or_default(),
        comment: line.feedback.comment.as_deref().unwrap_or_default(),
    }
}

pub fn instance<'a>(line: &'a StartLine<'a>, scopes: &'a [Scope]) -> InstanceRow<'a> {
    let scope = &scopes[line.scope];
    let (project, app) = (scope.project.as_str(), scope.app.as_str());
    InstanceRow::of(project, app, &line.start, line.input)
}
