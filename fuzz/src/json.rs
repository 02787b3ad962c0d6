//! Edits of JSON: values with another type, position or name, or removed.

use bolero::Driver;
use serde_json::{Value, json};

use crate::edit::below;

/// Changes one value of a JSON text. Text that is not JSON stays as it is.
pub(crate) fn edit<D: Driver>(driver: &mut D, bytes: &mut Vec<u8>) -> Option<()> {
    let Ok(mut whole) = serde_json::from_slice::<Value>(bytes) else {
        return Some(());
    };
    let nodes = count(&whole);
    let (at, from) = (below(driver, nodes)?, below(driver, nodes)?);
    let operation = below(driver, 4)?;
    let replacement = match operation {
        0 => odd(driver)?,
        1 => nth(&mut whole, from).map(|node| node.clone())?,
        _ => Value::Null,
    };
    let child = below(driver, 64)?;
    let name = NAMES[below(driver, NAMES.len())?];
    let node = nth(&mut whole, at)?;
    match (operation, node) {
        (2, Value::Object(fields)) => {
            let at = child.checked_rem(fields.len()).unwrap_or_default();
            let key = fields.keys().nth(at).cloned();
            let value = key.and_then(|key| fields.remove(&key));
            // Removed, or renamed.
            if child % 2 == 0 {
                fields.insert(name.to_owned(), value.unwrap_or_default());
            }
        }
        (2, Value::Array(list)) => drop(list.pop()),
        (3, Value::Object(fields)) => drop(fields.insert(name.to_owned(), odd(driver)?)),
        (3, Value::Array(list)) => list.extend(list.clone()),
        (3, node) => *node = json!([node.take()]),
        (_, node) => *node = replacement,
    }
    *bytes = whole.to_string().into_bytes();
    Some(())
}

/// Names of fields that many parsers know.
const NAMES: [&str; 12] = [
    "", "id", "name", "type", "event", "events", "value", "key", "metadata", "app_id", "run_id",
    "\0",
];

/// A value that few fields expect.
fn odd<D: Driver>(driver: &mut D) -> Option<Value> {
    Some(match below(driver, 16)? {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1.5e300),
        7 => json!(1e-300),
        8 => json!(""),
        9 => json!("x".repeat(below(driver, 2000)?)),
        10 => json!("\0é\u{1f600}\u{2028}"),
        11 => json!([]),
        12 => json!({}),
        13 => (0..below(driver, 100)?).fold(json!([]), |inner, _| json!([inner])),
        14 => json!("2024-05-01T10:00:00.123456+02:00"),
        _ => json!(driver.produce::<u64>()?),
    })
}

fn count(node: &Value) -> usize {
    1 + match node {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The node of this number, in the order of the text.
fn nth(node: &mut Value, number: usize) -> Option<&mut Value> {
    let mut number = number;
    find(node, &mut number)
}

fn find<'a>(node: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(node);
    }
    *number -= 1;
    match node {
        Value::Array(list) => list.iter_mut().find_map(|inner| find(inner, number)),
        Value::Object(fields) => fields.values_mut().find_map(|inner| find(inner, number)),
        _ => None,
    }
}
