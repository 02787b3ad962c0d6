//! What becomes of a body: pure, from bytes to the payloads of log records and the list of rejections.

use std::collections::HashMap;

use bytes::Bytes;
use schemas::batch;
use schemas::event::EventFault;
use schemas::fault::Fault;
use schemas::ids::AppId;
use schemas::limits;
use schemas::start::Start;
use serde::Serialize;
use utoipa::ToSchema;

const PAYLOAD_HEAD: &[u8] = b"{\"events\":[";
const PAYLOAD_TAIL: &[u8] = b"]}";

/// How an event without an app of its own gets one.
#[derive(Clone, Debug)]
pub(crate) enum Apps {
    /// Events may be of any app, and are of this one when they name none.
    AnyOr(AppId),
    /// There is no key to say whose they are: all events must name the same app, the first one's.
    OnlyFirst,
}

/// The good events of a body as payloads, and what is said of the others.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) payloads: Vec<Payload>,
    pub(crate) accepted: usize,
    pub(crate) rejections: Rejections,
}

/// What one log record will carry.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) app: AppId,
    pub(crate) events: u32,
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
    fn add(&mut self, index: usize, fault: EventFault) {
        self.count += 1;
        match self
            .by_code
            .iter_mut()
            .find(|(code, _)| *code == fault.code)
        {
            Some((_, count)) => *count += 1,
            None => self.by_code.push((fault.code, 1)),
        }
        if self.reported.len() < limits::REPORTED_ERRORS {
            self.reported.push(Rejection {
                index,
                code: fault.code,
                message: fault.message,
            });
        }
    }
}

/// Reads a body, once, and sorts its events by app. An error means that the body as a whole is not a batch.
///
/// A body whose events are all good and of one app becomes a payload as it is, without a copy; else the good
/// events' own bytes are put together anew, one payload for each app, more where one would be too large for a record.
pub(crate) fn plan(body: Bytes, apps: &Apps, now_ms: i64) -> Result<Plan, Fault> {
    let mut sorter = Sorter::new(apps);
    batch::visit(&body, now_ms, |slot| match slot.event {
        Ok(event) => sorter.good(slot.index, slot.raw, event.app.as_deref()),
        Err(fault) => sorter.rejections.add(slot.index, fault),
    })?;
    let Sorter {
        apps,
        mut events,
        rejections,
        ..
    } = sorter;
    let accepted = events.len();
    let payloads = match apps.as_slice() {
        [app] if rejections.count == 0 && body.len() <= limits::RECORD_BYTES => {
            vec![Payload {
                app: app.clone(),
                events: count(accepted),
                bytes: body.clone(),
                start: None,
            }]
        }
        _ => {
            events.sort_by_key(|event| event.app);
            events
                .chunk_by(|a, b| a.app == b.app)
                .flat_map(|of_app| copies(&apps[of_app[0].app], of_app))
                .collect()
        }
    };
    Ok(Plan {
        payloads,
        accepted,
        rejections,
    })
}

/// A good event: which app, by its place in the list of them, and its own bytes.
struct Good<'a> {
    app: usize,
    raw: &'a str,
}

struct Sorter<'a> {
    rule: &'a Apps,
    apps: Vec<AppId>,
    /// Where each app stands in `apps`.
    places: HashMap<AppId, usize>,
    last: usize,
    events: Vec<Good<'a>>,
    rejections: Rejections,
}

impl<'a> Sorter<'a> {
    fn new(rule: &'a Apps) -> Self {
        Self {
            rule,
            apps: Vec::new(),
            places: HashMap::new(),
            last: 0,
            events: Vec::new(),
            rejections: Rejections::default(),
        }
    }

    fn good(&mut self, index: usize, raw: &'a str, app: Option<&str>) {
        let name = match (app, self.rule) {
            (Some(name), _) => name,
            (None, Apps::AnyOr(app)) => app.as_str(),
            (None, Apps::OnlyFirst) => return self.not_allowed(index, "names no app"),
        };
        let app = match self.apps.get(self.last) {
            Some(app) if app.as_str() == name => self.last,
            Some(_) if matches!(self.rule, Apps::OnlyFirst) => {
                return self.not_allowed(index, "names another app than the first event");
            }
            _ => self.place(name),
        };
        self.last = app;
        self.events.push(Good { app, raw });
    }

    fn place(&mut self, name: &str) -> usize {
        let app = AppId::new(name);
        let next = self.apps.len();
        let place = *self.places.entry(app.clone()).or_insert(next);
        if place == next {
            self.apps.push(app);
        }
        place
    }

    fn not_allowed(&mut self, index: usize, rest: &str) {
        let message =
            format!("events[{index}] {rest}, and the request has no API key that says whose it is");
        self.rejections.add(
            index,
            EventFault {
                code: "app_not_allowed",
                message,
            },
        );
    }
}

/// Puts events of one app together, each payload no longer than a record may be.
fn copies<'a>(app: &'a AppId, events: &'a [Good<'a>]) -> impl Iterator<Item = Payload> + 'a {
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
            app: app.clone(),
            events: count(now.len()),
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
