//! The readable page of the API at `/docs`, made from the OpenAPI document: one page, no script, nothing from elsewhere.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::Value;
use utoipa::openapi::OpenApi;

use crate::page::guarded;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\
code{font:14px/1.45 ui-monospace,monospace;background:#f3f4f6;border-radius:4px;padding:.1em .3em}\
h2{margin-top:2.5rem;border-top:1px solid #d8dee4;padding-top:1.5rem;font-size:1.15rem}\
table{border-collapse:collapse;width:100%;margin:.5rem 0 1rem}\
td,th{border-bottom:1px solid #e5e7eb;padding:.3rem .5rem .3rem 0;text-align:left;vertical-align:top}\
nav a{display:block}a{color:#0b57d0}\
@media(prefers-color-scheme:dark){body{color:#e6e8ea;background:#16181b}code{background:#24272b}\
td,th,h2{border-color:#363a40}a{color:#8ab4f8}}";

/// Serves the page of this document at `/docs`.
pub fn router(document: &OpenApi) -> Router {
    let page = page(document);
    let routes = Router::new().route("/docs", get(move || async move { Html(page) }));
    guarded(routes, Some(STYLE))
}

/// The page.
pub fn page(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).unwrap_or_default();
    let title = escaped(text(&document["info"]["title"]));
    let operations = operations(&document);
    let links: String = operations
        .iter()
        .map(|operation| {
            let (head, anchor) = (operation.head(), operation.anchor());
            format!(
                "<a href=\"#{anchor}\">{head} {}</a>",
                escaped(text(&operation.value["summary"]))
            )
        })
        .collect();
    let bodies: String = operations.iter().map(Operation::html).collect();
    let schemas: String = entries(&document["components"]["schemas"])
        .map(|(name, schema)| shape(name, schema))
        .collect();
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}: API</title><style>{STYLE}</style></head>\
         <body><h1>{title}: API</h1><p>{}</p><p>For programs: <a href=\"/api/openapi.json\">/api/openapi.json</a>.</p>\
         <nav>{links}</nav>{bodies}<h1>Shapes</h1>{schemas}</body></html>",
        prose(text(&document["info"]["description"]))
    )
}

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    value: &'a Value,
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    entries(&document["paths"])
        .flat_map(|(path, methods)| {
            entries(methods).map(move |(method, value)| Operation {
                method,
                path,
                value,
            })
        })
        .filter(|operation| operation.value["responses"].is_object())
        .collect()
}

impl Operation<'_> {
    fn head(&self) -> String {
        format!(
            "<code>{} {}</code>",
            self.method.to_uppercase(),
            escaped(self.path)
        )
    }

    fn anchor(&self) -> String {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        };
        format!(
            "{}{}",
            self.method,
            self.path.chars().map(plain).collect::<String>()
        )
    }

    fn html(&self) -> String {
        let summary = escaped(text(&self.value["summary"]));
        let mut html = format!(
            "<h2 id=\"{}\">{} {summary}</h2><p>{}</p>",
            self.anchor(),
            self.head(),
            prose(text(&self.value["description"]))
        );
        let parameters: Vec<[String; 3]> = list(&self.value["parameters"])
            .iter()
            .map(|parameter| {
                let name = format!(
                    "<code>{}</code> {}",
                    escaped(text(&parameter["name"])),
                    text(&parameter["in"])
                );
                [
                    name,
                    type_of(&parameter["schema"]),
                    prose(text(&parameter["description"])),
                ]
            })
            .collect();
        html.push_str(&table(["Parameter", "Type", "Meaning"], &parameters));
        let body = &self.value["requestBody"];
        if body.is_object() {
            let types: Vec<String> = contents(body);
            html.push_str(&format!(
                "<p>Body: {}. {}</p>",
                types.join(", "),
                prose(text(&body["description"]))
            ));
        }
        let responses: Vec<[String; 3]> = entries(&self.value["responses"])
            .map(|(status, response)| {
                let types = contents(response).join(", ");
                [
                    format!("<code>{}</code>", escaped(status)),
                    types,
                    prose(text(&response["description"])),
                ]
            })
            .collect();
        html.push_str(&table(["Status", "Body", "Meaning"], &responses));
        html
    }
}

/// One named shape: its fields, or the values it may have.
fn shape(name: &str, schema: &Value) -> String {
    let name = escaped(name);
    // A shape that extends another has its fields in parts.
    let parts = std::iter::once(schema).chain(list(&schema["allOf"]));
    let fields: Vec<[String; 3]> = parts
        .flat_map(|part| {
            let base = part["$ref"]
                .as_str()
                .map(|_| [String::new(), type_of(part), "and its fields".to_owned()]);
            let fields = entries(&part["properties"]).map(|(field, value)| {
                [
                    format!("<code>{}</code>", escaped(field)),
                    type_of(value),
                    prose(text(&value["description"])),
                ]
            });
            base.into_iter().chain(fields).collect::<Vec<_>>()
        })
        .collect();
    let values = if fields.is_empty() {
        format!("<p>{}</p>", type_of(schema))
    } else {
        String::new()
    };
    format!(
        "<h2 id=\"shape-{name}\">{name}</h2><p>{}</p>{values}{}",
        prose(text(&schema["description"])),
        table(["Field", "Type", "Meaning"], &fields)
    )
}

/// The types of a body by its media types.
fn contents(body: &Value) -> Vec<String> {
    entries(&body["content"])
        .map(|(kind, content)| format!("{} {}", escaped(kind), type_of(&content["schema"])))
        .collect()
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.rsplit('/').next())
    {
        let name = escaped(name);
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema[choice].as_array() {
            return parts.iter().map(type_of).collect::<Vec<_>>().join(" or ");
        }
    }
    let values: Vec<String> = list(&schema["enum"])
        .iter()
        .map(|value| format!("<code>{}</code>", escaped(text(value))))
        .collect();
    if !values.is_empty() {
        return values.join(" or ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect(),
        kind => vec![text(kind)],
    };
    let mut kind = kinds.join(" or ");
    if schema["items"].is_object() {
        kind = format!("{kind} of {}", type_of(&schema["items"]));
    }
    for (word, key) in [
        ("at least", "minimum"),
        ("at most", "maximum"),
        ("matching", "pattern"),
    ] {
        match &schema[key] {
            Value::Null => {}
            Value::String(pattern) => {
                kind.push_str(&format!(", {word} <code>{}</code>", escaped(pattern)))
            }
            bound => kind.push_str(&format!(", {word} {bound}")),
        }
    }
    kind
}

fn table(head: [&str; 3], rows: &[[String; 3]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows: String = rows
        .iter()
        .map(|[a, b, c]| format!("<tr><td>{a}<td>{b}<td>{c}"))
        .collect();
    format!(
        "<table><tr><th>{}<th>{}<th>{}{rows}</table>",
        head[0], head[1], head[2]
    )
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Text with `code` in it.
fn prose(text: &str) -> String {
    let parts = text
        .split('`')
        .enumerate()
        .map(|(number, part)| match number % 2 {
            0 => escaped(part),
            _ => format!("<code>{}</code>", escaped(part)),
        });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_path_and_parameter_and_loads_nothing_from_elsewhere() {
        let document = crate::openapi();
        let page = page(&document);
        for path in document.paths.paths.keys() {
            assert!(page.contains(&escaped(path)), "{path}");
        }
        assert!(page.contains("min_latency_s") && page.contains("metadata.&lt;key&gt;"));
        assert!(
            !page.contains("<script") && !page.contains("http://") && !page.contains("https://")
        );
    }

    #[test]
    fn text_of_the_document_is_never_markup() {
        assert_eq!(prose("a <b> `c&d`"), "a &lt;b&gt; <code>c&amp;d</code>");
    }
}
