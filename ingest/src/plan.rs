//! Turns a body into payloads of log records and rejections. Pure.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use schemas::api_error::{ApiError, EventCode};
use schemas::batch;
use schemas::event::{Dialect, Event, EventFault, FieldWarning};
use schemas::fold;
use schemas::ids::{AppId, ProjectId};
use schemas::limits;
use schemas::start::Start;
use schemas::timestamp::UnixMs;

use crate::days::{self, DayBounds};
use crate::named_keys::NamedKeys;
use crate::outcome::{Rejections, Warning};
use crate::owner::Owner;
use crate::run_apps::Placing;

const PAYLOAD_HEAD: &[u8] = b"{\"events\":[";
const PAYLOAD_TAIL: &[u8] = b"]}";

/// The app of an event that names none.
#[derive(Clone)]
pub(crate) enum Apps {
    /// Events may belong to any app, and belong to this one if they name none. Where an event names an API key as its
    /// app, the key determines the owner.
    AnyOr(AppId, NamedKeys),
    /// The same, but a mark and a closing event that name no app belong to the app of their run, if that is known.
    OfRunOr(AppId, NamedKeys, Placing),
    /// There is no key: all events must name the same app, the first one's.
    OnlyFirst,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) payloads: Vec<Payload>,
    pub(crate) accepted: usize,
    pub(crate) rejections: Rejections,
    /// The first [`limits::REPORTED_WARNINGS`] of the valid events.
    pub(crate) warnings: Vec<Warning>,
    /// Whether any valid event is of the llmonitor dialect.
    pub(crate) has_llmonitor: bool,
    /// Days before yesterday of the accepted events, as days since 1970.
    pub(crate) old_days: Vec<i64>,
    /// Ids of runs whose apps the tables may tell; none if they were read.
    pub(crate) unplaced: Vec<String>,
}

/// The content of one log record.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The project of the key that its events name as their app; `None` for the project that reports.
    pub(crate) project: Option<ProjectId>,
    pub(crate) app: AppId,
    pub(crate) events: u32,
    /// Days before yesterday of its events, as days since 1970.
    pub(crate) old_days: Vec<i64>,
    /// `{"events": [...]}`.
    pub(crate) bytes: Bytes,
    /// The start of a process that its event reports; never from a client.
    pub(crate) start: Option<Box<Start>>,
}

/// Parses a body once and groups its events by app. An error means that the body as a whole is not a batch.
///
/// A body whose events are all valid and of one app becomes a payload unchanged, without a copy; otherwise the valid
/// events' own bytes are joined again, one payload for each app, more where one would be too large for a record.
///
/// The reasons of the first `reported` rejected events are kept.
pub(crate) fn plan(
    body: Bytes,
    apps: &Apps,
    bounds: &DayBounds,
    reported: usize,
) -> Result<Plan, ApiError> {
    let mut sorter = Sorter::new(apps, &body, reported);
    batch::visit(&body, bounds.now_ms, |slot| match slot.event {
        Ok(ref event) => match bounds.check_age(slot.index, event.timestamp_ms) {
            Ok(()) => {
                sorter.has_llmonitor |= event.dialect == Dialect::Llmonitor;
                sorter.warn(slot.index, &event.warnings);
                sorter.good(&slot, event);
            }
            Err(fault) => sorter.rejections.add(slot.index, fault),
        },
        Err(ref fault) => sorter.rejections.add(slot.index, fault.clone()),
    })?;
    let unplaced = sorter.place_floating();
    sorter.bound_days();
    let Sorter {
        owners,
        mut events,
        rejections,
        mut warnings,
        has_keys,
        has_llmonitor,
        days,
        ..
    } = sorter;
    let is_accepted = |index| {
        events
            .binary_search_by_key(&index, |event| event.index)
            .is_ok()
    };
    warnings.retain(|warning| is_accepted(warning.index));
    warnings.sort_by_key(|warning| warning.index);
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
        warnings,
        has_llmonitor,
        old_days,
        unplaced,
    })
}

/// A valid event: the index of its owner, and its own bytes, except if it named a key.
struct Good<'a> {
    owner: usize,
    /// Index in the batch.
    index: usize,
    /// Its day, as days since 1970.
    day: i64,
    raw: Cow<'a, str>,
}

/// An event without an app that belongs to the app of its run.
struct Floating {
    /// Its place in the list of valid events.
    event: usize,
    run_id: String,
    /// Whether it is a mark; otherwise it closes the run.
    is_mark: bool,
}

impl Floating {
    fn of(event: &Event<'_>, at: usize) -> Option<Self> {
        let is_mark = event.custom.is_some_and(fold::is_mark);
        let effect = event.effect;
        let only_closes = event.custom.is_none()
            && effect.closed_at_ms.is_some()
            && effect.opened_at_ms.is_none();
        let floats = event.app.is_none() && (is_mark || only_closes);
        floats.then(|| Self {
            event: at,
            run_id: event.run_id.clone().into_owned(),
            is_mark,
        })
    }
}

struct Sorter<'a> {
    rule: &'a Apps,
    /// The keys whose secrets are to be replaced, if the body contains any.
    secrets: Option<&'a NamedKeys>,
    owners: Vec<Owner>,
    /// Index of each owner in `owners`.
    places: HashMap<Owner, usize>,
    last: usize,
    events: Vec<Good<'a>>,
    rejections: Rejections,
    warnings: Vec<Warning>,
    /// Whether an event names a key: then the body is not kept as it is.
    has_keys: bool,
    has_llmonitor: bool,
    floating: Vec<Floating>,
    /// The newest app of the runs of this batch that are worth remembering.
    runs: HashMap<u64, (AppId, UnixMs)>,
    /// The days of all valid events.
    days: BTreeSet<i64>,
    last_day: Option<i64>,
}

impl<'a> Sorter<'a> {
    fn new(rule: &'a Apps, body: &[u8], reported: usize) -> Self {
        let keys = match rule {
            Apps::AnyOr(_, keys) | Apps::OfRunOr(_, keys, _) => Some(keys),
            Apps::OnlyFirst => None,
        };
        Self {
            rule,
            secrets: keys.filter(|keys| keys.occur_in(body)),
            owners: Vec::new(),
            places: HashMap::new(),
            last: 0,
            events: Vec::new(),
            rejections: Rejections::reporting(reported),
            warnings: Vec::new(),
            has_keys: false,
            has_llmonitor: false,
            floating: Vec::new(),
            runs: HashMap::new(),
            days: BTreeSet::new(),
            last_day: None,
        }
    }

    fn warn(&mut self, index: usize, of_event: &[FieldWarning]) {
        let room = limits::REPORTED_WARNINGS.saturating_sub(self.warnings.len());
        let first = of_event.iter().take(room);
        self.warnings.extend(first.map(|warning| Warning {
            index,
            field: warning.field.to_owned(),
            reason: warning.reason.clone(),
        }));
    }

    fn good(&mut self, slot: &batch::Slot<'a>, event: &Event<'_>) {
        let (index, raw) = (slot.index, slot.raw);
        let day = days::day(event.timestamp_ms);
        let name = match (event.app.as_deref(), self.rule) {
            (Some(key), Apps::AnyOr(_, keys) | Apps::OfRunOr(_, keys, _))
                if keys.is_secret(key) =>
            {
                self.has_keys = true;
                // The key is a secret: the stored event contains the app in its place.
                let (Some(owner), Cow::Owned(raw)) = (keys.owner(key), keys.hidden(raw)) else {
                    return self.not_allowed(index, UNKNOWN_KEY, "names an API key as its app");
                };
                let owner = self.place(owner.clone());
                let raw = Cow::Owned(raw);
                return self.keep(Good {
                    owner,
                    index,
                    day,
                    raw,
                });
            }
            (Some(name), _) => name,
            (None, Apps::AnyOr(app, _) | Apps::OfRunOr(app, ..)) => app.as_str(),
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
        self.note_run(event, place);
        let raw = match self.secrets {
            Some(keys) => keys.hidden(raw),
            None => Cow::Borrowed(raw),
        };
        self.has_keys |= matches!(raw, Cow::Owned(_));
        self.keep(Good {
            owner: place,
            index,
            day,
            raw,
        });
    }

    /// Notes that this owner has the run of an event, or that the event has to be placed by its run.
    fn note_run(&mut self, event: &Event<'_>, owner: usize) {
        let Apps::OfRunOr(default_app, _, placing) = self.rule else {
            return;
        };
        if let Some(floating) = Floating::of(event, self.events.len()) {
            self.floating.push(floating);
            return;
        }
        let app = &self.owners[owner].app;
        if event.custom.is_some() || !placing.is_remembered(app.as_str(), default_app) {
            return;
        }
        let key = placing.key(&event.run_id);
        placing.remember(key, app, event.timestamp_ms);
        let newest = self
            .runs
            .get(&key)
            .is_none_or(|(_, at_ms)| event.timestamp_ms >= *at_ms);
        if newest {
            self.runs.insert(key, (app.clone(), event.timestamp_ms));
        }
    }

    /// Moves marks and closing events without an app to the app of their run. Returns the ids of runs that may be in the
    /// tables.
    fn place_floating(&mut self) -> Vec<String> {
        let Apps::OfRunOr(_, _, placing) = self.rule else {
            return Vec::new();
        };
        let mut unplaced = BTreeSet::new();
        for Floating {
            event,
            run_id,
            is_mark,
        } in std::mem::take(&mut self.floating)
        {
            let key = placing.key(&run_id);
            let mut apps = placing.apps_of(key, &run_id);
            // A large batch may have evicted its own runs.
            if apps.is_empty() {
                apps.extend(self.runs.get(&key).cloned());
            }
            // A run may be in further apps, which matters to a mark: the answer says so.
            if !placing.is_looked_up() && (is_mark || apps.is_empty()) {
                unplaced.insert(run_id.clone());
            }
            let Some((app, _)) = apps.first() else {
                continue;
            };
            if let [(newest, _), others @ ..] = apps.as_slice()
                && let Some((other, _)) = others.first()
            {
                let index = self.events[event].index;
                let reason = format!(
                    "{} apps have a run with this id, among them `{newest}` and `{other}`: the event applies to the newest \
                     one, in `{newest}`; app_id selects another",
                    apps.len()
                );
                let field = "run_id";
                self.warn(index, &[FieldWarning { field, reason }]);
            }
            self.events[event].owner = self.place(Owner {
                project: None,
                app: app.clone(),
            });
        }
        unplaced.into_iter().collect()
    }

    fn keep(&mut self, event: Good<'a>) {
        self.last = event.owner;
        // Neighbors are nearly always of one day.
        if self.last_day != Some(event.day) {
            self.days.insert(event.day);
            self.last_day = Some(event.day);
        }
        self.events.push(event);
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
        let mut rejections = Rejections::reporting(self.rejections.most);
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
            code: EventCode::AppNotAllowed,
            message: format!("events[{index}] {what}, and {why}"),
        };
        self.rejections.add(index, fault);
    }
}

const NO_KEY: &str = "the request has no API key that says whose it is";
const UNKNOWN_KEY: &str = "that key is not known, was revoked, or may not report";

/// Joins events of one app, each payload no longer than a record may be.
fn copies<'a>(
    owner: &'a Owner,
    events: &'a [Good<'a>],
    bounds: &'a DayBounds,
) -> impl Iterator<Item = Payload> + 'a {
    let mut rest = events;
    std::iter::from_fn(move || {
        let mut bytes = PAYLOAD_HEAD.len() + PAYLOAD_TAIL.len();
        // The first event always fits: alone it is below the bound on a record, see `limits::EVENT_BYTES`.
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
