//! The engine's output as our log lines.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};

/// Longest line kept; the engine can print whole statements.
const LINE_CHARS: usize = 300;

/// The last line of the child's output that was no log line: why it could not start.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords(Arc<Mutex<String>>);

impl LastWords {
    pub(super) fn get(&self) -> String {
        self.0.lock().map(|text| text.clone()).unwrap_or_default()
    }

    fn set(&self, text: String) {
        if let Ok(mut last) = self.0.lock() {
            *last = text;
        }
    }
}

/// Copies the child's stderr into our log until it ends, without stack traces and messages about single queries: the
/// client gets those in the response, and they may quote content (X2).
pub(super) fn forward(stderr: impl Read + Send + 'static) -> LastWords {
    let words = LastWords::default();
    let last = words.clone();
    let copy = move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            match classify(&line) {
                Line::Log {
                    level: "Warning",
                    text,
                } => {
                    tracing::warn!(engine.message = text, "engine")
                }
                Line::Log { text, .. } => tracing::error!(engine.message = text, "engine"),
                Line::Plain(text) => last.set(text.chars().take(LINE_CHARS).collect()),
                Line::Skipped => {}
            }
        }
    };
    // Without this thread only the engine's output is lost.
    let _ = std::thread::Builder::new()
        .name("engine-output".to_owned())
        .spawn(copy);
    words
}

#[derive(Debug, PartialEq)]
enum Line<'a> {
    Log { level: &'a str, text: &'a str },
    Plain(&'a str),
    Skipped,
}

/// `2026.11.20 16:34:39.805858 [ 9315 ] {query} <Error> executeQuery: text`
fn classify(line: &str) -> Line<'_> {
    let is_log = line.len() > 20
        && line.as_bytes()[..4].iter().all(u8::is_ascii_digit)
        && line.as_bytes()[4] == b'.';
    if !is_log {
        let is_trace = line.trim().is_empty()
            || line
                .split_once(". ")
                .is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        return if is_trace {
            Line::Skipped
        } else {
            Line::Plain(line.trim())
        };
    }
    let Some((level, rest)) = line
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once("> "))
    else {
        return Line::Skipped;
    };
    let of_a_query = !line.contains("] {} <");
    if of_a_query || !matches!(level, "Warning" | "Error" | "Critical" | "Fatal") {
        return Line::Skipped;
    }
    let end = rest
        .char_indices()
        .nth(LINE_CHARS)
        .map_or(rest.len(), |(index, _)| index);
    Line::Log {
        level,
        text: &rest[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_own_warnings_are_kept() {
        let line = "2026.11.20 16:34:39.805858 [ 9315 ] {} <Warning> MergeTree: something is slow";
        assert_eq!(
            classify(line),
            Line::Log {
                level: "Warning",
                text: "MergeTree: something is slow"
            }
        );
    }

    #[test]
    fn what_it_says_of_a_query_and_its_stack_is_left_out() {
        let query = "2026.11.20 16:34:39.805858 [ 9315 ] {75-bf} <Error> executeQuery: Code: 60 (in query: secret)";
        assert_eq!(classify(query), Line::Skipped);
        assert_eq!(classify("12. ? @ 0x000000001c8fa4b3"), Line::Skipped);
        assert_eq!(
            classify("Code: 76. cannot open file"),
            Line::Plain("Code: 76. cannot open file")
        );
    }
}
