//! The form of a JWT, and what its header may say. Nothing here is believed yet.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A way to sign that a provider may use. Only those where the provider keeps a secret that this server does not have:
/// with `none` and `HS*`, whoever can check a token could make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SigningAlgorithm(pub(super) Algorithm);

impl SigningAlgorithm {
    /// All of them, by name.
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, algorithm)| algorithm)
    }
}

/// A token in its parts.
#[derive(Debug)]
pub(crate) struct Jwt<'t> {
    header: Header,
    payload: &'t str,
    /// Header and payload as they were signed.
    pub(super) message: &'t str,
    pub(super) signature: &'t str,
}

/// What of the header counts here. That it may carry a key, or an address of one, does not.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'t> Jwt<'t> {
    /// Takes a token apart. `None` when it is something else, such as a secret of ours.
    pub(crate) fn of(token: &'t str) -> Option<Self> {
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

    /// The name of the key it says that it is signed with.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// How it says that it is signed, if that is one of the ways that are allowed.
    pub(crate) fn algorithm(
        &self,
        allowed: &[SigningAlgorithm],
    ) -> Result<Algorithm, &'static str> {
        if self.header.crit.is_some() {
            return Err("the token demands extensions (`crit`) that are not known here");
        }
        // Tokens for other purposes, such as signing out, may be signed with the same key.
        let kind = self.header.typ.as_deref().unwrap_or("JWT");
        let kind = kind.to_ascii_lowercase();
        if !matches!(kind.trim_start_matches("application/"), "jwt" | "at+jwt") {
            return Err("the token is of a kind (`typ`) that does not sign anybody in");
        }
        let algorithm = SigningAlgorithm::named(&self.header.alg);
        match algorithm.filter(|algorithm| allowed.contains(algorithm)) {
            Some(algorithm) => Ok(algorithm.0),
            None => Err("the token is signed in a way (`alg`) that is not allowed here"),
        }
    }

    /// What it claims.
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
        Jwt::of(&token).unwrap().algorithm(&all)
    }

    #[test]
    fn what_is_no_jwt_is_left_to_others() {
        for other in [
            "",
            "sp_tok_1",
            "a.b",
            "a.b.c",
            "e30.e30.",
            "....",
            "e30.a.b.c",
        ] {
            assert!(Jwt::of(other).is_none(), "{other}");
        }
        let token = token(&json!({"alg": "RS256", "kid": "k"}));
        let jwt = Jwt::of(&token).unwrap();
        assert_eq!((jwt.key_id(), jwt.signature), (Some("k"), "c2ln"));
        assert_eq!(jwt.claims().unwrap()["sub"], "a");
        assert_eq!(format!("{}.{}", jwt.message, jwt.signature), token);
    }

    #[test]
    fn only_signatures_that_the_provider_alone_can_make_are_allowed() {
        for (name, algorithm) in SigningAlgorithm::ALL {
            assert_eq!(allowed(json!({"alg": name})), Ok(algorithm.0));
        }
        for name in [
            "none", "None", "nOnE", "HS256", "HS384", "HS512", "rs256", "ES512", "",
        ] {
            assert!(allowed(json!({"alg": name})).is_err(), "{name}");
        }
        // The signature may be missing altogether.
        let unsigned = token(&json!({"alg": "none"})).replace("c2ln", "");
        let all = SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm);
        assert!(Jwt::of(&unsigned).unwrap().algorithm(&all).is_err());
        let token = token(&json!({"alg": "RS256"}));
        let only = [SigningAlgorithm(Algorithm::ES256)];
        assert!(Jwt::of(&token).unwrap().algorithm(&only).is_err());
    }

    #[test]
    fn tokens_for_other_purposes_and_with_unknown_demands_are_refused() {
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
