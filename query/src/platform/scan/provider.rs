//! The identity provider: its discovery document and its keys, as whoever checks a token of it needs them.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::probe::Prober;
use super::settings::AuthProviderConfig;

/// Where the discovery document lies below the issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Bytes of the discovery document and of the keys (X1).
const DOCUMENT_BYTES: usize = 256 << 10;

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Value>,
}

/// Asks it.
///
/// # Errors
/// Why nobody could sign in with it, for a person.
pub(crate) async fn ask(prober: &Prober, provider: &AuthProviderConfig) -> Result<(), String> {
    let at = format!("{}{DISCOVERY}", provider.issuer.trim_end_matches('/'));
    let at: Url = at.parse().map_err(|_| "its issuer is no address")?;
    let found: Discovery = prober
        .json(&at, DOCUMENT_BYTES)
        .await
        .map_err(|why| format!("discovery: {why}"))?;
    let keys = keys_of(&found, &provider.issuer)?;
    let keys: Keys = prober
        .json(&keys, DOCUMENT_BYTES)
        .await
        .map_err(|why| format!("keys: {why}"))?;
    match keys.keys.is_empty() {
        true => Err("it has no keys, so no token of it can be checked".to_owned()),
        false => Ok(()),
    }
}

/// Where its keys are, if the document is that of this issuer.
fn keys_of(found: &Discovery, issuer: &str) -> Result<Url, String> {
    if found.issuer != issuer {
        return Err(
            "its discovery document is that of another issuer: tokens of it would be refused"
                .to_owned(),
        );
    }
    let keys: Option<Url> = found.jwks_uri.parse().ok();
    keys.filter(|url| ["http", "https"].contains(&url.scheme()))
        .ok_or_else(|| "its discovery document names no address of keys".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_to_be_that_of_the_issuer_and_to_name_its_keys() {
        let of = |issuer: &str, jwks_uri: &str| {
            let found = Discovery {
                issuer: issuer.to_owned(),
                jwks_uri: jwks_uri.to_owned(),
            };
            keys_of(&found, "https://id").map(|url| url.to_string())
        };
        assert_eq!(
            of("https://id", "https://id/keys"),
            Ok("https://id/keys".to_owned())
        );
        assert!(
            of("https://id/", "https://id/keys")
                .unwrap_err()
                .contains("another issuer")
        );
        for bad in ["", "keys", "file:///etc/passwd"] {
            assert!(
                of("https://id", bad).unwrap_err().contains("no address"),
                "{bad}"
            );
        }
    }
}
