//! How many streams are open, and whose they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemas::credential::Credential;
use schemas::fault::Fault;

/// Streams at the same time: each asks the database twice a second, some ten milliseconds of a core (X1).
const STREAMS_MAX: usize = 32;
/// Of them those of one credential, so that none takes all: some windows of a few people.
const STREAMS_EACH: usize = 8;
/// Seconds after which a client may ask again when there are too many streams.
const FULL_RETRY_S: u32 = 10;

/// The places for streams.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<Holder, usize>>>);

/// Whose a stream is. Ids of keys, of tokens and of people are apart.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Holder {
    Key(String),
    Token(String),
    Person(String),
}

impl Places {
    /// A place, or a 503 that says which of the bounds was reached.
    pub(crate) fn take(&self, credential: &Credential) -> Result<Place, Fault> {
        let holder = match credential {
            Credential::Key { id, .. } => Holder::Key(id.clone()),
            Credential::Token { id, .. } => Holder::Token(id.clone()),
            Credential::Person { id, .. } => Holder::Person(id.clone()),
        };
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.values().sum::<usize>() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} streams are open, which is the bound; try again");
            return Err(Fault::unavailable(message, FULL_RETRY_S));
        }
        let own = held.entry(holder.clone()).or_default();
        if *own >= STREAMS_EACH {
            let message = format!(
                "{STREAMS_EACH} streams are open with this credential, which is the bound; try again"
            );
            return Err(Fault::unavailable(message, FULL_RETRY_S));
        }
        *own += 1;
        Ok(Place {
            places: self.clone(),
            holder,
        })
    }
}

/// One open stream; free again when dropped.
pub(crate) struct Place {
    places: Places,
    holder: Holder,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::credential::Role;

    fn token(id: usize) -> Credential {
        Credential::Token {
            id: id.to_string(),
            name: String::new(),
            role: Role::Viewer,
            projects: None,
            expires_at_ms: None,
        }
    }

    #[test]
    fn no_credential_takes_all_places_and_places_come_back_x1() {
        let places = Places::default();
        let mut open: Vec<Place> = (0..STREAMS_EACH)
            .map(|_| places.take(&token(0)).unwrap())
            .collect();
        assert_eq!(places.take(&token(0)).err().unwrap().status, 503);
        for n in STREAMS_EACH..STREAMS_MAX {
            open.push(places.take(&token(n)).unwrap());
        }
        assert_eq!(places.take(&token(1000)).err().unwrap().status, 503);
        drop(open.remove(0));
        open.push(places.take(&token(0)).unwrap());
        drop(open);
        assert!(places.0.lock().unwrap().is_empty());
    }
}
