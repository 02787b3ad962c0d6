//! The engine's files: its settings, its users, its password and the lock on its folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::users::{SESSION_LOGIN, users_xml};
use super::{USER, password_path};
use crate::client::config::Secret;

/// How long a new child waits for the end of an old one on the same folder: a killed process frees its memory before
/// its files.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Creates the folder, readable by its owner only.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// The password, created at the first start.
pub(super) fn password(data_dir: &Path) -> io::Result<Secret> {
    let path = password_path(data_dir);
    match fs::read_to_string(&path) {
        Ok(text) if text.trim().len() >= 32 => Ok(Secret::new(text.trim())),
        Ok(_) => write_password(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write_password(&path),
        Err(error) => Err(error),
    }
}

fn write_password(path: &Path) -> io::Result<Secret> {
    let secret = hex::encode(rand::random::<[u8; 32]>());
    write_private(path, secret.as_bytes())?;
    Ok(Secret::new(secret))
}

/// Writes a file that only its owner can read, atomically.
pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Locks the folder: at most one engine at a time. The kernel unlocks it when the process ends, however it ends.
pub(super) fn lock(data_dir: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data_dir.join("lock"))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Writes the settings and users of the engine; returns the path of the settings. The engine asks `login_url` about
/// logins of the local session's user.
pub(super) fn write_settings(
    data_dir: &Path,
    memory_bytes: u64,
    login_url: &str,
) -> io::Result<PathBuf> {
    let users = data_dir.join("users.xml");
    let settings = data_dir.join("config.xml");
    let hash = hex::encode(Sha256::digest(password(data_dir)?.reveal()));
    write_private(&users, users_xml(&hash).as_bytes())?;
    let config = config_xml(&users, memory_bytes, login_url);
    write_private(&settings, config.as_bytes())?;
    Ok(settings)
}

/// Sized for a small machine shared with the rest of the server; reasons and measurements are in
/// docs/decisions/0002-embedded-engine.md.
///
/// The listener routes only queries of [`USER`]: a request that does not name it in the header, which a page in a
/// browser cannot send, finds no handler. Without `<defaults/>` there is no `/play`, `/ping`, `/dashboard` either.
fn config_xml(users: &Path, memory_bytes: u64, login_url: &str) -> String {
    format!(
        "<clickhouse>
  <users_config>{users}</users_config>
  <allow_no_password>0</allow_no_password>
  <allow_plaintext_password>0</allow_plaintext_password>
  <http_authentication_servers>
    <{SESSION_LOGIN}><uri>{login_url}</uri><max_tries>1</max_tries></{SESSION_LOGIN}>
  </http_authentication_servers>
  <http_handlers>
    <rule>
      <methods>POST</methods>
      <headers><X-ClickHouse-User>{USER}</X-ClickHouse-User></headers>
      <handler><type>dynamic_query_handler</type><query_param_name>query</query_param_name></handler>
    </rule>
  </http_handlers>
  <listen_reuse_port>1</listen_reuse_port>
  <max_server_memory_usage>{memory_bytes}</max_server_memory_usage>
  <mark_cache_size>67108864</mark_cache_size>
  <index_mark_cache_size>16777216</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <index_uncompressed_cache_size>0</index_uncompressed_cache_size>
  <mmap_cache_size>64</mmap_cache_size>
  <primary_index_cache_size>67108864</primary_index_cache_size>
  <compiled_expression_cache_size>16777216</compiled_expression_cache_size>
  <query_cache><max_size_in_bytes>0</max_size_in_bytes></query_cache>
  <max_concurrent_queries>100</max_concurrent_queries>
  <background_pool_size>2</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <background_common_pool_size>2</background_common_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_buffer_flush_schedule_pool_size>1</background_buffer_flush_schedule_pool_size>
  <background_distributed_schedule_pool_size>1</background_distributed_schedule_pool_size>
  <background_message_broker_schedule_pool_size>1</background_message_broker_schedule_pool_size>
  <keep_alive_timeout>30</keep_alive_timeout>
</clickhouse>
",
        users = xml_text(&users.display().to_string())
    )
}

fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_made_once_and_no_file_but_its_own_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = password(folder.path()).unwrap();
        assert_eq!(password(folder.path()).unwrap(), first);
        write_settings(folder.path(), 1 << 30, "http://127.0.0.1:1/").unwrap();
        for name in ["users.xml", "config.xml"] {
            assert!(
                !fs::read_to_string(folder.path().join(name))
                    .unwrap()
                    .contains(first.reveal())
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        write_settings(folder.path(), 1 << 30, "http://127.0.0.1:1/").unwrap();
        for name in ["users.xml", "config.xml", "password"] {
            let mode = fs::metadata(folder.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}
