//! What an export is asked for.

use schemas::fault::Fault;
use schemas::filter::{RunQuery, instant_ms, invalid_parameter};
use schemas::limits::ID_BYTES;
use schemas::timestamp::UnixMs;
use store::filter_sql::Projects;
use store::runs_read::ExportPosition;
use utoipa::IntoParams;

use super::body::Encoder;
use super::csv::Csv;
use super::lines::JsonLines;
use super::names_project;
use super::parquet::Parquet;
use super::row::Shape;
use crate::error::Refusal;
use crate::params::Pairs;

/// The largest `limit`: more runs than there will ever be, and a number every program can hold.
const LIMIT_MAX: u64 = 1_000_000_000;

/// What a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    JsonLines,
    OpenAi,
    Csv,
    Parquet,
}

impl Format {
    const ALL: [Format; 4] = [
        Format::JsonLines,
        Format::OpenAi,
        Format::Csv,
        Format::Parquet,
    ];

    /// As the parameter has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::JsonLines => "jsonl",
            Format::OpenAi => "openai-jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Format::JsonLines | Format::OpenAi => "jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::JsonLines | Format::OpenAi => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// What every export takes beside the run filters. Only documents.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "documents what `Question` reads")]
pub(crate) struct ExportParams {
    /// Only so many runs; all of them without it
    #[param(minimum = 1, maximum = 1000000000)]
    limit: Option<u64>,
    /// Go on after the row with this start; together with the next two
    after_started_at: Option<String>,
    /// ... and this app
    #[param(min_length = 1, max_length = 256)]
    after_app_id: Option<String>,
    /// ... and this run
    #[param(min_length = 1, max_length = 256)]
    after_run_id: Option<String>,
    /// ... and this project, where rows name one
    #[param(min_length = 1, max_length = 256)]
    after_project_id: Option<String>,
    /// When the export that is gone on after began: its header `X-Export-Began-At`
    began_at: Option<String>,
    /// For CSV: `guarded` (default) puts an apostrophe before text that a spreadsheet would take for a formula; `raw` leaves it
    #[param(pattern = "^(guarded|raw)$")]
    formulas: Option<String>,
}

/// A question that was read.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) format: Format,
    /// Filter and project; its order and page are not used.
    pub(crate) runs: RunQuery,
    pub(crate) limit: Option<u64>,
    pub(crate) began_at_ms: Option<UnixMs>,
    pub(crate) chat: Chat,
    after: Option<After>,
    is_guarded: bool,
}

/// What only an export for fine-tuning is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chat {
    /// Whether the model calls below a saved run stand for it.
    pub(crate) with_children: bool,
    /// Whether only a report is wanted.
    pub(crate) is_check: bool,
}

#[derive(Debug)]
struct After {
    started_at_ms: UnixMs,
    app_id: String,
    run_id: String,
    project_id: Option<String>,
}

/// The parameters of an export that are not filters, as they came.
#[derive(Default)]
struct Own<'a> {
    format: Option<&'a str>,
    limit: Option<&'a str>,
    started_at: Option<&'a str>,
    app_id: Option<&'a str>,
    run_id: Option<&'a str>,
    project_id: Option<&'a str>,
    began_at: Option<&'a str>,
    formulas: Option<&'a str>,
    include: Option<&'a str>,
    check: Option<&'a str>,
}

impl<'a> Own<'a> {
    fn place(&mut self, name: &str, formats: &[Format]) -> Option<&mut Option<&'a str>> {
        Some(match name {
            "include" if formats.contains(&Format::OpenAi) => &mut self.include,
            "check" if formats.contains(&Format::OpenAi) => &mut self.check,
            "format" => &mut self.format,
            "limit" => &mut self.limit,
            "after_started_at" => &mut self.started_at,
            "after_app_id" => &mut self.app_id,
            "after_run_id" => &mut self.run_id,
            "after_project_id" => &mut self.project_id,
            "began_at" => &mut self.began_at,
            "formulas" => &mut self.formulas,
            _ => return None,
        })
    }
}

impl Question {
    /// Reads the parameters; `formats` are those that may be asked for, the default first.
    pub(crate) fn read(pairs: &Pairs, formats: &[Format]) -> Result<Self, Fault> {
        let mut own = Own::default();
        let mut filters = Vec::new();
        for (name, value) in pairs.iter() {
            match own.place(name, formats) {
                Some(place) => {
                    if place.replace(value).is_some() {
                        return Err(invalid_parameter(name, value, "given once"));
                    }
                }
                // They belong to a page; an export has one order and no pages.
                None if ["sort", "cursor", "count"].contains(&name) => {
                    let message = format!(
                        "unknown query parameter: `{name}`; an export has one order and no pages"
                    );
                    return Err(Fault::bad_request("unknown_parameter", message));
                }
                None => filters.push((name, value)),
            }
        }
        let runs = RunQuery::from_pairs(filters)?;
        let format = format(own.format, formats)?;
        Ok(Self {
            runs,
            format,
            limit: own.limit.map(limit).transpose()?,
            began_at_ms: own
                .began_at
                .map(|text| moment("began_at", text))
                .transpose()?,
            after: after(&own)?,
            chat: chat(&own, format)?,
            is_guarded: is_guarded(own.formulas, format)?,
        })
    }

    /// When the first of the exports that go on after each other began.
    pub(crate) fn began_ms(&self, now_ms: UnixMs) -> UnixMs {
        self.began_at_ms.unwrap_or(now_ms).min(now_ms)
    }

    /// The row to go on after.
    pub(crate) fn position(&self, projects: &Projects) -> Result<Option<ExportPosition>, Fault> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let project_id = match (&after.project_id, projects) {
            (Some(project_id), _) => project_id.clone(),
            (None, Projects::Only(names)) if !names_project(projects) => {
                names.first().cloned().unwrap_or_default()
            }
            (None, _) => {
                let message =
                    "`after_project_id` is missing: the rows of this export name a project";
                return Err(Fault::bad_request("missing_parameter", message));
            }
        };
        Ok(Some(ExportPosition {
            started_at_ms: after.started_at_ms,
            project_id,
            app_id: after.app_id.clone(),
            run_id: after.run_id.clone(),
        }))
    }

    /// The encoder of rows of this shape. That of OpenAI lines is the dataset's own.
    pub(crate) fn encoder(&self, shape: Shape) -> Result<Box<dyn Encoder>, Refusal> {
        Ok(match self.format {
            Format::JsonLines | Format::OpenAi => Box::new(JsonLines),
            Format::Csv => Box::new(Csv::new(shape, self.is_guarded)),
            Format::Parquet => Box::new(Parquet::new(shape).map_err(|error| {
                tracing::error!(error.message = %error, "the schema of a Parquet file is wrong");
                Fault::internal()
            })?),
        })
    }
}

fn format(text: Option<&str>, formats: &[Format]) -> Result<Format, Fault> {
    let Some(text) = text else {
        return Ok(formats.first().copied().unwrap_or(Format::JsonLines));
    };
    let found = Format::ALL
        .into_iter()
        .find(|format| format.name() == text && formats.contains(format));
    found.ok_or_else(|| {
        let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        invalid_parameter("format", text, &format!("`{}`", names.join("`, `")))
    })
}

fn limit(text: &str) -> Result<u64, Fault> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|limit| digits && (1..=LIMIT_MAX).contains(limit))
        .ok_or_else(|| {
            invalid_parameter("limit", text, &format!("an integer from 1 to {LIMIT_MAX}"))
        })
}

fn moment(name: &str, text: &str) -> Result<UnixMs, Fault> {
    let allowed = "a time as an export writes it, such as 2026-11-20T10:00:00.000Z, or integer milliseconds since 1970";
    instant_ms(text).ok_or_else(|| invalid_parameter(name, text, allowed))
}

fn after(own: &Own<'_>) -> Result<Option<After>, Fault> {
    match (own.started_at, own.app_id, own.run_id) {
        (None, None, None) if own.project_id.is_none() => Ok(None),
        (Some(started_at), Some(app_id), Some(run_id)) => Ok(Some(After {
            started_at_ms: moment("after_started_at", started_at)?,
            app_id: id("after_app_id", app_id)?,
            run_id: id("after_run_id", run_id)?,
            project_id: own
                .project_id
                .map(|text| id("after_project_id", text))
                .transpose()?,
        })),
        _ => Err(Fault::bad_request(
            "missing_parameter",
            "`after_started_at`, `after_app_id` and `after_run_id` belong together: give all of the last row, or none",
        )),
    }
}

fn id(name: &str, text: &str) -> Result<String, Fault> {
    if text.is_empty() || text.len() > ID_BYTES {
        let allowed = format!("text of 1 to {ID_BYTES} bytes");
        return Err(invalid_parameter(name, text, &allowed));
    }
    Ok(text.to_owned())
}

fn chat(own: &Own<'_>, format: Format) -> Result<Chat, Fault> {
    for (name, value) in [("include", own.include), ("check", own.check)] {
        if let (Some(value), false) = (value, format == Format::OpenAi) {
            return Err(invalid_parameter(
                name,
                value,
                "only with `format=openai-jsonl`",
            ));
        }
    }
    let with_children = match own.include {
        None => false,
        Some("children") => true,
        Some(other) => return Err(invalid_parameter("include", other, "`children`")),
    };
    let is_check = match own.check {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(invalid_parameter("check", other, "`true`, `false`")),
    };
    Ok(Chat {
        with_children,
        is_check,
    })
}

fn is_guarded(text: Option<&str>, format: Format) -> Result<bool, Fault> {
    match (text, format) {
        (None, _) | (Some("guarded"), Format::Csv) => Ok(true),
        (Some("raw"), Format::Csv) => Ok(false),
        (Some(text), Format::Csv) => Err(invalid_parameter("formulas", text, "`guarded`, `raw`")),
        (Some(text), _) => Err(invalid_parameter(
            "formulas",
            text,
            "only with `format=csv`",
        )),
    }
}
