//! Who reports: the credential of a request, and whether it may report.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use schemas::client_address::ClientAddress;
use schemas::credential::{Credential, Scope};
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};

/// Longest secret that is looked up. Ours are about 70 bytes; the bound keeps hashing and caches small (X1).
const SECRET_BYTES: usize = 512;

/// Seconds after which a client may ask again when credentials could not be looked up.
const UNAVAILABLE_RETRY_S: u32 = 5;

/// Credentials cannot be looked up now; a later request may succeed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("credentials cannot be looked up now")]
pub struct AuthUnavailable;

/// Knows credentials. Implemented where credentials are kept; answers should come from a cache, since every request
/// asks, and unknown secrets are asked for as often as clients like.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// The credential with this secret, `None` when there is none or it was revoked.
    async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable>;

    /// What is known of a secret without a look-up: whether it is of a credential; `None` when it has to be looked up.
    fn cached(&self, _secret: &str) -> Option<bool> {
        Some(false)
    }

    /// Whether a secret from this address may be looked up.
    ///
    /// # Errors
    /// 429 when too many of them failed.
    fn may_look_up(&self, _client: Option<ClientAddress>) -> Result<(), Fault> {
        Ok(())
    }

    /// A secret from this address was looked up and is unknown.
    fn failed(&self, _client: Option<ClientAddress>) {}

    /// The credential that stands for reports of this app without a key, `None` unless a project lists the app.
    async fn keyless(&self, app_id: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable>;

    /// Whether any project lists an app at all. When not, a request without a key is refused before its body is read.
    fn keyless_possible(&self) -> bool {
        true
    }
}

/// What a request shows about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presented {
    /// No `Authorization` header.
    Nothing,
    /// Secrets to try in order: more than one with `Basic`, where clients put the key on either side.
    Secrets(Vec<String>),
}

/// Reads `Authorization`: `Bearer <key>`, `Basic` with the key as user or password, or the bare key.
pub(crate) fn presented(headers: &HeaderMap) -> Presented {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Presented::Nothing;
    };
    let text = value.to_str().unwrap_or_default().trim();
    let secrets = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
            vec![rest.trim().to_owned()]
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => basic(rest.trim()),
        Some(_) => Vec::new(),
        None => vec![text.to_owned()],
    };
    Presented::Secrets(
        secrets
            .into_iter()
            .filter(|secret| (1..=SECRET_BYTES).contains(&secret.len()))
            .collect(),
    )
}

/// User and password, the password first; with no password (`key:`) the user is the only one left.
fn basic(encoded: &str) -> Vec<String> {
    // Padding is left out by some clients.
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let decoded = LENIENT
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded
        .as_deref()
        .map(|pair| pair.split_once(':').unwrap_or((pair, "")))
    {
        Some((user, password)) => vec![password.to_owned(), user.to_owned()],
        None => Vec::new(),
    }
}

/// The address of the client that sent a request, if the listener put it there.
pub(crate) fn client(head: &Parts) -> Option<ClientAddress> {
    let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| peer.ip().into())
}

/// The credential behind the secrets that were presented, with the one of them that is its own. Secrets that are known
/// come first, and are never limited.
pub(crate) async fn authenticate<'a>(
    auth: &dyn Authenticator,
    secrets: &'a [String],
    client: Option<ClientAddress>,
) -> Result<(Arc<Credential>, &'a str), Fault> {
    let is_known = |secret: &&String| auth.cached(secret) == Some(true);
    let (known, others): (Vec<&String>, Vec<_>) = secrets.iter().partition(is_known);
    let mut has_looked_up = false;
    for secret in known.into_iter().chain(others) {
        if auth.cached(secret).is_none() {
            auth.may_look_up(client)?;
            has_looked_up = true;
        }
        if let Some(credential) = auth.authenticate(secret).await.map_err(unavailable)? {
            return Ok((credential, secret));
        }
    }
    if has_looked_up {
        auth.failed(client);
    }
    Err(Fault::unauthorized(
        "the API key is not known, or it was revoked",
    ))
}

/// The 503 for credentials that cannot be looked up. The body was not accepted.
pub(crate) fn unavailable(_: AuthUnavailable) -> Fault {
    Fault::unavailable(
        "API keys cannot be checked now; send the batch again",
        UNAVAILABLE_RETRY_S,
    )
}

/// The 401 for a request without any credential.
pub(crate) fn missing() -> Fault {
    Fault::unauthorized("an API key is required: send it as `Authorization: Bearer <key>`")
}

/// What a credential that may report gives: whose events they are.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    /// Public identifier of the key: what its rate is counted by.
    pub(crate) key_id: String,
    pub(crate) project: ProjectId,
    pub(crate) default_app: AppId,
}

/// The reporter behind a credential, or why it may not report.
pub(crate) fn reporter(credential: &Credential) -> Result<Reporter, Fault> {
    match credential {
        Credential::Key {
            id,
            project,
            default_app,
            scopes,
        } if scopes.contains(&Scope::Report) => Ok(Reporter {
            key_id: id.clone(),
            project: project.clone(),
            default_app: default_app.clone(),
        }),
        Credential::Key { .. } => Err(Fault::forbidden("this API key lacks the scope `report`")),
        Credential::Token { .. } | Credential::Person { .. } => Err(Fault::forbidden(
            "this is the token of a person; events are reported with an API key, which says whose events they are",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(value: &str) -> Presented {
        let mut headers = HeaderMap::new();
        headers.insert(
            AUTHORIZATION,
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
        presented(&headers)
    }

    fn secrets(of: &[&str]) -> Presented {
        Presented::Secrets(of.iter().map(|&secret| secret.to_owned()).collect())
    }

    #[test]
    fn the_key_is_found_in_every_form_clients_send() {
        assert_eq!(read("Bearer sp_key_1"), secrets(&["sp_key_1"]));
        assert_eq!(read("bearer   sp_key_1 "), secrets(&["sp_key_1"]));
        assert_eq!(read("sp_key_1"), secrets(&["sp_key_1"]));
        assert_eq!(
            read("Basic c3Bfa2V5XzE6"),
            secrets(&["sp_key_1"]),
            "key as user, no password"
        );
        assert_eq!(
            read("Basic c3Bfa2V5XzE"),
            secrets(&["sp_key_1"]),
            "key alone, no padding"
        );
        assert_eq!(
            read("Basic dXNlcjpzcF9rZXlfMQ=="),
            secrets(&["sp_key_1", "user"]),
            "key as password"
        );
    }

    #[test]
    fn what_is_no_key_gives_nothing_to_try() {
        let too_long = "k".repeat(513);
        for value in ["", "Basic !!", "Digest a=b", &too_long, "Bearer k\u{e9}y"] {
            assert_eq!(read(value), secrets(&[]), "{value:?}");
        }
        assert_eq!(presented(&HeaderMap::new()), Presented::Nothing);
    }
}
