//! Applies the migrations, and ends.

use anyhow::Context;
use prometheus::Registry;
use store::Store;
use store::credentials::Credentials;

use super::access::given;
use super::engine::EngineSlot;
use super::folder::DataFolder;
use super::{parts, runtime};
use crate::config::Config;

/// Applies the migrations. In a deployment of several processes it also creates the first credentials, unless the
/// environment sets them or credentials exist: the tiers do not, because several would at once.
pub(crate) fn migrate(config: Config) -> anyhow::Result<()> {
    let metrics = store::metrics::Metrics::register(&Registry::new())?;
    let slot = EngineSlot::default();
    // The folder is the engine's; a remote server needs none.
    let folder = match config.clickhouse.urls.is_empty() {
        true => Some(DataFolder::take(&config.server.data_dir)?),
        false => None,
    };
    let data_dir = folder.as_ref().map(DataFolder::path);
    let settings = parts::store_settings(&config, data_dir, &slot, metrics.clone())?;
    let store = Store::connect(settings, metrics)?;
    let makes_credentials = config.kafka.is_some() && folder.is_none();
    let outcome = runtime(config.server.workers)?.block_on(async {
        store.migrate().await?;
        println!("the tables are up to date");
        if makes_credentials {
            first_credentials(&Credentials::new(store)).await?;
        }
        anyhow::Ok(())
    });
    slot.shutdown();
    outcome
}

/// Shown once, on standard output. If that is lost, the environment can set a token at any time.
async fn first_credentials(credentials: &Credentials) -> anyhow::Result<()> {
    let made = credentials
        .bootstrap(given())
        .await
        .context("cannot create the first credentials")?;
    if let Some(secret) = &made.api_key {
        println!("  API key of the project default  {}", secret.reveal());
    }
    if let Some(secret) = &made.admin_token {
        println!("  admin token                     {}", secret.reveal());
    }
    if made.api_key.is_some() || made.admin_token.is_some() {
        println!("  they are printed only now; SPINDLE_API_KEY and SPINDLE_ADMIN_TOKEN set others");
    }
    Ok(())
}
