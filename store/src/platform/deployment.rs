//! Values that all processes of a deployment share, by name.
//!
//! Each value has one writer at a time, in any process: a write is not preceded by a read.

use crate::client::Store;
use crate::error::StoreError;

/// Maximum bytes of a value: it travels as a parameter, which is limited to 128 KiB after escaping (X1).
pub const VALUE_BYTES_MAX: usize = 16 << 10;

impl Store {
    /// The last value with this name.
    pub async fn deployment_value(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql =
            "SELECT value FROM deployment WHERE name = {name:String} ORDER BY version DESC LIMIT 1";
        self.bounded_query(sql).param("name", name).optional().await
    }

    /// Sets a value of at most [`VALUE_BYTES_MAX`]; durable when this returns.
    pub async fn set_deployment_value(&self, name: &str, value: &str) -> Result<(), StoreError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(StoreError::Invalid(format!(
                "a value of the deployment has at most {VALUE_BYTES_MAX} bytes"
            )));
        }
        // Above every earlier version, whichever clock it came from.
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
