//! The owner of a run: app, user, thread and tags, under the names of all conventions.

use std::borrow::Cow;

use schemas::limits;

use super::attributes::Attributes;
use super::value::{Any, held, parsed};
use super::vocabulary::Used;

/// The owner according to the span's attributes.
#[derive(Debug, Default)]
pub(crate) struct Context<'a> {
    pub(crate) app: Option<Cow<'a, str>>,
    pub(crate) user: Option<Cow<'a, str>>,
    pub(crate) thread: Option<Cow<'a, str>>,
    pub(crate) tags: Vec<Cow<'a, str>>,
}

impl<'a> Context<'a> {
    pub(crate) fn of(attributes: &Attributes<'a>) -> Self {
        let used = Used::by(attributes);
        let users = [
            "user.email",
            "enduser.email",
            "gen_ai.user.email",
            "traceloop.association.properties.user_email",
            "user.id",
            "enduser.id",
            "gen_ai.user",
            "llm.user",
            "traceloop.association.properties.user_id",
            "user",
        ];
        let threads = [
            "session.id",
            "gen_ai.conversation.id",
            "conversation.id",
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.thread_id",
            "session",
        ];
        Self {
            app: app(attributes).map(Cow::from),
            // An e-mail address first, because the field is one.
            user: attributes
                .name(users.into_iter().chain(used.names(|one| one.user)))
                .or_else(|| in_metadata(attributes, ["user_id", "userId"], limits::NAME_BYTES)),
            thread: attributes
                .id(threads.into_iter().chain(used.names(|one| one.thread)))
                .or_else(|| {
                    let names = ["session_id", "sessionId", "thread_id", "threadId"];
                    in_metadata(attributes, names, limits::ID_BYTES)
                }),
            tags: tags(attributes, used),
        }
    }
}

/// A text of the application's own object `metadata`, which stays.
fn in_metadata<'a, const N: usize>(
    attributes: &Attributes<'a>,
    names: [&str; N],
    bytes: usize,
) -> Option<Cow<'a, str>> {
    let object = parsed(attributes.get("metadata")?);
    let mut texts = names.iter().filter_map(|name| object.get(name)?.as_str());
    let text = texts.find(|text| (1..=bytes).contains(&text.len()))?;
    Some(text.to_owned().into())
}

/// The tags under `tags` in an application's own object `metadata`: a list of texts.
pub(crate) fn tags_of(value: &serde_json::Value) -> Option<Vec<String>> {
    let tags = value.as_array()?.iter();
    tags.map(|tag| tag.as_str().map(str::to_owned)).collect()
}

/// The app that a span or a record names. Only under our own name: other programs use `app_id` for anything.
pub(crate) fn app<'a>(attributes: &Attributes<'a>) -> Option<&'a str> {
    attributes.first(["spindle.app_id"], |any| match any {
        Any::StringValue(text) if (1..=limits::ID_BYTES).contains(&text.len()) => {
            Some(text.as_str())
        }
        _ => None,
    })
}

/// Tags: lists of strings, also as JSON inside of a text, or separated by commas. Other values, and tags over the bound, are left
/// out.
fn tags<'a>(attributes: &Attributes<'a>, used: Used) -> Vec<Cow<'a, str>> {
    let mut tags = Vec::new();
    let shared = ["tag.tags", "agentops.tags", "tags"];
    for key in shared.into_iter().chain(used.names(|one| one.tags)) {
        match attributes.take(key) {
            Some(Any::ArrayValue(list)) => {
                tags.extend(
                    list.values
                        .iter()
                        .filter_map(|value| match held(Some(value))? {
                            Any::StringValue(text) => Some(Cow::from(text)),
                            _ => None,
                        }),
                );
            }
            Some(any @ Any::StringValue(text)) => match parsed(any) {
                serde_json::Value::Array(list) => {
                    tags.extend(
                        list.iter()
                            .filter_map(|one| Some(one.as_str()?.to_owned().into())),
                    );
                }
                _ => tags.extend(text.split(',').map(|tag| Cow::from(tag.trim()))),
            },
            _ => {}
        }
    }
    let metadata = attributes.get("metadata").map(parsed);
    if let Some(list) = metadata.and_then(|object| tags_of(object.get("tags")?)) {
        tags.extend(list.into_iter().map(Cow::from));
    }
    tags.retain(|tag| (1..=limits::NAME_BYTES).contains(&tag.len()));
    tags.dedup();
    tags.truncate(limits::EVENT_TAGS);
    tags
}
