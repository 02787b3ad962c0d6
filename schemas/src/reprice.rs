//! The log's second kind of record: runs of one app whose cost is to be computed again.
//!
//! Only the processor that owns an app's partition writes its runs, so whoever wants them priced again asks it, in
//! order with the app's events. Doing it twice changes nothing.

use serde::{Deserialize, Serialize};

use crate::ids::{AppId, ProjectId};
use crate::record::RecordHeader;
use crate::timestamp::UnixMs;

/// The header that tells records that hold no events apart.
pub const KIND_HEADER: &str = "kind";
/// Its value where runs are only priced again.
const PRICE: &str = "reprice";
/// Its value where everything that depends on other runs is found anew.
const SETTLE: &str = "settle";

/// Runs to price again. Keep it to a few thousand: one record is one step of the processor at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reprice {
    /// Each run with the start its stored row has, Unix milliseconds: the row is found by it without a search.
    pub runs: Vec<(String, UnixMs)>,
    /// Whether what the runs have of others, and others of them (root, inherited agent and user, totals), is to be
    /// found anew as well, as if nothing stored could be relied on: relatives of theirs are gone.
    #[serde(skip)]
    pub is_anew: bool,
}

/// Key, headers and payload of a log record.
pub type Encoded = (String, Vec<(String, Vec<u8>)>, Vec<u8>);

impl Reprice {
    /// Key, headers and payload of the log record.
    pub fn encode(&self, project: &ProjectId, app: &AppId, now_ms: UnixMs) -> Encoded {
        let header = RecordHeader {
            project: project.clone(),
            app: app.clone(),
            received_at_ms: now_ms,
            events: 0,
        };
        let mut headers = header.encode();
        let kind = if self.is_anew { SETTLE } else { PRICE };
        headers.push((KIND_HEADER.to_owned(), kind.as_bytes().to_vec()));
        // A list of texts and numbers always has a JSON form.
        let payload = serde_json::to_vec(self).unwrap_or_default();
        (header.key(), headers, payload)
    }

    /// Whether the headers are those of such a record.
    pub fn is_in<'a>(mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        headers.any(|(name, value)| {
            name == KIND_HEADER && (value == PRICE.as_bytes() || value == SETTLE.as_bytes())
        })
    }

    /// Whether they are those of such a record that is [`Reprice::is_anew`], which the payload does not say.
    pub fn is_anew_in<'a>(mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        headers.any(|header| header == (KIND_HEADER, SETTLE.as_bytes()))
    }

    /// Reads the payload back.
    pub fn decode(payload: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_as_written_and_told_apart_from_events() {
        let reprice = Reprice {
            runs: vec![("r\"1".to_owned(), -5), ("2".to_owned(), 1_700_000_000_000)],
            is_anew: false,
        };
        let (key, headers, payload) = reprice.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
        let named = || {
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        assert_eq!(key, "p/a");
        assert!(Reprice::is_in(named()) && !Reprice::is_anew_in(named()));
        assert_eq!(Reprice::decode(&payload).unwrap(), reprice);
        let header = RecordHeader::decode(named()).unwrap();
        assert_eq!(header.events, 0);
        let anew = Reprice {
            is_anew: true,
            ..reprice.clone()
        };
        let (_, headers, _) = anew.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
        let named = || {
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        assert!(Reprice::is_in(named()) && Reprice::is_anew_in(named()));
        let events = header.encode();
        assert!(!Reprice::is_in(
            events
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        ));
    }
}
