//! Creating and hashing secrets.

use sha2::{Digest, Sha256};

use crate::client::config::Secret;

/// SHA-256 of a secret.
pub(super) type SecretHash = [u8; 32];

/// Shortest configurable secret: not guessable at the rate of requests.
pub(super) const SECRET_BYTES_LEAST: usize = 16;

pub(super) fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn new_key() -> Secret {
    random("sp_key_")
}

pub(super) fn new_token() -> Secret {
    random("sp_tok_")
}

pub(super) fn new_session() -> Secret {
    random("sp_ses_")
}

fn random(prefix: &str) -> Secret {
    Secret::new(format!(
        "{prefix}{}",
        hex::encode(rand::random::<[u8; 32]>())
    ))
}

/// A public identifier: the prefix of the hash reveals nothing about the secret and is the same every time the same
/// secret is configured.
pub(super) fn public_id(prefix: &str, hash: &SecretHash) -> String {
    format!("{prefix}_{}", hex::encode(&hash[..8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_their_ids_do_not_contain_them() {
        let (a, b) = (new_key(), new_key());
        assert_ne!(a, b);
        assert!(
            !a.reveal()
                .contains(&public_id("key", &hash(a.reveal()))[4..])
        );
        assert_eq!(format!("{a:?}"), "***");
    }
}
