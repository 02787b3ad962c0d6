//! Brings ClickHouse to where it has to be, and goes on looking at it.

use std::time::Duration;

use store::StoreError;

use super::Running;
use super::access::{SettleError, given, settle};
use super::folder::{DataFolder, Secrets, credentials_file};
use super::health::Part;
use super::parts::Parts;
use super::role::Role;

/// How often a server that is away is tried again, and how often one that is there is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks between two reloads of credentials and prices that another process may have changed.
const LOOKS_PER_REFRESH: u32 = 5;
/// Looks between two orders to index the texts of a day that has ended: one day at a time, and none is in a hurry.
const LOOKS_PER_INDEX: u32 = 300;
/// What a tier says while the tables are not there, or not those it works with.
const RUN_MIGRATE: &str = "run spindle migrate";

/// Gets tables, prices and credentials to where this process can work with them, trying for as long as ClickHouse is
/// away.
pub(crate) async fn run(
    running: &Running,
    parts: &Parts,
    folder: Option<&DataFolder>,
    url: &str,
) -> anyhow::Result<()> {
    match (running.role, folder) {
        (Role::All, Some(folder)) => whole(running, parts, folder, url).await,
        (Role::Ingest, _) => {
            know_keys(running, parts).await;
            Ok(())
        }
        _ => tier(running, parts).await,
    }
}

/// Migrates the tables, reads the prices and settles the first credentials.
async fn whole(
    running: &Running,
    parts: &Parts,
    folder: &DataFolder,
    url: &str,
) -> anyhow::Result<()> {
    let health = &running.health;
    until_there(running, async || Ok(parts.store.migrate().await?)).await?;
    health.ready(Part::Engine);
    // Before anything is processed: a call must not be priced by a table that lacks what people changed.
    until_there(running, async || Ok(parts.prices.refresh().await?)).await?;
    health.ready(Part::Migrations);
    let made = until_there(running, async || {
        settle(&parts.credentials, folder.path()).await
    })
    .await?;
    health.ready(Part::Credentials);
    if let Some(secrets) = made {
        show_first_start(&secrets, folder, url);
    }
    Ok(())
}

/// Waits for the tables that `spindle migrate` makes, reads the prices, and lets in whom the environment names.
async fn tier(running: &Running, parts: &Parts) -> anyhow::Result<()> {
    let health = &running.health;
    loop {
        let is_migrated =
            until_there(running, async || Ok(parts.store.is_migrated().await?)).await?;
        health.ready(Part::Engine);
        if is_migrated {
            break;
        }
        health.missing(Part::Migrations, RUN_MIGRATE);
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    until_there(running, async || Ok(parts.prices.refresh().await?)).await?;
    health.ready(Part::Migrations);
    if running.role.queries() {
        // Given the same secrets, several processes make the same rows of them.
        until_there(running, async || {
            Ok(parts.credentials.admit(given()).await?)
        })
        .await?;
        if until_there(running, async || Ok(parts.credentials.tokens().await?))
            .await?
            .is_empty()
        {
            tracing::warn!(
                "nobody can administer: there is no token; `spindle migrate` makes one, or set SPINDLE_ADMIN_TOKEN"
            );
        }
        health.ready(Part::Credentials);
    }
    Ok(())
}

/// Reads the keys. Reporting does not wait for that if they are known from a snapshot, and no failure of ClickHouse
/// ends a process that can take events without it.
async fn know_keys(running: &Running, parts: &Parts) {
    let health = &running.health;
    if parts.is_restored {
        health.ready(Part::Credentials);
    }
    let mut told = false;
    loop {
        let known = async {
            if !parts.store.is_migrated().await? {
                return Ok(false);
            }
            parts.credentials.refresh().await.map(|()| true)
        };
        let why = match known.await {
            Ok(true) => break,
            Ok(false) => RUN_MIGRATE,
            Err(error) => {
                if !told {
                    tracing::warn!(error.message = %error, "API keys cannot be read; trying until they can");
                }
                told = true;
                "ClickHouse does not answer"
            }
        };
        if !parts.is_restored {
            health.missing(Part::Credentials, why);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    health.ready(Part::Credentials);
}

/// Looks at ClickHouse, at the credentials and at the prices until the server stops.
pub(crate) async fn watch(running: &Running, parts: &Parts) {
    let mut looks = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = running.stop.cancelled() => return,
        }
        match parts.store.ping().await {
            Ok(()) => running.health.ready(Part::Engine),
            Err(error) => {
                tracing::debug!(error.message = %error, "ClickHouse does not answer");
                running.health.missing(Part::Engine, "does not answer");
                continue;
            }
        }
        looks += 1;
        if looks % LOOKS_PER_REFRESH != 0 {
            continue;
        }
        if let Err(error) = parts.credentials.refresh().await {
            tracing::debug!(error.message = %error, "credentials were not refreshed");
        }
        if running.role.processes() && looks % LOOKS_PER_INDEX == 0 {
            index_texts(parts).await;
        }
        if let Err(error) = parts.prices.refresh().await {
            tracing::debug!(error.message = %error, "prices were not refreshed");
        }
        if running.role.queries()
            && let Err(error) = parts.builds.refresh().await
        {
            tracing::debug!(error.message = %error, "builds were not refreshed");
        }
    }
}

/// Has the texts of a day that has ended indexed. Search works without; it only takes longer.
async fn index_texts(parts: &Parts) {
    match parts
        .store
        .index_texts(chrono::Utc::now().timestamp_millis())
        .await
    {
        Ok(Some(day)) => tracing::info!(index.day = day, "indexing the texts of a day"),
        Ok(None) => {}
        Err(error) => tracing::debug!(error.message = %error, "texts were not indexed"),
    }
}

/// Tries again while ClickHouse is away; any other failure ends the server, because it needs a person.
async fn until_there<T>(
    running: &Running,
    work: impl AsyncFn() -> Result<T, SettleError>,
) -> anyhow::Result<T> {
    let mut told = false;
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(SettleError::Store(error)) if is_away(&error) => {
                running.health.missing(Part::Engine, "does not answer");
                if !told {
                    tracing::warn!(error.message = %error, "ClickHouse does not answer; trying until it does");
                }
                told = true;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_away(error: &StoreError) -> bool {
    error.is_retryable()
}

/// Shown once, on standard output, apart from the logs.
fn show_first_start(secrets: &Secrets, folder: &DataFolder, url: &str) {
    let shown = |secret: &Option<String>| secret.clone().unwrap_or_else(|| "(as given)".to_owned());
    println!("Spindle is ready.");
    println!("  address      {url}");
    println!("  project      {}", secrets.project);
    println!("  API key      {}", shown(&secrets.api_key));
    println!("  admin token  {}", shown(&secrets.admin_token));
    println!(
        "  both are kept in {}",
        credentials_file(folder.path()).display()
    );
}
