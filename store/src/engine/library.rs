//! Finding `libchdb.so`, and the one call into it.

// The engine is a C library: loading and calling it is the only unsafe code of the project.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Environment variable with the path of the library.
pub const LIBRARY_VARIABLE: &str = "SPINDLE_ENGINE_LIBRARY";

const FILE: &str = "libchdb.so";

/// The npm package with the library for this machine.
fn package() -> &'static str {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", "aarch64") => "lib-darwin-arm64",
        ("macos", _) => "lib-darwin-x64",
        (_, "aarch64") => "lib-linux-arm64-gnu",
        _ => "lib-linux-x64-gnu",
    }
}

/// The path of the library: the setting, beside the executable, or what `make engine` put into the checkout that
/// contains the current folder or the executable.
pub(super) fn find(setting: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = setting {
        return match path.is_file() {
            true => Ok(path.to_owned()),
            false => Err(format!(
                "the engine's library {} is not there; `make engine` brings it",
                path.display()
            )),
        };
    }
    let executable = std::env::current_exe().ok();
    let current = std::env::current_dir().ok();
    candidates(executable.as_deref(), current.as_deref())
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!(
                "the engine's library {FILE} was not found: run `make engine` in the checkout, \
             set {LIBRARY_VARIABLE}, or use a server with --clickhouse-url"
            )
        })
}

fn candidates(executable: Option<&Path>, current: Option<&Path>) -> Vec<PathBuf> {
    let installed = Path::new("deploy/engine/node_modules/@chdb")
        .join(package())
        .join(FILE);
    let beside = executable
        .and_then(Path::parent)
        .map(|folder| folder.join(FILE));
    let roots = current
        .into_iter()
        .chain(executable.into_iter().flat_map(Path::ancestors).skip(1));
    beside
        .into_iter()
        .chain(roots.map(|root| root.join(&installed)))
        .collect()
}

/// Runs the engine with a command line, and `loaded` between loading and running: loading starts no thread. It is not
/// meant to end: returns the reason, unless it printed one itself.
pub(super) fn main(library: &Path, arguments: &[String], loaded: impl FnOnce()) -> Option<String> {
    let message = call(library, arguments, loaded).unwrap_or_else(Some)?;
    message.lines().next().map(str::to_owned)
}

fn call(
    library: &Path,
    arguments: &[String],
    when_loaded: impl FnOnce(),
) -> Result<Option<String>, String> {
    type Main = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut c_void;
    type ErrorOf = unsafe extern "C" fn(*mut c_void) -> *const c_char;
    let count = c_int::try_from(arguments.len()).map_err(|_| "too many arguments".to_owned())?;
    // Leaked: C may write to `argv`, and the process ends with the call.
    let mut pointers: Vec<*mut c_char> = arguments
        .iter()
        .map(|argument| CString::new(argument.as_str()).map(CString::into_raw))
        .collect::<Result<_, _>>()
        .map_err(|_| "an argument holds a zero byte".to_owned())?;
    pointers.push(std::ptr::null_mut());
    // SAFETY: loading runs the library's initializers. This process exists for nothing else, and the file is the one
    // that the user installed or named.
    let loaded = unsafe { libloading::Library::new(library) }.map_err(|error| error.to_string())?;
    // SAFETY: chdb.h declares `chdb_result * chdb_query_cmdline(int argc, char ** argv)`.
    let entry = unsafe { loaded.get::<Main>(b"chdb_query_cmdline\0") }
        .map_err(|error| error.to_string())?;
    // SAFETY: chdb.h declares `const char * chdb_result_error(chdb_result * result)`.
    let error_of = unsafe { loaded.get::<ErrorOf>(b"chdb_result_error\0") }
        .map_err(|error| error.to_string())?;
    when_loaded();
    // SAFETY: `pointers` holds `count` zero-terminated texts and a null after them; none of them is ever freed.
    let result = unsafe { entry(count, pointers.as_mut_ptr()) };
    if result.is_null() {
        return Ok(None);
    }
    // SAFETY: `result` came from the call before and is not destroyed until the process ends.
    let message = unsafe { error_of(result) };
    if message.is_null() {
        return Ok(None);
    }
    // SAFETY: a message that is not null is a zero-terminated text that lives as long as its result.
    Ok(Some(
        unsafe { CStr::from_ptr(message) }
            .to_string_lossy()
            .into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_checkout_is_found_from_a_build_inside_it() {
        let found = candidates(
            Some(Path::new("/co/target/debug/spindle")),
            Some(Path::new("/elsewhere")),
        );
        assert_eq!(
            found.first(),
            Some(&PathBuf::from("/co/target/debug/libchdb.so"))
        );
        let installed = format!(
            "/co/deploy/engine/node_modules/@chdb/{}/libchdb.so",
            package()
        );
        assert!(found.contains(&PathBuf::from(installed)));
    }

    #[test]
    fn a_missing_library_says_in_one_line_how_to_get_it() {
        let error = find(Some(Path::new("/nowhere/libchdb.so"))).unwrap_err();
        assert!(error.contains("make engine") && !error.contains('\n'));
    }
}
