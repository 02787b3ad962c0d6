//! Who is there, as far as one process has heard. Pure: words and time in, answers out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use query::platform::Heard;
use schemas::control::Present;

/// Processes that are remembered: far more than a deployment has (X1).
const PROCESSES_MAX: usize = 1000;
/// A process that was silent for this long is forgotten: long enough for a person to see that one is missing.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5 * 60);
/// A process that was silent for this long is not waited for: five of its words are missing.
const WAITED_FOR: Duration = Duration::from_secs(10);

/// The other processes of the deployment.
#[derive(Debug, Default)]
pub(super) struct Roster {
    others: BTreeMap<String, Other>,
}

#[derive(Debug)]
struct Other {
    present: Present,
    heard: Instant,
}

/// How far an order has come among the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Others that said that they carried it out.
    pub(super) confirmed: usize,
    /// Others there are.
    pub(super) of: usize,
    /// Who did not say so and may still: their endpoints.
    pub(super) awaited: Vec<String>,
    /// Who did not say so and was silent too long to be waited for.
    pub(super) silent: Vec<String>,
}

impl Roster {
    /// A process said that it is there, or that it leaves.
    pub(super) fn hear(&mut self, present: Present, now: Instant) {
        if present.leaves {
            self.others.remove(&present.process);
            return;
        }
        let other = Other {
            heard: now,
            present,
        };
        self.others.insert(other.present.process.clone(), other);
        self.others
            .retain(|_, other| now.saturating_duration_since(other.heard) < FORGOTTEN_AFTER);
        while self.others.len() > PROCESSES_MAX {
            let longest = self.others.values().min_by_key(|other| other.heard);
            let Some(process) = longest.map(|other| other.present.process.clone()) else {
                return;
            };
            self.others.remove(&process);
        }
    }

    /// Those that are not forgotten, by role and endpoint.
    pub(super) fn list(&self, now: Instant) -> Vec<Heard> {
        let mut list: Vec<Heard> = self
            .known(now)
            .map(|(other, silent)| Heard {
                present: other.present.clone(),
                silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            })
            .collect();
        list.sort_by(|a, b| {
            let key = |heard: &Heard| (heard.present.role.clone(), heard.present.endpoint.clone());
            key(a).cmp(&key(b))
        });
        list
    }

    /// How far this order has come.
    pub(super) fn standing(&self, order: &str, now: Instant) -> Standing {
        let mut standing = Standing::default();
        for (Other { present, .. }, silent) in self.known(now) {
            standing.of += 1;
            if present.cleared.iter().any(|cleared| cleared == order) {
                standing.confirmed += 1;
            } else if silent < WAITED_FOR {
                standing.awaited.push(present.endpoint.clone());
            } else {
                standing.silent.push(present.endpoint.clone());
            }
        }
        standing
    }

    fn known(&self, now: Instant) -> impl Iterator<Item = (&Other, Duration)> {
        let others = self.others.values();
        let silent = others.map(move |other| (other, now.saturating_duration_since(other.heard)));
        silent.filter(|(_, silent)| *silent < FORGOTTEN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use schemas::control::EventCounts;

    use super::*;

    fn present(process: &str, cleared: &[&str]) -> Present {
        Present {
            process: process.to_owned(),
            role: "query".to_owned(),
            version: "1".to_owned(),
            endpoint: format!("http://{process}"),
            missing: Vec::new(),
            caches: Vec::new(),
            cleared: cleared.iter().map(|order| (*order).to_owned()).collect(),
            leaves: false,
            events: EventCounts::default(),
        }
    }

    fn names(roster: &Roster, now: Instant) -> Vec<String> {
        let list = roster.list(now).into_iter();
        list.map(|heard| heard.present.process).collect()
    }

    #[test]
    fn who_says_so_is_there_until_it_leaves_or_is_silent_for_minutes() {
        let (mut roster, start) = (Roster::default(), Instant::now());
        roster.hear(present("b", &[]), start);
        roster.hear(present("a", &[]), start);
        assert_eq!(names(&roster, start), ["a", "b"]);
        let later = start + Duration::from_secs(20);
        roster.hear(present("a", &[]), later);
        let silent: Vec<u64> = roster.list(later).iter().map(|h| h.silent_ms).collect();
        assert_eq!(silent, [0, 20_000]);
        let left = Present {
            leaves: true,
            ..present("a", &[])
        };
        roster.hear(left, later);
        assert_eq!(names(&roster, later), ["b"]);
        assert!(names(&roster, start + FORGOTTEN_AFTER).is_empty());
    }

    #[test]
    fn an_order_waits_for_those_that_are_heard_and_counts_those_that_are_not() {
        let (mut roster, start) = (Roster::default(), Instant::now());
        roster.hear(present("silent", &[]), start);
        let now = start + WAITED_FOR;
        roster.hear(present("done", &["before", "order"]), now);
        roster.hear(present("open", &["before"]), now);
        let standing = roster.standing("order", now);
        assert_eq!((standing.confirmed, standing.of), (1, 3));
        assert_eq!(standing.awaited, ["http://open"]);
        assert_eq!(standing.silent, ["http://silent"]);
        roster.hear(present("open", &["order"]), now);
        assert!(roster.standing("order", now).awaited.is_empty());
    }

    #[test]
    fn there_is_a_bound_and_the_one_that_is_silent_the_longest_goes_first() {
        let (mut roster, start) = (Roster::default(), Instant::now());
        for at in 0..=PROCESSES_MAX {
            let now = start + Duration::from_millis(at as u64);
            roster.hear(present(&format!("{at:05}"), &[]), now);
        }
        let names = names(&roster, start + Duration::from_secs(5));
        assert_eq!(names.len(), PROCESSES_MAX);
        assert_eq!(names[0], "00001");
    }
}
