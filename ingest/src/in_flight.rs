//! The bound on memory for bodies that are being read, checked or appended, over all requests (X1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::IntGauge;

#[derive(Debug)]
pub struct InFlight {
    limit: usize,
    used: AtomicUsize,
    gauge: IntGauge,
}

impl InFlight {
    /// `gauge` shows the bytes taken of `limit`.
    pub fn new(limit: usize, gauge: IntGauge) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            gauge,
        })
    }

    /// Begins a body. Bytes are counted as they arrive, not as they are announced: a client that announces much and
    /// sends nothing takes nothing from others.
    pub fn begin(self: &Arc<Self>) -> Reservation {
        Reservation {
            in_flight: Arc::clone(self),
            bytes: 0,
        }
    }
}

/// The bytes of one body; released when dropped.
#[derive(Debug)]
pub struct Reservation {
    in_flight: Arc<InFlight>,
    bytes: usize,
}

impl Reservation {
    /// A second reservation, for memory that is released earlier.
    pub(crate) fn beside(&self) -> Self {
        self.in_flight.begin()
    }

    /// Whether `bytes` more could be taken with nothing else in flight.
    pub(crate) fn may_grow(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= self.in_flight.limit
    }

    /// Upper bound on one item of a body: half of the budget, so that it fits beside others in the end.
    pub(crate) fn most_of_item(&self) -> usize {
        self.in_flight.limit / 2
    }

    /// Takes `bytes` more; `false`, and none taken, when that would exceed the limit.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let InFlight { limit, used, gauge } = &*self.in_flight;
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > *limit {
            used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        gauge.add(bytes as i64);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.in_flight.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.in_flight.gauge.sub(self.bytes as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_given_back_and_never_passes_the_limit() {
        let gauge = IntGauge::new("g", "g").unwrap();
        let in_flight = InFlight::new(100, gauge.clone());
        let mut first = in_flight.begin();
        let mut second = in_flight.begin();
        assert!(first.grow(60));
        assert!(!second.grow(41));
        assert!(second.grow(40));
        assert_eq!(gauge.get(), 100);
        drop(first);
        assert!(second.grow(60));
        drop(second);
        assert_eq!(gauge.get(), 0);
    }
}
