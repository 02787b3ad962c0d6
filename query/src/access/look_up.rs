//! What is known of a secret before it is looked up, and where it came from: look-ups that fail are limited per address.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use schemas::client_address::ClientAddress;
use store::credentials::FailedCredential;

use super::Shown;
use super::jwt::Jwt;
use crate::state::{QueryState, now_ms};

/// The address of the client that sent a request, if the listener put it there.
pub(crate) fn client(parts: &Parts) -> Option<ClientAddress> {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| peer.ip().into())
}

/// What is known of a secret without a look-up: whether it is of a credential; `None` when it has to be looked up.
pub(super) fn cached(state: &QueryState, shown: &Shown) -> Option<bool> {
    match shown {
        Shown::Secret(secret) => {
            let secret = secret.reveal();
            match (state.identity(), Jwt::of(secret)) {
                (Some(identity), Some(_)) => identity.knows(secret, now_ms()).then_some(true),
                _ => state.credentials().cached_secret(secret),
            }
        }
        Shown::Session(secret) => state.credentials().cached_session_secret(secret.reveal()),
    }
}

/// What a secret is counted as when it is not good.
pub(super) fn kind(state: &QueryState, shown: &Shown) -> FailedCredential {
    match shown {
        Shown::Session(_) => FailedCredential::Session,
        Shown::Secret(secret) => match (state.identity(), Jwt::of(secret.reveal())) {
            (Some(_), Some(_)) => FailedCredential::Identity,
            _ => FailedCredential::Secret,
        },
    }
}
