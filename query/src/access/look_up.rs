//! The state of a secret before it is looked up. Failed look-ups are limited per client address.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use schemas::client_address::ClientAddress;
use store::credentials::FailedCredential;

use super::jwt::Jwt;
use super::{Authenticator, RequestSecret};
use crate::clock::now_ms;

/// The client's address, where the listener provides it.
pub(crate) fn client(parts: &Parts) -> Option<ClientAddress> {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| peer.ip().into())
}

/// Whether a cached secret belongs to a credential; `None` for a secret that has to be looked up.
pub(super) fn cached(authenticator: &Authenticator, secret: &RequestSecret) -> Option<bool> {
    match secret {
        RequestSecret::Header { secret, .. } => {
            let secret = secret.reveal();
            match (authenticator.identity(), Jwt::parse(secret)) {
                (Some(identity), Some(_)) => identity.is_cached(secret, now_ms()).then_some(true),
                _ => authenticator.credentials().cached_secret(secret),
            }
        }
        RequestSecret::Session(secret) => authenticator
            .credentials()
            .cached_session_secret(secret.reveal()),
    }
}

/// The label of a failure with this secret.
pub(super) fn kind(authenticator: &Authenticator, secret: &RequestSecret) -> FailedCredential {
    match secret {
        RequestSecret::Session(_) => FailedCredential::Session,
        RequestSecret::Header { secret, .. } => {
            match (authenticator.identity(), Jwt::parse(secret.reveal())) {
                (Some(_), Some(_)) => FailedCredential::Identity,
                _ => FailedCredential::Secret,
            }
        }
    }
}
