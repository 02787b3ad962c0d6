//! The second kind of log record: runs of one app whose cost has to be recomputed.
//!
//! Only the processor that owns an app's partition writes its runs, so a request to reprice them goes to it, in order
//! with the app's events. Repeating it changes nothing.

use serde::{Deserialize, Serialize};

use crate::ids::{AppId, ProjectId};
use crate::record::RecordHeader;
use crate::timestamp::UnixMs;

/// The header of records without events.
pub const KIND_HEADER: &str = "kind";
/// Its value for runs that are only repriced.
const PRICE: &str = "reprice";
/// Its value for runs whose dependencies on other runs are resolved again.
const RESOLVE: &str = "settle";

/// The header of a record that continues a change in a large tree, beside `kind: settle`: a processor that does not
/// know it relates the named runs to all of their ancestors and descendants at once, with the same result.
const SLICE_HEADER: &str = "slice";

/// The direction of a change through a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the named runs to their children: root, inherited agent and user.
    Down,
    /// To the named runs and their parents: subtree totals.
    Up,
}

/// The remaining part of a change in a large tree. Repeating it changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub way: Way,
    /// Only the children with greater ids; the others are done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Whether it continues below (or above) runs that turn out unchanged: their rows may come from an interrupted
    /// insert.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
    /// Levels passed so far: a bound ends changes in a very long cycle of parents.
    #[serde(default)]
    pub levels: u32,
}

/// Runs to reprice, at most a few thousand: one record is at least one step of the processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reprice {
    /// Each run with the start of its stored row, Unix milliseconds: the row is found by it without a search.
    pub runs: Vec<(String, UnixMs)>,
    /// A change in a large tree to continue from these runs. With it the record is of the kind `settle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// Whether the values from related runs (root, inherited agent and user, totals) are also resolved again, without
    /// relying on anything stored: related runs were deleted.
    #[serde(skip)]
    pub resolves_relations: bool,
}

/// The parts of a log record.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub key: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub payload: Vec<u8>,
}

impl Reprice {
    pub fn encode(&self, project: &ProjectId, app: &AppId, now_ms: UnixMs) -> Encoded {
        let header = RecordHeader {
            project: project.clone(),
            app: app.clone(),
            received_at_ms: now_ms,
            events: 0,
        };
        let mut headers = header.encode();
        let kind = match self.resolves_relations || self.slice.is_some() {
            true => RESOLVE,
            false => PRICE,
        };
        headers.push((KIND_HEADER.to_owned(), kind.as_bytes().to_vec()));
        if self.slice.is_some() {
            headers.push((SLICE_HEADER.to_owned(), b"1".to_vec()));
        }
        // A list of texts and numbers always has a JSON form.
        let payload = serde_json::to_vec(self).unwrap_or_default();
        Encoded {
            key: header.key(),
            headers,
            payload,
        }
    }

    pub fn is_in<'a>(mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        headers.any(|(name, value)| {
            name == KIND_HEADER && (value == PRICE.as_bytes() || value == RESOLVE.as_bytes())
        })
    }

    /// Whether the headers set [`Reprice::resolves_relations`], which the payload does not contain.
    pub fn resolves_relations_in<'a>(
        mut headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> bool {
        headers.any(|header| header == (KIND_HEADER, RESOLVE.as_bytes()))
    }

    /// Whether the headers name such a record with a [`Slice`].
    pub fn is_slice_in<'a>(mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        headers.any(|(name, _)| name == SLICE_HEADER)
    }

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
            resolves_relations: false,
        };
        let Encoded {
            key,
            headers,
            payload,
        } = slice.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
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
            Reprice::resolves_relations_in(named()),
            "older processors resolve the relations of the runs"
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
            resolves_relations: false,
        };
        let Encoded {
            key,
            headers,
            payload,
        } = reprice.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
        let named = || {
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        assert_eq!(key, "p/a");
        assert!(Reprice::is_in(named()) && !Reprice::resolves_relations_in(named()));
        assert_eq!(Reprice::decode(&payload).unwrap(), reprice);
        let header = RecordHeader::decode(named()).unwrap();
        assert_eq!(header.events, 0);
        let resolve = Reprice {
            resolves_relations: true,
            ..reprice.clone()
        };
        let Encoded { headers, .. } = resolve.encode(&ProjectId::new("p"), &AppId::new("a"), 7);
        let named = || {
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        };
        assert!(Reprice::is_in(named()) && Reprice::resolves_relations_in(named()));
        let events = header.encode();
        assert!(!Reprice::is_in(
            events
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
        ));
    }

    #[test]
    fn records_of_this_kind_have_the_bytes_that_the_log_holds() {
        let runs = || vec![("a".to_owned(), 1_795_185_741_941), ("b".to_owned(), -5)];
        let reprice = Reprice {
            runs: runs(),
            slice: None,
            resolves_relations: false,
        };
        let resolve = Reprice {
            resolves_relations: true,
            ..reprice.clone()
        };
        let slice = Reprice {
            slice: Some(Slice {
                way: Way::Up,
                after: "c7".to_owned(),
                deep: true,
                levels: 3,
            }),
            ..reprice.clone()
        };
        for (name, written) in [
            ("record.reprice.txt", reprice),
            ("record.settle.txt", resolve),
            ("record.slice.txt", slice),
        ] {
            let Encoded {
                key,
                headers,
                payload,
            } = written.encode(
                &ProjectId::new("acme"),
                &AppId::new("main"),
                1_795_185_742_000,
            );
            let named: Vec<(&str, &[u8])> = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice()))
                .collect();
            let text = crate::golden::record(key.as_bytes(), &named, &payload);
            crate::golden::check(name, &text);
            let read = Reprice::decode(&payload).unwrap();
            assert_eq!((read.runs, read.slice), (written.runs, written.slice));
        }
    }
}
