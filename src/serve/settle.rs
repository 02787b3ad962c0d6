//! Prepares ClickHouse for this process, and keeps watching it.

use std::time::Duration;

use store::StoreError;

use super::Running;
use super::access::{SettleError, given, settle};
use super::folder::{DataFolder, Secrets, credentials_file};
use super::health::Part;
use super::parts::Parts;
use super::role::Role;

/// Interval of retries while a server is away, and of checks while it is there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks between two reloads of credentials and prices, which another process may have changed.
const LOOKS_PER_REFRESH: u32 = 5;
/// Checks between two orders to index the texts of a day that has ended: one day at a time, without hurry.
const LOOKS_PER_INDEX: u32 = 300;
/// The reason in the health checks while the tables are missing or of another version.
const RUN_MIGRATE: &str = "run spindle migrate";

/// Prepares tables, prices and credentials, with retries while ClickHouse is away.
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

/// Migrates the tables, reads the prices and creates the first credentials.
async fn whole(
    running: &Running,
    parts: &Parts,
    folder: &DataFolder,
    url: &str,
) -> anyhow::Result<()> {
    let health = &running.health;
    until_there(running, async || Ok(parts.store.migrate().await?)).await?;
    health.ready(Part::Engine);
    // Before anything is processed: a call must not be priced by a table without the users' changes.
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

/// Waits for the tables of `spindle migrate`, reads the prices, and adds the credentials of the environment.
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
        // With the same secrets, several processes write the same rows.
        until_there(running, async || {
            Ok(parts.credentials.admit(given()).await?)
        })
        .await?;
        if until_there(running, async || Ok(parts.credentials.tokens().await?))
            .await?
            .is_empty()
        {
            tracing::warn!(
                "no admin token exists: run `spindle migrate` to create one, or set SPINDLE_ADMIN_TOKEN"
            );
        }
        health.ready(Part::Credentials);
    }
    Ok(())
}

/// Reads the keys. Reports do not wait for that if a snapshot was restored, and no failure of ClickHouse ends a process
/// that can accept events without it.
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
                    tracing::warn!(error.message = %error, "API keys cannot be read; retrying");
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

/// Checks ClickHouse, the credentials and the prices until the server stops.
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

/// Orders the index of the texts of a day that has ended. Search works without it, only slower.
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

/// Retries while ClickHouse is away; any other failure ends the server, because an operator has to act.
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
                    tracing::warn!(error.message = %error, "ClickHouse does not answer; retrying");
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

/// Printed once on standard output, separate from the logs.
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
