//! The source of spans and records: attributes of their resource and scope that apply to all of them.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use schemas::limits;

use super::metadata::Metadata;
use super::value::{Any, Json, cut, held};

/// Bytes of one value. It is repeated in one event of every span, so a resource of a megabyte before ten thousand small
/// spans must not become ten gigabytes.
const VALUE_BYTES: usize = 256;

/// Bytes of all other attributes of a resource and a scope, names and values: they are repeated as often.
const OTHERS_BYTES: usize = 2 << 10;
/// Attributes with a field of their own.
const KNOWN: [&str; 10] = [
    "service.name",
    "service.version",
    "service.namespace",
    "deployment.environment.name",
    "deployment.environment",
    "spindle.app_id",
    "app_id",
    "user.email",
    "user.id",
    "session.id",
];

/// A resource and a scope in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The app of all its spans.
    pub(crate) app: Option<String>,
    /// The user and the thread of spans that name none.
    pub(crate) user: Option<String>,
    pub(crate) thread: Option<String>,
    of_resource: Vec<(&'static str, String)>,
    /// Other attributes, as far as there is room.
    others: Vec<(String, String)>,
    scope: String,
}

impl Source {
    pub(crate) fn of_resource(resource: &Resource) -> Self {
        let text = |key: &str| text(&resource.attributes, key);
        let known = [
            ("service", ["service.name", "service.name"]),
            ("service.version", ["service.version", "service.version"]),
            (
                "service.namespace",
                ["service.namespace", "service.namespace"],
            ),
            (
                "deployment.environment",
                ["deployment.environment.name", "deployment.environment"],
            ),
        ];
        let of_resource = known.into_iter().filter_map(|(name, [now, former])| {
            let value = text(now).or_else(|| text(former))?;
            Some((name, cut(&value, VALUE_BYTES).to_owned()))
        });
        let mut others = Vec::new();
        let rest = resource.attributes.iter();
        let rest = rest.filter(|pair| !KNOWN.contains(&pair.key.as_str()));
        add_others(&mut others, "", rest);
        Self {
            user: text("user.email")
                .or_else(|| text("user.id"))
                .filter(|user| user.len() <= limits::NAME_BYTES),
            thread: text("session.id").filter(|thread| thread.len() <= limits::ID_BYTES),
            others,
            app: text("spindle.app_id")
                .or_else(|| text("app_id"))
                .filter(|app| app.len() <= limits::ID_BYTES),
            of_resource: of_resource.collect(),
            scope: String::new(),
        }
    }

    /// The source of the spans of one scope.
    pub(crate) fn with_scope(&self, scope: &InstrumentationScope) -> Self {
        let mut source = self.clone();
        source.scope = cut(&scope.name, VALUE_BYTES).to_owned();
        add_others(&mut source.others, "otel.scope.", &scope.attributes);
        source
    }

    /// The name of the instrumentation scope; empty for none.
    pub(crate) fn scope(&self) -> &str {
        &self.scope
    }

    pub(crate) fn bytes(&self) -> usize {
        let known = self.of_resource.iter().map(|(_, value)| value.len() + 64);
        let others = self.others.iter();
        let others = others.map(|(key, value)| key.len() + value.len() + 64);
        size_of::<Self>() + self.scope.len() + known.chain(others).sum::<usize>()
    }

    /// Adds the other attributes, except under names that the span itself uses.
    pub(crate) fn add_others_to<'a>(&'a self, metadata: &mut Metadata<'a>) {
        for (name, value) in &self.others {
            metadata.insert(name.as_str(), Json::Text(value.into()));
        }
    }

    /// Adds all attributes to the metadata of an event.
    pub(crate) fn add_to<'a>(&'a self, metadata: &mut Metadata<'a>) {
        for (name, value) in &self.of_resource {
            metadata.insert(*name, Json::Text(value.into()));
        }
        if !self.scope.is_empty() {
            metadata.insert("otel.scope.name", Json::Text((&self.scope).into()));
        }
    }
}

/// Adds pairs while there is room; one that is too long is skipped, and the next may still fit.
fn add_others<'a>(
    others: &mut Vec<(String, String)>,
    prefix: &str,
    pairs: impl IntoIterator<Item = &'a KeyValue>,
) {
    let sizes = others.iter().map(|(key, value)| key.len() + value.len());
    let mut bytes: usize = sizes.sum();
    for pair in pairs {
        let Some(any) = held(pair.value.as_ref()) else {
            continue;
        };
        let value = Json::of(any);
        let value = cut(value.written(), VALUE_BYTES);
        let size = prefix.len() + pair.key.len() + value.len();
        if !value.is_empty() && bytes + size <= OTHERS_BYTES {
            bytes += size;
            others.push((format!("{prefix}{}", pair.key), value.to_owned()));
        }
    }
}

fn text(pairs: &[KeyValue], key: &str) -> Option<String> {
    let pair = pairs.iter().rev().find(|pair| pair.key == key)?;
    match held(pair.value.as_ref())? {
        Any::StringValue(text) if !text.is_empty() => Some(text.clone()),
        Any::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::span::tests::attributes;
    use serde_json::json;

    #[test]
    fn everything_else_is_kept_within_its_bound() {
        let resource = |object| Resource {
            attributes: attributes(object),
            ..Resource::default()
        };
        let shared = Source::of_resource(&resource(json!({
            "service.name": "shop", "host.name": "a", "process.pid": 7, "user.id": "u", "session.id": "s",
        })));
        let scope = InstrumentationScope {
            attributes: attributes(json!({"kind": "x"})),
            ..InstrumentationScope::default()
        };
        let source = shared.with_scope(&scope);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = [
            pair("host.name", "a"),
            pair("process.pid", "7"),
            pair("otel.scope.kind", "x"),
        ];
        assert_eq!(source.others, expected);
        assert_eq!(
            (source.user.as_deref(), source.thread.as_deref()),
            (Some("u"), Some("s"))
        );

        let many = (0..1000).map(|number| (format!("key-{number}"), json!("v".repeat(1000))));
        let source = Source::of_resource(&resource(many.collect()));
        assert!((1500..8000).contains(&source.bytes()), "{}", source.bytes());
    }
}
