//! Bodies of distinct events at the cost of a copy: rendered once, with fields of fixed width that are overwritten for
//! each request. The events are of `/api/report`; [`super::spans`] renders spans of OpenTelemetry.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_client::{Event, Kind, Timestamp, Tokens, json};

use super::spans::TREE_SPANS;

/// Text that inputs and outputs are cut from; far larger than a compressor's window, small enough for a cache.
pub(super) const TEXT_BYTES: usize = 512 << 10;
/// `2026-11-20T10:00:00.000Z`.
const TIME_BYTES: usize = 24;
/// Hexadecimal digits of the number of a tree of runs.
const TREE_DIGITS: usize = 12;
/// Decimal digits of the number of an app.
pub(super) const APP_DIGITS: usize = 4;
/// Events of one tree: an agent run with one model call, start and end of both.
const TREE_EVENTS: usize = 4;

const WORDS: &str = "the order was shipped on monday and should arrive within three days please check whether \
    customer asked for refund because item did not match description agent looked up tracking number in warehouse \
    system found that parcel is still at depot summary of conversation follows next step write to support team";

/// What changes from one request to the next.
pub(super) struct Moment {
    pub(super) app: u32,
    /// Milliseconds since 1970.
    pub(super) now_ms: i64,
}

pub(super) struct Batches {
    template: Template,
    text: Arc<[u8]>,
    rng: StdRng,
    next_tree: u64,
    trees: u64,
}

/// A rendered body, and what changes in it.
#[derive(Default)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    pub(super) places: Vec<Place>,
}

pub(super) struct Place {
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    App,
    /// Number of the tree in hexadecimal digits, counted from the first of the body.
    Tree(u64),
    /// Number of a span as 4 bytes, counted from the first of the body.
    Span(u32),
    /// Which of the tree's four times.
    Time(usize),
    /// The same as 8 bytes of nanoseconds, little-endian.
    Nanos(usize),
    Text(usize),
}

/// Random words, enough for the inputs and outputs of many requests.
pub(super) fn text() -> Arc<[u8]> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut rng = StdRng::from_os_rng();
    let mut text = Vec::with_capacity(TEXT_BYTES + 32);
    while text.len() < TEXT_BYTES {
        text.extend_from_slice(words[rng.random_range(0..words.len())].as_bytes());
        text.push(b' ');
    }
    text.into()
}

impl Batches {
    /// Bodies of `events` events of about `event_bytes`; `stream` makes the run ids differ from all other bodies'.
    pub(super) fn of_events(
        stream: &str,
        events: usize,
        event_bytes: usize,
        text: Arc<[u8]>,
    ) -> Self {
        let mut template = Template::default();
        template.put("{\"events\":[");
        for event in 0..events {
            if event > 0 {
                template.put(",");
            }
            template.event(stream, event, event_bytes);
        }
        template.put("]}");
        Self::new(template, events.div_ceil(TREE_EVENTS), text)
    }

    /// Bodies from a template with so many trees.
    pub(super) fn new(template: Template, trees: usize, text: Arc<[u8]>) -> Self {
        Self {
            template,
            text,
            rng: StdRng::from_os_rng(),
            next_tree: 0,
            trees: trees as u64,
        }
    }

    /// Bytes of one event on average.
    pub(super) fn event_bytes(&self, events: usize) -> usize {
        self.template.bytes.len() / events.max(1)
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.template.places.len()
    }

    /// A body for the first [`Batches::write`].
    pub(super) fn blank(&self) -> Vec<u8> {
        self.template.bytes.clone()
    }

    /// Writes the next batch over a body from [`Batches::blank`].
    pub(super) fn write(&mut self, body: &mut [u8], moment: &Moment) {
        let length_ms = self.rng.random_range(20..5000);
        let times = [length_ms, length_ms - 5, 5, 0].map(|before_ms| moment.now_ms - before_ms);
        let texts = times.map(time);
        let first_tree = self.next_tree;
        self.next_tree += self.trees;
        for Place { at, what } in &self.template.places {
            let rest = &mut body[*at..];
            match what {
                What::App => decimal(&mut rest[..APP_DIGITS], moment.app),
                What::Tree(number) => hex(&mut rest[..TREE_DIGITS], first_tree + number),
                What::Span(number) => {
                    let first = first_tree as u32 * TREE_SPANS as u32;
                    rest[..4].copy_from_slice(&(first + number).to_be_bytes());
                }
                What::Time(which) => rest[..TIME_BYTES].copy_from_slice(&texts[*which]),
                What::Nanos(which) => {
                    let nanos = times[*which].unsigned_abs() * 1_000_000;
                    rest[..8].copy_from_slice(&nanos.to_le_bytes());
                }
                What::Text(bytes) => {
                    let from = self.rng.random_range(0..=self.text.len() - bytes);
                    rest[..*bytes].copy_from_slice(&self.text[from..from + bytes]);
                }
            }
        }
    }
}

// Placeholders in a rendered event: letters without a meaning.
const APP: char = '\u{e000}';
const TREE: char = '\u{e001}';
const TIME: char = '\u{e002}';
const TEXT: char = '\u{e003}';

impl Template {
    fn put(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn leave(&mut self, bytes: usize, what: What) {
        self.places.push(Place {
            at: self.bytes.len(),
            what,
        });
        self.bytes.resize(self.bytes.len() + bytes, b' ');
    }

    /// Renders an event with placeholders.
    fn event(&mut self, stream: &str, number: usize, event_bytes: usize) {
        let (tree, moment) = ((number / TREE_EVENTS) as u64, number % TREE_EVENTS);
        let json = event(stream, number).to_json();
        let json = json.replace(&Timestamp::default().to_string(), &TIME.to_string());
        let width = |letter| match letter {
            APP => APP_DIGITS,
            TREE => TREE_DIGITS,
            TIME => TIME_BYTES,
            TEXT => 0,
            letter => letter.len_utf8(),
        };
        let used = json.chars().map(width).sum::<usize>() + ",".len();
        let text_bytes = event_bytes.saturating_sub(used).min(TEXT_BYTES);
        for letter in json.chars() {
            match letter {
                APP => self.leave(APP_DIGITS, What::App),
                TREE => self.leave(TREE_DIGITS, What::Tree(tree)),
                TIME => self.leave(TIME_BYTES, What::Time(moment)),
                TEXT => self.leave(text_bytes, What::Text(text_bytes)),
                letter => self.put(letter.encode_utf8(&mut [0; 4])),
            }
        }
    }
}

/// One of the four events of a tree. Without an `event_id`, like events of simple clients: that is more work for the
/// server, which computes an identity from the content.
fn event(stream: &str, number: usize) -> Event {
    let agent = format!("{stream}-{TREE}a");
    let call = format!("{stream}-{TREE}m");
    let at = |name, run_id: &str| Event {
        app_id: Some(format!("bench-{APP}")),
        ..Event::at(name, run_id, Timestamp::default())
    };
    let of_agent = |name| Event {
        kind: Some(Kind::Agent),
        ..at(name, &agent)
    };
    let of_call = |name| Event {
        kind: Some(Kind::Llm),
        parent_run_id: Some(agent.clone()),
        model: Some("gpt-4o-mini".to_owned()),
        ..at(name, &call)
    };
    let text = TEXT.to_string();
    match number % TREE_EVENTS {
        0 => Event {
            user_email: Some(format!("user-{:02}@example.com", number % 50)),
            agent: Some("support".to_owned()),
            metadata: [("region".to_owned(), "eu".into())].into(),
            input: json(serde_json::json!({"question": text})),
            ..of_agent("agent_start")
        },
        1 => Event {
            input: json(serde_json::json!({"messages": [{"role": "user", "content": text}]})),
            ..of_call("llm_start")
        },
        2 => Event {
            tokens: Tokens {
                total: Some(1015),
                ..Tokens::new(812, 203)
            },
            output: json(serde_json::json!({"content": text})),
            ..of_call("llm_end")
        },
        _ => Event {
            output: json(serde_json::json!({"answer": text})),
            ..of_agent("agent_end")
        },
    }
}

fn time(unix_ms: i64) -> [u8; TIME_BYTES] {
    let text = Timestamp::from_ms(unix_ms).to_string();
    let mut bytes = [b'0'; TIME_BYTES];
    bytes.copy_from_slice(&text.as_bytes()[..TIME_BYTES]);
    bytes
}

fn hex(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

fn decimal(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_body_is_a_batch_of_good_events_no_two_alike() {
        let mut batches = Batches::of_events("s-0001", 10, 1000, text());
        let mut body = batches.blank();
        let mut seen = HashSet::new();
        for app in 0..3 {
            batches.write(
                &mut body,
                &Moment {
                    app,
                    now_ms: 1_714_500_000_000,
                },
            );
            let read = schemas::batch::read(&body, 1_714_500_000_000).unwrap();
            assert_eq!(read.slots.len(), 10);
            for slot in read.slots {
                let event = slot.event.unwrap();
                assert_eq!(
                    event.app.as_deref(),
                    Some(format!("bench-{app:04}").as_str())
                );
                assert!((990..=1010).contains(&slot.raw.len()), "{}", slot.raw);
                assert!(seen.insert(slot.raw.to_owned()), "{}", slot.raw);
            }
        }
    }

    #[test]
    fn an_event_too_small_for_its_fields_is_as_small_as_they_allow() {
        let mut batches = Batches::of_events("s-0001", 4, 1, text());
        let mut body = batches.blank();
        batches.write(
            &mut body,
            &Moment {
                app: 0,
                now_ms: 1_714_500_000_000,
            },
        );
        assert!(
            schemas::batch::read(&body, 1_714_500_000_000)
                .unwrap()
                .slots
                .iter()
                .all(|slot| slot.event.is_ok())
        );
    }
}
