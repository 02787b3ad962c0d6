//! What all processes of a deployment have agreed on, kept by name.
//!
//! Each value has one writer at a time, whoever that is: there is no look before the write.

use crate::client::Store;
use crate::error::StoreError;

/// Bytes of a value at most: it travels as a parameter, which may have 128 KiB after escaping (X1).
pub const VALUE_BYTES_MAX: usize = 16 << 10;

impl Store {
    /// The value that was set last under this name.
    pub async fn deployment_value(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql =
            "SELECT value FROM deployment WHERE name = {name:String} ORDER BY version DESC LIMIT 1";
        self.bounded_query(sql).param("name", name).optional().await
    }

    /// Sets a value of at most [`VALUE_BYTES_MAX`]; it is durable when this returns.
    pub async fn set_deployment_value(&self, name: &str, value: &str) -> Result<(), StoreError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(StoreError::Invalid(format!(
                "a value of the deployment has at most {VALUE_BYTES_MAX} bytes"
            )));
        }
        // Above every version before it, whoever's clock that was taken from.
        let sql = "INSERT INTO deployment (name, version, value) SELECT {name:String}, \
                   greatest(toUInt64(toUnixTimestamp64Micro(now64(6))), \
                     (SELECT max(version) + 1 FROM deployment WHERE name = {name:String})), {value:String}";
        let write = self
            .client
            .query_raw(sql)
            .param("name", name)
            .param("value", value)
            .execute();
        let limit = self.config.insert_timeout;
        match tokio::time::timeout(limit, write).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }
}
