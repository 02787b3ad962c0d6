//! Where spans and records come from: what their resource and their scope say of all of them.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use schemas::limits;

use super::metadata::Metadata;
use super::value::{Any, Json, cut, held};

/// Bytes of one value. They stand in one event of every span, so a resource of a megabyte before ten thousand small
/// spans must not become ten gigabytes.
const VALUE_BYTES: usize = 256;

/// What a resource says, and the scope in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The app that it names for all of its spans.
    pub(crate) app: Option<String>,
    of_resource: Vec<(&'static str, String)>,
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
        Self {
            app: text("spindle.app_id")
                .or_else(|| text("app_id"))
                .filter(|app| app.len() <= limits::ID_BYTES),
            of_resource: of_resource.collect(),
            scope: String::new(),
        }
    }

    /// The same for the spans of one scope.
    pub(crate) fn with_scope(&self, scope: &InstrumentationScope) -> Self {
        Self {
            scope: cut(&scope.name, VALUE_BYTES).to_owned(),
            ..self.clone()
        }
    }

    /// Adds it to the metadata of an event.
    pub(crate) fn add_to<'a>(&'a self, metadata: &mut Metadata<'a>) {
        for (name, value) in &self.of_resource {
            metadata.insert(*name, Json::Text(value.into()));
        }
        if !self.scope.is_empty() {
            metadata.insert("otel.scope.name", Json::Text((&self.scope).into()));
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
