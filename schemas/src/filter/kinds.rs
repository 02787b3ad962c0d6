//! The kinds of values of filters: how each is written in a query string, stored and compared.

use std::marker::PhantomData;

use chrono::{Days, NaiveDate};
use rust_decimal::Decimal;

use super::{
    FILTER_COUNT_MAX, FILTER_METADATA_KEYS, FILTER_NUMBER_MAX, FILTER_TAGS, FeedbackFilter,
    invalid_parameter,
};
use crate::api_error::ApiError;
use crate::fold::RunStatus;
use crate::limits::{ID_BYTES, NAME_BYTES};
use crate::timestamp::{UnixMs, parse_text};

/// Characters of a number that is parsed digit by digit: a decimal holds 29 digits, and the longest number that a
/// program prints has some 330. The parser of decimals takes a stack frame for each leading zero unless the compiler
/// removes it.
const NUMBER_CHARS: usize = 512;
const INSTANT: &str = "an ISO 8601 time such as 2026-11-20T10:00:00.000Z, with any offset, a date, or integer milliseconds since 1970";

/// A kind as data, for documents and user interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text of 1 to this many characters.
    Text(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// Seconds, a number of at most [`FILTER_NUMBER_MAX`] either way.
    Seconds,
    /// Dollars, a number of at most [`FILTER_NUMBER_MAX`] either way.
    Dollars,
    /// An integer from 0 to [`FILTER_COUNT_MAX`].
    Count,
    /// A point in time.
    Time,
    /// Texts, repeated or separated by commas.
    Tags,
    /// Values by key, one parameter each.
    Entries,
}

/// The value of a given filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Text(&'a str),
    /// One of the declared words.
    Word(&'static str),
    Flag(bool),
    /// An integer; times in milliseconds.
    Number(i64),
    /// Dollars or seconds.
    Decimal(Decimal),
    /// Sorted, without duplicates.
    Texts(&'a [String]),
    /// Sorted by key.
    Entries(&'a [(String, String)]),
}

/// Which end of a range a bound is: a bare date means its first moment or its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Least,
    Most,
}

pub trait Kind {
    /// The value in a filter; its default means absent.
    type Held;
    /// Whether the parameter may be repeated under one name.
    const IS_REPEATED: bool = false;

    /// Whether a parameter with this name belongs to the filter.
    fn takes(declared: &str, name: &str) -> bool {
        declared == name
    }

    /// Parses the value of one parameter.
    ///
    /// # Errors
    /// A 400 that names the parameter, its value and the rule.
    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError>;

    /// `None` when the filter is absent.
    fn value(held: &Self::Held) -> Option<Value<'_>>;
}

/// Text of 1 to this many characters, as many as the compared value may have bytes.
pub struct Text(pub(super) usize);

impl Text {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Text(self.0)
    }
}

impl Kind for Text {
    type Held = Option<String>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        *held = Some(text(name, value, self.0)?);
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        held.as_deref().map(Value::Text)
    }
}

/// A closed set of words.
pub trait Word: Copy + PartialEq + 'static {
    const ALL: &'static [Self];
    const NAMES: &'static [&'static str];
    const SHAPE: Shape = Shape::Choice(Self::NAMES);

    /// # Errors
    /// A 400 that names the parameter, its value and the words.
    fn read(name: &str, value: &str) -> Result<Self, ApiError> {
        let position = Self::NAMES.iter().position(|known| *known == value);
        let word = position.and_then(|at| Self::ALL.get(at)).copied();
        word.ok_or_else(|| invalid_parameter(name, value, &Self::NAMES.join(", ")))
    }
}

impl Word for RunStatus {
    const ALL: &'static [Self] = &[Self::Success, Self::Error, Self::Started];
    const NAMES: &'static [&'static str] = &["success", "error", "started"];
}

impl Word for FeedbackFilter {
    const ALL: &'static [Self] = &[Self::Positive, Self::Negative, Self::Any, Self::None];
    const NAMES: &'static [&'static str] = &["positive", "negative", "any", "none"];
}

pub struct Choice<W>(PhantomData<W>);

impl<W: Word> Choice<W> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }

    pub(super) const fn shape(&self) -> Shape {
        W::SHAPE
    }
}

impl<W: Word> Kind for Choice<W> {
    type Held = Option<W>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        *held = Some(W::read(name, value)?);
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        let position = W::ALL.iter().position(|known| Some(*known) == *held)?;
        W::NAMES.get(position).map(|name| Value::Word(name))
    }
}

/// `true` or `false`.
pub struct Flag;

impl Flag {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Flag
    }
}

impl Kind for Flag {
    type Held = Option<bool>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        *held = Some(flag(name, value)?);
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        held.map(Value::Flag)
    }
}

/// A decimal, exactly as given.
pub struct Number(pub(super) Unit);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Dollars,
}

impl Number {
    pub(super) const fn shape(&self) -> Shape {
        match self.0 {
            Unit::Seconds => Shape::Seconds,
            Unit::Dollars => Shape::Dollars,
        }
    }
}

impl Kind for Number {
    type Held = Option<Decimal>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        let unit = match self.0 {
            Unit::Seconds => "seconds",
            Unit::Dollars => "dollars",
        };
        *held = Some(number(name, value, unit)?);
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        held.map(Value::Decimal)
    }
}

/// An integer that is not negative.
pub struct Count;

impl Count {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Count
    }
}

impl Kind for Count {
    type Held = Option<i64>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        match value.parse() {
            Ok(count) if (0..=FILTER_COUNT_MAX).contains(&count) => *held = Some(count),
            _ => {
                let allowed = format!("an integer from 0 to {FILTER_COUNT_MAX}");
                return Err(invalid_parameter(name, value, &allowed));
            }
        }
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        held.map(Value::Number)
    }
}

/// A point in time, stored as Unix milliseconds. A date without a time means its first moment as a lower bound and its
/// last as an upper one.
pub struct Time(pub(super) Bound);

impl Time {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Time
    }
}

impl Kind for Time {
    type Held = Option<UnixMs>;

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        let time_ms = instant_ms(value).or_else(|| date_ms(value, self.0));
        *held = Some(time_ms.ok_or_else(|| invalid_parameter(name, value, INSTANT))?);
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        held.map(Value::Number)
    }
}

/// Tags: separated by commas, except in the `[]` form, where a comma belongs to the tag. Sorted, without duplicates.
pub struct Tags;

impl Tags {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Tags
    }
}

impl Kind for Tags {
    type Held = Vec<String>;
    const IS_REPEATED: bool = true;

    fn takes(declared: &str, name: &str) -> bool {
        name.strip_suffix("[]").unwrap_or(name) == declared
    }

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        let separator = |letter: char| letter == ',' && !name.ends_with("[]");
        let tags = value.split(separator).map(str::trim);
        let mut is_empty = true;
        for tag in tags.filter(|tag| !tag.is_empty()) {
            is_empty = false;
            let place = held.binary_search_by(|known| known.as_str().cmp(tag));
            if let Err(place) = place {
                if held.len() == FILTER_TAGS || tag.chars().count() > NAME_BYTES {
                    is_empty = true;
                    break;
                }
                held.insert(place, tag.to_owned());
            }
        }
        if is_empty {
            let allowed = format!(
                "1 to {FILTER_TAGS} tags of 1 to {NAME_BYTES} characters, repeated or separated by commas"
            );
            return Err(invalid_parameter(name, value, &allowed));
        }
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        (!held.is_empty()).then_some(Value::Texts(held))
    }
}

/// Values of keys: `<name>.<key>`. Sorted by key.
pub struct Entries;

impl Entries {
    pub(super) const fn shape(&self) -> Shape {
        Shape::Entries
    }
}

impl Kind for Entries {
    type Held = Vec<(String, String)>;

    fn takes(declared: &str, name: &str) -> bool {
        let rest = name.strip_prefix(declared);
        rest.is_some_and(|rest| rest.starts_with('.'))
    }

    fn read(&self, held: &mut Self::Held, name: &str, value: &str) -> Result<(), ApiError> {
        let (prefix, key) = name.split_once('.').unwrap_or((name, ""));
        if key.is_empty() || key.len() > ID_BYTES || held.len() == FILTER_METADATA_KEYS {
            let allowed = format!(
                "`{prefix}.<key>` with a key of 1 to {ID_BYTES} bytes, at most {FILTER_METADATA_KEYS} of them"
            );
            return Err(invalid_parameter(name, value, &allowed));
        }
        held.push((key.to_owned(), text(name, value, NAME_BYTES)?));
        held.sort();
        Ok(())
    }

    fn value(held: &Self::Held) -> Option<Value<'_>> {
        (!held.is_empty()).then_some(Value::Entries(held))
    }
}

/// A text of 1 to `most` characters: the unit that clients can count, and a longer text only finds nothing.
pub(super) fn text(name: &str, value: &str, most: usize) -> Result<String, ApiError> {
    if value.is_empty() || value.chars().count() > most {
        let allowed = format!("text of 1 to {most} characters");
        return Err(invalid_parameter(name, value, &allowed));
    }
    Ok(value.to_owned())
}

pub(super) fn flag(name: &str, value: &str) -> Result<bool, ApiError> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(invalid_parameter(name, value, "true, false")),
    }
}

/// A number of at most [`FILTER_NUMBER_MAX`] either way, exactly as written. NaN and infinities are no numbers.
fn number(name: &str, value: &str, unit: &str) -> Result<Decimal, ApiError> {
    decimal(value).ok_or_else(|| {
        let allowed = format!("{unit}, a number from -{FILTER_NUMBER_MAX} to {FILTER_NUMBER_MAX}");
        invalid_parameter(name, value, &allowed)
    })
}

fn decimal(value: &str) -> Option<Decimal> {
    let approximate: f64 = value.parse().ok()?;
    if approximate.is_nan() || approximate.abs() > FILTER_NUMBER_MAX as f64 {
        return None;
    }
    // No decimal is exact for so many digits, and `f64` parses without recursion.
    let exact: Option<Decimal> = if value.len() > NUMBER_CHARS {
        None
    } else if value.contains(['e', 'E']) {
        Decimal::from_scientific(value).ok()
    } else {
        value.parse().ok()
    };
    match exact {
        Some(number) => Some(number.normalize()),
        None if approximate == 0.0 => Some(Decimal::ZERO),
        // Written finer than a decimal holds, `5e-324` or `1.5e-30`: what counts is that it is not zero.
        None if approximate.abs() < 1e-20 => {
            let mut least = Decimal::new(1, Decimal::MAX_SCALE);
            least.set_sign_negative(approximate < 0.0);
            Some(least)
        }
        // Valid for a float but not for the decimal's parser, as in `1.` or a very long mantissa with an exponent.
        None => Decimal::from_f64_retain(approximate),
    }
}

/// Parses a time in a query string: every form of [`parse_text`], or integer milliseconds. A `+` of an offset that was
/// not percent-encoded arrives as a blank and is accepted.
pub fn instant_ms(value: &str) -> Option<UnixMs> {
    if let Some(time_ms) = parse_text(value) {
        return Some(time_ms);
    }
    if let Ok(time_ms) = value.parse() {
        return Some(time_ms);
    }
    let (time, offset) = value.rsplit_once(' ')?;
    parse_text(&format!("{time}+{offset}"))
}

fn date_ms(value: &str, bound: Bound) -> Option<UnixMs> {
    let date = NaiveDate::parse_from_str(value, "%Y-%m-%d").ok()?;
    let midnight = |date: NaiveDate| Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis());
    match bound {
        Bound::Least => midnight(date),
        Bound::Most => Some(midnight(date.checked_add_days(Days::new(1))?)? - 1),
    }
}
