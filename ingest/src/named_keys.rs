//! API keys in the app field of events.
//!
//! lunary's Python client (1.4.41, `open_thread` and the handlers with an `app_id`) treats the key as the app: it
//! writes the key into `appId`, and one batch, sent with the first event's key, may contain events with the keys of
//! several projects. A key is a credential in any position, so such an event belongs to the project and app of the key
//! that it names; an unknown key is a reason to reject the event. The stored event contains the app's name in place of
//! the key, because a secret must not be shown with the run (X2).

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use schemas::api_error::ApiError;
use schemas::client_address::ClientAddress;
use schemas::credential::Credential;

use crate::auth::{self, Authenticator, Reporter};
use crate::owner::Owner;

/// Prefix of every API key.
const PREFIX: &str = "sp_key_";
/// Hexadecimal digits after it: generated keys have 64; one that is configured for the first start may have fewer.
const DIGITS: RangeInclusive<usize> = 32..=128;
/// Different keys looked up for one body: a program has a handful of projects, and a stranger's body must not cost more
/// look-ups (X1). Events that name further keys are rejected.
const KEYS_PER_BODY: usize = 16;

/// The valid keys that a body names, each with the project and app of its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedKeys {
    /// `None` for a key that may not report, which is a secret nevertheless.
    owners: HashMap<String, Option<Owner>>,
}

/// Replaces a secret that belongs to no app.
const HIDDEN: &str = "sp_key_…";

impl NamedKeys {
    /// The secret of a request, in whatever form it came, stands for the reporter's own app.
    pub(crate) fn presented(secret: &str, reporter: &Reporter) -> Self {
        let owner = Owner {
            project: None,
            app: reporter.default_app.clone(),
        };
        Self {
            owners: HashMap::from([(secret.to_owned(), Some(owner))]),
        }
    }

    /// Looks up the keys that occur in a body.
    ///
    /// # Errors
    /// 503 when they cannot be looked up now, 429 when too many keys of this client were unknown.
    pub(crate) async fn look_up(
        mut self,
        auth: &dyn Authenticator,
        client: Option<ClientAddress>,
        body: &[u8],
        reporter: &Reporter,
    ) -> Result<Self, ApiError> {
        for key in named(body) {
            let is_looked_up = auth.cached(key).is_none();
            if is_looked_up {
                auth.may_look_up(client)?;
            }
            let found = auth.authenticate(key).await.map_err(auth::unavailable)?;
            match found {
                Some(credential) => {
                    let owner = owner(&credential, reporter);
                    self.owners.insert(key.to_owned(), owner);
                }
                None if is_looked_up => auth.failed(client),
                None => {}
            }
        }
        Ok(self)
    }

    /// The owner of events that name this key.
    pub(crate) fn owner(&self, key: &str) -> Option<&Owner> {
        self.owners.get(key)?.as_ref()
    }

    /// Whether this is no app name: it is a key, or a secret of the request.
    pub(crate) fn is_secret(&self, name: &str) -> bool {
        is_key(name) || self.owners.contains_key(name)
    }

    /// Whether a body contains any of the secrets. Searching a body once costs a tenth of searching each of its events.
    pub(crate) fn occur_in(&self, body: &[u8]) -> bool {
        let mut secrets = self.owners.keys();
        secrets.any(|secret| occurs(&searched(secret), body))
    }

    /// An event's bytes, with secrets replaced by the name of their app.
    pub(crate) fn hidden<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        let mut kept = Cow::Borrowed(raw);
        for (secret, owner) in &self.owners {
            let app = owner.as_ref().map_or(HIDDEN, |owner| owner.app.as_str());
            let text = searched(secret);
            if !occurs(&text, kept.as_bytes()) {
                continue;
            }
            let replaced = match is_key(secret) {
                true => without(&kept, secret, app),
                false => kept.replace(&*text, &serde_json::Value::from(app).to_string()),
            };
            kept = replaced.into();
        }
        kept
    }
}

/// What is searched for in place of a secret: a key anywhere, and any other only as a whole string, because it may be any
/// word.
fn searched(secret: &str) -> Cow<'_, str> {
    match is_key(secret) {
        true => secret.into(),
        false => serde_json::Value::from(secret).to_string().into(),
    }
}

/// Whether `text` contains `part`. The search of the standard library takes ten times as long.
fn occurs(part: &str, text: &[u8]) -> bool {
    memchr::memmem::find(text, part.as_bytes()).is_some()
}

/// `None` unless the key may report. The reporter's own project is left out: its events go with the others.
fn owner(credential: &Arc<Credential>, reporter: &Reporter) -> Option<Owner> {
    let named = auth::reporter(credential).ok()?;
    Some(Owner {
        project: (named.project != reporter.project).then_some(named.project),
        app: named.default_app,
    })
}

/// Whether the text has the form of a key.
pub(crate) fn is_key(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        DIGITS.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The event's bytes with the key replaced by the name of the app.
fn without(raw: &str, key: &str, app: &str) -> String {
    // Escaped as inside of a JSON string.
    let name = serde_json::Value::from(app).to_string();
    let inner = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    raw.replace(key, inner.unwrap_or_default())
}

/// The distinct keys among the JSON strings of a body, in order, at most [`KEYS_PER_BODY`].
fn named(body: &[u8]) -> Vec<&str> {
    let mut keys = Vec::new();
    let opening = format!("\"{PREFIX}");
    for at in memchr::memmem::find_iter(body, opening.as_bytes()) {
        let most = PREFIX.len() + DIGITS.end() + 1;
        let text = body.get(at + 1..).unwrap_or_default();
        let text = text.get(..most).unwrap_or(text);
        let key = memchr::memchr(b'"', text)
            .and_then(|end| std::str::from_utf8(&text[..end]).ok())
            .filter(|text| is_key(text));
        if let Some(key) = key.filter(|key| !keys.contains(key)) {
            keys.push(key);
            if keys.len() == KEYS_PER_BODY {
                break;
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> String {
        format!("{PREFIX}{number:064x}")
    }

    #[test]
    fn keys_are_told_from_other_names() {
        assert!(is_key(&key(1)));
        assert!(is_key("sp_key_0123456789abcdef0123456789abcdef"));
        let (short, long) = (&key(1)[..38], format!("{PREFIX}{}", "a".repeat(129)));
        for other in ["", "sp_key_", "support", short, &long] {
            assert!(!is_key(other), "{other}");
        }
        assert!(!is_key(&key(1).replace('1', "g")));
    }

    #[test]
    fn the_keys_of_a_body_are_found_once_each_and_not_without_bound() {
        let body = format!(
            r#"{{"appId":"{}","input":"my key is {}","app":"{}","x":"{}"}}"#,
            key(1),
            key(2),
            key(3),
            key(1)
        );
        assert_eq!(named(body.as_bytes()), [key(1), key(3)]);
        assert_eq!(named(&body.as_bytes()[..30]), [""; 0], "cut inside");
        let many: Vec<String> = (0..40)
            .map(|number| format!("\"{}\"", key(number)))
            .collect();
        assert_eq!(named(many.join(",").as_bytes()).len(), KEYS_PER_BODY);
    }

    #[test]
    fn an_event_is_kept_without_the_key_and_stays_json() {
        let raw = format!(r#"{{"appId":"{0}","input":"{0}!"}}"#, key(7));
        let kept = without(&raw, &key(7), "a \\ \"b\"");
        let read: serde_json::Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(read["appId"], "a \\ \"b\"");
        assert!(!kept.contains(PREFIX));
    }
}
