//! Golden bytes: what each persistent format looked like when it was introduced. `README.md` beside this file says how
//! a test uses them and how a version is added. Each crate with such a test includes this file as a module.

use std::path::{Path, PathBuf};

/// The bytes in the file, after asserting that this version writes exactly the same.
///
/// With `UPDATE_GOLDEN=1` in the environment a missing file is written first. An existing one is never changed: its
/// bytes are stored somewhere.
#[track_caller]
pub(crate) fn check(name: &str, written: &[u8]) -> Vec<u8> {
    let path = path(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, written).unwrap();
    }
    let golden = read(&path);
    assert!(
        golden == written,
        "this version writes other bytes than {name}, which stored data has; add a version of the format instead\n\
         golden:  {}\nwritten: {}",
        golden.escape_ascii(),
        written.escape_ascii()
    );
    golden
}

/// The bytes of a version that is only read.
#[allow(dead_code, reason = "not every crate has a format of several versions")]
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    read(&path(name))
}

fn path(name: &str) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = crate_folder
        .ancestors()
        .map(|folder| folder.join("tests/golden"));
    folders.find(|folder| folder.is_dir()).unwrap().join(name)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; UPDATE_GOLDEN=1 writes a missing file",
            path.display()
        )
    })
}

/// A record of the log as text: its key, a line for each header, an empty line, its payload.
#[allow(dead_code, reason = "not every crate writes records")]
pub(crate) fn record(key: &[u8], headers: &[(&str, &[u8])], payload: &[u8]) -> Vec<u8> {
    let headers = headers
        .iter()
        .flat_map(|(name, value)| [b"\n", name.as_bytes(), b"=", value]);
    let parts = [key].into_iter().chain(headers);
    parts
        .chain([&b"\n\n"[..], payload])
        .collect::<Vec<_>>()
        .concat()
}
