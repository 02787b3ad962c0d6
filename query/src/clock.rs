//! The clock: the only module of this tier that reads the time of day.

pub(crate) fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}
