//! The embedded ClickHouse engine: a library in a child process, watched and restarted.
//!
//! `serve` holds an [`Engine`]; the child is the same program with a hidden subcommand that calls [`run`]. Only the
//! child loads the library, so its memory, its signal handlers and its crashes stay out of the server. Settings reach
//! the child in its environment ([`ChildSettings`]); the password is in a file.

mod child;
mod confine;
mod files;
mod library;
mod login;
mod output;
mod port;
mod probe;
mod supervisor;
mod users;

pub use child::run;
pub use library::LIBRARY_VARIABLE;
pub use probe::Liveness;
pub use supervisor::{Engine, EngineConfig, Program};

use std::path::{Path, PathBuf};

/// The user of all tiers.
pub const USER: &str = "spindle";

/// Exit code of a child whose engine ended: a restart may help.
const EXIT_ENDED: i32 = 70;
/// Exit code of a child that found another engine on its folder.
const EXIT_LOCKED: i32 = 75;
/// Exit code of a child that could not start: no library, folder not writable.
const EXIT_UNUSABLE: i32 = 78;

/// Settings of the child: names and numbers, no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChildSettings {
    data_dir: PathBuf,
    port: u16,
    library: Option<PathBuf>,
    memory_bytes: u64,
    parent: u32,
}

const DATA_DIR: &str = "SPINDLE_ENGINE_CHILD_DATA_DIR";
const PORT: &str = "SPINDLE_ENGINE_CHILD_PORT";
const MEMORY_BYTES: &str = "SPINDLE_ENGINE_CHILD_MEMORY_BYTES";
const PARENT: &str = "SPINDLE_ENGINE_CHILD_PARENT";

impl ChildSettings {
    fn to_variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let mut variables = vec![
            (DATA_DIR, self.data_dir.clone().into_os_string()),
            (PORT, self.port.to_string().into()),
            (MEMORY_BYTES, self.memory_bytes.to_string().into()),
            (PARENT, self.parent.to_string().into()),
        ];
        if let Some(library) = &self.library {
            variables.push((LIBRARY_VARIABLE, library.clone().into_os_string()));
        }
        variables
    }

    fn from_variables() -> Result<Self, String> {
        fn number<T: std::str::FromStr>(name: &str) -> Result<T, String> {
            let text = std::env::var(name)
                .map_err(|_| format!("{name} is not set: `spindle serve` starts the engine"))?;
            text.parse().map_err(|_| format!("{name} is not a number"))
        }
        Ok(Self {
            port: number(PORT)?,
            memory_bytes: number(MEMORY_BYTES)?,
            parent: number(PARENT)?,
            data_dir: std::env::var_os(DATA_DIR)
                .ok_or(format!("{DATA_DIR} is not set"))?
                .into(),
            library: std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from),
        })
    }
}

/// Whether this process was started as the engine: a program without subcommands (a benchmark, an example) calls
/// [`run`] then.
pub fn is_child() -> bool {
    std::env::var_os(DATA_DIR).is_some()
}

fn password_path(data_dir: &Path) -> PathBuf {
    data_dir.join("password")
}

/// The password of an engine on this folder; creates folder and password if they are missing.
pub(crate) fn prepared_password(
    data_dir: &Path,
) -> Result<crate::client::config::Secret, crate::StoreError> {
    files::make_folder(data_dir)
        .and_then(|()| files::password(data_dir))
        .map_err(|error| crate::StoreError::file(data_dir, error))
}
