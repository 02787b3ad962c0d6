//! The small tables as text, for a move to another deployment: projects, keys, tokens, prices, builds and claims.

use schemas::timestamp::UnixMs;
use serde_json::Value;

use crate::client::Store;
use crate::error::StoreError;

/// Maximum bytes of one table: a hundred thousand keys are 30 MB (X1).
const TABLE_BYTES_MAX: &str = "268435456";

/// A table that is moved as a whole. Jobs are not: they belong to the processes that run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallTable {
    /// Projects and their settings.
    Projects,
    /// API keys, as hashes.
    ApiKeys,
    /// Tokens of users, as hashes.
    Tokens,
    /// Users' changes of the price table.
    Prices,
    /// Builds of applications with their processes.
    Builds,
    /// Claimed names, among them the assigned numbers of instances.
    Claims,
}

impl SmallTable {
    /// Projects first, because keys belong to them.
    pub const ALL: [Self; 6] = [
        Self::Projects,
        Self::ApiKeys,
        Self::Tokens,
        Self::Prices,
        Self::Builds,
        Self::Claims,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Projects => "projects",
            Self::ApiKeys => "api_keys",
            Self::Tokens => "tokens",
            Self::Prices => "prices",
            Self::Builds => "process_builds",
            Self::Claims => "claims",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

impl Store {
    /// The current rows of a table, a JSON object each.
    pub async fn small_rows(&self, table: SmallTable) -> Result<Vec<String>, StoreError> {
        let sql = format!("SELECT * FROM {} FINAL", table.name());
        let query = self
            .client
            .query_raw(&sql)
            .with_setting("readonly", "2")
            .with_setting("max_result_bytes", TABLE_BYTES_MAX)
            .with_setting("output_format_json_quote_decimals", "1")
            .with_setting("output_format_json_quote_64bit_integers", "0");
        let limit = self.config.query_timeout;
        let text = tokio::time::timeout(limit, query.fetch_bytes("JSONEachRow")?.collect()).await;
        let text = text.map_err(|_| StoreError::TimedOut(limit))??;
        let text = String::from_utf8(text.into())
            .map_err(|_| StoreError::Shape(format!("a row of {} is no text", table.name())))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Writes rows of [`Store::small_rows`], which replace existing ones: as if set at `now_ms`.
    pub async fn put_small_rows(
        &self,
        table: SmallTable,
        rows: &[String],
        now_ms: UnixMs,
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let now = u64::try_from(now_ms)
            .unwrap_or_default()
            .saturating_mul(1000);
        let bad = |error: serde_json::Error| StoreError::Shape(error.to_string());
        let mut text = String::new();
        for row in rows {
            let mut row: Value = serde_json::from_str(row).map_err(bad)?;
            let version = row.get("version").and_then(Value::as_u64).unwrap_or(0);
            row["version"] = Value::from(version.max(now));
            text.push_str(&row.to_string());
            text.push('\n');
        }
        let sql = format!("INSERT INTO {} FORMAT JSONEachRow", table.name());
        let mut insert = self
            .client
            .insert_formatted_with(sql)
            .with_timeouts(
                Some(self.config.send_timeout),
                Some(self.config.insert_timeout),
            )
            // Columns of a newer program are unknown to this one.
            .with_setting("input_format_skip_unknown_fields", "1")
            .with_setting("async_insert", "0");
        insert.send(text.into()).await?;
        insert.end().await?;
        Ok(())
    }
}
