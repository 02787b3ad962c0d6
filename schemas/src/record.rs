//! The headers of a log record of accepted events.
//!
//! The payload is `{"events": [...]}`, the events' own bytes: a whole request body where possible. The headers name the
//! owner of the events, because the payload never does (T1). They contain a version, so that newer and older binaries
//! can share one log.

use std::fmt;

use crate::ids::{AppId, ProjectId};
use crate::timestamp::UnixMs;

const VERSION: &str = "1";

/// The header with the days before yesterday of the record's events: days since 1970, separated by commas. Absent for
/// none; processors that do not know it process the record like any other.
pub const OLD_DAYS_HEADER: &str = "old_days";

/// The headers of a record of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The project of the credential.
    pub project: ProjectId,
    /// The app of all events of the record.
    pub app: AppId,
    pub received_at_ms: UnixMs,
    pub events: u32,
}

/// The headers do not describe a record of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// The missing or invalid header.
    pub header: &'static str,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header `{}` is missing or not understood", self.header)
    }
}

impl std::error::Error for HeaderFault {}

impl RecordHeader {
    /// The log's key: all records of one project and app stay in order (L2). A project never contains `/`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.project, self.app)
    }

    pub fn encode(&self) -> Vec<(String, Vec<u8>)> {
        [
            ("v", VERSION.to_owned()),
            ("project", self.project.to_string()),
            ("app", self.app.to_string()),
            ("received_at_ms", self.received_at_ms.to_string()),
            ("events", self.events.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value.into_bytes()))
        .into()
    }

    /// Ignores unknown headers.
    pub fn decode<'a>(
        headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    ) -> Result<Self, HeaderFault> {
        let text = |name: &'static str| {
            headers
                .clone()
                .find(|(key, _)| *key == name)
                .and_then(|(_, value)| std::str::from_utf8(value).ok())
                .ok_or(HeaderFault { header: name })
        };
        if text("v")? != VERSION {
            return Err(HeaderFault { header: "v" });
        }
        let project = text("project")?;
        if !ProjectId::is_valid(project) {
            return Err(HeaderFault { header: "project" });
        }
        Ok(Self {
            project: ProjectId::new(project),
            app: AppId::new(text("app")?),
            received_at_ms: text("received_at_ms")?.parse().map_err(|_| HeaderFault {
                header: "received_at_ms",
            })?,
            events: text("events")?
                .parse()
                .map_err(|_| HeaderFault { header: "events" })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(headers: &[(String, Vec<u8>)]) -> Result<RecordHeader, HeaderFault> {
        RecordHeader::decode(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice())),
        )
    }

    proptest! {
        #[test]
        fn headers_are_read_back_as_written(project in "[a-z0-9-]{1,64}", app in ".{0,40}", at: i64, events: u32) {
            let header = RecordHeader {
                project: ProjectId::new(project), app: AppId::new(app), received_at_ms: at, events,
            };
            prop_assert_eq!(decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn a_missing_or_newer_header_is_named() {
        let header = RecordHeader {
            project: ProjectId::new("p"),
            app: AppId::new("a"),
            received_at_ms: 1,
            events: 2,
        };
        for name in ["v", "project", "app", "received_at_ms", "events"] {
            let mut headers = header.encode();
            headers.retain(|(key, _)| key != name);
            assert_eq!(decode(&headers).unwrap_err().header, name);
        }
        let mut headers = header.encode();
        headers[0].1 = b"2".to_vec();
        assert_eq!(decode(&headers).unwrap_err().header, "v");
    }

    #[test]
    fn the_headers_of_a_record_have_the_bytes_that_the_log_holds() {
        let header = RecordHeader {
            project: ProjectId::new("acme"),
            app: AppId::new("main"),
            received_at_ms: 1_795_185_741_941,
            events: 2,
        };
        let headers = header.encode();
        let named: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        let payload = br#"{"events":[{"run_id":"a"},{"run_id":"b"}]}"#;
        let text = crate::golden::record(header.key().as_bytes(), &named, payload);
        crate::golden::check("record.events.1.txt", &text);
        assert_eq!(decode(&headers), Ok(header));
    }
}
