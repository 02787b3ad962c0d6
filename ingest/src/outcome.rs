//! The outcome of a batch: what was accepted, and why other events were rejected.

use schemas::api_error::EventCode;
use schemas::event::EventFault;
use schemas::limits;
use serde::Serialize;
use utoipa::ToSchema;

/// What became of a batch. Given only when all accepted events are durable in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Report {
    /// Events that were kept.
    #[schema(example = 98)]
    pub accepted: usize,
    /// Events that were not.
    #[schema(example = 2)]
    pub rejected: usize,
    /// Why, for the first 100 of those.
    pub errors: Vec<Rejection>,
    /// Values of accepted events that are stored but have no effect, the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A value of an accepted event that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Warning {
    /// Place of the event in the batch, counted as in `errors`.
    #[schema(example = 0)]
    pub index: usize,
    #[schema(example = "metadata.tags")]
    pub field: String,
    /// The reason for a person.
    #[schema(example = "metadata.tags must be a list of strings")]
    pub reason: String,
}

#[derive(Debug)]
pub(crate) struct Rejections {
    pub(crate) count: usize,
    /// Counts by reason.
    pub(crate) by_code: Vec<(EventCode, u64)>,
    /// The first `most`.
    pub(crate) reported: Vec<Rejection>,
    pub(crate) most: usize,
}

/// Of the first [`limits::REPORTED_ERRORS`] the reasons are kept.
impl Default for Rejections {
    fn default() -> Self {
        Self::reporting(limits::REPORTED_ERRORS)
    }
}

/// One event that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Rejection {
    /// Place in the batch, from 0; lists inside of the list are counted through.
    #[schema(example = 3)]
    pub index: usize,
    /// Stable code of the reason.
    #[schema(value_type = String, example = "missing_field")]
    pub code: EventCode,
    /// The reason for a person.
    #[schema(example = "events[3].run_id is required")]
    pub message: String,
}

impl Rejections {
    /// None yet; the reasons of the first `most` are kept.
    pub(crate) fn reporting(most: usize) -> Self {
        Self {
            count: 0,
            by_code: Vec::new(),
            reported: Vec::new(),
            most,
        }
    }

    /// Appends the rejections of `others`.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.count += others.count;
        for (code, count) in others.by_code {
            *self.count_of(code) += count;
        }
        self.reported.extend(others.reported);
        self.reported.truncate(self.most);
        self
    }

    pub(crate) fn add(&mut self, index: usize, fault: EventFault) {
        self.count += 1;
        *self.count_of(fault.code) += 1;
        if self.reported.len() < self.most {
            self.reported.push(Rejection {
                index,
                code: fault.code,
                message: fault.message,
            });
        }
    }

    /// Merges the rejections in order of their events.
    pub(crate) fn merged(mut self, mut others: Self) -> Self {
        let mut reported = std::mem::take(&mut self.reported);
        reported.append(&mut others.reported);
        reported.sort_by_key(|rejection| rejection.index);
        reported.truncate(self.most);
        Self {
            reported,
            ..self.and(others)
        }
    }

    fn count_of(&mut self, code: EventCode) -> &mut u64 {
        let place = self.by_code.iter().position(|(known, _)| *known == code);
        let place = place.unwrap_or_else(|| {
            self.by_code.push((code, 0));
            self.by_code.len() - 1
        });
        &mut self.by_code[place].1
    }
}
