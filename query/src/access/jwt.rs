//! Parsing of JWTs. Nothing here is verified yet.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A signature algorithm that a provider may use. Only asymmetric ones: with `none` and `HS*`, any party that can check
/// a token could also forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SigningAlgorithm(pub(super) Algorithm);

impl SigningAlgorithm {
    /// All algorithms by name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self(Algorithm::RS256)),
        ("RS384", Self(Algorithm::RS384)),
        ("RS512", Self(Algorithm::RS512)),
        ("PS256", Self(Algorithm::PS256)),
        ("PS384", Self(Algorithm::PS384)),
        ("PS512", Self(Algorithm::PS512)),
        ("ES256", Self(Algorithm::ES256)),
        ("ES384", Self(Algorithm::ES384)),
        ("EdDSA", Self(Algorithm::EdDSA)),
    ];

    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, algorithm)| algorithm)
    }
}

/// The parts of a token.
#[derive(Debug)]
pub(crate) struct Jwt<'t> {
    header: Header,
    payload: &'t str,
    /// The signed text: header and payload.
    pub(super) message: &'t str,
    pub(super) signature: &'t str,
}

/// The header without `jwk`, `jku` and `x5u`: a key that the token itself names is never used.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'t> Jwt<'t> {
    /// `None` for anything but a JWT, such as an API key.
    pub(crate) fn parse(token: &'t str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        let header = URL_SAFE_NO_PAD.decode(header).ok()?;
        Some(Self {
            header: serde_json::from_slice(&header).ok()?,
            payload,
            message,
            signature,
        })
    }

    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// The algorithm in the header, if it is an allowed one.
    pub(crate) fn algorithm(
        &self,
        allowed: &[SigningAlgorithm],
    ) -> Result<Algorithm, &'static str> {
        if self.header.crit.is_some() {
            return Err("the token requires extensions (`crit`) that are not supported");
        }
        // Tokens for other purposes, such as logout tokens, may be signed with the same key.
        let kind = self.header.typ.as_deref().unwrap_or("JWT");
        let kind = kind.to_ascii_lowercase();
        if !matches!(kind.trim_start_matches("application/"), "jwt" | "at+jwt") {
            return Err("`typ` of the token must be JWT or at+jwt");
        }
        let algorithm = SigningAlgorithm::named(&self.header.alg);
        match algorithm.filter(|algorithm| allowed.contains(algorithm)) {
            Some(algorithm) => Ok(algorithm.0),
            None => Err("`alg` of the token is not an allowed algorithm"),
        }
    }

    pub(crate) fn claims(&self) -> Option<Map<String, Value>> {
        let payload = URL_SAFE_NO_PAD.decode(self.payload).ok()?;
        serde_json::from_slice(&payload).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value) -> String {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        format!(
            "{header}.{}.c2ln",
            URL_SAFE_NO_PAD.encode("{\"sub\":\"a\"}")
        )
    }

    fn allowed(header: Value) -> Result<Algorithm, &'static str> {
        let all = SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm);
        let token = token(&header);
        Jwt::parse(&token).unwrap().algorithm(&all)
    }

    #[test]
    fn anything_but_a_jwt_is_left_to_other_checks() {
        for other in [
            "",
            "sp_tok_1",
            "a.b",
            "a.b.c",
            "e30.e30.",
            "....",
            "e30.a.b.c",
        ] {
            assert!(Jwt::parse(other).is_none(), "{other}");
        }
        let token = token(&json!({"alg": "RS256", "kid": "k"}));
        let jwt = Jwt::parse(&token).unwrap();
        assert_eq!((jwt.key_id(), jwt.signature), (Some("k"), "c2ln"));
        assert_eq!(jwt.claims().unwrap()["sub"], "a");
        assert_eq!(format!("{}.{}", jwt.message, jwt.signature), token);
    }

    #[test]
    fn only_asymmetric_algorithms_are_allowed() {
        for (name, algorithm) in SigningAlgorithm::ALL {
            assert_eq!(allowed(json!({"alg": name})), Ok(algorithm.0));
        }
        for name in [
            "none", "None", "nOnE", "HS256", "HS384", "HS512", "rs256", "ES512", "",
        ] {
            assert!(allowed(json!({"alg": name})).is_err(), "{name}");
        }
        // Without a signature.
        let unsigned = token(&json!({"alg": "none"})).replace("c2ln", "");
        let all = SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm);
        assert!(Jwt::parse(&unsigned).unwrap().algorithm(&all).is_err());
        let token = token(&json!({"alg": "RS256"}));
        let only = [SigningAlgorithm(Algorithm::ES256)];
        assert!(Jwt::parse(&token).unwrap().algorithm(&only).is_err());
    }

    #[test]
    fn tokens_for_other_purposes_and_with_unknown_extensions_are_rejected() {
        for kind in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
            assert!(
                allowed(json!({"alg": "ES256", "typ": kind})).is_ok(),
                "{kind}"
            );
        }
        for kind in ["logout+jwt", "dpop+jwt", "secevent+jwt", "JOSE", ""] {
            assert!(
                allowed(json!({"alg": "ES256", "typ": kind})).is_err(),
                "{kind}"
            );
        }
        assert!(allowed(json!({"alg": "ES256", "crit": ["b64"], "b64": false})).is_err());
    }
}
