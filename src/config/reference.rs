//! `docs/reference/settings.md` is generated from the default file; this test compares the two.

use std::fmt::Write as _;

use super::DEFAULT_FILE;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/settings.md");

const HEAD: &str = "# Settings

Written from `spindle.default.toml` by `UPDATE=1 cargo test -p spindle --bin spindle reference`.
Flags override the environment, the environment overrides the file `spindle.toml`, the file overrides the defaults.
In the environment, `server.listen` is `SPINDLE_SERVER__LISTEN`; lists are separated by commas.
An unknown key is an error, and all errors are reported together.

These environment variables are not settings: `SPINDLE_API_KEY` and `SPINDLE_ADMIN_TOKEN` are the first credentials; `SPINDLE_URL` is the server address of commands such as `spindle key`, `token` and `project`.
";

fn reference() -> String {
    let mut text = HEAD.to_owned();
    let mut section = String::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in DEFAULT_FILE
        .lines()
        .skip_while(|line| !line.starts_with('['))
    {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
            write!(text, "\n## {section}\n").unwrap();
            comment.clear();
        } else if let Some(words) = line.strip_prefix('#') {
            comment.push(words.trim());
        } else if let Some((key, value)) = line.split_once(" = ") {
            assert!(!comment.is_empty(), "{section}.{key} has no comment");
            let what = comment.join(" ").replace(". ", ".\n");
            write!(
                text,
                "\n### `{section}.{key}`\n\nDefault `{value}`.\n{what}\n"
            )
            .unwrap();
            comment.clear();
        }
    }
    text
}

#[test]
fn the_reference_is_what_the_default_file_says() {
    let expected = reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/settings.md is old: UPDATE=1 cargo test -p spindle --bin spindle reference"
    );
}
