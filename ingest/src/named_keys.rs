//! API keys that events name where others name their app.
//!
//! To lunary's Python client (1.4.41, `open_thread` and the handlers with an `app_id`) the key is the app: it writes
//! the key into `appId`, and one batch, sent with the first event's key, may hold events with the keys of several
//! projects. A key is a credential wherever it stands, so such an event belongs to the project of the key it names,
//! and to that project's own app; a key that is not known is a reason to reject the event. What is kept holds the
//! app's name in place of the key, because a secret must not be shown with the run (X2).

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use schemas::client_address::ClientAddress;
use schemas::credential::Credential;
use schemas::fault::Fault;

use crate::auth::{self, Authenticator, Reporter};
use crate::plan::Owner;

/// How every API key begins.
const PREFIX: &str = "sp_key_";
/// Hexadecimal digits after it: those that are made here have 64; one that is given at the first start may have fewer.
const DIGITS: RangeInclusive<usize> = 32..=128;
/// Different keys looked up for one body: a program has a handful of projects, and a stranger's body is not to cost
/// more lookups than that (X1). Events that name further ones are rejected.
const KEYS_PER_BODY: usize = 16;

/// The keys that a body names, as far as they are keys of somebody, and whose events with them are.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedKeys {
    /// `None` for one that may not report: a secret all the same.
    owners: HashMap<String, Option<Owner>>,
}

/// What stands in the place of a secret that is nobody's app.
const HIDDEN: &str = "sp_key_…";

impl NamedKeys {
    /// Of a request: its own secret, in whatever form it came, names the reporter's own app.
    pub(crate) fn presented(secret: &str, reporter: &Reporter) -> Self {
        let owner = Owner {
            project: None,
            app: reporter.default_app.clone(),
        };
        Self {
            owners: HashMap::from([(secret.to_owned(), Some(owner))]),
        }
    }

    /// With the keys of a body, looked up.
    ///
    /// # Errors
    /// 503 when they cannot be looked up now, 429 when too many of this client were not known.
    pub(crate) async fn look_up(
        mut self,
        (auth, client): (&dyn Authenticator, Option<ClientAddress>),
        body: &[u8],
        reporter: &Reporter,
    ) -> Result<Self, Fault> {
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

    /// Whose the events are that name this key.
    pub(crate) fn owner(&self, key: &str) -> Option<&Owner> {
        self.owners.get(key)?.as_ref()
    }

    /// Whether this names no app: it is a key, or a secret that the request came with.
    pub(crate) fn is_secret(&self, name: &str) -> bool {
        is_key(name) || self.owners.contains_key(name)
    }

    /// An event's bytes with the name of its app wherever one of the secrets stands, if one does.
    pub(crate) fn hidden<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        let mut kept = Cow::Borrowed(raw);
        for (secret, owner) in &self.owners {
            let app = owner.as_ref().map_or(HIDDEN, |owner| owner.app.as_str());
            if is_key(secret) {
                if kept.contains(secret) {
                    kept = without(&kept, secret, app).into();
                }
            } else if let Ok(text) = serde_json::to_string(secret)
                && kept.contains(&text)
            {
                // Another secret may be any word: only a text that is all of it is meant.
                kept = kept
                    .replace(&text, &serde_json::Value::from(app).to_string())
                    .into();
            }
        }
        kept
    }
}

/// Of a key that may report. The reporter's own project is not named: its events go with the others.
fn owner(credential: &Arc<Credential>, reporter: &Reporter) -> Option<Owner> {
    let named = auth::reporter(credential).ok()?;
    Some(Owner {
        project: (named.project != reporter.project).then_some(named.project),
        app: named.default_app,
    })
}

/// Whether this is written as a key.
pub(crate) fn is_key(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        DIGITS.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// An event's bytes with the name of the app wherever the key stands.
fn without(raw: &str, key: &str, app: &str) -> String {
    // As it is written inside of a JSON text.
    let name = serde_json::Value::from(app).to_string();
    let inner = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    raw.replace(key, inner.unwrap_or_default())
}

/// The different keys that stand in a body as JSON texts of their own, in order, at most [`KEYS_PER_BODY`].
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
