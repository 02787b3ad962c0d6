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
    pub(crate) started_at: i64,
    pub(crate) length: i64,
    /// Beginnings of input and output; may be empty.
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
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

impl Ran {
    /// When the turn that it begins has ended, if it begins one.
    pub(crate) fn turn(&self, runs: &[Ran]) -> Option<i64> {
        let thread = self.resolved(runs, |ran| ran.thread);
        let above = find(runs, self.app, self.parent);
        let above = above.map(|above| above.resolved(runs, |ran| ran.thread));
        let is_turn = !thread.is_empty() && above != Some(thread);
        is_turn.then_some(self.started_at + self.length)
    }
}

/// A thread that runs name, and no message.
#[derive(Clone, Debug)]
pub(crate) struct OfRuns {
    pub(crate) app: &'static str,
    pub(crate) name: &'static str,
    /// With their ends.
    pub(crate) turns: Vec<(i64, Ran)>,
}

impl OfRuns {
    pub(crate) fn started_at(&self) -> i64 {
        self.turns
            .iter()
            .map(|(_, ran)| ran.started_at)
            .min()
            .unwrap()
    }

    fn ended_at(&self) -> i64 {
        self.turns.iter().map(|(end, _)| *end).max().unwrap()
    }

    /// Time, run and role, in order.
    pub(crate) fn messages(&self) -> Vec<(i64, &'static str, &'static str)> {
        let mut turns: Vec<&(i64, Ran)> = self.turns.iter().collect();
        turns.sort_by_key(|(_, ran)| (ran.started_at, ran.run));
        let mut messages = Vec::new();
        for (end, ran) in turns {
            if !ran.input.is_empty() {
                messages.push((ran.started_at, ran.run, "user"));
            }
            if !ran.output.is_empty() {
                messages.push((*end, ran.run, "assistant"));
            }
        }
        messages.sort_by_key(|(at, ..)| *at);
        messages
    }

    /// What the list shows.
    pub(crate) fn shown(&self, runs: &[Ran]) -> String {
        let mut turns: Vec<&(i64, Ran)> = self.turns.iter().collect();
        turns.sort_by_key(|(end, ran)| (*end, ran.run));
        let newest = |of: fn(&Ran) -> &'static str| {
            let mut values = turns.iter().rev().map(|(_, ran)| ran.resolved(runs, of));
            values.find(|value| !value.is_empty()).unwrap_or("")
        };
        let last = &turns.last().unwrap().1;
        let preview = if last.output.is_empty() {
            last.input
        } else {
            last.output
        };
        let alone = Expected {
            app: self.app,
            name: self.name,
            messages: Vec::new(),
        };
        let (cost, tokens) = alone.totals(runs);
        format!(
            "{} {:?} {:?} {:?} {}..{} {} {} {tokens} {preview:?}",
            self.app,
            self.name,
            newest(|ran| ran.agent),
            newest(|ran| ran.user),
            self.started_at(),
            self.ended_at(),
            self.messages().len(),
            schemas::money::Dollars(cost),
        )
    }

    pub(crate) fn facts(&self, runs: &[Ran]) -> Facts {
        let turns = || self.turns.iter().map(|(_, ran)| ran);
        Facts {
            app: self.app,
            ended_at: self.ended_at(),
            agents: turns()
                .map(|ran| ran.resolved(runs, |ran| ran.agent))
                .collect(),
            users: turns()
                .map(|ran| ran.resolved(runs, |ran| ran.user))
                .collect(),
            rated: turns().map(|ran| ran.run).collect(),
        }
    }
}

/// The threads that only runs name.
pub(crate) fn threads_of_runs(messages: &BTreeSet<Message>, runs: &[Ran]) -> Vec<OfRuns> {
    let mut found: Vec<OfRuns> = Vec::new();
    for ran in runs {
        let name = ran.resolved(runs, |ran| ran.thread);
        let is_said = messages
            .iter()
            .any(|message| message.app == ran.app && message.thread == name);
        let Some(end) = ran.turn(runs).filter(|_| !is_said) else {
            continue;
        };
        let turn = (end, ran.clone());
        match found
            .iter_mut()
            .find(|thread| thread.app == ran.app && thread.name == name)
        {
            Some(thread) => thread.turns.push(turn),
            None => found.push(OfRuns {
                app: ran.app,
                name,
                turns: vec![turn],
            }),
        }
    }
    found
}

/// What a query is compared with.
pub(crate) struct Facts {
    app: &'static str,
    ended_at: i64,
    agents: Vec<&'static str>,
    users: Vec<&'static str>,
    /// What feedback is on.
    rated: Vec<&'static str>,
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

    pub(crate) fn facts(&self) -> Facts {
        let messages = || self.messages.iter();
        Facts {
            app: self.app,
            ended_at: self.ended_at(),
            agents: messages().map(|message| message.agent).collect(),
            users: messages().map(|message| message.user).collect(),
            rated: messages().map(|message| message.run).collect(),
        }
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
pub(crate) fn is_asked_for(thread: &Facts, query: &ThreadQuery, feedback: &[GivenRating]) -> bool {
    let newest = |run: &str| {
        feedback
            .iter()
            .filter(|judged| judged.app == thread.app && judged.run == run)
            .filter(|judged| !judged.rating.is_empty())
            .max_by_key(|judged| (judged.at, judged.event_id))
            .map_or("", |judged| judged.rating)
    };
    let ratings: BTreeSet<&str> = thread
        .rated
        .iter()
        .map(|run| newest(run))
        .filter(|rating| !rating.is_empty())
        .collect();
    let has = |wanted: &Option<String>, values: &[&str]| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| values.contains(&wanted))
    };
    query.app_id.as_ref().is_none_or(|app| app == thread.app)
        && has(&query.agent, &thread.agents)
        && has(&query.user_email, &thread.users)
        && query.from_ms.is_none_or(|from| thread.ended_at >= from)
        && query.to_ms.is_none_or(|to| thread.ended_at <= to)
        && match query.feedback {
            None => true,
            Some(FeedbackFilter::Positive) => ratings.contains("positive"),
            Some(FeedbackFilter::Negative) => ratings.contains("negative"),
            Some(FeedbackFilter::Any) => !ratings.is_empty(),
            Some(FeedbackFilter::None) => ratings.is_empty(),
        }
}
