//! Only the user that runs Spindle may read the data folder: 0700 for folders, 0600 for files.
//!
//! The umask makes everything private that the process and the engine create ([`set_umask`]). Existing files are
//! corrected at each start: the folder itself, which alone keeps other users out, and as a second line Spindle's own
//! names in it and what is directly below them. The tables of the engine are deeper and are not walked: hundreds of
//! thousands of files, all behind `engine/`, which is private.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;

/// Names that Spindle creates in its folder. Other names are left alone: the folder may be shared by mistake.
const NAMES: [&str; 7] = [
    "address",
    "credentials",
    "dead-letters",
    "engine",
    "key-snapshot.json",
    "lock",
    "log",
];
/// Permissions of the group and of others.
const OTHERS: u32 = 0o077;
/// Shared folders like `/tmp`.
const STICKY: u32 = 0o1000;

/// Files and folders that this process and its children create from here on are for their user only.
pub(crate) fn set_umask() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Removes the permissions of others from the data folder. A failure is a warning: a container's volume may belong to
/// another user by design, and the files below it are private all the same.
pub(super) fn correct(folder: &Path) {
    let mut corrected = 0;
    let mut look = |path: &Path| match correct_one(path) {
        Ok(is_corrected) => corrected += u32::from(is_corrected),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(
            file.path = %path.display(), error.message = %error,
            "other users can read this path, and its mode cannot be changed"
        ),
    };
    look(folder);
    for name in NAMES {
        let path = folder.join(name);
        look(&path);
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        let entries = is_folder.then(|| fs::read_dir(&path).ok()).flatten();
        for entry in entries.into_iter().flatten().flatten() {
            look(&entry.path());
        }
    }
    if corrected > 0 {
        tracing::info!(
            folder = %folder.display(), files = corrected,
            "other users could read files of the data folder; the modes were corrected"
        );
    }
}

/// Whether the mode had to be changed. Symbolic links are not followed: they lead out of the folder.
fn correct_one(path: &Path) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(path)?;
    let mode = metadata.mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return Ok(false);
    }
    is_ours(&metadata)?;
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS))?;
    Ok(true)
}

fn is_ours(metadata: &Metadata) -> io::Result<()> {
    let other = |what: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return other(format!(
            "it belongs to user {}, and this process runs as {user}",
            metadata.uid()
        ));
    }
    if metadata.is_dir() && metadata.mode() & STICKY != 0 {
        return other("it is a shared folder; use a separate one".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_there_becomes_private_and_names_of_others_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("target");
        for (path, bits) in [
            (at("log"), 0o755),
            (at("engine"), 0o775),
            (at("notes"), 0o755),
        ] {
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
        }
        for path in [
            at("address"),
            at("log/000000000000.segment"),
            at("notes/mine"),
            target.clone(),
        ] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&target, at("credentials")).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            correct(folder.path());
            assert_eq!(mode(folder.path()), 0o700);
            assert_eq!((mode(&at("log")), mode(&at("engine"))), (0o700, 0o700));
            assert_eq!(mode(&at("log/000000000000.segment")), 0o600);
            assert_eq!(mode(&at("address")), 0o600);
            assert_eq!(mode(&at("notes")), 0o755);
            assert_eq!((mode(&at("notes/mine")), mode(&target)), (0o644, 0o644));
        }
    }

    #[test]
    fn a_folder_for_everybody_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        correct(folder.path());
        assert_eq!(mode(folder.path()), 0o1777);
    }
}
