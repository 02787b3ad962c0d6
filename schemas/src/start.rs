//! The start of a process, as the log carries it beside the event that reports it.
//!
//! The instance has to be durable before it is answered, and the log is what is durable soonest: so the record of the
//! event says in a header what else there is to know of the instance, and the processor makes its row. Headers are
//! written by this program only, so no client can report an instance into being.

use serde::{Deserialize, Serialize};

use crate::record::HeaderFault;
use crate::timestamp::UnixMs;

/// The header.
pub const HEADER: &str = "start";

/// An instance at its start. Its project and app are those of the record, its input is that of the record's event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Identity, unique everywhere.
    pub uuid: String,
    /// A number that is unique in the deployment and exact in JavaScript.
    pub instance_id: u64,
    /// When it was started, Unix milliseconds.
    pub started_at_ms: UnixMs,
    /// The build.
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
    /// State, such as `STARTED`.
    pub state: String,
    /// JSON, a list.
    pub tokens: String,
    /// What the client said it runs on.
    pub platform: String,
    /// Public identifier of the credential.
    pub started_by: String,
    /// Tells whether another request is the same.
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

    /// Reads it back; `None` for records of anything else.
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
}
