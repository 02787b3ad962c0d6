//! Model calls that cost nothing because nobody set a price for their model. Each run is counted once (P3).

use clickhouse::Row;
use serde::Deserialize;

use crate::client::Store;
use crate::current::{Current, Scope};
use crate::error::StoreError;

/// Models that are told apart: those with the most tokens come first.
pub const MODELS_MAX: usize = 1000;

/// A model without a price, and how much it was used.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
pub struct UnpricedModel {
    /// The model, as clients name it.
    pub model: String,
    /// Model calls.
    pub calls: u64,
    /// Their tokens of prompts, where known. Wide: a client may report 2^53 of them at once.
    pub prompt_tokens: u128,
    /// Their tokens of answers, where known.
    pub completion_tokens: u128,
    /// All their tokens, where known.
    pub total_tokens: u128,
    /// Start of the first of them, Unix milliseconds.
    pub first_seen: i64,
    /// Start of the last of them, Unix milliseconds.
    pub last_seen: i64,
}

impl Store {
    /// The models without a price among the runs of a question, those with the most tokens first; at most one more
    /// than [`MODELS_MAX`].
    pub async fn unpriced_models(
        &self,
        scope: Scope<'_>,
    ) -> Result<Vec<UnpricedModel>, StoreError> {
        let layout = self.layout(scope.filter).await?;
        let current = Current::of(&layout, scope);
        let columns = "model, prompt_tokens, completion_tokens, total_tokens, started_at";
        let sql = format!(
            "SELECT model, count() AS calls, sum(toUInt128(ifNull(prompt_tokens, 0))), sum(toUInt128(ifNull(completion_tokens, 0))), \
               sum(toUInt128(ifNull(total_tokens, 0))) AS tokens, min(started_at), max(started_at) \
             FROM {} GROUP BY model ORDER BY tokens DESC, calls DESC, model LIMIT {}",
            current.rows(columns, Some("cost_status = 'unpriced_model'")),
            MODELS_MAX + 1,
        );
        current.query(self, &sql).rows().await
    }
}
