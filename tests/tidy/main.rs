//! The repository tests its own rules: who may depend on whom, what names and sizes files have, that documents
//! name what exists and that every invariant has a test.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod clients;
mod error_codes;
mod modules;
mod words;

/// Our crates and which of ours each may depend on.
const EDGES: [(&str, &[&str]); 12] = [
    // For programs of others, which build nothing else of ours.
    ("spindle-client", &[]),
    ("schemas", &[]),
    ("eventlog", &[]),
    ("api", &["schemas"]),
    ("control", &["schemas", "eventlog"]),
    ("store", &["schemas"]),
    ("ingest", &["schemas", "api", "eventlog"]),
    ("processor", &["schemas", "eventlog", "control", "store"]),
    ("query", &["schemas", "api", "store", "spindle-client"]),
    // Tests of the parsers of all of them; nothing depends on it.
    (
        "fuzz",
        &["schemas", "eventlog", "ingest", "processor", "query"],
    ),
    // Measures all of them; nothing depends on it.
    (
        "bench",
        &[
            "schemas",
            "eventlog",
            "control",
            "store",
            "processor",
            "query",
            "spindle-client",
        ],
    ),
    (
        "spindle",
        &[
            "schemas",
            "api",
            "eventlog",
            "control",
            "store",
            "ingest",
            "processor",
            "query",
            "spindle-client",
        ],
    ),
];

/// Every crate of the workspace.
const CRATES: [&str; EDGES.len()] = {
    let mut names = [""; EDGES.len()];
    let mut at = 0;
    while at < EDGES.len() {
        names[at] = EDGES[at].0;
        at += 1;
    }
    names
};

/// Edges of tests alone: the server reads what the client writes.
const EDGES_OF_TESTS: [(&str, &str); 1] = [("spindle-client", "schemas")];

/// Crates whose folder is not called as they are: among the clients a folder is called by its language.
const FOLDERS: [(&str, &str); 1] = [("spindle-client", "clients/rust")];

/// Packages of others that only these crates may use. `anyhow` is also free in tests.
const HOMES: [(&str, &[&str]); 7] = [
    ("rdkafka", &["eventlog"]),
    // The fuzz targets give the log a disk in memory.
    ("redb", &["eventlog", "fuzz"]),
    ("clickhouse", &["store", "bench"]),
    ("libloading", &["store"]),
    ("parquet", &["query"]),
    ("axum", &["api", "ingest", "query", "spindle", "bench"]),
    ("anyhow", &["spindle", "bench"]),
];

/// What must always hold; `ARCHITECTURE.md` says what each means.
const INVARIANTS: [&str; 14] = [
    "L1", "L2", "P1", "P2", "P3", "P4", "P5", "P6", "T1", "Q1", "X1", "X2", "R1", "S1",
];

const LINES_PER_FILE: usize = 700;
const FORBIDDEN_STEMS: [&str; 7] = [
    "common", "core", "util", "utils", "helpers", "types", "manager",
];
const ROOT_DOCUMENTS: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the repository, relative, without what is built, fetched or stored.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let skipped = [
                "target",
                "node_modules",
                ".git",
                "spindle-data",
                "__pycache__",
                ".hypothesis",
                // What the web's own tools make.
                "dist",
                "screenshots",
                "schema.d.ts",
            ];
            if skipped.contains(&name.as_str()) || name.ends_with(".pyc") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Text that people write, as opposed to what tools and clients wrote.
fn is_written(path: &Path) -> bool {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let name = path.file_name().unwrap().to_str().unwrap();
    let written = [
        "rs", "md", "toml", "py", "sql", "sh", "xml", "html", "js", "ts", "tsx", "css", "in", "",
    ]
    .contains(&extension);
    written
        && name != "LICENSE"
        && !["tests/captures", "tests/recordings"]
            .iter()
            .any(|folder| path.starts_with(folder))
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder(name: &str) -> &str {
    let elsewhere = FOLDERS.iter().find(|(of, _)| *of == name);
    elsewhere.map_or(name, |(_, folder)| folder)
}

fn manifest(name: &str) -> toml::Table {
    let path = if name == "spindle" {
        PathBuf::from("Cargo.toml")
    } else {
        Path::new(folder(name)).join("Cargo.toml")
    };
    let manifest: toml::Table = read(&path).parse().unwrap();
    assert_eq!(
        manifest["package"]["name"].as_str(),
        Some(name),
        "folder and crate have the same name"
    );
    manifest
}

fn dependencies(manifest: &toml::Table, section: &str) -> BTreeSet<String> {
    manifest
        .get(section)
        .and_then(|table| table.as_table())
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

#[track_caller]
fn assert_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn crates_depend_on_each_other_only_as_designed() {
    let ours: BTreeSet<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    let members: BTreeSet<String> = manifest("spindle")["workspace"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member.as_str().unwrap().to_owned())
        .collect();
    let expected = ours
        .iter()
        .filter(|name| **name != "spindle")
        .map(|name| folder(name).to_owned())
        .collect();
    assert_eq!(
        members, expected,
        "the workspace holds exactly the crates of the design"
    );
    let mut faults = Vec::new();
    for (name, allowed) in EDGES {
        let manifest = manifest(name);
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dependency in dependencies(&manifest, section) {
                let of_ours = ours.contains(dependency.as_str());
                let tests = section == "dev-dependencies";
                let in_tests = tests && EDGES_OF_TESTS.contains(&(name, dependency.as_str()));
                // A crate may test itself with its own features switched on.
                let is_allowed = dependency == name || allowed.contains(&dependency.as_str());
                if of_ours && !is_allowed && !in_tests {
                    faults.push(format!("{name} -> {dependency} ({section})"));
                }
            }
        }
    }
    assert_none(
        &faults,
        "an edge between crates that the design does not have",
    );
}

#[test]
fn packages_with_a_home_are_used_nowhere_else() {
    let mut faults = Vec::new();
    for (name, _) in EDGES {
        let manifest = manifest(name);
        for section in ["dependencies", "dev-dependencies"] {
            for dependency in dependencies(&manifest, section) {
                let home = HOMES.iter().find(|(package, _)| *package == dependency);
                let free = dependency == "anyhow" && section == "dev-dependencies";
                if let Some((_, homes)) = home
                    && !free
                    && !homes.contains(&name)
                {
                    faults.push(format!("{name} uses {dependency}; only {homes:?} may"));
                }
            }
        }
    }
    assert_none(&faults, "a package outside its home");
}

#[test]
fn every_dependency_is_declared_once_for_the_workspace() {
    let mut faults = Vec::new();
    for (name, _) in EDGES {
        let manifest = manifest(name);
        for section in ["dependencies", "dev-dependencies"] {
            for (dependency, value) in manifest
                .get(section)
                .and_then(|table| table.as_table())
                .into_iter()
                .flatten()
            {
                // A crate that tests itself with its own features on.
                if dependency != name
                    && value
                        .get("workspace")
                        .and_then(|workspace| workspace.as_bool())
                        != Some(true)
                {
                    faults.push(format!("{name}: {dependency} has a version of its own"));
                }
            }
        }
    }
    assert_none(&faults, "versions belong in [workspace.dependencies]");
}

#[test]
fn files_have_good_names_and_sizes() {
    let mut faults = Vec::new();
    for path in files() {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|extension| extension == "rs") {
            if stem == "mod" {
                faults.push(format!(
                    "{}: use a file beside the folder instead",
                    path.display()
                ));
            }
            let parts: Vec<&str> = path
                .iter()
                .map(|part| part.to_str().unwrap().trim_end_matches(".rs"))
                .collect();
            if parts.iter().any(|part| {
                FORBIDDEN_STEMS.contains(part)
                    || (part.starts_with('v') && part[1..].parse::<u32>().is_ok())
            }) {
                faults.push(format!("{}: a name that says nothing", path.display()));
            }
        }
        let is_web = path.starts_with("web") && is_written(&path);
        if is_web && FORBIDDEN_STEMS.contains(&stem.split('.').next().unwrap_or(stem)) {
            faults.push(format!("{}: a name that says nothing", path.display()));
        }
        if is_written(&path) {
            let lines = read(&path).lines().count();
            if lines > LINES_PER_FILE {
                faults.push(format!(
                    "{}: {lines} lines; split it before {LINES_PER_FILE}",
                    path.display()
                ));
            }
        }
    }
    assert_none(&faults, "names and sizes of files");
}

#[test]
fn no_registry_host_and_no_open_work_is_left_in_the_tree() {
    // Put together here, so that this file does not find itself.
    let hosts = [
        ["crates", ".io"],
        ["npmjs", ".org"],
        ["npmjs", ".com"],
        ["pypi", ".org"],
        ["pythonhosted", ".org"],
    ];
    let open_work = [["TO", "DO"], ["FIX", "ME"], ["XX", "X:"]];
    let words: Vec<String> = hosts
        .iter()
        .chain(&open_work)
        .map(|parts| parts.concat())
        .collect();
    let mut faults = Vec::new();
    for path in files() {
        // The lock file of cargo names its default source on every line and nothing else.
        let text = path
            .extension()
            .is_some_and(|extension| extension == "json" || extension == "txt")
            || is_written(&path);
        if !text
            || ["tests/captures", "tests/recordings"]
                .iter()
                .any(|folder| path.starts_with(folder))
        {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                faults.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert_none(&faults, "registry hosts or open work");
}

#[test]
fn every_library_says_what_it_promises() {
    let mut faults = Vec::new();
    for path in files()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
    {
        if !path.ends_with("tests.rs") && !read(path).starts_with("//!") {
            faults.push(format!(
                "{} does not open with a sentence about itself",
                path.display()
            ));
        }
    }
    assert_none(&faults, "module documentation");
}

#[test]
fn every_file_of_the_web_says_what_it_is() {
    let is_code = |path: &&PathBuf| {
        let name = path.to_str().unwrap();
        (path.starts_with("web/src") || path.starts_with("web/browser"))
            && (name.ends_with(".ts") || name.ends_with(".tsx"))
            && !name.contains(".test.")
    };
    let silent = |path: &&PathBuf| !read(path).starts_with("/**");
    let files = files();
    let faults = files.iter().filter(is_code).filter(silent);
    let faults: Vec<String> = faults.map(|path| path.display().to_string()).collect();
    assert_none(&faults, "web files that do not open with a sentence");
}

#[test]
fn paths_named_in_documents_exist() {
    let mut faults = Vec::new();
    for document in ROOT_DOCUMENTS {
        let text = read(Path::new(document));
        for path in code_spans(&text)
            .filter(|span| is_path(span))
            .chain(link_targets(&text))
        {
            if !root().join(path.trim_end_matches('/')).exists() {
                faults.push(format!("{document} names {path}"));
            }
        }
    }
    for path in files().iter().filter(|path| path.starts_with("docs")) {
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = read(path);
            for target in link_targets(&text) {
                if !root().join(path.parent().unwrap()).join(target).exists() {
                    faults.push(format!("{} links {target}", path.display()));
                }
            }
        }
    }
    assert_none(&faults, "documents name what does not exist");
}

#[test]
fn documents_have_one_sentence_per_line() {
    let mut faults = Vec::new();
    for path in files()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    {
        let mut in_code = false;
        for (number, line) in read(path).lines().enumerate() {
            if line.starts_with("```") {
                in_code = !in_code;
            }
            if !in_code && !line.starts_with('|') && ends_a_sentence_inside(line) {
                faults.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_none(&faults, "more than one sentence on a line");
}

#[test]
fn every_invariant_is_part_of_the_name_of_a_test() {
    let mut named = BTreeSet::new();
    for path in files() {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = read(&path);
        // The conformance suite of the log is called by the tests of each implementation.
        let is_test_file = path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs")
            || path.starts_with("eventlog/src/conformance");
        let tests = match is_test_file {
            true => text.as_str(),
            false => text
                .split_once("#[cfg(test)]")
                .map_or("", |(_, tests)| tests),
        };
        for after in tests.split("fn ").skip(1) {
            let name = after.split(['(', '<']).next().unwrap_or_default();
            named.extend(name.split('_').map(str::to_uppercase));
        }
    }
    let missing: Vec<String> = INVARIANTS
        .iter()
        .filter(|id| !named.contains(**id))
        .map(|id| format!("no test is named `..._{}`", id.to_lowercase()))
        .collect();
    assert_none(&missing, "invariants without a test");
    let architecture = read(Path::new("ARCHITECTURE.md"));
    for id in INVARIANTS {
        assert!(
            architecture.contains(&format!("**{id}**")),
            "ARCHITECTURE.md does not say what {id} means"
        );
    }
}

#[test]
fn ci_runs_what_a_person_runs() {
    assert!(read(Path::new(".ci/run")).contains("make test"));
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .step_by(2)
        .flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

/// Whether a code span names a file of the repository rather than a command, an address or a type.
fn is_path(span: &str) -> bool {
    let plain = span
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
    let first = span.split('/').next().unwrap_or_default();
    let ours = EDGES.iter().any(|(name, _)| *name == first)
        || ["src", "tests", "docs", "deploy", ".ci", "web", "clients"].contains(&first);
    let document = [".md", ".toml"].iter().any(|end| span.ends_with(end)) && span != "spindle.toml";
    plain && ((span.contains('/') && ours) || (document && !span.contains('/')))
}

fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .map(|target| target.split('#').next().unwrap_or(target))
}

/// A full stop, then a blank, then a capital: two sentences. Code spans do not count.
fn ends_a_sentence_inside(line: &str) -> bool {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
    let bytes = prose.as_bytes();
    bytes.windows(4).any(|four| {
        four[0].is_ascii_lowercase()
            && matches!(four[1], b'.' | b'!' | b'?')
            && four[2] == b' '
            && four[3].is_ascii_uppercase()
    })
}
