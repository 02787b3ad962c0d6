//! Fetches the keys of an identity provider.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;

use super::jwks::KeySet;

/// Largest discovery document: usual ones have a few kilobytes (X1).
const DISCOVERY_BYTES: usize = 256 << 10;
/// Largest JWK set: each key has some kilobytes with its certificates (X1).
const KEYS_BYTES: usize = 1 << 20;

/// An identity provider, by its issuer.
#[derive(Debug)]
pub(crate) struct Provider {
    issuer: String,
    client: Client,
}

/// Why the keys could not be fetched. For logs and operators; contains nothing of a token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("{what} could not be fetched: {error}")]
    Away {
        what: &'static str,
        error: reqwest::Error,
    },
    #[error("{what} was answered with status {status}")]
    Status {
        what: &'static str,
        status: StatusCode,
    },
    #[error("{what} has more than {most} bytes")]
    TooLarge { what: &'static str, most: usize },
    #[error("{what} is invalid: {reason}")]
    Invalid { what: &'static str, reason: String },
}

/// Names of the two documents in errors.
const DISCOVERY: &str = "the discovery document";
const KEYS: &str = "the JWK set";

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Provider {
    /// `timeout` bounds each of the two requests, from connecting to the last byte. Redirects are not followed: only the
    /// provider names the address of its keys. The proxy of the environment is used.
    pub(crate) fn new(issuer: &str, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(timeout)
            .redirect(Policy::none())
            .user_agent(concat!("spindle/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self {
            issuer: issuer.to_owned(),
            client,
        })
    }

    /// Fetches the published keys.
    pub(crate) async fn keys(&self) -> Result<KeySet, ProviderError> {
        let document = format!(
            "{}/.well-known/openid-configuration",
            self.issuer.trim_end_matches('/')
        );
        let body = self.get(&document, DISCOVERY, DISCOVERY_BYTES).await?;
        let address =
            keys_address(&self.issuer, &body).map_err(|reason| ProviderError::Invalid {
                what: DISCOVERY,
                reason,
            })?;
        let body = self.get(address.as_str(), KEYS, KEYS_BYTES).await?;
        KeySet::read(&body).ok_or_else(|| ProviderError::Invalid {
            what: KEYS,
            reason: "it is not a JWK set".to_owned(),
        })
    }

    async fn get(
        &self,
        url: &str,
        what: &'static str,
        most: usize,
    ) -> Result<Vec<u8>, ProviderError> {
        // The URL may contain credentials.
        let away = |error: reqwest::Error| ProviderError::Away {
            what,
            error: error.without_url(),
        };
        let request = self.client.get(url).header("accept", "application/json");
        let mut response = request.send().await.map_err(away)?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            return Err(ProviderError::Status { what, status });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > most {
                return Err(ProviderError::TooLarge { what, most });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The address of the keys, from the discovery document of this issuer (OpenID Connect Discovery 1.0, section 4.3).
fn keys_address(issuer: &str, body: &[u8]) -> Result<Url, String> {
    let document: Discovery =
        serde_json::from_slice(body).map_err(|error| format!("it has the wrong shape: {error}"))?;
    if document.issuer != issuer {
        return Err("its `issuer` is not exactly the configured one".to_owned());
    }
    let address =
        Url::parse(&document.jwks_uri).map_err(|_| "its `jwks_uri` is not a URL".to_owned())?;
    let is_plain_allowed = issuer.starts_with("http://");
    match address.scheme() {
        "https" => Ok(address),
        "http" if is_plain_allowed => Ok(address),
        _ => Err("its `jwks_uri` must be https".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(issuer: &str, document: &str) -> Result<String, String> {
        keys_address(issuer, document.as_bytes()).map(|address| address.to_string())
    }

    #[test]
    fn the_address_comes_from_a_document_of_the_same_issuer() {
        let issuer = "https://id.example.com";
        let document = |issuer: &str, keys: &str| {
            format!("{{\"issuer\":\"{issuer}\",\"jwks_uri\":\"{keys}\",\"more\":[1]}}")
        };
        let keys = "https://keys.example.net/certs";
        assert_eq!(
            address(issuer, &document(issuer, keys)),
            Ok(keys.to_owned())
        );
        for (other, keys) in [
            ("https://id.example.com/", keys),
            ("https://evil.example.com", keys),
            (issuer, "http://id.example.com/certs"),
            (issuer, "file:///etc/passwd"),
            (issuer, "certs"),
        ] {
            assert!(
                address(issuer, &document(other, keys)).is_err(),
                "{other} {keys}"
            );
        }
        let plain = "http://127.0.0.1:1";
        assert!(address(plain, &document(plain, "http://127.0.0.1:1/certs")).is_ok());
        assert!(address(plain, &document(plain, "ftp://127.0.0.1:1/certs")).is_err());
        assert!(address(issuer, "<html>").is_err() && address(issuer, "{}").is_err());
    }
}
