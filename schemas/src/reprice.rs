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

/// The header of a record that continues a change in a large tree, beside `kind: settle`: a processor that does not know
/// it relates the named runs to all of their ancestors and descendants at once, which is the same in the end.
const SLICE_HEADER: &str = "slice";

/// The direction in which a change is carried through a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the named runs to their children: root, inherited agent and user.
    Down,
    /// To the named runs and their parents: subtree totals.
    Up,
}

/// The part of a change in a large tree that is not done yet. Doing it twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Where it goes on.
    pub way: Way,
    /// Only the children with greater ids; the others are done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Whether it goes on below (or above) runs that turn out unchanged: their rows may be of an interrupted insert.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
    /// Levels passed so far: a bound ends what goes around a very long cycle of parents.
    #[serde(default)]
    pub levels: u32,
}

/// Runs to price again. Keep it to a few thousand: one record is one step of the processor at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reprice {
    /// Each run with the start its stored row has, Unix milliseconds: the row is found by it without a search.
    pub runs: Vec<(String, UnixMs)>,
    /// Where a change in a large tree goes on: from these runs. With it the record is of the kind `settle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
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
        let kind = match self.is_anew || self.slice.is_some() {
            true => SETTLE,
            false => PRICE,
        };
        headers.push((KIND_HEADER.to_owned(), kind.as_bytes().to_vec()));
        if self.slice.is_some() {
            headers.push((SLICE_HEADER.to_owned(), b"1".to_vec()));
        }
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

    /// Whether they are those of such a record with a [`Slice`].
    pub fn is_slice_in<'a>(mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        headers.any(|(name, _)| name == SLICE_HEADER)
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
    fn a_slice_keeps_its_bytes_and_is_work_for_older_processors_too() {
        let slice = Reprice {
            runs: vec![("r".to_owned(), 5)],
            slice: Some(Slice {
                way: Way::Down,
                after: "c7".to_owned(),
                deep: true,
                levels: 3,
            }),
            is_anew: false,
        };
        let (key, headers, payload) = slice.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
        let golden =
            r#"{"runs":[["r",5]],"slice":{"way":"down","after":"c7","deep":true,"levels":3}}"#;
        assert_eq!(
            (key.as_str(), payload.as_slice()),
            ("p/a", golden.as_bytes())
        );
        assert_eq!(Reprice::decode(golden.as_bytes()).unwrap(), slice);
        let named = || {
            let named = headers.iter();
            named.map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        assert!(Reprice::is_in(named()) && Reprice::is_slice_in(named()));
        assert!(
            Reprice::is_anew_in(named()),
            "older processors settle the runs"
        );
        let shortest = br#"{"runs":[],"slice":{"way":"up"}}"#;
        let slice = Reprice::decode(shortest).unwrap().slice.unwrap();
        assert_eq!((slice.way, slice.levels), (Way::Up, 0));
    }

    #[test]
    fn it_is_read_back_as_written_and_told_apart_from_events() {
        let reprice = Reprice {
            runs: vec![("r\"1".to_owned(), -5), ("2".to_owned(), 1_700_000_000_000)],
            slice: None,
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
