//! Parses single values, with faults that name the field.

use std::borrow::Cow;
use std::str::FromStr;

use rust_decimal::Decimal;
use serde_json::value::RawValue;

use super::{ErrorInfo, FieldFault, FieldWarning, fields::Key};
use crate::api_error::EventCode;
use crate::limits;
use crate::timestamp::{self, UnixMs};

/// A name and its JSON; absent for `null`.
pub(crate) type Named<'a> = (&'static str, Option<&'a RawValue>);

/// The text of a JSON string, borrowed unless it contains an escape. `None` for other types.
pub fn as_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// A string, or a number as written: clients use both as ids of users.
pub(crate) fn as_label(value: &RawValue) -> Option<Cow<'_, str>> {
    let raw = value.get();
    let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    as_text(value).or_else(|| is_number.then_some(Cow::Borrowed(raw)))
}

/// Optional text of at most `limit` bytes; empty text counts as absent.
pub(crate) fn text<'a>(
    (name, value): Named<'a>,
    limit: usize,
) -> Result<Option<Cow<'a, str>>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    let Some(text) = as_text(value) else {
        return Err(FieldFault::new(
            EventCode::WrongType,
            format!("{name} must be a string"),
        ));
    };
    if text.len() > limit {
        return Err(FieldFault::new(
            EventCode::TooLong,
            format!("{name} is longer than {limit} bytes"),
        ));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

pub(crate) fn id<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    text(field, limits::ID_BYTES)
}

pub(crate) fn name<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    text(field, limits::NAME_BYTES)
}

/// A parent's id; some clients send the text `None` for no parent.
pub(crate) fn parent_id<'a>(field: Named<'a>) -> Result<Option<Cow<'a, str>>, FieldFault> {
    Ok(id(field)?.filter(|text| text != "None"))
}

/// The timestamp in any of the clients' formats, and the microsecond if it is that precise.
pub(crate) fn moment(
    value: Option<&RawValue>,
    now_ms: UnixMs,
) -> Result<(UnixMs, Option<u16>), FieldFault> {
    let Some(value) = value else {
        return Err(FieldFault::new(
            EventCode::MissingField,
            "timestamp is required",
        ));
    };
    let moment = match as_text(value) {
        Some(text) => timestamp::parse_finely(&text),
        None => value.get().parse().ok().map(|time_ms| (time_ms, None)),
    };
    let Some((time_ms, microsecond)) = moment else {
        let allowed = "timestamp must be an ISO 8601 time or integer milliseconds since 1970";
        return Err(FieldFault::new(EventCode::InvalidValue, allowed));
    };
    if time_ms < limits::EARLIEST_TIMESTAMP_MS {
        return Err(FieldFault::new(
            EventCode::TimestampOutOfRange,
            "timestamp is before the year 2000",
        ));
    }
    if time_ms > now_ms.saturating_add(limits::FUTURE_TIMESTAMP_MS) {
        return Err(FieldFault::new(
            EventCode::TimestampOutOfRange,
            "timestamp is more than a day in the future",
        ));
    }
    Ok((time_ms, microsecond))
}

/// The largest count: 2^53, up to which JavaScript and floats are exact, and sums stay within 64 bits.
const COUNT_MAX: u64 = 1 << 53;

/// A count: an integer from 0, also written as `37.0`.
pub(crate) fn count((name, value): Named<'_>) -> Result<Option<u64>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(count) = value.get().parse::<u64>() {
        return if count <= COUNT_MAX {
            Ok(Some(count))
        } else {
            Err(FieldFault::new(
                EventCode::InvalidValue,
                format!("{name} is too large"),
            ))
        };
    }
    match value.get().parse::<f64>() {
        Ok(number) if number >= 0.0 && number.fract() == 0.0 && number <= COUNT_MAX as f64 => {
            Ok(Some(number as u64))
        }
        Ok(_) => Err(FieldFault::new(
            EventCode::InvalidValue,
            format!("{name} must be an integer from 0"),
        )),
        Err(_) => Err(FieldFault::new(
            EventCode::WrongType,
            format!("{name} must be a number"),
        )),
    }
}

/// A duration in whole milliseconds; fractions are cut.
pub(crate) fn duration((name, value): Named<'_>) -> Result<Option<i64>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    // A year: longer than any step, short enough that adding it to a time cannot overflow.
    let longest_ms = 366.0 * 24.0 * 3600.0 * 1000.0;
    match value.get().parse::<f64>() {
        Ok(number) if (0.0..=longest_ms).contains(&number) => Ok(Some(number as i64)),
        Ok(_) => Err(FieldFault::new(
            EventCode::InvalidValue,
            format!("{name} must be from 0 to a year of milliseconds"),
        )),
        Err(_) => Err(FieldFault::new(
            EventCode::WrongType,
            format!("{name} must be a number"),
        )),
    }
}

/// An amount of money: a JSON number, parsed exactly as written.
pub(crate) fn money((name, value): Named<'_>) -> Result<Option<Decimal>, FieldFault> {
    let Some(value) = value else { return Ok(None) };
    let raw = value.get();
    if !raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(FieldFault::new(
            EventCode::WrongType,
            format!("{name} must be a number"),
        ));
    }
    // The tables hold 18 digits before and 18 after the decimal point.
    Decimal::from_str(raw)
        .or_else(|_| Decimal::from_scientific(raw))
        .ok()
        .filter(|amount| !amount.is_sign_negative() || amount.is_zero())
        .filter(|amount| *amount < Decimal::from(1_000_000_000_000u64))
        .map(|amount| Some(amount.round_dp(18).normalize()))
        .ok_or_else(|| {
            FieldFault::new(
                EventCode::InvalidValue,
                format!("{name} must be from 0 to below 10^12 USD"),
            )
        })
}

/// The value of a field that never rejects its event; a value that cannot be used is a warning.
pub(crate) fn usable<T>(
    field: &'static str,
    value: Result<Option<T>, FieldFault>,
    warnings: &mut Vec<FieldWarning>,
) -> Option<T> {
    value.unwrap_or_else(|fault| {
        warnings.push(FieldWarning {
            field,
            reason: fault.rest,
        });
        None
    })
}

/// Labels without the blanks around them: a list of strings, of which the first [`limits::EVENT_TAGS`] count.
pub(crate) fn tags<'a>(
    (field, value): Named<'a>,
    warnings: &mut Vec<FieldWarning>,
) -> Result<Vec<Cow<'a, str>>, FieldFault> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let wrong = || {
        FieldFault::new(
            EventCode::WrongType,
            format!("{field} must be a list of strings"),
        )
    };
    let items: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| wrong())?;
    let mut tags = Vec::with_capacity(items.len().min(limits::EVENT_TAGS));
    for item in items.into_iter().filter(|item| item.get() != "null") {
        let text = trimmed(as_text(item).ok_or_else(wrong)?);
        if text.len() > limits::NAME_BYTES {
            let rest = format!(
                "{field} has an entry longer than {} bytes",
                limits::NAME_BYTES
            );
            return Err(FieldFault::new(EventCode::TooLong, rest));
        }
        if !text.is_empty() {
            tags.push(text);
        }
    }
    if tags.len() > limits::EVENT_TAGS {
        let reason = format!(
            "{field} has {} entries, of which the first {} count",
            tags.len(),
            limits::EVENT_TAGS
        );
        tags.truncate(limits::EVENT_TAGS);
        warnings.push(FieldWarning { field, reason });
    }
    Ok(tags)
}

/// Labels of a field that never rejects its event: entries that are no label are ignored, with a warning.
pub(crate) fn usable_tags<'a>(
    (field, value): Named<'a>,
    warnings: &mut Vec<FieldWarning>,
) -> Vec<Cow<'a, str>> {
    let Some(value) = value else {
        return Vec::new();
    };
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else {
        let reason = format!("{field} must be a list of strings");
        warnings.push(FieldWarning { field, reason });
        return Vec::new();
    };
    let given = items.into_iter().filter(|item| item.get() != "null");
    let (mut tags, mut ignored) = (Vec::new(), 0);
    for item in given {
        match as_text(item).map(trimmed) {
            Some(text) if text.is_empty() => {}
            Some(text) if text.len() <= limits::NAME_BYTES && tags.len() < limits::EVENT_TAGS => {
                tags.push(text);
            }
            _ => ignored += 1,
        }
    }
    if ignored > 0 {
        let reason = format!(
            "{ignored} entries of {field} are ignored: an entry must be a string of at most {} bytes, and the first {} count",
            limits::NAME_BYTES,
            limits::EVENT_TAGS
        );
        warnings.push(FieldWarning { field, reason });
    }
    tags
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

/// The keys and values of an object, without `null` values, in their order.
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
            Err(FieldFault::new(EventCode::TooLong, rest))
        }
        Ok(object) => Ok(object.pairs),
        Err(_) => Err(FieldFault::new(
            EventCode::WrongType,
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

/// The value of a key; the last one if the key is repeated.
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

/// An error: text, `{name, message, stack}`, or another value, which is shown as it is.
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
