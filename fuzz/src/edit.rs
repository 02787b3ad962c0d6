//! Edits of bytes: what a bad disk, a bad network and a bad client do.

use bolero::Driver;

use crate::INPUT_BYTES;

/// Words with a meaning for many parsers.
const WORDS: [&str; 24] = [
    "",
    "\0",
    "\n",
    "\u{feff}",
    "é",
    "\u{1f600}",
    "\u{202e}",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "-0",
    "1e999",
    "1e-999",
    "18446744073709551616",
    "9223372036854775807",
    "\\ud800",
    "\\u0000",
];
/// Repetitions of a stretch, each a power of two: nesting and long lists.
const REPETITIONS_LOG2: usize = 13;
/// Bytes of a random insertion.
const INSERTION_BYTES: usize = 12;

/// Words of one target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary(pub(crate) Vec<&'static str>);

/// A number below `end`; 0 when `end` is 0.
pub(crate) fn below<D: Driver>(driver: &mut D, end: usize) -> Option<usize> {
    let number: u32 = driver.produce()?;
    Some((number as usize).checked_rem(end).unwrap_or_default())
}

pub(crate) fn edit<D: Driver>(
    driver: &mut D,
    bytes: &mut Vec<u8>,
    other: &[u8],
    dictionary: &Dictionary,
) -> Option<()> {
    let at = below(driver, bytes.len() + 1)?;
    let stretch = stretch(driver, bytes)?;
    match below(driver, 10)? {
        0 => {
            let bit = below(driver, 8)?;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        1 => {
            let value = driver.produce()?;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        2 => {
            let mut inserted = Vec::new();
            for _ in 0..=below(driver, INSERTION_BYTES)? {
                inserted.push(driver.produce()?);
            }
            bytes.splice(at..at, inserted);
        }
        3 => drop(bytes.drain(stretch)),
        4 => {
            let times = 1 << below(driver, REPETITIONS_LOG2 + 1)?;
            let times = times.min(INPUT_BYTES / stretch.len().max(1));
            let repeated = bytes[stretch].repeat(times);
            bytes.splice(at..at, repeated);
        }
        5 => {
            let from = self::stretch(driver, other)?;
            bytes.splice(stretch, other[from].iter().copied());
        }
        6 => {
            let from = self::stretch(driver, other)?;
            bytes.splice(at..at, other[from].iter().copied());
        }
        7 => {
            let word = word(driver, dictionary)?;
            bytes.splice(at..at, word.bytes());
        }
        8 => {
            let word = word(driver, dictionary)?;
            bytes.splice(stretch, word.bytes());
        }
        _ => bytes.truncate(at),
    }
    Some(())
}

fn word<D: Driver>(driver: &mut D, dictionary: &Dictionary) -> Option<&'static str> {
    let at = below(driver, WORDS.len() + dictionary.0.len())?;
    let own = at.checked_sub(WORDS.len()).map(|at| dictionary.0[at]);
    Some(own.unwrap_or_else(|| WORDS[at]))
}

/// A part of the bytes, often a short one.
fn stretch<D: Driver>(driver: &mut D, bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = below(driver, bytes.len() + 1)?;
    let rest = bytes.len() - start;
    let longest = if driver.gen_bool(None)? {
        rest.min(8)
    } else {
        rest
    };
    let length = below(driver, longest + 1)?;
    Some(start..start + length)
}
