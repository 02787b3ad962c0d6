//! Which of several runs that report one model call counts it.
//!
//! A client library and a framework around it may both be instrumented: then each call comes as two runs, or more. Two
//! runs report one call if their responses have the same identifier at the same time, or if one encloses the other (see [`Seen`]) with
//! the same model and the same token counts, in its time, and encloses no second such call. In two traces the same
//! holds for two runs with the same fingerprint, of which the outer one lacks the identifier. Where one client reports
//! each call in two signals without an identifier, the calls with equal counts are paired in order of time. See
//! docs/decisions/0028-a-call-is-counted-once.md.
//!
//! All of this is a function of the runs in hand, whatever order they came in: the caller loads every run that may
//! report the same call.

use std::collections::HashMap;

use schemas::event::CallFingerprint;
use schemas::event::response_id::{self, Signal};

/// A model call as one run reports it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub run_id: &'a str,
    /// Of the response, as the provider gave it; empty for none.
    pub response_id: &'a str,
    /// May be empty.
    pub model: &'a str,
    /// Prompt, completion and total.
    pub tokens: [Option<u64>; 3],
    /// Whether it has what a cost is made of, the model aside.
    pub has_usage: bool,
    pub started_at_ms: i64,
    /// `None` while unfinished.
    pub ended_at_ms: Option<i64>,
    pub fingerprint: Option<CallFingerprint>,
    /// The nearest of these calls above it in its tree.
    pub above: Option<usize>,
    /// Whether it is compared with the calls below it. Not if there are more than are known here.
    pub compares: bool,
    pub is_root: bool,
}

/// How far the bounds of two reports of one call may lie in the wrong order, milliseconds: clients round them.
const ROUNDING_MS: i64 = 2;
/// How far a report without a length may lie outside of another report of its call, milliseconds: it is written when the
/// answer is there.
const WITHOUT_LENGTH_MS: i64 = 1000;

/// Calls above a call that it is compared with: more layers of instrumentation do not exist (X1).
const CALLS_ABOVE: usize = 64;
/// How long after (before) the span of a call its log record may be written, milliseconds.
const SIGNALS_APART_MS: i64 = 10_000;

impl Seen<'_> {
    /// From the start to the end, milliseconds; a run without an end has no length.
    fn bounds(&self) -> (i64, i64) {
        let end_ms = self.ended_at_ms.unwrap_or(self.started_at_ms);
        (self.started_at_ms, end_ms.max(self.started_at_ms))
    }

    /// Whether two signals with equal counts may be of one call.
    fn may_be_other_signal(&self, other: &Self) -> bool {
        let [(start, end), (other_start, other_end)] = [self.bounds(), other.bounds()];
        let apart_ms = (start - other_end).max(other_start - end);
        let is_one_model = self.model.is_empty()
            || other.model.is_empty()
            || is_same_model(self.model, other.model);
        apart_ms <= SIGNALS_APART_MS && is_one_model
    }

    /// Whether both were in flight at one time. A response is one call: the same identifier at another time is that of a
    /// server for tests, or of an answer from a cache of the client's.
    fn overlaps(&self, other: &Self) -> bool {
        let [(start, end), (other_start, other_end)] = [self.bounds(), other.bounds()];
        match start == end || other_start == other_end {
            true => {
                start - WITHOUT_LENGTH_MS <= other_end && other_start - WITHOUT_LENGTH_MS <= end
            }
            false => start < other_end && other_start < end,
        }
    }

    /// Whether this run may report the call of a run below it, where nothing else says that they are two.
    fn resembles(&self, below: &Self) -> bool {
        let is_in_time = match (self.ended_at_ms, below.ended_at_ms) {
            (Some(end), Some(end_below)) => {
                // Only a length is rounded.
                let has_length = |call: &Self| call.ended_at_ms > Some(call.started_at_ms);
                let slack_ms = match has_length(self) && has_length(below) {
                    true => ROUNDING_MS,
                    false => 0,
                };
                self.started_at_ms <= below.started_at_ms + slack_ms && end_below <= end + slack_ms
            }
            _ => false,
        };
        // A wrapper may report no usage at all, such as the AI SDK's span around an embedding.
        let is_same_usage = self.tokens == below.tokens || !self.has_usage;
        is_in_time && is_same_usage && is_same_model(self.model, below.model)
    }
}

/// The run that counts each call: itself or another one.
pub fn counted(calls: &[Seen<'_>]) -> Vec<usize> {
    let mut groups = Groups::of(calls);
    let lines: Vec<Vec<usize>> = (0..calls.len()).map(|call| above(call, calls)).collect();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); calls.len()];
    for (call, line) in lines.iter().enumerate() {
        for above in line {
            below[*above].push(call);
            // Of what is below a run with too many calls, only some are known here.
            if !calls[*above].compares {
                break;
            }
        }
    }
    // From the bottom up: what is below a call is decided before the call itself.
    let mut bottom_up: Vec<usize> = (0..calls.len()).collect();
    bottom_up.sort_by_key(|call| std::cmp::Reverse(lines[*call].len()));
    for call in bottom_up {
        let group = groups.find(call);
        let is_found_below = below[call].iter().any(|below| groups.find(*below) == group);
        if is_found_below || !calls[call].compares {
            continue;
        }
        let alike = below[call]
            .iter()
            .filter(|below| calls[call].resembles(&calls[**below]));
        let mut alike: Vec<usize> = alike
            .map(|below| groups.find(*below))
            .filter(|other| groups.may_be_one(group, *other))
            .collect();
        alike.sort_unstable();
        alike.dedup();
        if let [one] = alike.as_slice() {
            groups.join(group, *one);
        }
    }
    join_across_traces(calls, &mut groups);
    let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
    for call in 0..calls.len() {
        members.entry(groups.find(call)).or_default().push(call);
    }
    let mut counted: Vec<usize> = (0..calls.len()).collect();
    for members in members.into_values() {
        let counts = first(&members, calls, &lines);
        for member in members {
            counted[member] = counts;
        }
    }
    counted
}

/// A client library that does not know the trace of the framework around it begins one of its own for each call. Such
/// a root is the call of a run elsewhere if another instrumentation reports the same words in its time, not both name the
/// response, and nothing else fits to either of them. Two calls with the same words come from the same instrumentations,
/// so each has a partner of its own, or none has one.
fn join_across_traces(calls: &[Seen<'_>], groups: &mut Groups<'_>) {
    let mut by_fingerprint: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        if let Some(fingerprint) = call.fingerprint {
            by_fingerprint.entry(fingerprint.said).or_default().push(at);
        }
    }
    let mut pairs = Vec::new();
    for alike in by_fingerprint.into_values() {
        for outer in &alike {
            let fits = |root: &&usize| {
                let (call, root) = (&calls[*outer], &calls[**root]);
                root.is_root && call.fingerprint != root.fingerprint && call.resembles(root)
            };
            let group = groups.find(*outer);
            let roots = alike.iter().filter(fits).map(|root| groups.find(*root));
            let roots = roots.filter(|root| *root != group && groups.may_be_one(group, *root));
            pairs.extend(roots.map(|root| (group.min(root), group.max(root))));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut uses: HashMap<usize, usize> = HashMap::new();
    for group in pairs.iter().flat_map(|(one, other)| [*one, *other]) {
        *uses.entry(group).or_default() += 1;
    }
    for (one, other) in pairs {
        if uses.get(&one) == Some(&1) && uses.get(&other) == Some(&1) {
            groups.join(one, other);
        }
    }
}

/// The calls above a call, nearest first.
fn above(call: usize, calls: &[Seen<'_>]) -> Vec<usize> {
    let mut line = Vec::new();
    let mut next = calls[call].above;
    while let Some(above) = next {
        if line.len() == CALLS_ABOVE || above == call || line.contains(&above) {
            break;
        }
        line.push(above);
        next = calls[above].above;
    }
    line
}

/// The run of a group that counts: the deepest that has usage. Of several, one that is part of a larger trace, then the
/// earliest.
fn first(members: &[usize], calls: &[Seen<'_>], lines: &[Vec<usize>]) -> usize {
    let any_has_usage = members.iter().any(|member| calls[*member].has_usage);
    let may_count = |member: &usize| calls[*member].has_usage || !any_has_usage;
    let encloses = |member: usize| {
        let mut others = members.iter().filter(|other| may_count(other));
        others.any(|other| lines[*other].contains(&member))
    };
    let deepest = members
        .iter()
        .copied()
        .filter(|member| may_count(member) && !encloses(*member));
    let is_in_two_signals = members
        .iter()
        .any(|member| response_id::counts(calls[*member].response_id).is_some());
    let first = deepest.min_by_key(|member| {
        let call = &calls[*member];
        // Of two signals, the one that says more: a span of Codex may lack the model, one of Gemini CLI the thoughts,
        // one of Claude Code how long a cache lasts.
        let said = is_in_two_signals.then(|| {
            let tokens = call.tokens.iter().flatten();
            let tokens = tokens.fold(0u64, |sum, count| sum.saturating_add(*count));
            let counts = response_id::counts(call.response_id);
            let is_log = counts.is_some_and(|(signal, _)| signal == Signal::Log);
            (call.model.is_empty(), std::cmp::Reverse(tokens), !is_log)
        });
        (said, call.is_root, call.started_at_ms, call.run_id)
    });
    first.unwrap_or(members[0])
}

/// Calls in groups, each of one model call.
struct Groups<'a> {
    leader: Vec<usize>,
    /// Of each leader's group.
    response_id: Vec<&'a str>,
}

impl<'a> Groups<'a> {
    /// Calls with the same response are together.
    fn of(calls: &[Seen<'a>]) -> Self {
        let mut by_response: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut in_two_signals: HashMap<&str, [Vec<usize>; 2]> = HashMap::new();
        let leader = calls.iter().enumerate().map(|(at, call)| {
            if let Some((signal, hash)) = response_id::counts(call.response_id) {
                let of_signals = in_two_signals.entry(hash).or_default();
                of_signals[usize::from(signal == Signal::Log)].push(at);
                return at;
            }
            if !call.response_id.is_empty() {
                by_response.entry(call.response_id).or_default().push(at);
            }
            at
        });
        let mut leader: Vec<usize> = leader.collect();
        // The first of one signal is the first of the other, and so on: which calls they are does not matter, because
        // their counts are equal.
        for [mut spans, mut logs] in in_two_signals.into_values() {
            for of_signal in [&mut spans, &mut logs] {
                of_signal.sort_by_key(|call| (calls[*call].started_at_ms, calls[*call].run_id));
            }
            for (span, log) in spans.into_iter().zip(logs) {
                if calls[span].may_be_other_signal(&calls[log]) {
                    leader[log] = span;
                }
            }
        }
        let mut groups = Self {
            leader,
            response_id: calls.iter().map(|call| call.response_id).collect(),
        };
        for reports in by_response.into_values() {
            for (number, one) in reports.iter().enumerate() {
                for other in &reports[..number] {
                    let [group, of_other] = [groups.find(*one), groups.find(*other)];
                    if group != of_other && calls[*one].overlaps(&calls[*other]) {
                        groups.join(group, of_other);
                    }
                }
            }
        }
        groups
    }

    fn find(&self, call: usize) -> usize {
        let mut leader = call;
        while self.leader[leader] != leader {
            leader = self.leader[leader];
        }
        leader
    }

    /// Whether nothing says that these are two calls: two responses do.
    fn may_be_one(&self, group: usize, other: usize) -> bool {
        let [one, two] = [group, other].map(|at| response_id::shared(self.response_id[at]));
        one.is_empty() || two.is_empty() || one == two
    }

    fn join(&mut self, group: usize, other: usize) {
        self.leader[group] = other;
        if self.response_id[other].is_empty() {
            self.response_id[other] = self.response_id[group];
        }
    }
}

/// Whether two names are of one model: an instrumentation reports the name that was asked for, another the dated one
/// that answered.
fn is_same_model(one: &str, two: &str) -> bool {
    base_name(one).eq_ignore_ascii_case(base_name(two))
}

/// Without the provider before the name and the date after it.
fn base_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.split('@').next().unwrap_or(name);
    let name = name.strip_suffix("-latest").unwrap_or(name);
    for (digits, separators) in [("dddddddd", 1), ("dddd-dd-dd", 1)] {
        let at = name.len().wrapping_sub(digits.len() + separators);
        let Some((base, date)) = name.split_at_checked(at) else {
            continue;
        };
        let mut pairs = date.bytes().skip(1).zip(digits.bytes());
        let is_date = pairs.all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            shape => byte == shape,
        });
        if date.starts_with('-') && is_date && !base.is_empty() {
            return base;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Seen<'_> = Seen {
        run_id: "",
        response_id: "",
        model: "m",
        tokens: [Some(37), Some(11), Some(48)],
        has_usage: true,
        started_at_ms: 0,
        ended_at_ms: Some(100),
        fingerprint: None,
        above: None,
        compares: true,
        is_root: false,
    };

    fn below(above: usize) -> Seen<'static> {
        Seen {
            above: Some(above),
            started_at_ms: 1,
            ended_at_ms: Some(99),
            ..CALL
        }
    }

    #[test]
    fn an_outer_run_of_the_same_call_is_counted_by_the_deepest() {
        assert_eq!(counted(&[CALL, below(0), below(1)]), [2, 2, 2]);
        let wrapper = Seen {
            has_usage: false,
            tokens: [None; 3],
            ..CALL
        };
        assert_eq!(counted(&[wrapper, below(0)]), [1, 1]);
        let without_usage = Seen {
            response_id: "r",
            has_usage: false,
            tokens: [None; 3],
            ..below(0)
        };
        let outer = Seen {
            response_id: "r",
            ..CALL
        };
        assert_eq!(
            counted(&[outer, without_usage]),
            [0, 0],
            "the one with usage"
        );
    }

    #[test]
    fn two_calls_with_the_same_tokens_stay_two() {
        assert_eq!(counted(&[CALL, CALL]), [0, 1], "none encloses the other");
        assert_eq!(
            counted(&[CALL, below(0), below(0)]),
            [0, 1, 2],
            "it may be either"
        );
        let other = |change: fn(&mut Seen<'_>)| {
            let mut other = below(0);
            change(&mut other);
            counted(&[CALL, other])
        };
        assert_eq!(other(|call| call.tokens[0] = Some(38)), [0, 1]);
        let without_usage = Seen {
            has_usage: false,
            tokens: [None; 3],
            ..CALL
        };
        assert_eq!(counted(&[without_usage, below(0), below(0)]), [0, 1, 2]);
        assert_eq!(other(|call| call.model = "n"), [0, 1]);
        assert_eq!(
            other(|call| call.ended_at_ms = Some(102)),
            [1, 1],
            "rounded"
        );
        assert_eq!(other(|call| call.ended_at_ms = Some(103)), [0, 1]);
        assert_eq!(other(|call| call.ended_at_ms = None), [0, 1]);
        let responses = ["a", "b"].map(|response_id| Seen {
            response_id,
            ..below(0)
        });
        assert_eq!(counted(&[CALL, responses[0], responses[1]]), [0, 1, 2]);
        let outer = Seen {
            response_id: "c",
            ..CALL
        };
        assert_eq!(counted(&[outer, responses[0]]), [0, 1]);
    }

    #[test]
    fn a_response_is_one_call_wherever_it_is_reported() {
        let of = |run_id, is_root| Seen {
            run_id,
            response_id: "r",
            tokens: [None; 3],
            is_root,
            ..CALL
        };
        assert_eq!(counted(&[of("b", false), of("a", true)]), [0, 0]);
        assert_eq!(counted(&[of("b", false), of("a", false)]), [1, 1]);
        // A run without the response around one of them is the same call.
        let inner = Seen {
            response_id: "r",
            ..below(0)
        };
        let elsewhere = Seen {
            response_id: "r",
            is_root: true,
            ..CALL
        };
        assert_eq!(counted(&[CALL, inner, elsewhere]), [1, 1, 1]);
    }

    #[test]
    fn a_call_in_two_traces_is_one_where_two_instrumentations_report_the_same_words() {
        let by = |said, by| Some(CallFingerprint { said, by });
        let outer = Seen {
            fingerprint: by(7, 1),
            ..CALL
        };
        let root = Seen {
            response_id: "r",
            fingerprint: by(7, 2),
            is_root: true,
            started_at_ms: 1,
            ended_at_ms: Some(99),
            ..CALL
        };
        assert_eq!(counted(&[outer, root]), [0, 0], "the run in a trace counts");
        assert_eq!(counted(&[root, outer]), [1, 1]);
        let failed = |call| Seen {
            response_id: "",
            tokens: [None; 3],
            has_usage: false,
            ..call
        };
        assert_eq!(counted(&[failed(outer), failed(root)]), [0, 0]);
        let other_root = |change: fn(&mut Seen<'_>)| {
            let mut root = root;
            change(&mut root);
            counted(&[outer, root])
        };
        let other_words =
            |root: &mut Seen<'_>| root.fingerprint = Some(CallFingerprint { said: 8, by: 2 });
        assert_eq!(other_root(other_words), [0, 1]);
        let same_reporter =
            |root: &mut Seen<'_>| root.fingerprint = Some(CallFingerprint { said: 7, by: 1 });
        assert_eq!(other_root(same_reporter), [0, 1]);
        assert_eq!(other_root(|root| root.fingerprint = None), [0, 1]);
        assert_eq!(other_root(|root| root.is_root = false), [0, 1]);
        assert_eq!(other_root(|root| root.tokens[0] = Some(38)), [0, 1]);
        assert_eq!(other_root(|root| root.ended_at_ms = Some(103)), [0, 1]);
        let named = Seen {
            response_id: "s",
            ..outer
        };
        assert_eq!(counted(&[named, root]), [0, 1], "two responses");
        // It may be either of two.
        let second = Seen {
            response_id: "s",
            ..root
        };
        assert_eq!(counted(&[outer, root, second]), [0, 1, 2]);
        assert_eq!(counted(&[outer, outer, root]), [0, 1, 2]);
    }

    #[test]
    fn calls_of_two_signals_with_equal_counts_are_paired_in_order_of_time() {
        let [span, log] =
            [Signal::Span, Signal::Log].map(|signal| response_id::of_counts(signal, 7));
        let of = |response_id, started_at_ms| Seen {
            response_id,
            started_at_ms,
            ..CALL
        };
        let (span, log): (&'static str, &'static str) = (span.leak(), log.leak());
        // Two of each are two calls, whatever their times are.
        let calls = [of(log, 20), of(span, 900), of(span, 30), of(log, 25)];
        assert_eq!(counted(&calls), [0, 3, 0, 3], "the records count");
        // Not long before or after, and not of another model.
        assert_eq!(counted(&[of(span, 0), of(log, 10_100)]), [1, 1]);
        assert_eq!(counted(&[of(span, 0), of(log, 10_101)]), [0, 1]);
        let other_model = Seen {
            model: "n",
            ..of(log, 5)
        };
        assert_eq!(counted(&[of(span, 0), other_model]), [0, 1]);
        // One that came in one signal only is a call of its own.
        assert_eq!(
            counted(&[of(log, 20), of(span, 10), of(log, 30)]),
            [0, 0, 2]
        );
        assert_eq!(counted(&[of(span, 1), of(span, 2)]), [0, 1]);
        assert_eq!(counted(&[of(span, 1), CALL]), [0, 1]);
        // The one that says more counts.
        let without_thoughts = Seen {
            tokens: [Some(37), Some(11), None],
            ..of(span, 0)
        };
        assert_eq!(counted(&[without_thoughts, of(log, 5)]), [1, 1]);
        let without_model = Seen {
            model: "",
            ..of(span, 0)
        };
        assert_eq!(counted(&[without_model, of(log, 5)]), [1, 1]);
    }

    #[test]
    fn below_a_run_with_too_many_calls_nothing_is_compared_with_those_above_it() {
        let crowded = Seen {
            compares: false,
            tokens: [Some(1), Some(1), Some(2)],
            ..below(0)
        };
        let inner = Seen {
            started_at_ms: 2,
            ended_at_ms: Some(98),
            ..below(1)
        };
        assert_eq!(counted(&[CALL, crowded, inner]), [0, 1, 2]);
    }

    #[test]
    fn a_long_chain_of_calls_takes_little_time_x1() {
        let chain: Vec<Seen<'_>> = (0..20_000)
            .map(|at: usize| Seen {
                above: at.checked_sub(1),
                tokens: [Some(at as u64), Some(1), None],
                ..CALL
            })
            .collect();
        let alone: Vec<usize> = (0..20_000).collect();
        assert_eq!(counted(&chain), alone);
    }

    #[test]
    fn an_identifier_that_comes_again_later_is_another_call() {
        let of = |started_at_ms, ended_at_ms| Seen {
            response_id: "r",
            started_at_ms,
            ended_at_ms,
            ..CALL
        };
        assert_eq!(counted(&[of(0, Some(50)), of(50, Some(90))]), [0, 1]);
        assert_eq!(counted(&[of(0, Some(51)), of(50, Some(90))]), [0, 0]);
        // A report without a length is written a little before or after the call.
        assert_eq!(counted(&[of(0, Some(50)), of(900, Some(900))]), [0, 0]);
        assert_eq!(counted(&[of(0, Some(50)), of(1051, None)]), [0, 1]);
        // Two that do not overlap each other may both overlap a third.
        assert_eq!(
            counted(&[of(0, Some(50)), of(50, Some(90)), of(40, Some(60))]),
            [0, 0, 0]
        );
    }

    #[test]
    fn dates_and_providers_are_not_part_of_a_models_name() {
        for (one, two, is_same) in [
            ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", true),
            ("openai/gpt-4o-mini", "gpt-4o-mini", true),
            (
                "claude-sonnet-4-5@20250929",
                "claude-sonnet-4-5-20250929",
                true,
            ),
            ("claude-sonnet-4-5-latest", "Claude-Sonnet-4-5", true),
            ("gpt-4o", "gpt-4o-mini", false),
            ("gpt-4o-20240718x", "gpt-4o", false),
            ("", "", true),
            ("-20240718", "", false),
            ("ü-2024-07-18", "ü", true),
        ] {
            assert_eq!(is_same_model(one, two), is_same, "{one} {two}");
        }
    }
}
