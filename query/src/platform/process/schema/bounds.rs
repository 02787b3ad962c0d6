//! What a schema may ask of one value, known before any value is checked.
//!
//! `allOf` and its like apply subschemas to the value itself, and `$ref` applies one from elsewhere: sixty definitions
//! that each refer to the next one twice ask for 2^60 checks of one value. Those are counted here without being made.
//! What a schema asks of the parts of a value depends on the value; [`super::metered`] bounds it at each check.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Subschemas of one schema (X1): 256 KiB of them have some thousand.
const SUBSCHEMAS_MAX: usize = 10_000;
/// Checks of one value: those of a large union of large unions, some milliseconds of them.
const CHECKS_MAX: u64 = 50_000;
/// The same of all subschemas together: some of it is done for each of them when the schema is compiled.
const CHECKS_SUM_MAX: u64 = 1_000_000;
/// How deep `allOf` and its like and `$ref` may lead from one schema to another without leaving the value. With values
/// 128 deep it is what a check takes of its stack.
const NESTED_MAX: usize = 128;
/// Patterns of one schema: each is compiled and kept.
const PATTERNS_MAX: usize = 200;
/// What a schema of JSON Schema itself costs, which the validator knows without being told.
const META_CHECKS: u64 = 1_000;
const META_PREFIXES: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Keywords with one subschema for the value itself.
const SAME_ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of them.
const SAME_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a map of them.
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
/// Keywords with a map of subschemas for parts of the value, or that are only referred to.
const PART_MAP: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keywords that apply a subschema from elsewhere to the value itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

type Schema = Map<String, Value>;

/// Whether a schema is within the bounds.
///
/// # Errors
/// The rule that it breaks, where, and what was found.
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
                "{} asks for {} of each value through `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas` and `$ref`; at most {CHECKS_MAX} are allowed: refer to a subschema once instead of several times",
                named(&place),
                counted(checks),
            ));
        }
        sum = sum.saturating_add(checks);
        if sum > CHECKS_SUM_MAX {
            return Err(format!(
                "its subschemas ask for more than {CHECKS_SUM_MAX} checks together through `allOf`, `anyOf`, `oneOf`, `not`, `if`, `dependentSchemas` and `$ref`, which is the most there may be"
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

/// A schema by its address: two equal ones are two.
type Address = *const Schema;

#[derive(Default)]
struct Bounds<'a> {
    /// Subschemas in the order in which they were found, and where.
    order: Vec<&'a Schema>,
    places: Vec<String>,
    known: HashSet<Address>,
    /// How many of them were looked into.
    explored: usize,
    /// The schema itself, and subschemas with an identifier of their own.
    resources: Vec<(&'a str, &'a Value)>,
    /// Those with a name.
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    patterns: usize,
    /// Checks that a subschema asks for; `None` while they are counted.
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
                "it has more than {SUBSCHEMAS_MAX} subschemas, which is the most there may be"
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
                "it has more than {PATTERNS_MAX} patterns in `pattern` and `patternProperties`, which is the most there may be"
            ));
        }
        self.order.push(map);
        self.places.push(place);
        Ok(())
    }

    /// Finds the subschemas of all that were found.
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

    /// How many checks of one value a schema asks for, its own included.
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
                let asked = self.referred(value.as_str().unwrap_or_default(), place, nested)?;
                checks = checks.saturating_add(asked);
                continue;
            } else {
                continue;
            };
            for applied in applied {
                let asked = self.of_value(applied, place, nested)?;
                checks = checks.saturating_add(asked);
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

    /// How many checks a reference asks for: the most of all that it may mean.
    fn referred(&mut self, reference: &str, place: &str, nested: usize) -> Result<u64, String> {
        let is_meta = META_PREFIXES.iter().any(|meta| reference.starts_with(meta));
        let mut most = if is_meta { META_CHECKS } else { 1 };
        for target in self.targets(reference) {
            // A reference may lead to where no keyword does.
            self.enter(target, format!("{place} -> {reference}"))?;
            self.explore()?;
            most = most.max(self.of_value(target, place, nested)?);
        }
        Ok(most)
    }

    /// What a reference may mean. Which resource it goes to is for the validator to say: those that end like it are
    /// meant, or all where that cannot be told. None is meant by a reference to another document.
    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let is_plain = |uri: &str| !uri.contains(['%', '?', '\\']);
        let end = |uri: &'a str| last_segment(uri.split('#').next().unwrap_or_default());
        let is_told = !matches!(last_segment(base), "" | "." | "..")
            && is_plain(base)
            && self.resources.iter().all(|(id, _)| is_plain(id));
        let meant = self.resources.iter().filter(|(id, _)| {
            let end = end(id);
            !is_told
                || end.eq_ignore_ascii_case(last_segment(base))
                || (end.is_empty() && !id.is_empty())
        });
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointed = meant.filter_map(|(_, schema)| schema.pointer(&fragment));
            return pointed.collect();
        }
        let anchored = self.anchors.get(&*fragment);
        anchored.into_iter().flatten().copied().collect()
    }
}

fn last_segment(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}
