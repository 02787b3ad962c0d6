//! The child process: becomes the engine and never returns.

use std::io::Read;
use std::path::PathBuf;
use std::process;

use super::{
    ChildSettings, EXIT_ENDED, EXIT_LOCKED, EXIT_UNUSABLE, confine, files, library, login,
};

/// About a third of the share of a server's thread when both want the same core.
const NICENESS: i32 = 5;

/// Runs the engine in this process until the parent ends it or dies: the command `spindle engine`.
///
/// On failure, prints one line to stderr and exits with a code.
pub fn run() -> ! {
    let (code, message) = match prepare() {
        Ok(start) => {
            let confine = || confine::to(&start.folder, &start.library);
            let message = library::main(&start.library, &start.arguments, confine);
            (EXIT_ENDED, message)
        }
        Err(message) => (EXIT_UNUSABLE, Some(message)),
    };
    if let Some(message) = message {
        eprintln!("{message}");
    }
    process::exit(code)
}

/// In a burst that takes every core the server's own threads go first: an accepted event is durable in the log and can
/// be processed a moment later, a rejected one is lost. On an idle machine this changes nothing.
fn give_way() {
    // Fails only where a sandbox forbids it; the engine works without it.
    let _ = rustix::process::nice(NICENESS);
}

/// Arguments of the engine.
struct Start {
    library: PathBuf,
    folder: PathBuf,
    arguments: Vec<String>,
}

fn prepare() -> Result<Start, String> {
    let settings = ChildSettings::from_variables()?;
    end_with_parent(settings.parent)?;
    give_way();
    let library = library::find(settings.library.as_deref())?;
    let folder = &settings.data_dir;
    let cannot =
        |error: std::io::Error| format!("the engine's folder {}: {error}", folder.display());
    files::make_folder(folder).map_err(cannot)?;
    match files::lock(folder).map_err(cannot)? {
        // Held until the process ends.
        Some(lock) => std::mem::forget(lock),
        None => {
            eprintln!("another engine is running on {}", folder.display());
            process::exit(EXIT_LOCKED);
        }
    }
    let login_url = login::allow_one()
        .map_err(|error| format!("cannot listen for the local session's login: {error}"))?;
    let config =
        files::write_settings(folder, settings.memory_bytes, &login_url).map_err(cannot)?;
    let arguments = [
        "clickhouse",
        "--path",
        &folder.join("data").display().to_string(),
        "--config-file",
        &config.display().to_string(),
        // Errors of queries are in their responses; the engine's own messages are logged.
        "--log-level=warning",
        "--listen_host",
        "127.0.0.1",
        "--http_port",
        &settings.port.to_string(),
        // A local session opens the HTTP port and then counts for ever. A port that cannot be opened ends it.
        "--query",
        "SYSTEM START LISTEN HTTP; SELECT count() FROM system.numbers WHERE NOT ignore(sleepEachRow(1)) \
         SETTINGS max_block_size = 1",
    ];
    Ok(Start {
        library,
        folder: folder.clone(),
        arguments: arguments.map(str::to_owned).to_vec(),
    })
}

/// The engine must not outlive its supervisor: by the kernel's signal where there is one, and on all systems by the end
/// of the pipe that the supervisor holds open.
fn end_with_parent(parent: u32) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("cannot bind the engine's life to the server's: {error}"))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) != Some(parent) {
        return Err("the server that started this engine is gone".to_owned());
    }
    let watch = || {
        let mut byte = [0];
        while !matches!(std::io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
        process::abort()
    };
    std::thread::Builder::new()
        .name("parent-watch".to_owned())
        .spawn(watch)
        .map(|_| ())
        .map_err(|error| format!("cannot watch the server: {error}"))
}
