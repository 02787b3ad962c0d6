//! JSON that violates OTLP: an unreadable value is dropped, and the rest of the span is kept.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Memory of an element, as a multiple of the strict parser's: its object is kept.
pub(super) const COST: usize = 4;

/// Parses an item after its repair.
pub(super) fn read<T: DeserializeOwned>(mut item: Value) -> serde_json::Result<T> {
    put_right(&mut item);
    serde_json::from_value(item)
}

/// `null` counts as absent, and values of attributes get the types that their names demand.
fn put_right(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(put_right),
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for name in ["attributes", "events", "links"] {
                match fields.get_mut(name) {
                    Some(Value::Array(list)) => list.retain(Value::is_object),
                    Some(_) => drop(fields.remove(name)),
                    None => {}
                }
            }
            if fields.contains_key("key") && !fields.get("value").is_some_and(Value::is_object) {
                fields.remove("value");
            }
            put_value_right(fields);
            fields.values_mut().for_each(put_right);
        }
        _ => {}
    }
}

fn put_value_right(fields: &mut Map<String, Value>) {
    for name in ["arrayValue", "kvlistValue"] {
        match fields.get_mut(name) {
            Some(Value::Object(inner)) => match inner.get_mut("values") {
                // In a list an empty value keeps its position.
                Some(Value::Array(list)) if name == "arrayValue" => {
                    let others = list.iter_mut().filter(|value| !value.is_object());
                    others.for_each(|value| *value = json!({}));
                }
                Some(Value::Array(list)) => list.retain(|pair| pair["key"].is_string()),
                _ => drop(inner.insert("values".to_owned(), json!([]))),
            },
            Some(_) => drop(fields.remove(name)),
            None => {}
        }
    }
    if let Some(value) = fields.remove("intValue") {
        let whole = match &value {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_i64(),
        };
        // A number that is no 64-bit integer is still a number.
        match whole {
            Some(whole) => drop(fields.insert("intValue".to_owned(), Value::from(whole))),
            None => put_number(fields, &value),
        }
    }
    if let Some(value) = fields.remove("doubleValue") {
        put_number(fields, &value);
    }
    for (name, is_right) in [
        ("stringValue", Value::is_string as fn(&Value) -> bool),
        ("boolValue", Value::is_boolean),
        ("bytesValue", |value| value.as_str().is_some_and(is_base64)),
    ] {
        if fields.get(name).is_some_and(|value| !is_right(value)) {
            fields.remove(name);
        }
    }
}

/// A number, also as text; numbers that JSON cannot express stay text.
fn put_number(fields: &mut Map<String, Value>, value: &Value) {
    let text = value.as_str().map(str::trim);
    let number = value
        .as_f64()
        .or_else(|| text.and_then(|text| text.parse::<f64>().ok()));
    match (number, text) {
        (Some(number), _) if number.is_finite() => {
            fields.insert("doubleValue".to_owned(), number.into());
        }
        (Some(_), Some(text)) => {
            fields.insert("stringValue".to_owned(), text.into());
        }
        _ => {}
    }
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .is_ok()
}
