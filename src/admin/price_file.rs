//! Files of prices: JSON or CSV, with the field names of the API.
//!
//! JSON is a list of objects, or `{"data": [...]}`. CSV begins with a line of names; `tiers` and `service_tiers` are JSON
//! in a cell. Numbers keep their exact digits.

use std::collections::{BTreeMap, HashSet};

use schemas::price::PriceRow;
use schemas::price::written::{WrittenPrice, fields};
use serde_json::value::RawValue;

/// Bytes of a file: ten thousand rows of a few hundred bytes, with room to spare.
pub(super) const FILE_BYTES: u64 = 16 << 20;
/// Faults reported for one file: more than an operator fixes at once.
const FAULTS_TOLD: usize = 20;
/// Characters of a fault, which may quote the file, such as the name of an unknown field.
const FAULT_CHARS: usize = 400;

/// The field with the name of the model, beside [`fields`].
const MODEL: &str = "model";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) row: PriceRow,
    /// The body of the request that sets the price.
    pub(super) body: String,
}

/// Fields of a price, each as JSON.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// Validates the whole file. The error names every faulty row, up to a bound.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let rows = match text.trim_start().starts_with(['[', '{']) {
        true => json_rows(text),
        false => csv_rows(text),
    };
    let rows = rows.map_err(|fault| brief(&fault))?;
    let mut entries = Vec::with_capacity(rows.len());
    let mut faults = Vec::new();
    let mut seen = HashSet::new();
    for (place, fields) in rows {
        let entry = fields.and_then(|fields| entry(fields).map_err(|fault| fault.to_string()));
        match entry {
            Ok(entry) if !seen.insert(entry.row.key.clone()) => {
                faults.push(format!(
                    "{place}: the price of `{}` stands there twice",
                    brief(&entry.row.key.model)
                ));
            }
            Ok(entry) => entries.push(entry),
            Err(fault) => faults.push(format!("{place}: {}", brief(&fault))),
        }
    }
    if faults.is_empty() {
        return Ok(entries);
    }
    let more = faults.len().saturating_sub(FAULTS_TOLD);
    faults.truncate(FAULTS_TOLD);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    Err(faults.join("\n"))
}

fn brief(fault: &str) -> String {
    fault.chars().take(FAULT_CHARS).collect()
}

/// Validates the fields of one price, the model included.
pub(super) fn entry(mut fields: Fields) -> Result<Entry, String> {
    let model = fields.remove(MODEL).ok_or("`model` is missing")?;
    let model: String =
        serde_json::from_str(model.get()).map_err(|_| "`model` has to be text".to_owned())?;
    let body = serde_json::to_string(&fields).map_err(|error| error.to_string())?;
    let written: WrittenPrice = serde_json::from_str(&body).map_err(|error| error.to_string())?;
    let row = written.row(&model).map_err(|fault| fault.to_string())?;
    Ok(Entry { row, body })
}

type Placed = (String, Result<Fields, String>);

fn json_rows(text: &str) -> Result<Vec<Placed>, String> {
    #[derive(serde::Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        data: Vec<&'a RawValue>,
    }
    let rows: Result<Vec<&RawValue>, _> = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str::<Data<'_>>(text).map(|data| data.data),
    };
    let rows = rows.map_err(|error| {
        format!("not a list of prices, `[{{...}}, ...]` or `{{\"data\": [...]}}`: {error}")
    })?;
    let placed = rows.into_iter().enumerate().map(|(at, row)| {
        let fields = serde_json::from_str::<Fields>(row.get()).map_err(|error| error.to_string());
        (format!("row {}", at + 1), fields)
    });
    Ok(placed.collect())
}

fn csv_rows(text: &str) -> Result<Vec<Placed>, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (_, head) = lines.next().ok_or("the file is empty")?;
    let names = cells(head).ok_or("the first line has an open quote")?;
    let known: Vec<String> = [MODEL.to_owned()].into_iter().chain(fields()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        let name: String = name.chars().take(FAULT_CHARS / 2).collect();
        return Err(format!(
            "unknown column `{name}`: {} are known",
            known.join(", ")
        ));
    }
    let rows = lines.map(|(at, line)| {
        let fields = match cells(line) {
            None => Err("an open quote".to_owned()),
            Some(cells) if cells.len() != names.len() => Err(format!(
                "{} values for {} columns",
                cells.len(),
                names.len()
            )),
            Some(cells) => names
                .iter()
                .zip(cells)
                .filter(|(_, cell)| !cell.is_empty())
                .map(|(name, cell)| Ok((name.clone(), field(name, cell)?)))
                .collect(),
        };
        (format!("line {}", at + 1), fields)
    });
    Ok(rows.collect())
}

/// The JSON of a value without quotes, from a command line or CSV.
pub(super) fn field(name: &str, value: String) -> Result<Box<RawValue>, String> {
    let json = match name {
        MODEL | "effective_from" => serde_json::Value::String(value).to_string(),
        _ => value,
    };
    RawValue::from_string(json.clone()).map_err(|_| format!("`{name}` cannot be `{json}`"))
}

/// The values of a line of CSV; `None` when a quote is not closed.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut()?;
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cell.push(letter),
        }
    }
    let trimmed = |cell: String| cell.trim().to_owned();
    (!is_quoted).then(|| cells.into_iter().map(trimmed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<Vec<String>, String> {
        let entries = read(text)?;
        let show = |entry: Entry| {
            let PriceRow { key, rates } = entry.row;
            let from = key
                .effective_from
                .map(schemas::timestamp::to_text)
                .unwrap_or_default();
            format!(
                "{} {from} {} {}",
                key.model,
                rates.input.units(),
                key.is_prefix
            )
        };
        Ok(entries.into_iter().map(show).collect())
    }

    #[test]
    fn json_and_csv_say_the_same() {
        let expected = Ok(vec![
            "a,\"b\"  2500000000001 true".to_owned(),
            "c 2026-12-01T00:00:00.000Z 1000000000 false".to_owned(),
        ]);
        let rows = r#"[
            {"model": "a,\"b\"", "input_per_1m": 2.500000000001, "output_per_1m": 10, "prefix": true},
            {"model": "c", "input_per_1k": 1e-6, "output_per_1k": 0, "effective_from": "2026-12-01"}
        ]"#;
        assert_eq!(shown(rows), expected);
        assert_eq!(shown(&format!("{{\"data\": {rows}}}")), expected);
        let csv = "\u{feff}model,input_per_1m,output_per_1m,input_per_1k,output_per_1k,prefix,effective_from\r\n\
            # by hand\n\"a,\"\"b\"\"\",2.500000000001, 10,,,true,\n\nc,,,1e-6,0,,2026-12-01\n";
        assert_eq!(shown(csv), expected);
    }

    #[test]
    fn every_row_that_does_not_fit_is_named() {
        let faults = shown(
            r#"[{"model": "a", "input_per_1m": 1, "output_per_1m": 1}, {"model": "b"}, {"input_per_1m": 1},
                {"model": "a", "input_per_1m": 2, "output_per_1m": 1}, 7,
                {"model": "d", "input_per_1m": -1, "output_per_1m": 1}]"#,
        )
        .unwrap_err();
        let lines: Vec<&str> = faults.lines().collect();
        assert_eq!(lines.len(), 5, "{faults}");
        for (line, named) in lines.iter().zip([
            "row 2: `input_per_1m` is required",
            "row 3: `model` is missing",
            "row 4: the price of `a` stands there twice",
            "row 5: ",
            "row 6: `input_per_1m` must not be negative",
        ]) {
            assert!(line.starts_with(named), "{line}");
        }
        for (text, named) in [
            ("", "empty"),
            ("{\"prices\": []}", "not a list"),
            ("[", "not a list"),
            ("model,colour\n", "colour"),
            (
                "model,input_per_1m\na,1,2\n",
                "line 2: 3 values for 2 columns",
            ),
            ("model,input_per_1m\na,\"1\n", "line 2: an open quote"),
            (
                "model,input_per_1m,output_per_1m\na,NaN,1\n",
                "line 2: `input_per_1m` cannot be `NaN`",
            ),
        ] {
            let fault = shown(text).unwrap_err();
            assert!(fault.contains(named), "{text}: {fault}");
        }
    }

    #[test]
    fn faults_are_told_up_to_a_bound() {
        let many = vec!["{}"; 100].join(",");
        let faults = shown(&format!("[{many}]")).unwrap_err();
        assert_eq!(faults.lines().count(), FAULTS_TOLD + 1);
        assert!(faults.ends_with("and 80 more"));
    }

    #[test]
    fn a_fault_repeats_little_of_a_long_file() {
        let long = "x".repeat(100_000);
        let row = format!(r#"{{"model":"m","{long}":1}}"#);
        let rows = [row.as_str(); FAULTS_TOLD].join(",");
        for text in [format!("[{rows}]"), format!("model,{long}\nm,1")] {
            let faults = read(&text).unwrap_err();
            assert!(
                faults.len() < 2 * FAULTS_TOLD * FAULT_CHARS,
                "{} bytes",
                faults.len()
            );
        }
    }
}
