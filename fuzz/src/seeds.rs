//! Seeds of a target: captured requests, committed files, and texts in the code.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use bolero::{Driver, ValueGenerator};
use serde_json::Value;

use crate::edit::{self, Dictionary};
use crate::{INPUT_BYTES, json};

/// Edits of one input: one to this many.
const EDITS_MAX: usize = 6;

/// Seeds and words of a target.
#[derive(Clone, Debug, Default)]
pub struct Seeds {
    /// Name and bytes.
    seeds: Vec<(String, Vec<u8>)>,
    dictionary: Dictionary,
    is_json: bool,
}

/// An input: a seed after some edits.
#[derive(Clone, PartialEq, Eq)]
pub struct Input(Vec<u8>);

impl Input {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// As a Rust byte string, so that a failing input can be pasted into a test or written to a file.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl Seeds {
    /// The committed files of `seeds/<target>/`, which include inputs that once failed.
    ///
    /// # Panics
    /// When a file cannot be read.
    pub fn of_files(target: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("seeds")
            .join(target);
        let mut seeds = Self::default();
        for path in sorted_files(&folder) {
            let name = path.display().to_string();
            seeds.seeds.push((name, read(&path)));
        }
        seeds
    }

    #[must_use]
    pub fn with(mut self, seed: impl Into<Vec<u8>>) -> Self {
        let name = format!("seed {}", self.seeds.len());
        self.seeds.push((name, seed.into()));
        self
    }

    #[must_use]
    pub fn with_all<S: Into<Vec<u8>>>(self, seeds: impl IntoIterator<Item = S>) -> Self {
        seeds.into_iter().fold(self, Self::with)
    }

    /// Adds words that edits put into inputs.
    #[must_use]
    pub fn with_words(mut self, words: &'static [&'static str]) -> Self {
        self.dictionary.0.extend(words.iter().copied());
        self
    }

    /// Inputs are JSON: in half of them whole values are replaced, moved and removed, and they stay JSON.
    #[must_use]
    pub fn as_json(mut self) -> Self {
        self.is_json = true;
        self
    }

    /// Name and bytes of each seed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.seeds
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    fn pick<D: Driver>(&self, driver: &mut D) -> Option<&[u8]> {
        let at = edit::below(driver, self.seeds.len())?;
        Some(self.seeds.get(at).map_or(&[][..], |(_, bytes)| bytes))
    }
}

impl ValueGenerator for Seeds {
    type Output = Input;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Input> {
        let mut bytes = self.pick(driver)?.to_vec();
        let keeps_json = self.is_json && driver.gen_bool(None)?;
        for _ in 0..=edit::below(driver, EDITS_MAX)? {
            if keeps_json {
                json::edit(driver, &mut bytes)?;
            } else {
                let other = self.pick(driver)?;
                edit::edit(driver, &mut bytes, other, &self.dictionary)?;
            }
            bytes.truncate(INPUT_BYTES);
        }
        Some(Input(bytes))
    }
}

/// The bodies that real clients posted to one of these paths, from `tests/captures`; `binary` selects the exact bytes
/// of bodies that are not JSON.
///
/// # Panics
/// When a capture cannot be read.
pub fn captured_bodies(paths: &[&str], binary: bool) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    let mut bodies = Vec::new();
    for path in sorted_files(&root) {
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let Ok(request) = serde_json::from_slice::<Value>(&read(&path)) else {
            continue;
        };
        let is_wanted = request["path"]
            .as_str()
            .is_some_and(|path| paths.contains(&path));
        if !is_json || !is_wanted || request["method"] != "POST" {
            continue;
        }
        let exact = path.with_extension("bin");
        if !binary {
            bodies.push(request["body"].to_string().into_bytes());
        } else if exact.exists() && request["headers"]["Content-Encoding"].is_null() {
            bodies.push(read(&exact));
        }
    }
    assert!(!bodies.is_empty(), "no capture of {paths:?}");
    bodies
}

fn sorted_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
