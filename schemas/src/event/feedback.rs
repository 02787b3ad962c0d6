//! Feedback of an event, in both dialects.
//!
//! Spindle's own dialect is strict. The old clients pass on whatever their caller gave: thumbs, a number, a word or an
//! emoji under one of several names. An unknown value is no rating, and the comment is kept.

use crate::api_error::EventCode;
use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::values::{self, Named, as_text, lookup};
use super::{EventFeedback, FieldFault, Rating};

/// Feedback in Spindle's own dialect.
pub(crate) fn own<'a>(
    rating: Named<'a>,
    comment: Named<'a>,
) -> Result<EventFeedback<'a>, FieldFault> {
    const RATINGS: &str = "\"positive\" or \"negative\"";
    let rating = match values::name(rating)?.as_deref() {
        Some("positive") => Rating::Positive,
        Some("negative") => Rating::Negative,
        Some(_) => {
            let rest = format!("rating must be {RATINGS}");
            return Err(FieldFault::new(EventCode::InvalidValue, rest));
        }
        None => {
            let rest = format!("rating is required: {RATINGS}");
            return Err(FieldFault::new(EventCode::MissingField, rest));
        }
    };
    Ok(EventFeedback {
        rating: Some(rating),
        comment: values::text(comment, crate::limits::EVENT_BYTES)?,
    })
}

/// Feedback in an old client's `feedback` or `extra`; `None` if there is neither rating nor comment.
pub(crate) fn old(value: &RawValue) -> Option<EventFeedback<'_>> {
    let pairs = match values::object(("feedback", Some(value))) {
        Ok(pairs) => pairs,
        // Not an object: the rating itself.
        Err(_) => {
            return thumb(value).map(|rating| EventFeedback {
                rating: Some(rating),
                comment: None,
            });
        }
    };
    let under = |key| lookup(&pairs, key);
    let rating = under("thumb")
        .and_then(thumb)
        .or_else(|| under("thumbs").and_then(thumb))
        .or_else(|| under("rating").and_then(stars))
        .or_else(|| under("emoji").and_then(thumb));
    let comment = under("comment")
        .map(|comment| as_text(comment).unwrap_or(Cow::Borrowed(comment.get())))
        .filter(|comment| !comment.is_empty());
    let names_rating = ["thumb", "thumbs", "rating", "emoji"]
        .into_iter()
        .any(|key| under(key).is_some());
    (names_rating || comment.is_some()).then_some(EventFeedback { rating, comment })
}

/// A word, an emoji, a boolean, or a number above or below zero.
fn thumb(value: &RawValue) -> Option<Rating> {
    match number(value) {
        Some(number) if number > 0.0 => Some(Rating::Positive),
        Some(_) => Some(Rating::Negative),
        None => word(value),
    }
}

/// Stars out of five, of which three are neutral; or a word.
fn stars(value: &RawValue) -> Option<Rating> {
    match number(value) {
        Some(stars) if stars < 3.0 => Some(Rating::Negative),
        Some(stars) if stars > 3.0 => Some(Rating::Positive),
        Some(_) => None,
        None => word(value),
    }
}

fn number(value: &RawValue) -> Option<f64> {
    let text = as_text(value).unwrap_or(Cow::Borrowed(value.get()));
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
}

fn word(value: &RawValue) -> Option<Rating> {
    const GOOD: [&str; 10] = [
        "up",
        "positive",
        "good",
        "great",
        "like",
        "liked",
        "yes",
        "true",
        "thumbs_up",
        "thumbsup",
    ];
    const BAD: [&str; 10] = [
        "down",
        "negative",
        "bad",
        "poor",
        "dislike",
        "disliked",
        "no",
        "false",
        "thumbs_down",
        "thumbsdown",
    ];
    // The first character alone: a skin tone or a variation may follow.
    const GOOD_FACES: &str = "👍😀😃😄😁😆😊🙂😍🥰🤩🤗😎❤💚💙🎉👏🙌💯🔥⭐🌟✅";
    const BAD_FACES: &str = "👎🙁☹😕😟😞😔😠😡🤬😢😭😩😤🤮🤢💩💔❌";
    let text = as_text(value).unwrap_or(Cow::Borrowed(value.get()));
    let text = text.trim();
    let is_one_of = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    let face = text.chars().next()?;
    if is_one_of(&GOOD) || GOOD_FACES.contains(face) {
        Some(Rating::Positive)
    } else if is_one_of(&BAD) || BAD_FACES.contains(face) {
        Some(Rating::Negative)
    } else {
        None
    }
}

/// The value of a score as the thumb of a feedback event, `null` where it is on another scale. Words are read with the
/// feedback of the old clients.
pub fn thumb_of_score(value: &Value) -> Value {
    match value {
        Value::Bool(true) => "up".into(),
        Value::Bool(false) => "down".into(),
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => "up".into(),
            Some(0.0 | -1.0) => "down".into(),
            _ => Value::Null,
        },
        // A number in a text has an unknown scale too.
        Value::String(text) if text.trim().parse::<f64>().is_err() => value.clone(),
        _ => Value::Null,
    }
}
