//! The start of a process in the log, beside the event that reports it.
//!
//! The instance has to be durable before the response, and the log is the fastest durable store. So a header of the
//! event's record contains the rest of the instance, and the processor makes its row. Only this program writes headers,
//! so no client can forge an instance.

use serde::{Deserialize, Serialize};

use crate::record::HeaderFault;
use crate::timestamp::UnixMs;

pub const HEADER: &str = "start";

/// An instance at its start. Project and app come from the record, the input from the record's event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Globally unique.
    pub uuid: String,
    /// Unique in the deployment and exact in JavaScript.
    pub instance_id: u64,
    /// Unix milliseconds.
    pub started_at_ms: UnixMs,
    pub build_id: String,
    /// Status of the build at the start.
    pub build_status: String,
    /// Name of the process.
    pub process: String,
    /// Identifier of the process definition.
    pub process_uuid: String,
    /// Empty for none.
    pub parent_app_id: String,
    /// Empty for none.
    pub root_app_id: String,
    /// For example `STARTED`.
    pub state: String,
    /// A JSON list.
    pub tokens: String,
    /// The platform according to the client.
    pub platform: String,
    /// Public identifier of the credential.
    pub started_by: String,
    /// Identifies repetitions of the same request.
    pub fingerprint: String,
}

impl Start {
    /// The value of the header.
    ///
    /// # Errors
    /// Never for values that this program makes.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// `None` for other records.
    pub fn decode<'a>(
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Option<Self>, HeaderFault> {
        let mut headers = headers;
        let Some((_, value)) = headers.find(|(name, _)| *name == HEADER) else {
            return Ok(None);
        };
        let read = serde_json::from_slice(value);
        read.map(Some).map_err(|_| HeaderFault { header: HEADER })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_read_back_as_written_and_nothing_else_is_one() {
        let start = Start {
            uuid: "u".to_owned(),
            instance_id: (1 << 53) - 1,
            started_at_ms: 1,
            tokens: "[{\"id\":2}]".to_owned(),
            ..Start::default()
        };
        let value = start.encode().unwrap();
        let headers = [("v", &b"1"[..]), (HEADER, &value)];
        assert_eq!(Start::decode(headers.into_iter()), Ok(Some(start)));
        assert_eq!(Start::decode(headers[..1].iter().copied()), Ok(None));
        let damaged = Start::decode([(HEADER, &b"{"[..])].into_iter());
        assert_eq!(damaged.unwrap_err().header, HEADER);
    }

    #[test]
    fn a_start_has_the_bytes_that_the_log_holds() {
        let start = Start {
            uuid: "45c89f80-6c6c-44c1-b356-36e71dbb0eb4".to_owned(),
            instance_id: 1_048_576,
            started_at_ms: 1_795_185_741_941,
            build_id: "b1".to_owned(),
            build_status: "COMMITTED".to_owned(),
            process: "Order".to_owned(),
            process_uuid: "456ad637-8260-535e-9fad-6651b1c44395".to_owned(),
            parent_app_id: "parent".to_owned(),
            root_app_id: String::new(),
            state: "STARTED".to_owned(),
            tokens: r#"[{"id":1048577,"state":"ACTIVE"}]"#.to_owned(),
            platform: "web".to_owned(),
            started_by: "tok_1".to_owned(),
            fingerprint: "f".to_owned(),
        };
        let golden = crate::golden::check("record.start_header.json", &start.encode().unwrap());
        let headers = [(HEADER, golden.as_slice())];
        assert_eq!(Start::decode(headers.into_iter()), Ok(Some(start)));
    }
}
