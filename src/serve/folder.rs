//! The data folder: created if missing, used by one server at a time, with files for users and commands.

pub(crate) mod private;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Pause before a failed write of the address is retried.
const ANNOUNCE_PAUSE: Duration = Duration::from_secs(5);

/// A data folder, locked by this process until dropped.
pub(crate) struct DataFolder {
    path: PathBuf,
    /// The advisory lock lives as long as the file is open; the kernel releases it when the process dies.
    _lock: File,
}

impl DataFolder {
    /// Locks the folder; the error is one line.
    pub(crate) fn take(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot create the data folder {shown}"))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot find the data folder {shown}"))?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .with_context(|| format!("cannot write in the data folder {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message, which is less clear without the number.
                let _ = lock.read_to_string(&mut holder);
                bail!(
                    "the data folder {shown} is in use by another spindle server (process {})",
                    holder.trim()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock the data folder {shown}"));
            }
        }
        // The number is for the message of another server; on a full disk it is missing.
        if let Err(error) = lock
            .set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
        {
            tracing::warn!(error.message = %error, "cannot write the process id into the lock file");
        }
        private::correct(&path);
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the server's URL for commands, with retries until `stop`: a server works without it, and a full disk may
    /// have room again later. Commands use the URL of the settings meanwhile.
    pub(crate) async fn announce(&self, url: &str, stop: &CancellationToken) {
        let mut told = false;
        while let Err(error) = write_whole(&address_file(&self.path), url, 0o600) {
            if !told {
                tracing::warn!(
                    error.message = format!("{error:#}"),
                    "the address file cannot be written yet; until then commands use the address of the settings"
                );
            }
            told = true;
            tokio::select! {
                () = tokio::time::sleep(ANNOUNCE_PAUSE) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Removes the URL. A server that died leaves it; commands then report that no server answers.
    pub(crate) fn withdraw(&self) {
        match std::fs::remove_file(address_file(&self.path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(error.message = %error, "cannot remove the address file");
            }
            _ => {}
        }
    }
}

/// The secrets of the first start, stored in plain text only here.
#[derive(Clone, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) struct Secrets {
    pub(crate) project: String,
    /// Reports and reads. Absent if it came from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    /// Full access. Absent if it came from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin_token: Option<String>,
}

impl Secrets {
    /// `None` before the first start.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = credentials_file(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        // The parser's message would quote the line, and with it a secret.
        toml::from_str(&text)
            .map(Some)
            .map_err(|_| anyhow::anyhow!("{} is damaged or was edited", path.display()))
    }

    /// Readable by the owner only.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        write_whole(&credentials_file(folder), &toml::to_string(self)?, 0o600)
    }
}

/// The URL that a running server wrote.
pub(crate) fn announced_address(folder: &Path) -> Option<String> {
    std::fs::read_to_string(address_file(folder))
        .ok()
        .map(|text| text.trim().to_owned())
}

pub(crate) fn credentials_file(folder: &Path) -> PathBuf {
    folder.join("credentials")
}

fn address_file(folder: &Path) -> PathBuf {
    folder.join("address")
}

/// Writes a file so that a reader, or a crash, finds either the old or the new content, complete.
pub(super) fn write_whole(path: &Path, content: &str, mode: u32) -> anyhow::Result<()> {
    let write = || {
        let part = path.with_extension("part");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&part)?;
        file.write_all(content.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        path.parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_is_held_by_one_server_and_free_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/data");
        let held = DataFolder::take(&path).unwrap();
        let refused = DataFolder::take(&path).err().unwrap().to_string();
        assert!(
            refused.contains("in use") && refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        drop(held);
        assert!(DataFolder::take(&path).is_ok());
    }

    #[test]
    fn secrets_come_back_and_only_the_owner_may_read_them() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Secrets::read(folder.path()).unwrap().is_none());
        let secrets = Secrets {
            project: "default".into(),
            api_key: Some("sp_key_a".into()),
            admin_token: None,
        };
        secrets.write(folder.path()).unwrap();
        assert!(Secrets::read(folder.path()).unwrap() == Some(secrets));
        let mode = credentials_file(folder.path())
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_credentials_file_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(credentials_file(folder.path()), "api_key = sp_key_secret").unwrap();
        let error = format!("{:#}", Secrets::read(folder.path()).err().unwrap());
        assert!(!error.contains("sp_key_secret"), "{error}");
    }

    #[test]
    fn secrets_have_the_bytes_that_data_folders_hold() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets {
            project: "default".into(),
            api_key: Some("sp_key_a".into()),
            admin_token: Some("sp_tok_b".into()),
        };
        secrets.write(folder.path()).unwrap();
        let written = std::fs::read(credentials_file(folder.path())).unwrap();
        let golden = crate::golden::check("credentials.toml", &written);
        std::fs::write(credentials_file(folder.path()), golden).unwrap();
        assert!(Secrets::read(folder.path()).unwrap() == Some(secrets));
    }
}
