//! What becomes of a body: pure, from bytes to the payloads of log records and the list of rejections.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use schemas::batch;
use schemas::event::EventFault;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::limits;
use schemas::start::Start;
use serde::Serialize;
use utoipa::ToSchema;

use crate::days::{self, DayBounds};
use crate::named_keys::NamedKeys;

const PAYLOAD_HEAD: &[u8] = b"{\"events\":[";
const PAYLOAD_TAIL: &[u8] = b"]}";

/// How an event without an app of its own gets one.
#[derive(Clone, Debug)]
pub(crate) enum Apps {
    /// Events may be of any app, and are of this one when they name none. Where one names an API key as its app, the
    /// key says whose it is.
    AnyOr(AppId, NamedKeys),
    /// There is no key to say whose they are: all events must name the same app, the first one's.
    OnlyFirst,
}

/// The good events of a body as payloads, and what is said of the others.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) payloads: Vec<Payload>,
    pub(crate) accepted: usize,
    pub(crate) rejections: Rejections,
    /// Days before yesterday that the good events lie on, as days since 1970.
    pub(crate) old_days: Vec<i64>,
}

/// What one log record will carry.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The project of the key that its events name as their app; `None` for the one that reports.
    pub(crate) project: Option<ProjectId>,
    pub(crate) app: AppId,
    pub(crate) events: u32,
    /// Days before yesterday that its events lie on, as days since 1970.
    pub(crate) old_days: Vec<i64>,
    /// `{"events": [...]}`.
    pub(crate) bytes: Bytes,
    /// The start of a process that its event reports, if it does: never from a client.
    pub(crate) start: Option<Box<Start>>,
}

/// Events that were not accepted.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    /// All of them.
    pub(crate) count: usize,
    /// How many for each reason.
    pub(crate) by_code: Vec<(&'static str, u64)>,
    /// The first [`limits::REPORTED_ERRORS`].
    pub(crate) reported: Vec<Rejection>,
}

/// One event that was not accepted, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rejection {
    /// Place in the batch, from 0; lists inside of the list are counted through.
    #[schema(example = 3)]
    pub index: usize,
    /// Stable code of the reason.
    #[schema(example = "missing_field")]
    pub code: &'static str,
    /// The reason for a person.
    #[schema(example = "events[3].run_id is required")]
    pub message: String,
}

impl Rejections {
    /// These and then the others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.count += others.count;
        for (code, count) in others.by_code {
            *self.count_of(code) += count;
        }
        self.reported.extend(others.reported);
        self.reported.truncate(limits::REPORTED_ERRORS);
        self
    }

    pub(crate) fn add(&mut self, index: usize, fault: EventFault) {
        self.count += 1;
        *self.count_of(fault.code) += 1;
        if self.reported.len() < limits::REPORTED_ERRORS {
            self.reported.push(Rejection {
                index,
                code: fault.code,
                message: fault.message,
            });
        }
    }

    /// The same with the reported rejections in order of their events; each of the two lists is in order already.
    fn merged(self, others: Self) -> Self {
        let mut merged = Self {
            reported: Vec::new(),
            ..self
        };
        let mut reported = self.reported;
        reported.extend(others.reported.iter().cloned());
        reported.sort_by_key(|rejection| rejection.index);
        reported.truncate(limits::REPORTED_ERRORS);
        merged = merged.and(Self {
            reported: Vec::new(),
            ..others
        });
        merged.reported = reported;
        merged
    }

    fn count_of(&mut self, code: &'static str) -> &mut u64 {
        let place = self.by_code.iter().position(|(known, _)| *known == code);
        let place = place.unwrap_or_else(|| {
            self.by_code.push((code, 0));
            self.by_code.len() - 1
        });
        &mut self.by_code[place].1
    }
}

/// Reads a body, once, and sorts its events by app. An error means that the body as a whole is not a batch.
///
/// A body whose events are all good and of one app becomes a payload as it is, without a copy; else the good
/// events' own bytes are put together anew, one payload for each app, more where one would be too large for a record.
pub(crate) fn plan(body: Bytes, apps: &Apps, bounds: &DayBounds) -> Result<Plan, Fault> {
    let mut sorter = Sorter::new(apps);
    batch::visit(&body, bounds.now_ms, |slot| match slot.event {
        Ok(ref event) => match bounds.check_age(slot.index, event.timestamp_ms) {
            Ok(()) => sorter.good(&slot, event.app.as_deref(), days::day(event.timestamp_ms)),
            Err(fault) => sorter.rejections.add(slot.index, fault),
        },
        Err(ref fault) => sorter.rejections.add(slot.index, fault.clone()),
    })?;
    sorter.bound_days();
    let Sorter {
        owners,
        mut events,
        rejections,
        has_keys,
        days,
        ..
    } = sorter;
    let old_days: Vec<i64> = days.into_iter().filter(|day| bounds.is_old(*day)).collect();
    let accepted = events.len();
    let is_whole = rejections.count == 0 && !has_keys && body.len() <= limits::RECORD_BYTES;
    let payloads = match owners.as_slice() {
        [owner] if is_whole => {
            vec![Payload {
                project: owner.project.clone(),
                app: owner.app.clone(),
                events: count(accepted),
                old_days: old_days.clone(),
                bytes: body.clone(),
                start: None,
            }]
        }
        _ => {
            events.sort_by_key(|event| event.owner);
            events
                .chunk_by(|a, b| a.owner == b.owner)
                .flat_map(|of_one| copies(&owners[of_one[0].owner], of_one, bounds))
                .collect()
        }
    };
    Ok(Plan {
        payloads,
        accepted,
        rejections,
        old_days,
    })
}

/// Whose an event is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// `None` for the project that reports.
    pub(crate) project: Option<ProjectId>,
    pub(crate) app: AppId,
}

/// A good event: whose, by its place in the list of them, and its bytes: its own, but for one that named a key.
struct Good<'a> {
    owner: usize,
    /// Place in the batch.
    index: usize,
    /// The day it lies on, as days since 1970.
    day: i64,
    raw: Cow<'a, str>,
}

struct Sorter<'a> {
    rule: &'a Apps,
    owners: Vec<Owner>,
    /// Where each stands in `owners`.
    places: HashMap<Owner, usize>,
    last: usize,
    events: Vec<Good<'a>>,
    rejections: Rejections,
    /// Whether an event names a key: the body is not kept as it is.
    has_keys: bool,
    /// The days of all good events.
    days: BTreeSet<i64>,
    last_day: Option<i64>,
}

impl<'a> Sorter<'a> {
    fn new(rule: &'a Apps) -> Self {
        Self {
            rule,
            owners: Vec::new(),
            places: HashMap::new(),
            last: 0,
            events: Vec::new(),
            rejections: Rejections::default(),
            has_keys: false,
            days: BTreeSet::new(),
            last_day: None,
        }
    }

    fn good(&mut self, slot: &batch::Slot<'a>, app: Option<&str>, day: i64) {
        let (index, raw) = (slot.index, slot.raw);
        let name = match (app, self.rule) {
            (Some(name), Apps::AnyOr(_, keys)) if keys.is_secret(name) => {
                return self.named_by_key((index, day), raw, (name, keys));
            }
            (Some(name), _) => name,
            (None, Apps::AnyOr(app, _)) => app.as_str(),
            (None, Apps::OnlyFirst) => {
                return self.not_allowed(index, NO_KEY, "names no app");
            }
        };
        let place = match self.owners.get(self.last) {
            Some(owner) if owner.project.is_none() && owner.app.as_str() == name => self.last,
            Some(_) if matches!(self.rule, Apps::OnlyFirst) => {
                let what = "names another app than the first event";
                return self.not_allowed(index, NO_KEY, what);
            }
            _ => self.place(Owner {
                project: None,
                app: AppId::new(name),
            }),
        };
        let raw = match self.rule {
            Apps::AnyOr(_, keys) => keys.hidden(raw),
            Apps::OnlyFirst => Cow::Borrowed(raw),
        };
        self.has_keys |= matches!(raw, Cow::Owned(_));
        self.keep(place, (index, day), raw);
    }

    /// The key is a secret: in what is kept, the app stands in its place.
    fn named_by_key(
        &mut self,
        (index, day): (usize, i64),
        raw: &'a str,
        (key, keys): (&str, &NamedKeys),
    ) {
        self.has_keys = true;
        let (Some(owner), Cow::Owned(raw)) = (keys.owner(key), keys.hidden(raw)) else {
            return self.not_allowed(index, UNKNOWN_KEY, "names an API key as its app");
        };
        let place = self.place(owner.clone());
        self.keep(place, (index, day), Cow::Owned(raw));
    }

    fn keep(&mut self, owner: usize, (index, day): (usize, i64), raw: Cow<'a, str>) {
        self.last = owner;
        // Neighbors nearly always lie on one day.
        if self.last_day != Some(day) {
            self.days.insert(day);
            self.last_day = Some(day);
        }
        self.events.push(Good {
            owner,
            index,
            day,
            raw,
        });
    }

    /// Rejects the events of all but the newest [`limits::REPORT_DAYS`] days.
    fn bound_days(&mut self) {
        let Some(first_kept) = self.days.iter().rev().nth(limits::REPORT_DAYS - 1).copied() else {
            return;
        };
        let days = self.days.len();
        self.days = self.days.split_off(&first_kept);
        if self.days.len() == days {
            return;
        }
        let mut rejections = Rejections::default();
        self.events.retain(|event| {
            if event.day < first_kept {
                rejections.add(event.index, days::too_many(event.index, days));
            }
            event.day >= first_kept
        });
        self.rejections = std::mem::take(&mut self.rejections).merged(rejections);
    }

    fn place(&mut self, owner: Owner) -> usize {
        let next = self.owners.len();
        let place = *self.places.entry(owner.clone()).or_insert(next);
        if place == next {
            self.owners.push(owner);
        }
        place
    }

    fn not_allowed(&mut self, index: usize, why: &str, what: &str) {
        let fault = EventFault {
            code: "app_not_allowed",
            message: format!("events[{index}] {what}, and {why}"),
        };
        self.rejections.add(index, fault);
    }
}

const NO_KEY: &str = "the request has no API key that says whose it is";
const UNKNOWN_KEY: &str = "that key is not known, was revoked, or may not report";

/// Puts events of one app together, each payload no longer than a record may be.
fn copies<'a>(
    owner: &'a Owner,
    events: &'a [Good<'a>],
    bounds: &'a DayBounds,
) -> impl Iterator<Item = Payload> + 'a {
    let mut rest = events;
    std::iter::from_fn(move || {
        let mut bytes = PAYLOAD_HEAD.len() + PAYLOAD_TAIL.len();
        // The first event is always taken: it alone is below the bound on a record, see `limits::EVENT_BYTES`.
        let fitting = rest
            .iter()
            .take_while(|event| {
                let is_first = bytes == PAYLOAD_HEAD.len() + PAYLOAD_TAIL.len();
                bytes += event.raw.len() + 1;
                is_first || bytes <= limits::RECORD_BYTES
            })
            .count();
        let (now, later) = rest.split_at_checked(fitting)?;
        rest = later;
        let (first, others) = now.split_first()?;
        let size = now.iter().map(|event| event.raw.len() + 1).sum::<usize>();
        let mut payload = Vec::with_capacity(PAYLOAD_HEAD.len() + size + PAYLOAD_TAIL.len());
        payload.extend_from_slice(PAYLOAD_HEAD);
        payload.extend_from_slice(first.raw.as_bytes());
        for event in others {
            payload.push(b',');
            payload.extend_from_slice(event.raw.as_bytes());
        }
        payload.extend_from_slice(PAYLOAD_TAIL);
        Some(Payload {
            project: owner.project.clone(),
            app: owner.app.clone(),
            events: count(now.len()),
            old_days: bounds.old_days(now.iter().map(|event| event.day)),
            bytes: payload.into(),
            start: None,
        })
    })
}

/// Events of one record: a body of 4 GiB would be needed to pass `u32`.
fn count(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
