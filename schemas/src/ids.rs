//! Identifiers: opaque text from outside, compared and never parsed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Not validated: bounds are checked where the text comes in.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// The tenant. A slug of `[a-z0-9-]`, at most 64 bytes. Comes from the credential, never from a payload (T1).
    ProjectId
}
text_id! {
    /// A name inside one project. Two projects may use the same name and never see each other's data.
    AppId
}

impl ProjectId {
    /// Whether `text` is a valid project: 1 to 64 of `[a-z0-9-]`. No `/`, so that `project/app` is unambiguous as a log
    /// key.
    pub fn is_valid(text: &str) -> bool {
        (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    }
}

/// The identity of an event: what makes two deliveries the same event. See [`crate::digest`].
///
/// Ordered, because (timestamp, event id) decides which of two events is "first" or "last".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u128);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
