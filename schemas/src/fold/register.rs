//! Registers: values with the stamp of the event that they come from.

use serde::{Deserialize, Serialize};

use crate::ids::EventId;
use crate::timestamp::UnixMs;

/// Orders the events of a run: by time, then by identity. The upper half of the identity is enough to distinguish the
/// few events of one run in one millisecond, and takes half the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    timestamp_ms: UnixMs,
    /// Big-endian, so that bytes compare like the number: random bytes gain nothing from a variable length.
    tie: [u8; 8],
}

impl Stamp {
    pub fn new(timestamp_ms: UnixMs, id: EventId) -> Self {
        Self {
            timestamp_ms,
            tie: ((id.0 >> 64) as u64).to_be_bytes(),
        }
    }

    /// The stamp with these parts.
    pub(super) fn from_parts(timestamp_ms: UnixMs, tie: [u8; 8]) -> Self {
        Self { timestamp_ms, tie }
    }

    /// What orders the events of one millisecond.
    pub(super) fn tie(&self) -> [u8; 8] {
        self.tie
    }

    pub fn timestamp_ms(&self) -> UnixMs {
        self.timestamp_ms
    }
}

macro_rules! register {
    ($(#[$doc:meta])* $name:ident, $beats:tt) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name<T>(Option<(Stamp, T)>);

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self(None)
            }
        }

        impl<T: Ord> $name<T> {
            /// Offers the value of the event with this stamp; `value` is evaluated only if it may win. Two values with
            /// one stamp (an `event_id` used twice) are ordered by value, so the outcome never depends on the order.
            pub fn offer(&mut self, stamp: Stamp, value: impl FnOnce() -> T) {
                match &self.0 {
                    Some((current, _)) if *current $beats stamp => {}
                    Some((current, kept)) if *current == stamp => {
                        let value = value();
                        if value $beats *kept {
                            self.0 = Some((stamp, value));
                        }
                    }
                    _ => self.0 = Some((stamp, value())),
                }
            }

            /// Offers a value that the event may lack.
            pub fn offer_some<V>(&mut self, stamp: Stamp, value: Option<V>, make: impl FnOnce(V) -> T) {
                if let Some(value) = value {
                    self.offer(stamp, || make(value));
                }
            }

            /// Takes the other's value if it wins.
            pub fn join(&mut self, other: Self) {
                if let Some((stamp, value)) = other.0 {
                    self.offer(stamp, || value);
                }
            }

            pub fn stamp(&self) -> Option<Stamp> {
                self.0.as_ref().map(|(stamp, _)| *stamp)
            }

            /// A register with this value; without a stamp it is empty.
            pub fn from_parts(stamp: Option<Stamp>, value: T) -> Self {
                Self(stamp.map(|stamp| (stamp, value)))
            }

            pub fn get(&self) -> Option<&T> {
                self.0.as_ref().map(|(_, value)| value)
            }
        }
    };
}

register! {
    /// Keeps the value of the earliest event that has one.
    First, <
}
register! {
    /// Keeps the value of the latest event that has one.
    Last, >
}
