//! The rules of threads, written plainly over the whole set of messages.

use std::collections::{BTreeMap, BTreeSet};

use schemas::filter::FeedbackFilter;
use schemas::thread::{ThreadQuery, WINDOW_GAP_MS};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) at: i64,
    pub(crate) event_id: u128,
    pub(crate) app: &'static str,
    pub(crate) run: &'static str,
    pub(crate) parent: &'static str,
    pub(crate) thread: &'static str,
    /// Whether an old client sent it.
    pub(crate) inherits: bool,
    pub(crate) agent: &'static str,
    pub(crate) user: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct GivenRating {
    pub(crate) at: i64,
    pub(crate) event_id: u128,
    pub(crate) app: &'static str,
    pub(crate) run: &'static str,
    pub(crate) rating: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) app: &'static str,
    pub(crate) run: &'static str,
    pub(crate) parent: &'static str,
    pub(crate) thread: &'static str,
    /// Its own, as `user`.
    pub(crate) agent: &'static str,
    pub(crate) user: &'static str,
    pub(crate) cost: i128,
    pub(crate) tokens: u64,
}

impl Ran {
    /// Its own value, else that of the nearest ancestor that has one.
    pub(crate) fn resolved(&self, runs: &[Ran], of: fn(&Ran) -> &'static str) -> &'static str {
        let mut ran = self;
        while of(ran).is_empty() {
            match find(runs, ran.app, ran.parent) {
                Some(parent) => ran = parent,
                None => return "",
            }
        }
        of(ran)
    }
}

fn find<'a>(runs: &'a [Ran], app: &str, run: &str) -> Option<&'a Ran> {
    runs.iter().find(|ran| ran.app == app && ran.run == run)
}

/// The message with the agent and the user that it is grouped by where it has no thread.
fn spoken(message: &Message, runs: &[Ran]) -> Message {
    let ran = match find(runs, message.app, message.run) {
        None => find(runs, message.app, message.parent),
        ran => ran,
    };
    let or_of_run = |own: &'static str, of: fn(&Ran) -> &'static str| match ran {
        Some(ran) if own.is_empty() => ran.resolved(runs, of),
        _ => own,
    };
    Message {
        agent: or_of_run(message.agent, |ran| ran.agent),
        user: or_of_run(message.user, |ran| ran.user),
        ..message.clone()
    }
}

/// A thread: its messages in order, with what they take from runs if it is a window. `name` is empty for a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) app: &'static str,
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<Message>,
}

impl Expected {
    pub(crate) fn ended_at(&self) -> i64 {
        self.messages.last().unwrap().at
    }

    /// The newest value that is present.
    fn newest(&self, of: impl Fn(&Message) -> &'static str) -> &'static str {
        let given = self.messages.iter().rev().map(of);
        given
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or("")
    }

    pub(crate) fn agent(&self) -> &'static str {
        self.newest(|message| message.agent)
    }

    pub(crate) fn user(&self) -> &'static str {
        self.newest(|message| message.user)
    }

    /// Cost and tokens of the topmost of its runs.
    pub(crate) fn totals(&self, runs: &[Ran]) -> (i128, u64) {
        let said: BTreeSet<&str> = self.messages.iter().map(|message| message.run).collect();
        let linked: Vec<&Ran> = runs
            .iter()
            .filter(|ran| ran.app == self.app)
            .filter(|ran| {
                said.contains(ran.run)
                    || said.contains(ran.parent)
                    || (!ran.thread.is_empty() && ran.thread == self.name)
            })
            .collect();
        let parent_of = |run: &str| {
            runs.iter()
                .find(|ran| ran.app == self.app && ran.run == run)
                .map_or("", |ran| ran.parent)
        };
        let is_top = |ran: &&&Ran| {
            let mut above = ran.parent;
            while !above.is_empty() {
                if linked.iter().any(|other| other.run == above) {
                    return false;
                }
                above = parent_of(above);
            }
            true
        };
        linked
            .iter()
            .filter(is_top)
            .fold((0, 0), |sum, ran| (sum.0 + ran.cost, sum.1 + ran.tokens))
    }
}

/// All threads of these messages, in no order.
pub(crate) fn threads(messages: &BTreeSet<Message>, runs: &[Ran]) -> Vec<Expected> {
    let mut inherited: BTreeMap<(&str, &str), &'static str> = BTreeMap::new();
    for message in messages.iter().filter(|message| !message.thread.is_empty()) {
        inherited
            .entry((message.app, message.run))
            .or_insert(message.thread);
    }
    let mut named: BTreeMap<(&'static str, &'static str), Vec<Message>> = BTreeMap::new();
    let mut speakers: BTreeMap<(&'static str, &str, &str), Vec<Message>> = BTreeMap::new();
    for message in messages {
        let thread = match message.thread {
            "" if !message.inherits => None,
            "" => inherited.get(&(message.app, message.run)).copied(),
            own => Some(own),
        };
        match thread {
            Some(thread) => named
                .entry((message.app, thread))
                .or_default()
                .push(message.clone()),
            None => {
                let message = spoken(message, runs);
                speakers
                    .entry((message.app, message.agent, message.user))
                    .or_default()
                    .push(message);
            }
        }
    }
    let mut found: Vec<Expected> = named
        .into_iter()
        .map(|((app, name), messages)| Expected {
            app,
            name,
            messages,
        })
        .collect();
    for ((app, ..), messages) in speakers {
        for window in messages.chunk_by(|left, right| right.at - left.at <= WINDOW_GAP_MS) {
            found.push(Expected {
                app,
                name: "",
                messages: window.to_vec(),
            });
        }
    }
    found
}

/// Whether the query matches this thread.
pub(crate) fn is_asked_for(
    thread: &Expected,
    query: &ThreadQuery,
    feedback: &[GivenRating],
) -> bool {
    let newest = |run: &str| {
        feedback
            .iter()
            .filter(|judged| judged.app == thread.app && judged.run == run)
            .filter(|judged| !judged.rating.is_empty())
            .max_by_key(|judged| (judged.at, judged.event_id))
            .map_or("", |judged| judged.rating)
    };
    let ratings: BTreeSet<&str> = thread
        .messages
        .iter()
        .map(|message| newest(message.run))
        .filter(|rating| !rating.is_empty())
        .collect();
    let has = |wanted: &Option<String>, of: fn(&Message) -> &'static str| {
        wanted
            .as_ref()
            .is_none_or(|wanted| thread.messages.iter().any(|message| of(message) == wanted))
    };
    query.app_id.as_ref().is_none_or(|app| app == thread.app)
        && has(&query.agent, |message| message.agent)
        && has(&query.user_email, |message| message.user)
        && query.from_ms.is_none_or(|from| thread.ended_at() >= from)
        && query.to_ms.is_none_or(|to| thread.ended_at() <= to)
        && match query.feedback {
            None => true,
            Some(FeedbackFilter::Positive) => ratings.contains("positive"),
            Some(FeedbackFilter::Negative) => ratings.contains("negative"),
            Some(FeedbackFilter::Any) => !ratings.is_empty(),
            Some(FeedbackFilter::None) => ratings.is_empty(),
        }
}
