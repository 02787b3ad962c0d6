//! Bounds on the checks of one value, computed before any validation.
//!
//! `allOf` and similar keywords apply subschemas to the value itself, and so does `$ref`: sixty definitions that each
//! refer to the next one twice require 2^60 checks of one value. They are counted here without being carried out. The
//! checks of the parts of a value depend on the value; [`super::metered`] bounds them in each validation.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Subschemas of one schema (X1): 256 KiB of them have some thousand.
const SUBSCHEMAS_MAX: usize = 10_000;
/// Checks of one value: a large union of large unions, which takes some milliseconds.
const CHECKS_MAX: u64 = 50_000;
/// Checks of one value, summed over all subschemas: compilation does some of them for each.
const CHECKS_SUM_MAX: u64 = 1_000_000;
/// Depth of `allOf` and similar keywords and `$ref` on one value. With values 128 deep this bounds the stack of a
/// validation.
const NESTED_MAX: usize = 128;
/// Patterns of one schema: each is compiled (X1).
const PATTERNS_MAX: usize = 200;
/// Checks of a meta-schema, which the validator knows by its URI.
const META_CHECKS: u64 = 1_000;
const META_PREFIXES: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Keywords with one subschema for the value itself.
const SAME_ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of subschemas for the value itself.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a map of subschemas for the value itself.
const SAME_MAP: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords with one subschema, or a list of them, for parts of the value.
const PART: [&str; 10] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
    "extends",
];
/// Keywords with a map of subschemas for parts of the value, or for references.
const PART_MAP: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keywords that apply another subschema to the value itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

type Schema = Map<String, Value>;

/// # Errors
/// The violated bound, its place and the value.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut bounds = Bounds::default();
    bounds.enter(schema, String::new())?;
    bounds.explore()?;
    let (mut at, mut sum) = (0, 0_u64);
    while at < bounds.order.len() {
        let (schema, place) = (bounds.order[at], bounds.places[at].clone());
        let checks = bounds.checks(schema, &place, 0)?;
        if checks > CHECKS_MAX {
            return Err(format!(
                "{} requires {} of each value through `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas` and `$ref`; at most {CHECKS_MAX} are allowed: refer to a subschema once instead of several times",
                named(&place),
                counted(checks),
            ));
        }
        sum = sum.saturating_add(checks);
        if sum > CHECKS_SUM_MAX {
            return Err(format!(
                "its subschemas require more than {CHECKS_SUM_MAX} checks together through `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas` and `$ref`, which is the limit"
            ));
        }
        at += 1;
    }
    Ok(())
}

fn named(place: &str) -> String {
    match place {
        "" => "the schema".to_owned(),
        place => format!("the subschema at {}", super::cut(place)),
    }
}

fn counted(checks: u64) -> String {
    match checks {
        u64::MAX => format!("more than {} checks", u64::MAX),
        checks => format!("{checks} checks"),
    }
}

/// Identifies a subschema; equal subschemas at different places are distinct.
type Address = *const Schema;

#[derive(Default)]
struct Bounds<'a> {
    /// Subschemas in the order in which they were found, and their places.
    order: Vec<&'a Schema>,
    places: Vec<String>,
    known: HashSet<Address>,
    /// Number of subschemas that were explored.
    explored: usize,
    /// The schema itself, and subschemas with `$id`.
    resources: Vec<(&'a str, &'a Value)>,
    /// Subschemas by anchor.
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    patterns: usize,
    /// Checks of a subschema; `None` while they are counted.
    checks: HashMap<Address, Option<u64>>,
}

impl<'a> Bounds<'a> {
    fn enter(&mut self, schema: &'a Value, place: String) -> Result<(), String> {
        let Value::Object(map) = schema else {
            return Ok(());
        };
        if !self.known.insert(map) {
            return Ok(());
        }
        if self.order.len() == SUBSCHEMAS_MAX {
            return Err(format!(
                "it has more than {SUBSCHEMAS_MAX} subschemas, which is the limit"
            ));
        }
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let own_id = text("$id").or_else(|| text("id"));
        if self.order.is_empty() || own_id.is_some() {
            self.resources.push((own_id.unwrap_or_default(), schema));
        }
        let fragment = own_id.and_then(|id| id.strip_prefix('#'));
        let names = [text("$anchor"), text("$dynamicAnchor"), fragment];
        for name in names.into_iter().flatten() {
            self.anchors.entry(name).or_default().push(schema);
        }
        let named_by_pattern = map.get("patternProperties").and_then(Value::as_object);
        self.patterns += usize::from(map.contains_key("pattern"));
        self.patterns += named_by_pattern.map_or(0, Map::len);
        if self.patterns > PATTERNS_MAX {
            return Err(format!(
                "it has more than {PATTERNS_MAX} patterns in `pattern` and `patternProperties`, which is the limit"
            ));
        }
        self.order.push(map);
        self.places.push(place);
        Ok(())
    }

    /// Finds the subschemas of all found subschemas.
    fn explore(&mut self) -> Result<(), String> {
        while let Some(schema) = self.order.get(self.explored).copied() {
            let place = self.places[self.explored].clone();
            self.explored += 1;
            for (keyword, value) in schema {
                let of = |keys: &[&str]| keys.contains(&keyword.as_str());
                let here = format!("{place}/{keyword}");
                if of(&SAME_MAP) || of(&PART_MAP) {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        self.enter(value, format!("{here}/{name}"))?;
                    }
                } else if of(&SAME_ONE) || of(&SAME_LIST) || of(&PART) {
                    self.enter(value, here.clone())?;
                    for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.enter(value, format!("{here}/{number}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The checks of one value that a schema requires, including its own.
    fn checks(&mut self, schema: &'a Schema, place: &str, nested: usize) -> Result<u64, String> {
        match self.checks.get(&(schema as Address)) {
            Some(Some(checks)) => return Ok(*checks),
            Some(None) => {
                return Err(format!(
                    "{} refers to itself without going on to a part of the value",
                    named(place)
                ));
            }
            None if nested > NESTED_MAX => {
                return Err(format!(
                    "{} leads through more than {NESTED_MAX} subschemas by `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas` and `$ref` without going on to a part of the value",
                    named(place)
                ));
            }
            None => self.checks.insert(schema, None),
        };
        let mut checks: u64 = 1;
        for (keyword, value) in schema {
            let of = |keys: &[&str]| keys.contains(&keyword.as_str());
            let applied: Vec<&'a Value> = if of(&SAME_ONE) {
                vec![value]
            } else if of(&SAME_LIST) {
                value.as_array().into_iter().flatten().collect()
            } else if of(&SAME_MAP) {
                value
                    .as_object()
                    .into_iter()
                    .flat_map(Map::values)
                    .collect()
            } else if of(&REFERENCES) {
                let required = self.referred(value.as_str().unwrap_or_default(), place, nested)?;
                checks = checks.saturating_add(required);
                continue;
            } else {
                continue;
            };
            for applied in applied {
                let required = self.of_value(applied, place, nested)?;
                checks = checks.saturating_add(required);
            }
        }
        self.checks.insert(schema, Some(checks));
        Ok(checks)
    }

    fn of_value(&mut self, schema: &'a Value, place: &str, nested: usize) -> Result<u64, String> {
        match schema {
            Value::Object(map) => self.checks(map, place, nested + 1),
            _ => Ok(1),
        }
    }

    /// The largest number of checks of all possible targets of a reference.
    fn referred(&mut self, reference: &str, place: &str, nested: usize) -> Result<u64, String> {
        let is_meta = META_PREFIXES.iter().any(|meta| reference.starts_with(meta));
        let mut most = if is_meta { META_CHECKS } else { 1 };
        for target in self.targets(reference) {
            // A reference may lead to a place that no keyword reaches.
            self.enter(target, format!("{place} -> {reference}"))?;
            self.explore()?;
            most = most.max(self.of_value(target, place, nested)?);
        }
        Ok(most)
    }

    /// The possible targets of a reference. The validator resolves it exactly; here all resources with the same last path
    /// segment are possible, or all resources if the segment is unclear. A reference to another document has no target.
    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let is_plain = |uri: &str| !uri.contains(['%', '?', '\\']);
        let end = |uri: &'a str| last_segment(uri.split('#').next().unwrap_or_default());
        let is_clear = !matches!(last_segment(base), "" | "." | "..")
            && is_plain(base)
            && self.resources.iter().all(|(id, _)| is_plain(id));
        let possible = self.resources.iter().filter(|(id, _)| {
            let end = end(id);
            !is_clear
                || end.eq_ignore_ascii_case(last_segment(base))
                || (end.is_empty() && !id.is_empty())
        });
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointed = possible.filter_map(|(_, schema)| schema.pointer(&fragment));
            return pointed.collect();
        }
        let anchored = self.anchors.get(&*fragment);
        anchored.into_iter().flatten().copied().collect()
    }
}

fn last_segment(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}
