//! Banned words of `docs/glossary.md`: none, except below a bound per folder that is not converted yet.

use std::collections::BTreeMap;
use std::path::Path;

use super::{assert_none, files, read, root};

const GLOSSARY: &str = "docs/glossary.md";
/// A line for each folder that is not converted: the folder and the upper bound of its banned words.
/// `UPDATE=1` lowers the bounds to what is left; a bound is never raised.
const UNCONVERTED: &str = "tests/tidy/unconverted.txt";

/// Extensions of documents, configuration and what is generated for readers.
const TEXTS: [&str; 8] = ["md", "toml", "yaml", "yml", "json", "sql", "xml", "html"];
/// Extensions of sources, in which words of the scope `text` have other meanings.
const SOURCES: [&str; 7] = ["rs", "py", "ts", "tsx", "js", "css", "sh"];

struct Banned {
    phrase: String,
    instead: String,
    /// Whether sources are searched too.
    everywhere: bool,
}

/// The table under "Banned words".
fn banned() -> Vec<Banned> {
    let glossary = read(Path::new(GLOSSARY));
    let (_, section) = glossary
        .split_once("## Banned words")
        .expect("the glossary has a section of banned words");
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let banned: Vec<Banned> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let &[phrase, instead, place] = cells.as_slice() else {
                panic!("a row of three cells: {row}");
            };
            assert!(["everywhere", "text"].contains(&place), "scope of {row}");
            Banned {
                phrase: phrase.to_lowercase(),
                instead: instead.to_owned(),
                everywhere: place == "everywhere",
            }
        })
        .collect();
    assert!(!banned.is_empty(), "{GLOSSARY} bans no word");
    banned
}

/// Number of occurrences of the phrase as whole words; both are lower case.
fn occurrences(text: &str, phrase: &str) -> usize {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(phrase)
        .filter(|(at, _)| {
            !text[..*at].ends_with(is_part) && !text[at + phrase.len()..].starts_with(is_part)
        })
        .count()
}

/// A document without its code spans, which hold identifiers.
fn prose(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("x"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The part of the repository that a file belongs to: a crate, a client library, a kind of document.
fn folder(path: &Path) -> String {
    let name = path.to_str().unwrap();
    let parts = ["clients/", "web/", "docs/"];
    let depth = if parts.iter().any(|part| name.starts_with(part)) {
        2
    } else {
        1
    };
    name.split('/').take(depth).collect::<Vec<_>>().join("/")
}

fn bounds() -> BTreeMap<String, usize> {
    let lines = read(Path::new(UNCONVERTED));
    let bound = |line: &str| {
        let (folder, most) = line.split_once(' ').expect("a folder and a number");
        (folder.to_owned(), most.parse().expect("a number"))
    };
    lines.lines().map(bound).collect()
}

#[test]
fn the_words_of_the_glossary_are_used() {
    let banned = banned();
    let bounds = bounds();
    let mut faults = Vec::new();
    let mut by_folder: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files() {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let extension = extension.unwrap_or_default();
        let is_source = SOURCES.contains(&extension);
        let own = path.starts_with("tests/tidy") || path == Path::new(GLOSSARY);
        let name = path.file_name().unwrap().to_str().unwrap();
        let of_tools = ["tests/captures", "tests/recordings"]
            .iter()
            .any(|folder| path.starts_with(folder))
            || name == "package-lock.json"
            // What providers send, under their own names.
            || (path.starts_with("clients/fixtures") && extension == "json");
        // Databases keep the checksum of each migration, so an applied one keeps its words.
        let is_applied = path == Path::new("store/migrations/0007_platform.sql");
        if own || of_tools || is_applied || !(is_source || TEXTS.contains(&extension)) {
            continue;
        }
        let mut text = read(&path).to_lowercase();
        if extension == "md" {
            text = prose(&text);
        }
        for word in banned.iter().filter(|word| word.everywhere || !is_source) {
            for (number, line) in text.lines().enumerate() {
                for _ in 0..occurrences(line, &word.phrase) {
                    by_folder.entry(folder(&path)).or_default().push(format!(
                        "{}:{}: \"{}\"; use: {}",
                        path.display(),
                        number + 1,
                        word.phrase,
                        word.instead
                    ));
                }
            }
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        let line = |(folder, found): (&String, &Vec<String>)| {
            let bound = bounds.get(folder).copied().unwrap_or(0);
            format!("{folder} {}\n", found.len().min(bound))
        };
        let lines: String = by_folder.iter().map(line).collect();
        std::fs::write(root().join(UNCONVERTED), lines).unwrap();
    }
    for (folder, found) in by_folder {
        let bound = bounds.get(&folder).copied().unwrap_or(0);
        if found.len() > bound {
            faults.push(format!(
                "{folder}: {} banned words, {bound} are left to convert ({UNCONVERTED})",
                found.len()
            ));
            faults.extend(found);
        }
    }
    assert_none(&faults, "words that docs/glossary.md bans");
}

#[test]
fn a_banned_word_is_found_as_a_whole_word() {
    assert_eq!(occurrences("nobody; nobody's", "nobody"), 2);
    assert_eq!(occurrences("is_nobody nobodys", "nobody"), 0);
    assert_eq!(prose("a `gate` b"), "a x b");
}
