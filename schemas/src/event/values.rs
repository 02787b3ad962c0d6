//! Reading single values out of their JSON text, with a fault that names the field.

use std::borrow::Cow;
use std::str::FromStr;

use rust_decimal::Decimal;
use serde_json::value::RawValue;

use super::{ErrorInfo, FieldFault, fields::Key};
use crate::limits;
use crate::timestamp::{self, UnixMs};

/// A name and the JSON under it; absent when it was `null`.
pub(crate) type Named<'a> = (&'static str, Option<&'a RawValue>);

/// The text of a JSON string, borrowed unless it contains an escape. `None` when it is something else.
pub fn as_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// A string, or a number as it is written: clients give users both as ids.
pub(crate) fn as_label(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    as_text(value).or_else(|| is_number.then_some(Cow::Borrowed(raw)))
}

/// Optional text of at most `limit` bytes; empty text is "not given".
pub(crate) fn text<'a>(
    (name, value): Named<'a>,
    limit: usize,
) -> Result<Option<Cow<'a, str>>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    let Some(text) = as_text(value) else {
        return Err(FieldFault::new(
            "wrong_type",
            format!("{name} must be a string"),
        ));
    };
    if text.len() > limit {
        return Err(FieldFault::new(
            "too_long",
            format!("{name} is longer than {limit} bytes"),
        ));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// An identifier.
pub(crate) fn id<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    text(field, limits::ID_BYTES)
}

/// A name.
pub(crate) fn name<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    text(field, limits::NAME_BYTES)
}

/// A parent's identifier; some clients write the text `None` where there is none.
pub(crate) fn parent_id<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    Ok(id(field)?.filter(|text| text != "None"))
}

/// The moment of the event, in any of the forms clients send, and its microsecond where it is that fine.
pub(crate) fn moment(
    value: Option<&RawValue>,
    now_ms: UnixMs,
) -> Result<(UnixMs, Option<u16>), FieldFault> {
    let Some(value) = value else {
        return Err(FieldFault::new("missing_field", "timestamp is required"));
    };
    let moment = match as_text(value) {
        Some(text) => timestamp::parse_finely(&text),
        None => value.get().parse().ok().map(|time_ms| (time_ms, None)),
    };
    let Some((time_ms, microsecond)) = moment else {
        let allowed = "timestamp must be an ISO 8601 time or integer milliseconds since 1970";
        return Err(FieldFault::new("invalid_value", allowed));
    };
    if time_ms < limits::EARLIEST_TIMESTAMP_MS {
        return Err(FieldFault::new(
            "timestamp_out_of_range",
            "timestamp is before the year 2000",
        ));
    }
    if time_ms > now_ms.saturating_add(limits::FUTURE_TIMESTAMP_MS) {
        return Err(FieldFault::new(
            "timestamp_out_of_range",
            "timestamp is more than a day in the future",
        ));
    }
    Ok((time_ms, microsecond))
}

/// The largest count: 2^53, up to which JavaScript and floats tell neighbours apart, and sums of them stay in 64 bits.
const COUNT_MAX: u64 = 1 << 53;

/// A count: an integer from 0, also written as `37.0`.
pub(crate) fn count((name, value): Named<'_>) -> Result<Option<u64>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(count) = value.get().parse::<u64>() {
        return if count <= COUNT_MAX {
            Ok(Some(count))
        } else {
            Err(FieldFault::new(
                "invalid_value",
                format!("{name} is too large"),
            ))
        };
    }
    match value.get().parse::<f64>() {
        Ok(number) if number >= 0.0 && number.fract() == 0.0 && number <= COUNT_MAX as f64 => {
            Ok(Some(number as u64))
        }
        Ok(_) => Err(FieldFault::new(
            "invalid_value",
            format!("{name} must be an integer from 0"),
        )),
        Err(_) => Err(FieldFault::new(
            "wrong_type",
            format!("{name} must be a number"),
        )),
    }
}

/// A length of time in whole milliseconds; fractions are cut.
pub(crate) fn duration((name, value): Named<'_>) -> Result<Option<i64>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    // A year: longer than any step, short enough that adding it to a time cannot overflow anything.
    let longest_ms = 366.0 * 24.0 * 3600.0 * 1000.0;
    match value.get().parse::<f64>() {
        Ok(number) if (0.0..=longest_ms).contains(&number) => Ok(Some(number as i64)),
        Ok(_) => Err(FieldFault::new(
            "invalid_value",
            format!("{name} must be from 0 to a year of milliseconds"),
        )),
        Err(_) => Err(FieldFault::new(
            "wrong_type",
            format!("{name} must be a number"),
        )),
    }
}

/// An amount of money: a JSON number, read exactly as written.
pub(crate) fn money((name, value): Named<'_>) -> Result<Option<Decimal>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    let raw = value.get();
    if !raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(FieldFault::new(
            "wrong_type",
            format!("{name} must be a number"),
        ));
    }
    // 18 digits before and 18 after the point is what the tables hold.
    Decimal::from_str(raw)
        .or_else(|_| Decimal::from_scientific(raw))
        .ok()
        .filter(|amount| !amount.is_sign_negative() || amount.is_zero())
        .filter(|amount| *amount < Decimal::from(1_000_000_000_000u64))
        .map(|amount| Some(amount.round_dp(18).normalize()))
        .ok_or_else(|| {
            FieldFault::new(
                "invalid_value",
                format!("{name} must be from 0 to below 10^12 USD"),
            )
        })
}

/// Labels: a list of strings.
pub(crate) fn tags<'a>((name, value): Named<'a>) -> Result<Vec<Cow<'a, str>>, FieldFault> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let wrong = || FieldFault::new("wrong_type", format!("{name} must be a list of strings"));
    let items: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| wrong())?;
    if items.len() > limits::EVENT_TAGS {
        return Err(FieldFault::new(
            "too_long",
            format!("{name} has more than {} entries", limits::EVENT_TAGS),
        ));
    }
    let mut tags = Vec::with_capacity(items.len());
    for item in items.into_iter().filter(|item| item.get() != "null") {
        let text = as_text(item).ok_or_else(wrong)?;
        if text.len() > limits::NAME_BYTES {
            let rest = format!(
                "{name} has an entry longer than {} bytes",
                limits::NAME_BYTES
            );
            return Err(FieldFault::new("too_long", rest));
        }
        if !text.is_empty() {
            tags.push(text);
        }
    }
    Ok(tags)
}

/// The keys and values of an object, `null` values left out, in the order written.
pub(crate) fn object<'a>(
    (name, value): Named<'a>,
) -> Result<Vec<(Cow<'a, str>, &'a RawValue)>, FieldFault> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    match serde_json::from_str::<Object<'a>>(value.get()) {
        Ok(Object {
            has_too_many: true, ..
        }) => {
            let rest = format!("{name} has more than {} keys", limits::EVENT_FIELDS);
            Err(FieldFault::new("too_long", rest))
        }
        Ok(object) => Ok(object.pairs),
        Err(_) => Err(FieldFault::new(
            "wrong_type",
            format!("{name} must be an object"),
        )),
    }
}

#[derive(Default)]
struct Object<'a> {
    pairs: Vec<(Cow<'a, str>, &'a RawValue)>,
    has_too_many: bool,
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for Object<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut object = Object::default();
                while let Some(Key(key)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    if value.get() == "null" {
                        continue;
                    }
                    if object.pairs.len() < limits::EVENT_FIELDS {
                        object.pairs.push((key, value));
                    } else {
                        object.has_too_many = true;
                    }
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// The value under a key; the last one if the key stands there twice.
pub(crate) fn lookup<'a>(
    pairs: &[(Cow<'a, str>, &'a RawValue)],
    key: &str,
) -> Option<&'a RawValue> {
    pairs
        .iter()
        .rev()
        .find(|(name, _)| name == key)
        .map(|(_, value)| *value)
}

/// An error: text, `{name, message, stack}`, or anything else, which is then shown as it is.
pub(crate) fn error(value: Option<&RawValue>) -> Option<ErrorInfo<'_>> {
    let value = value?;
    if let Some(message) = as_text(value) {
        return Some(ErrorInfo {
            name: None,
            message,
            stack: None,
        });
    }
    let pairs = object(("error", Some(value))).unwrap_or_default();
    let part = |key| lookup(&pairs, key).and_then(as_text);
    Some(ErrorInfo {
        name: part("name").or_else(|| part("type")),
        message: part("message").unwrap_or(Cow::Borrowed(value.get())),
        stack: part("stack"),
    })
}
