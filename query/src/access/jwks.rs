//! The JWK set of a provider: which keys are accepted, and which one checks a token.

use std::sync::Arc;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use schemas::limits::ID_BYTES;
use serde::Deserialize;
use serde_json::Value;

/// Keys of one provider; some publish a dozen during a rotation. Further keys are ignored (X1).
const KEYS_MAX: usize = 64;
/// Accepted length of an RSA modulus in bits: shorter ones can be broken, longer ones are not supported.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The accepted keys of one JWK set.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// Algorithms of tokens that it may check: only algorithms of its own kind, so that a public key is never used as a
    /// shared secret.
    algorithms: Vec<Algorithm>,
    decoding: Arc<DecodingKey>,
}

/// Why no key checks a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// No key has this id; the provider may have newer keys.
    Unknown,
    /// The key with this id is for another algorithm.
    WrongAlgorithm,
    /// The token names no key, and not exactly one fits.
    NotNamed,
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a JWK set without the keys of unsupported kinds and those that do not check signatures. `None` if it is not
    /// a JWK set.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let published: Published = serde_json::from_slice(body).ok()?;
        let keys = published.keys.into_iter().filter_map(Key::parse);
        Some(Self {
            keys: keys.take(KEYS_MAX).collect(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key for a token that names `id` and `algorithm`.
    pub(super) fn pick(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Arc<DecodingKey>, NoKey> {
        let fits = |key: &&Key| key.algorithms.contains(&algorithm);
        let Some(id) = id else {
            let mut fitting = self.keys.iter().filter(fits);
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Ok(key.decoding.clone()),
                _ => Err(NoKey::NotNamed),
            };
        };
        let named = self.keys.iter().filter(|key| key.id.as_deref() == Some(id));
        match named.clone().find(fits) {
            Some(key) => Ok(key.decoding.clone()),
            None if named.clone().next().is_some() => Err(NoKey::WrongAlgorithm),
            None => Err(NoKey::Unknown),
        }
    }
}

impl Key {
    fn parse(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) if RSA_BITS.contains(&bits(&rsa.n)?) => RSA.to_vec(),
            AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
                EllipticCurve::P256 => vec![Algorithm::ES256],
                EllipticCurve::P384 => vec![Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                vec![Algorithm::EdDSA]
            }
            // Especially no shared secrets (`oct`).
            _ => return None,
        };
        let common = &jwk.common;
        if let Some(named) = common.key_algorithm {
            algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == named);
        }
        let is_for_signatures = match &common.public_key_use {
            None => true,
            Some(purpose) => *purpose == PublicKeyUse::Signature,
        };
        let may_verify = match &common.key_operations {
            None => true,
            Some(operations) => operations.contains(&KeyOperations::Verify),
        };
        let is_id_short = common.key_id.as_ref().is_none_or(|id| id.len() <= ID_BYTES);
        if algorithms.is_empty() || !is_for_signatures || !may_verify || !is_id_short {
            return None;
        }
        Some(Self {
            decoding: Arc::new(DecodingKey::from_jwk(&jwk).ok()?),
            id: jwk.common.key_id,
            algorithms,
        })
    }
}

/// Length in bits of a number in base64.
fn bits(number: &str) -> Option<usize> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(number)
        .ok()?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    let zeros = usize::try_from(bytes[first].leading_zeros()).unwrap_or_default();
    Some((bytes.len() - first) * 8 - zeros)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_keys::{self, TestKey};
    use super::*;

    fn set(keys: &[Value]) -> KeySet {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn with(key: &TestKey, name: &str, value: Value) -> Value {
        let mut jwk = key.jwk("k");
        jwk[name] = value;
        jwk
    }

    #[test]
    fn a_key_checks_only_algorithms_of_its_kind() {
        let every = [
            RSA.as_slice(),
            &[Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA],
            &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
        ]
        .concat();
        for (key, fits) in [
            (test_keys::rsa(), RSA.as_slice()),
            (test_keys::p256(), &[Algorithm::ES256]),
            (test_keys::p384(), &[Algorithm::ES384]),
            (test_keys::ed25519(), &[Algorithm::EdDSA]),
        ] {
            let set = set(&[key.jwk("k")]);
            for algorithm in &every {
                let picked = set.pick(Some("k"), *algorithm);
                assert_eq!(picked.is_ok(), fits.contains(algorithm), "{algorithm:?}");
                if let Ok(decoding) = picked {
                    let signature = key.sign(b"message", *algorithm);
                    let verified = |message: &[u8]| {
                        jsonwebtoken::crypto::verify(&signature, message, &decoding, *algorithm)
                    };
                    assert!(verified(b"message").unwrap() && !verified(b"massage").unwrap());
                }
            }
        }
    }

    #[test]
    fn the_declared_use_of_a_key_is_respected() {
        let rsa = test_keys::rsa();
        let only = set(&[with(&rsa, "alg", json!("PS256"))]);
        assert!(only.pick(Some("k"), Algorithm::PS256).is_ok());
        let other = only.pick(Some("k"), Algorithm::RS256);
        assert_eq!(other.err(), Some(NoKey::WrongAlgorithm));
        for (name, value) in [
            ("use", json!("enc")),
            ("key_ops", json!(["sign"])),
            ("alg", json!("RSA-OAEP")),
            ("alg", json!("ES256")),
            ("alg", json!("HS256")),
            ("kid", json!("k".repeat(257))),
            // 1024 bits after leading zeros.
            (
                "n",
                json!(format!("{}{}", "A".repeat(171), &"_".repeat(171))),
            ),
        ] {
            assert_eq!(set(&[with(&rsa, name, value)]).len(), 0, "{name}");
        }
    }

    #[test]
    fn secrets_and_unknown_kinds_are_ignored() {
        let set = set(&[
            json!({"kty": "oct", "kid": "k", "k": "c2VjcmV0"}),
            json!({"kty": "EC", "kid": "k", "crv": "secp256k1", "x": "AA", "y": "AA"}),
            json!({"kty": "OKP", "kid": "k", "crv": "X25519", "x": "AA"}),
            json!(7),
            test_keys::p256().jwk("k"),
        ]);
        assert_eq!(set.len(), 1);
        assert!(set.pick(Some("k"), Algorithm::ES256).is_ok());
        for body in ["", "[]", "{}", "{\"keys\":7}", "<html>"] {
            assert!(KeySet::read(body.as_bytes()).is_none(), "{body}");
        }
        let many = vec![test_keys::p256().jwk("k"); KEYS_MAX + 1];
        let many = json!({ "keys": many }).to_string();
        assert_eq!(
            KeySet::read(many.as_bytes()).unwrap().len(),
            KEYS_MAX,
            "(X1)"
        );
    }

    #[test]
    fn a_key_is_found_by_its_id_or_by_being_the_only_one() {
        let mut unnamed = test_keys::p384().jwk("x");
        unnamed.as_object_mut().unwrap().remove("kid");
        let set = set(&[
            test_keys::rsa().jwk("a"),
            test_keys::p256().jwk("a"),
            test_keys::p256().jwk("b"),
            unnamed,
        ]);
        // Keys of different kinds may share an id.
        assert!(set.pick(Some("a"), Algorithm::RS256).is_ok());
        assert!(set.pick(Some("a"), Algorithm::ES256).is_ok());
        assert!(set.pick(None, Algorithm::ES384).is_ok());
        let missing = |id, algorithm| set.pick(id, algorithm).err();
        assert_eq!(
            missing(Some("b"), Algorithm::RS256),
            Some(NoKey::WrongAlgorithm)
        );
        assert_eq!(missing(Some("c"), Algorithm::RS256), Some(NoKey::Unknown));
        assert_eq!(missing(None, Algorithm::ES256), Some(NoKey::NotNamed));
        assert_eq!(missing(None, Algorithm::EdDSA), Some(NoKey::NotNamed));
    }
}
