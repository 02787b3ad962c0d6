//! From raw fields to an [`Event`], for both dialects.

use std::borrow::Cow;

use super::call_details;
use super::fields::Fields;
use super::message::OldChat;
use super::values::{self, Named, as_text, lookup};
use super::{
    CallFingerprint, Custom, Dialect, Event, EventFeedback, FieldFault, Message, Signs, Tokens,
    effect, feedback, message, response_id, run_name_of,
};
use crate::api_error::EventCode;
use crate::timestamp::UnixMs;

pub(crate) fn read(fields: Fields<'_>, now_ms: UnixMs) -> Result<Event<'_>, FieldFault> {
    if fields.is_no_object {
        return Err(FieldFault::new(EventCode::NotAnObject, " must be an object").trimmed());
    }
    if fields.has_too_many {
        let rest = format!(
            "(event) has more than {} fields",
            crate::limits::EVENT_FIELDS
        );
        return Err(FieldFault::new(EventCode::TooLong, rest));
    }
    // The old clients send `runId`; their events without a run are recognizable by `event`.
    if fields.run_id.is_none() && (fields.old_run_id.is_some() || fields.old_event.is_some()) {
        read_old(fields, now_ms)
    } else {
        read_own(fields, now_ms)
    }
}

impl FieldFault {
    /// For a fault of the event itself, whose sentence does not continue with a field.
    fn trimmed(mut self) -> Self {
        self.rest = format!("(event){}", self.rest);
        self
    }
}

/// Fields that the two dialects name differently.
struct Naming<'a> {
    dialect: Dialect,
    name: Cow<'a, str>,
    custom: Option<Custom>,
    run_name: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    model: Option<Cow<'a, str>>,
    run_id: Named<'a>,
    parent_run_id: Named<'a>,
    app: Named<'a>,
    thread_id: Option<Cow<'a, str>>,
    message: Option<Message<'a>>,
    feedback: Option<EventFeedback<'a>>,
    /// The user if there is no address.
    user_id: Named<'a>,
}

impl<'a> Fields<'a> {
    /// Keeps fields without a meaning in this event, like unknown ones.
    fn set_aside<const N: usize>(&mut self, fields: [Named<'a>; N]) {
        for (name, value) in fields {
            self.others
                .extend(value.map(|value| (Cow::Borrowed(name), value)));
        }
    }
}

fn read_own(mut fields: Fields<'_>, now_ms: UnixMs) -> Result<Event<'_>, FieldFault> {
    let names_of_the_other_dialect = [
        ("app", fields.old_app.take()),
        ("userId", fields.old_user_id.take()),
        ("event", fields.old_event.take()),
        ("runId", fields.old_run_id.take()),
        ("parentRunId", fields.old_parent_run_id.take()),
        ("tokensUsage", fields.old_tokens.take()),
        ("message", fields.old_message.take()),
        ("feedback", fields.old_feedback.take()),
        ("extra", fields.old_extra.take()),
    ];
    fields.set_aside(names_of_the_other_dialect);
    let name = values::name(("name", fields.name))?
        .ok_or_else(|| FieldFault::new(EventCode::MissingField, "name is required"))?;
    let custom = match name.as_ref() {
        "saved" => Some(Custom::Saved),
        "unsaved" => Some(Custom::Unsaved),
        "chat" => Some(Custom::Chat),
        "feedback" => Some(Custom::Feedback),
        _ => None,
    };
    let role = ("role", fields.role.take());
    let content = ("content", fields.content.take());
    let rating = ("rating", fields.rating.take());
    let comment = ("comment", fields.comment.take());
    let (mut message, mut feedback) = (None, None);
    match custom {
        Some(Custom::Chat) => {
            message = Some(message::own(role, content)?);
            fields.set_aside([rating, comment]);
        }
        Some(Custom::Feedback) => {
            feedback = Some(feedback::own(rating, comment)?);
            fields.set_aside([role, content]);
        }
        _ => fields.set_aside([role, content, rating, comment]),
    }
    let run_name = match &name {
        Cow::Borrowed(name) => Cow::Borrowed(run_name_of(name)),
        Cow::Owned(name) => Cow::Owned(run_name_of(name).to_owned()),
    };
    let naming = Naming {
        dialect: Dialect::Documented,
        custom,
        run_name: Some(run_name),
        kind: values::name(("type", fields.kind))?,
        model: values::name(("model", fields.model))?,
        run_id: ("run_id", fields.run_id),
        parent_run_id: ("parent_run_id", fields.parent_run_id),
        app: ("app_id", fields.app_id),
        thread_id: values::id(("thread_id", fields.thread_id))?,
        message,
        feedback,
        user_id: ("userId", None),
        name,
    };
    let tokens = Tokens {
        prompt: values::count(("prompt_tokens", fields.prompt_tokens))?,
        completion: values::count(("completion_tokens", fields.completion_tokens))?,
        total: values::count(("total_tokens", fields.total_tokens))?,
        cached: values::count(("cached_tokens", fields.cached_tokens))?,
        reasoning: values::count(("reasoning_tokens", fields.reasoning_tokens))?,
    };
    finish(fields, naming, tokens, now_ms)
}

fn read_old(mut fields: Fields<'_>, now_ms: UnixMs) -> Result<Event<'_>, FieldFault> {
    let kind = values::name(("type", fields.kind))?;
    let event = values::name(("event", fields.old_event))?;
    let run_name = values::name(("name", fields.name))?;
    let (name, custom): (Cow<'_, str>, _) = match (kind.as_deref(), event.as_deref()) {
        (_, Some("feedback")) => ("feedback".into(), Some(Custom::Feedback)),
        (Some("chat"), _) | (Some("thread"), Some("chat")) => ("chat".into(), Some(Custom::Chat)),
        (Some("thread"), Some(event)) => (format!("thread_{event}").into(), Some(Custom::Thread)),
        (Some(kind), Some(event)) => (format!("{kind}_{event}").into(), None),
        _ => {
            return Err(FieldFault::new(
                EventCode::MissingField,
                "type and event are required beside runId",
            ));
        }
    };
    let names_of_the_other_dialect = [
        ("role", fields.role.take()),
        ("content", fields.content.take()),
        ("rating", fields.rating.take()),
        ("comment", fields.comment.take()),
    ];
    fields.set_aside(names_of_the_other_dialect);
    let old_message = ("message", fields.old_message.take());
    let old_feedback = ("feedback", fields.old_feedback.take());
    let old_extra = ("extra", fields.old_extra.take());
    let (mut message, mut feedback, mut parent_as_thread) = (None, None, None);
    match custom {
        Some(Custom::Chat) => {
            message = message::old(OldChat {
                message: old_message.1,
                input: fields.input,
                output: fields.output,
                is_end: event.as_deref() == Some("end"),
            });
            feedback = old_feedback.1.and_then(feedback::old);
            // These clients name a message's thread as its parent.
            parent_as_thread = fields.old_parent_run_id;
            fields.set_aside([old_extra]);
        }
        Some(Custom::Feedback) => {
            feedback = [old_feedback.1, old_extra.1]
                .into_iter()
                .flatten()
                .find_map(feedback::old);
            fields.set_aside([old_message]);
        }
        _ => fields.set_aside([old_message, old_feedback, old_extra]),
    }
    // The name of a model call is, in old clients, the requested model.
    let asked_model = if kind.as_deref() == Some("llm") {
        run_name.clone()
    } else {
        None
    };
    // These clients nearly always send a user's id, and seldom the address. Below the root of a trace an id alone would
    // hide the root's address; and an end may name another id than the start.
    let is_root = values::parent_id(("parentRunId", fields.old_parent_run_id))?.is_none();
    let names_user = custom == Some(Custom::Chat) || (is_root && event.as_deref() == Some("start"));
    let user_id = fields.old_user_id.filter(|_| names_user);
    let naming = Naming {
        dialect: Dialect::Llmonitor,
        user_id: ("userId", user_id),
        name,
        custom,
        run_name,
        model: values::name(("model", fields.model))?.or(asked_model),
        kind,
        run_id: ("runId", fields.old_run_id),
        parent_run_id: ("parentRunId", fields.old_parent_run_id),
        app: ("app", fields.old_app),
        thread_id: match values::id(("thread_id", fields.thread_id))? {
            None => values::parent_id(("parentRunId", parent_as_thread))?,
            given => given,
        },
        message,
        feedback,
    };
    let usage = values::object(("tokensUsage", fields.old_tokens))?;
    let tokens = Tokens {
        prompt: values::count(("tokensUsage.prompt", lookup(&usage, "prompt")))?,
        completion: values::count(("tokensUsage.completion", lookup(&usage, "completion")))?,
        total: values::count(("tokensUsage.total", lookup(&usage, "total")))?,
        cached: values::count(("tokensUsage.promptCached", lookup(&usage, "promptCached")))?,
        reasoning: None,
    };
    finish(fields, naming, tokens, now_ms)
}

/// Fields that both dialects have.
fn finish<'a>(
    fields: Fields<'a>,
    naming: Naming<'a>,
    tokens: Tokens,
    now_ms: UnixMs,
) -> Result<Event<'a>, FieldFault> {
    let is_own_message =
        naming.dialect == Dialect::Documented && naming.custom == Some(Custom::Chat);
    let run_id = match values::id(naming.run_id)? {
        Some(run_id) => run_id,
        None if is_own_message => Cow::Borrowed(""),
        None => {
            let rest = format!("{} is required", naming.run_id.0);
            return Err(FieldFault::new(EventCode::MissingField, rest));
        }
    };
    let (timestamp_ms, microsecond) = values::moment(fields.timestamp, now_ms)?;
    let metadata = values::object(("metadata", fields.metadata))?;
    let in_metadata = |name: &'static str, key: &str| (name, lookup(&metadata, key));
    let error = values::error(fields.error);
    let status = values::text(("status", fields.status), crate::limits::NAME_BYTES)?;
    if !matches!(status.as_deref(), None | Some("success" | "error")) {
        return Err(FieldFault::new(
            EventCode::InvalidValue,
            "status must be \"success\" or \"error\"",
        ));
    }
    // Metadata is free-form: a value of another type there never rejects the event.
    let mut warnings = Vec::new();
    let app = match values::id(naming.app)? {
        None => {
            let app = values::id(in_metadata("metadata.app_id", "app_id"));
            values::usable("metadata.app_id", app, &mut warnings)
        }
        app => app,
    };
    let agent = match values::name(("agent", fields.agent))? {
        None => {
            let agent = values::name(in_metadata("metadata.agent", "agent"));
            values::usable("metadata.agent", agent, &mut warnings)
        }
        agent => agent,
    };
    let user_email = match values::name(("user_email", fields.user_email))? {
        None => {
            let user = values::name(in_metadata("metadata.user_email", "user_email"));
            values::usable("metadata.user_email", user, &mut warnings)
        }
        user => user,
    };
    let user_email = user_email
        .or_else(|| {
            let properties = values::object(("userProps", fields.old_user_properties)).ok()?;
            lookup(&properties, "email").and_then(as_text)
        })
        .or_else(|| naming.user_id.1.and_then(values::as_label))
        .filter(|text| is_name(text));
    let mut tags = values::tags(("tags", fields.tags), &mut warnings)?;
    let thread_tags = ("threadTags", fields.old_thread_tags);
    tags.extend(values::tags(thread_tags, &mut warnings)?);
    let metadata_tags = in_metadata("metadata.tags", "tags");
    tags.extend(values::usable_tags(metadata_tags, &mut warnings));
    let effect = effect(
        &naming.name,
        Signs {
            timestamp_ms,
            duration_ms: values::duration(("duration_ms", fields.duration_ms))?,
            failed: error.is_some() || status.as_deref() == Some("error"),
            succeeded: status.as_deref() == Some("success"),
            has_output: fields.output.is_some(),
        },
    );
    let call_details = call_details::read(&fields)?;
    let mut others = fields.others;
    let response_id = response_id(&fields.response_id, naming.kind.as_deref(), fields.output);
    // Kept for readers of the run, though Spindle does not interpret them.
    let user = [
        ("userId", fields.old_user_id),
        ("userProps", fields.old_user_properties),
    ];
    for (name, value) in user {
        others.extend(value.map(|value| (Cow::Borrowed(name), value)));
    }
    Ok(Event {
        dialect: naming.dialect,
        name: naming.name,
        custom: naming.custom,
        app,
        run_id,
        parent_run_id: values::parent_id(naming.parent_run_id)?,
        timestamp_ms,
        microsecond,
        event_id: values::id(("event_id", fields.event_id))?,
        effect,
        run_name: naming.run_name,
        kind: naming.kind,
        input: fields.input,
        output: fields.output,
        error,
        model: naming.model,
        tokens,
        cost: values::money(("cost", fields.cost))?,
        call_details,
        call_fingerprint: values::id(("call_fingerprint", fields.call_fingerprint))?
            .map(|text| CallFingerprint::of_text(&text)),
        response_id,
        agent,
        user_email,
        thread_id: naming.thread_id,
        message: naming.message,
        feedback: naming.feedback,
        tags,
        metadata,
        others,
        warnings,
    })
}

/// The response of a model call: as the client names it, else as its output does. Custom events and other runs have none.
fn response_id<'a>(
    given: &Option<&'a serde_json::value::RawValue>,
    kind: Option<&str>,
    output: Option<&'a serde_json::value::RawValue>,
) -> Option<Cow<'a, str>> {
    if kind.is_some_and(|kind| kind != "llm") {
        return None;
    }
    let given = given.and_then(as_text);
    let given = given.filter(|id| response_id::of_text(id).is_some());
    given.or_else(|| response_id::of_output(output?))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= crate::limits::NAME_BYTES
}
