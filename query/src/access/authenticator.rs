//! Everything that credentials are checked against.

use std::sync::Arc;

use store::credentials::Credentials;

use super::session_rules::SessionRules;
use super::{Identity, IdentityConfig, IdentityMetrics};
use crate::error::QueryError;

/// The credentials of this deployment, the identity provider and the session rules. Clones share them.
#[derive(Clone)]
pub(crate) struct Authenticator {
    credentials: Credentials,
    identity: Option<Identity>,
    identity_metrics: IdentityMetrics,
    sessions: Arc<SessionRules>,
}

impl Authenticator {
    /// Registers the metrics of an identity provider, whether or not one is set.
    pub(crate) fn new(
        credentials: Credentials,
        registry: &prometheus::Registry,
    ) -> Result<Self, QueryError> {
        Ok(Self {
            credentials,
            identity: None,
            identity_metrics: IdentityMetrics::register(registry)?,
            sessions: Arc::default(),
        })
    }

    pub(crate) fn set_identity(&mut self, config: IdentityConfig) -> Result<(), QueryError> {
        self.identity = Some(Identity::new(config, self.identity_metrics.clone())?);
        Ok(())
    }

    pub(crate) fn set_sessions(&mut self, rules: SessionRules) {
        self.sessions = Arc::new(rules);
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub(crate) fn sessions(&self) -> &SessionRules {
        &self.sessions
    }
}
