//! Model calls without a cost because their model has no price. Each run is counted once (P3).

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::current::{Current, Scope};

/// Models listed by name, most tokens first.
pub const MODELS_MAX: usize = 1000;

/// The usage of a model without a price.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct UnpricedModel {
    /// The model, as clients name it.
    pub model: String,
    pub calls: u64,
    /// Tokens of prompts, where known. Wide: a client may report 2^53 of them at once.
    pub prompt_tokens: u128,
    /// Tokens of completions, where known.
    pub completion_tokens: u128,
    /// All tokens, where known.
    pub total_tokens: u128,
    /// Start of the first call, Unix milliseconds.
    pub first_seen: i64,
    /// Start of the last call, Unix milliseconds.
    pub last_seen: i64,
}

impl Store {
    /// The models without a price among the runs of a scope, most tokens first; at most one more than [`MODELS_MAX`].
    pub async fn unpriced_models(
        &self,
        scope: Scope<'_>,
    ) -> Result<Vec<UnpricedModel>, StoreError> {
        let layout = self.layout(scope.filter).await?;
        let current = Current::of(&layout, scope);
        let columns = "model, calls, prompt_tokens, completion_tokens, total_tokens, started_at";
        let sql = format!(
            "SELECT model, sum(calls) AS calls, sum(toUInt128(ifNull(prompt_tokens, 0))), sum(toUInt128(ifNull(completion_tokens, 0))), \
               sum(toUInt128(ifNull(total_tokens, 0))) AS tokens, min(started_at), max(started_at) \
             FROM {} GROUP BY model ORDER BY tokens DESC, calls DESC, model LIMIT {}",
            current.rows(columns, Some("cost_status = 'unpriced_model'")),
            MODELS_MAX + 1,
        );
        current.query(self, &sql).rows().await
    }
}
