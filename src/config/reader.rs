//! Reads settings from layers: flags over environment over file over the compiled-in default file.
//!
//! Every getter marks its key as read, so the remaining keys are unknown, and every fault is collected, so that all are
//! reported together. A faulty value is replaced by its default so that reading continues; [`Reader::finish`] then
//! fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use toml::Value;

/// Environment variables with this prefix and a `__` in the rest are settings.
const ENV_PREFIX: &str = "SPINDLE_";

/// The layer of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File,
    Environment,
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Default => "default",
            Source::File => "file",
            Source::Environment => "environment",
            Source::Flag => "flag",
        })
    }
}

/// An effective setting, for `check-config`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// The layers, the settings read so far, and their faults.
pub(crate) struct Reader {
    defaults: BTreeMap<String, Value>,
    file: BTreeMap<String, Value>,
    environment: BTreeMap<String, String>,
    flags: BTreeMap<String, String>,
    read: BTreeSet<String>,
    shown: Vec<Shown>,
    faults: Vec<String>,
}

impl Reader {
    /// From the texts of the two files, the process environment and the given flags.
    pub(crate) fn new(
        defaults: &str,
        file: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: BTreeMap<String, String>,
    ) -> Self {
        let mut faults = Vec::new();
        let mut parse = |what: &str, text: &str| match text.parse::<toml::Table>() {
            Ok(table) => flatten(table),
            Err(error) => {
                // The error's own text quotes the line, which may contain a secret.
                let start = error.span().map_or(0, |span| span.start);
                let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
                faults.push(format!(
                    "{what} is not TOML: line {line}: {}",
                    error.message()
                ));
                BTreeMap::new()
            }
        };
        let defaults = parse("the compiled-in default file", defaults);
        let file = parse("the settings file", file);
        let environment = environment
            .into_iter()
            .filter_map(|(name, value)| {
                let key = name.strip_prefix(ENV_PREFIX)?;
                key.contains("__")
                    .then(|| (key.replace("__", ".").to_lowercase(), value))
            })
            .collect();
        Self {
            defaults,
            file,
            environment,
            flags,
            read: BTreeSet::new(),
            shown: Vec::new(),
            faults,
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> String {
        self.get(key, "text", |value| value.as_str().map(str::to_owned))
    }

    /// A text that is never shown.
    pub(crate) fn secret(&mut self, key: &str) -> String {
        let value = self.text(key);
        if let Some(shown) = self.shown.last_mut()
            && !value.is_empty()
        {
            shown.value = "\"***\"".to_owned();
        }
        value
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let find = |value: &Value| {
            let text = value.as_str()?;
            choices
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, choice)| Some(*choice))
        };
        self.get(key, &format!("one of {}", names.join(", ")), find)
    }

    /// A list of texts; in the environment and in flags separated by commas, or in brackets as in the file.
    pub(crate) fn list(&mut self, key: &str) -> Vec<String> {
        self.get(key, "a list of texts", list_of)
    }

    /// A list of tables; in the environment and in flags as JSON, or in brackets as in the file. Its values are never
    /// shown, not even faulty ones: URLs in them may contain passwords.
    pub(crate) fn tables(&mut self, key: &str) -> Vec<toml::Table> {
        let given = self.get(key, "", |value| Some(tables_of(value)));
        if let Some(shown) = self.shown.last_mut() {
            let count = given.as_ref().map_or(0, Vec::len);
            shown.value = match count {
                0 => "[]".to_owned(),
                count => format!("[{count} tables]"),
            };
        }
        given.unwrap_or_else(|| {
            self.fault(format!(
                "`{key}` must be a list of tables such as [{{key = \"a\"}}], or the same as JSON (what it is now is not shown)"
            ));
            Vec::new()
        })
    }

    /// A list of `name=value`, whose values are never shown, not even faulty ones.
    pub(crate) fn secret_pairs(&mut self, key: &str) -> BTreeMap<String, String> {
        let given = self.get(key, "", |value| Some(list_of(value)));
        let pairs: Option<BTreeMap<String, String>> = given.and_then(|items| {
            let pair = |item: &String| {
                let (name, value) = item.split_once('=')?;
                let name = name.trim();
                (!name.is_empty()).then(|| (name.to_owned(), value.trim().to_owned()))
            };
            items.iter().map(pair).collect()
        });
        if let Some(shown) = self.shown.last_mut() {
            let names = pairs.iter().flat_map(BTreeMap::keys);
            let names: Vec<String> = names.map(|name| format!("\"{name}=***\"")).collect();
            shown.value = format!("[{}]", names.join(", "));
        }
        pairs.unwrap_or_else(|| {
            self.fault(format!(
                "`{key}` must be a list of texts such as \"name=value\" (what it is now is not shown)"
            ));
            BTreeMap::new()
        })
    }

    /// A whole number within bounds.
    pub(crate) fn number(&mut self, key: &str, bounds: RangeInclusive<u64>) -> u64 {
        let allowed = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        self.get(key, &allowed, |value| {
            let number = match value {
                Value::Integer(number) => u64::try_from(*number).ok()?,
                Value::String(text) => text.parse().ok()?,
                _ => return None,
            };
            bounds.contains(&number).then_some(number)
        })
    }

    /// A byte size such as `"8 MiB"`, within bounds.
    pub(crate) fn size(&mut self, key: &str, bounds: RangeInclusive<ByteSize>) -> usize {
        let allowed = format!(
            "a size such as \"8 MiB\", from {} to {}",
            bounds.start(),
            bounds.end()
        );
        let bytes = self.get(key, &allowed, |value| {
            let size = ByteSize::from_str(value.as_str()?).ok()?;
            bounds.contains(&size).then_some(size.as_u64())
        });
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// A duration such as `"5s"`, within bounds.
    pub(crate) fn duration(&mut self, key: &str, bounds: RangeInclusive<Duration>) -> Duration {
        let allowed = format!(
            "a duration such as \"5s\" or \"500ms\", from {} to {}",
            humantime::format_duration(*bounds.start()),
            humantime::format_duration(*bounds.end())
        );
        self.get(key, &allowed, |value| {
            let duration = humantime::parse_duration(value.as_str()?).ok()?;
            bounds.contains(&duration).then_some(duration)
        })
    }

    /// An address to listen on, such as `127.0.0.1:7070`.
    pub(crate) fn address(&mut self, key: &str) -> Option<SocketAddr> {
        self.get(
            key,
            "an address with a port, such as 127.0.0.1:7070",
            |value| value.as_str()?.parse().ok().map(Some),
        )
    }

    /// Adds a fault of several settings, such as two that exclude each other.
    pub(crate) fn fault(&mut self, fault: impl Into<String>) {
        self.faults.push(without_user(&fault.into()));
    }

    /// The effective settings, or every fault.
    pub(crate) fn finish(mut self) -> Result<Vec<Shown>, Faults> {
        let given = self
            .file
            .keys()
            .map(|key| (key.clone(), "in the settings file"));
        let given = given.chain(
            self.environment
                .keys()
                .map(|key| (key.clone(), "in the environment")),
        );
        for (key, place) in given {
            if self.read.contains(&key) {
                continue;
            }
            let near = self
                .read
                .iter()
                .map(|known| (strsim::jaro_winkler(known, &key), known));
            let near = near
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .filter(|(score, _)| *score > 0.8);
            let hint = near
                .map(|(_, known)| format!("; did you mean `{known}`?"))
                .unwrap_or_default();
            self.faults
                .push(format!("unknown key `{key}` {place}{hint}"));
        }
        if self.faults.is_empty() {
            Ok(self.shown)
        } else {
            Err(Faults(self.faults))
        }
    }

    fn get<T: Default>(
        &mut self,
        key: &str,
        allowed: &str,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> T {
        self.read.insert(key.to_owned());
        let (value, source) = if let Some(text) = self.flags.get(key) {
            (Value::String(text.clone()), Source::Flag)
        } else if let Some(text) = self.environment.get(key) {
            (Value::String(text.clone()), Source::Environment)
        } else if let Some(value) = self.file.get(key) {
            (value.clone(), Source::File)
        } else if let Some(value) = self.defaults.get(key) {
            (value.clone(), Source::Default)
        } else {
            self.faults.push(format!(
                "`{key}` is missing from the compiled-in default file"
            ));
            return T::default();
        };
        self.shown.push(Shown {
            key: key.to_owned(),
            value: shown(&value).to_string(),
            source,
        });
        if let Some(parsed) = parse(&value) {
            return parsed;
        }
        let given = shown(&value);
        self.faults.push(format!(
            "`{key}` is {given} ({source}), but must be {allowed}"
        ));
        self.defaults.get(key).and_then(parse).unwrap_or_default()
    }
}

/// All faults of the settings, one line each.
#[derive(Debug)]
pub(crate) struct Faults(pub(crate) Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.0.len() == 1 { "fault" } else { "faults" };
        write!(f, "{} {noun} in the settings:", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

/// A value that may be shown: a URL without its user and password.
fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_user(text)),
        Value::Array(items) => Value::Array(items.iter().map(shown).collect()),
        Value::Table(table) => {
            let items = table.iter();
            Value::Table(
                items
                    .map(|(key, value)| (key.clone(), shown(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// Replaces the part before the `@` of each URL by `***`. Passwords may contain any character, so everything up to the
/// last `@` before a blank is replaced, in a list of URLs including the hosts between.
fn without_user(text: &str) -> String {
    let word = |word: &str| match word.rsplit_once('@') {
        Some((before, behind)) => match before.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://***@{behind}"),
            None if before.contains(':') => format!("***@{behind}"),
            None => word.to_owned(),
        },
        None => word.to_owned(),
    };
    let words = text.split(' ').map(word);
    words.collect::<Vec<_>>().join(" ")
}

/// A list in the format of the file, or as text.
fn list_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        Value::String(text) if text.starts_with('[') => {
            let table: toml::Table = format!("list = {text}").parse().ok()?;
            table["list"]
                .as_array()
                .and_then(|_| list_of(&table["list"]))
        }
        Value::String(text) => Some(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect(),
        ),
        _ => None,
    }
}

/// A list of tables in the format of the file, or as text.
fn tables_of(value: &Value) -> Option<Vec<toml::Table>> {
    match value {
        Value::Array(items) => items.iter().map(|item| item.as_table().cloned()).collect(),
        Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
        Value::String(text) => serde_json::from_str(text).ok().or_else(|| {
            let table: toml::Table = format!("list = {text}").parse().ok()?;
            tables_of(table.get("list").filter(|list| list.is_array())?)
        }),
        _ => None,
    }
}

/// `[a] b = 1` becomes `a.b = 1`. Lists stay values.
fn flatten(table: toml::Table) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    let mut open: Vec<(String, Value)> = table.into_iter().collect();
    while let Some((key, value)) = open.pop() {
        match value {
            Value::Table(inner) => {
                open.extend(
                    inner
                        .into_iter()
                        .map(|(name, value)| (format!("{key}.{name}"), value)),
                );
            }
            value => {
                flat.insert(key, value);
            }
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: &str =
        "[a]\nsize = \"8 MiB\"\nwait = \"5s\"\ncount = 3\nkind = \"x\"\nnames = []\npass = \"\"";

    fn reader(file: &str, environment: &[(&str, &str)]) -> Reader {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Reader::new(DEFAULTS, file, environment, BTreeMap::new())
    }

    fn read(reader: &mut Reader) -> (usize, Duration, u64, Option<u8>, Vec<String>) {
        (
            reader.size("a.size", ByteSize::b(1)..=ByteSize::gib(1)),
            reader.duration("a.wait", Duration::ZERO..=Duration::from_secs(60)),
            reader.number("a.count", 1..=9),
            reader.choice("a.kind", &[("x", 1), ("y", 2)]),
            reader.list("a.names"),
        )
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let mut reader = reader("", &[]);
        assert_eq!(
            read(&mut reader),
            (8 << 20, Duration::from_secs(5), 3, Some(1), vec![])
        );
        assert!(reader.finish().is_ok());
    }

    #[test]
    fn flags_win_over_environment_over_file() {
        let mut reader = reader(
            "[a]\ncount = 4\nsize = \"1 KiB\"",
            &[("SPINDLE_A__COUNT", "5"), ("SPINDLE_A__NAMES", "n, m")],
        );
        reader.flags.insert("a.kind".into(), "y".into());
        let expected = (
            1024,
            Duration::from_secs(5),
            5,
            Some(2),
            vec!["n".to_owned(), "m".to_owned()],
        );
        assert_eq!(read(&mut reader), expected);
        let shown = reader.finish().unwrap();
        let sources: Vec<Source> = shown.iter().map(|shown| shown.source).collect();
        assert_eq!(
            sources,
            [
                Source::File,
                Source::Default,
                Source::Environment,
                Source::Flag,
                Source::Environment
            ]
        );
    }

    #[test]
    fn all_faults_are_told_at_once_with_key_and_what_is_allowed() {
        let mut reader = reader(
            "[a]\nsize = \"much\"\nwait = 5\ncount = 10\nkind = \"z\"\nconut = 1\n[b]\nc = 1",
            &[("SPINDLE_A__WIAT", "1s"), ("SPINDLE_OTHER", "no setting")],
        );
        read(&mut reader);
        let faults = reader.finish().unwrap_err().0;
        assert_eq!(faults.len(), 7, "{faults:#?}");
        for (fault, words) in faults.iter().zip([
            ["`a.size`", "\"much\"", "8 MiB"],
            ["`a.wait`", "5", "5s"],
            ["`a.count`", "10", "1 to 9"],
            ["`a.kind`", "\"z\"", "x, y"],
            ["`a.conut`", "settings file", "`a.count`"],
            ["`b.c`", "settings file", ""],
            ["`a.wiat`", "environment", "`a.wait`"],
        ]) {
            assert!(
                words.iter().all(|word| fault.contains(word)),
                "{fault} should name {words:?}"
            );
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let mut reader = reader("[a]\npass = \"hunter2\"", &[]);
        assert_eq!(reader.secret("a.pass"), "hunter2");
        let shown = reader.finish().unwrap();
        assert!(!format!("{shown:?}").contains("hunter2"));
    }

    #[test]
    fn a_password_in_an_address_is_never_shown_x2() {
        for (given, expected) in [
            ("http://u:hunter2@host:8123/p", "http://***@host:8123/p"),
            ("http://hunter2@host", "http://***@host"),
            ("http://u:hunter2/@x@host", "http://***@host"),
            ("http://u:hunter2@a,http://v:hunter2@b", "http://***@b"),
            ("u:hunter2@broker:9092", "***@broker:9092"),
            ("http://host:8123/?a=1", "http://host:8123/?a=1"),
            ("is \"http://u:hunter2@h\", but", "is \"http://***@h\", but"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(without_user(given), expected);
        }
        let file = "[a]\nkind = \"http://u:hunter2@h\"\nnames = [\"http://u:hunter2@h\"]\nsize = \"http://u:hunter2@h\"";
        let mut reader = reader(file, &[]);
        assert_eq!(reader.text("a.kind"), "http://u:hunter2@h");
        assert_eq!(reader.list("a.names"), ["http://u:hunter2@h"]);
        reader.size("a.size", ByteSize::b(1)..=ByteSize::gib(1));
        reader.fault("`a.kind` is \"http://u:hunter2@h\"");
        let all = format!("{:?} {:?}", reader.shown, reader.faults);
        assert!(all.contains("***@h") && !all.contains("hunter2"), "{all}");
    }

    #[test]
    fn pairs_are_read_in_every_form_and_their_values_never_shown() {
        let expected = BTreeMap::from([
            ("a.b".to_owned(), "1=2".to_owned()),
            ("pass".to_owned(), "hunter2,x".to_owned()),
        ]);
        let in_file = reader("[a]\nnames = [\"a.b=1=2\", \"pass=hunter2,x\"]", &[]);
        let in_brackets = reader("", &[("SPINDLE_A__NAMES", "['a.b=1=2', 'pass=hunter2,x']")]);
        for mut reader in [in_file, in_brackets] {
            assert_eq!(reader.secret_pairs("a.names"), expected);
            let shown = format!("{:?}", reader.shown);
            assert!(
                shown.contains("a.b=***") && !shown.contains("hunter2"),
                "{shown}"
            );
        }
        let mut plain = reader("", &[("SPINDLE_A__NAMES", "a.b=1=2, pass=hunter2")]);
        assert_eq!(plain.secret_pairs("a.names")["pass"], "hunter2");
        for bad in [
            "[a]\nnames = [\"hunter2\"]",
            "[a]\nnames = 7",
            "[a]\nnames = [\"=hunter2\"]",
        ] {
            let mut reader = reader(bad, &[]);
            reader.secret_pairs("a.names");
            let faults = reader.faults.join("\n");
            assert!(
                faults.contains("`a.names`") && !faults.contains("hunter2"),
                "{faults}"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_toml_is_one_fault_with_its_line() {
        let faults = reader("[a]\npassword = \"hunter2", &[])
            .finish()
            .unwrap_err()
            .to_string();
        assert!(faults.contains("line 2"), "{faults}");
        assert!(!faults.contains("hunter2"), "{faults}");
    }
}
