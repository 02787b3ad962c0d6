//! A JSON value that counts accesses, so that every validation ends.
//!
//! The validator has no limit and cannot be interrupted, and a schema can make it access a value any number of times. It
//! reads values only through [`jsonschema::json::Node`], where each access is a step; the first step over the limit
//! unwinds out of the validator, without running the panic hook.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson, cmp};
use serde_json::{Map, Number, Value};

/// Steps between two reads of the clock: a step takes some nanoseconds, a read about 25.
const STEPS_PER_CLOCK_READ: u64 = 16;
/// Bytes of text per additional step: strings are matched and counted.
const TEXT_BYTES_PER_STEP: usize = 256;
/// Approximate size of a violation, without the value that it may quote.
const VIOLATION_BYTES: usize = 512;

/// Limits of one validation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Accesses to the value or a part of it.
    pub(super) steps: u64,
    /// Bytes of violations and the values that they quote.
    pub(super) report_bytes: usize,
    /// Checked at accesses.
    pub(super) deadline: Instant,
}

/// The limit that a validation exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Exceeded {
    Steps,
    /// Too many violations for the memory bound.
    Report,
    Time,
}

/// The remaining limits of the validation on this thread.
#[derive(Clone, Copy)]
struct Meter {
    limits: Limits,
}

thread_local! {
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Runs a validation on this thread within these limits.
///
/// # Errors
/// The exceeded limit. A panic of the validator is resumed.
pub(super) fn within<T>(limits: Limits, check: impl FnOnce() -> T) -> Result<T, Exceeded> {
    METER.set(Some(Meter { limits }));
    // The state of an unfinished validation is dropped with it.
    let outcome = catch_unwind(AssertUnwindSafe(check));
    METER.set(None);
    outcome.map_err(|payload| match payload.downcast::<Exceeded>() {
        Ok(exceeded) => *exceeded,
        Err(panic) => resume_unwind(panic),
    })
}

fn charge(steps: u64, report_bytes: usize) {
    let Some(Meter { mut limits }) = METER.get() else {
        return;
    };
    let before = limits.steps;
    let exceeded = match (
        limits.steps.checked_sub(steps),
        limits.report_bytes.checked_sub(report_bytes),
    ) {
        (Some(steps), Some(bytes)) => {
            limits.steps = steps;
            limits.report_bytes = bytes;
            let reads_clock = before / STEPS_PER_CLOCK_READ != steps / STEPS_PER_CLOCK_READ;
            (reads_clock && Instant::now() >= limits.deadline).then_some(Exceeded::Time)
        }
        (None, _) => Some(Exceeded::Steps),
        (_, None) => Some(Exceeded::Report),
    };
    match exceeded {
        None => METER.set(Some(Meter { limits })),
        Some(exceeded) => {
            // Destructors may access values during unwinding.
            METER.set(None);
            resume_unwind(Box::new(exceeded));
        }
    }
}

fn step() {
    charge(1, 0);
}

fn text_steps(text: &str) -> u64 {
    1 + (text.len() / TEXT_BYTES_PER_STEP) as u64
}

/// Approximate size of a value as text.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(text_bytes).sum::<usize>() + 2,
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(key, value)| key.len() + 4 + text_bytes(value))
                .sum::<usize>()
                + 2
        }
    }
}

/// The representation of counted values.
pub(super) struct Metered;

/// A counted value or part of a value.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a>(pub(super) &'a Value);

/// Members of a counted object.
pub(super) struct Members<'a>(&'a Map<String, Value>);

/// Items of a counted array.
pub(super) struct Items<'a>(&'a [Value]);

impl Json for Metered {
    type Node<'a> = Counted<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    const KEYS_PER_LOOKUP: usize = SerdeJson::KEYS_PER_LOOKUP;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(Counted<'_>) -> T,
    ) -> T {
        SerdeJson::with_string_node(buffer, string, |value| f(Counted(value)))
    }
}

impl<'a> Node<'a, Metered> for Counted<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        step();
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        step();
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        charge(text.map_or(1, text_steps), 0);
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        step();
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        step();
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        step();
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        step();
        Node::<SerdeJson>::json_type(&self.0)
    }

    fn string_length(&self) -> Option<u64> {
        charge(self.0.as_str().map_or(1, text_steps), 0);
        Node::<SerdeJson>::string_length(&self.0)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        step();
        Node::<SerdeJson>::equals_value(&self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        // Called for each violation, and by some violations to quote the value.
        charge(1, VIOLATION_BYTES + text_bytes(self.0));
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        step();
        Node::<SerdeJson>::identity(&self.0)
    }
}

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Counted<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Counted<'a>> {
        step();
        self.0.get(key.as_str()).map(Counted)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.iter())
    }
}

pub(super) struct MembersIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Counted<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next()?;
        charge(text_steps(key), 0);
        Some((key.as_str(), Counted(value)))
    }
}

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Counted<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.elements().all(|item| seen.insert(Distinct(item.0)))
    }
}

pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Counted<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.0.next()?;
        step();
        Some(Counted(value))
    }
}

/// A value in a set of distinct values. The validator's own hash ignores how arrays nest, so that `[]`, `[[]]` and
/// `[[],[]]` collide, and an array of these takes quadratic time.
struct Distinct<'a>(&'a Value);

impl PartialEq for Distinct<'_> {
    fn eq(&self, other: &Self) -> bool {
        cmp::equal(self.0, other.0)
    }
}

impl Eq for Distinct<'_> {}

impl Hash for Distinct<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(value) => value.hash(state),
            // 1 and 1.0 are equal, and so are 0 and -0.
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                (number + 0.0).to_bits().hash(state);
            }
            Value::String(text) => text.hash(state),
            Value::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| Distinct(item).hash(state));
            }
            // The map iterates in the order of its keys.
            Value::Object(members) => {
                members.len().hash(state);
                for (key, value) in members {
                    key.hash(state);
                    Distinct(value).hash(state);
                }
            }
        }
    }
}
