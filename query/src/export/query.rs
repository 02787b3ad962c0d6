//! The parameters of exports.

use api::ErrorResponse;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::filter::{RunQuery, invalid_parameter};
use schemas::timestamp::UnixMs;
use store::reads::filter_sql::Projects;
use store::reads::runs::ExportPosition;

use super::body::Encoder;
use super::csv::Csv;
use super::lines::JsonLines;
use super::parquet::Parquet;
use super::row::Shape;
use crate::access::is_one;
use crate::params::{Flag, Limit, Pairs, Text, Time, choice_param, query_params};

/// Largest `limit`: more runs than there will ever be.
const LIMIT_MAX: usize = 1_000_000_000;
/// Parameters of the run list that an export does not have.
const PAGE_PARAMS: [&str; 3] = ["sort", "cursor", "count"];

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    JsonLines,
    OpenAi,
    Csv,
    Parquet,
}

impl Format {
    /// The value of the parameter.
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

choice_param!(RunFormat -> Format {
    "jsonl" => Format::JsonLines, "csv" => Format::Csv, "parquet" => Format::Parquet,
});
choice_param!(DatasetFormat -> Format {
    "jsonl" => Format::JsonLines, "openai-jsonl" => Format::OpenAi, "csv" => Format::Csv,
    "parquet" => Format::Parquet,
});
choice_param!(Include -> bool { "children" => true });
choice_param!(Formulas -> bool { "guarded" => true, "raw" => false });

query_params! {
    /// Parameters of the export of runs only.
    pub(crate) struct RunExportParams {
        /// `jsonl` (default), `csv` or `parquet`
        format: RunFormat,
    }
}

query_params! {
    /// Parameters of the export of the dataset only.
    pub(crate) struct DatasetExportParams {
        /// `jsonl` (default), `openai-jsonl`, `csv` or `parquet`
        format: DatasetFormat,
        /// For `openai-jsonl`: `children` replaces a saved run that is not a model call by the model calls below it
        include: Include,
        /// For `openai-jsonl`: returns a report on the export instead of the export
        check: Flag,
    }
}

query_params! {
    /// Parameters of every export beside the run filters.
    pub(crate) struct ExportParams {
        /// Largest number of runs; all without it
        limit: Limit<LIMIT_MAX>,
        /// Continue after the row with this start; together with the next two
        after_started_at: Time,
        /// ... and this app
        after_app_id: Text,
        /// ... and this run
        after_run_id: Text,
        /// ... and this project, if rows contain one
        after_project_id: Text,
        /// When the export that this one continues began: its header `X-Export-Began-At`
        began_at: Time,
        /// For CSV: `guarded` (default) puts an apostrophe before text that a spreadsheet would execute as a formula; `raw` does not
        formulas: Formulas,
    }
}

/// The parameters of an export.
#[derive(Debug)]
pub(crate) struct ExportQuery {
    pub(crate) format: Format,
    /// Filter and project; order and page are not used.
    pub(crate) runs: RunQuery,
    pub(crate) limit: Option<u64>,
    pub(crate) began_at_ms: Option<UnixMs>,
    after: Option<After>,
    is_guarded: bool,
}

#[derive(Debug)]
struct After {
    started_at_ms: UnixMs,
    app_id: String,
    run_id: String,
    project_id: Option<String>,
}

/// How a dataset is exported for fine-tuning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chat {
    /// Whether the model calls below a saved run replace it.
    pub(crate) with_children: bool,
    /// Whether to return a report only.
    pub(crate) is_check: bool,
}

impl DatasetExportParams {
    /// # Errors
    /// 400 for options of another format.
    pub(crate) fn chat(&self) -> Result<Chat, ApiError> {
        let is_chat = self.format == Some(Format::OpenAi);
        for (name, value) in [("include", self.include), ("check", self.check)] {
            if let (Some(value), false) = (value, is_chat) {
                let allowed = "only with `format=openai-jsonl`";
                return Err(invalid_parameter(name, &value.to_string(), allowed));
            }
        }
        Ok(Chat {
            with_children: self.include.unwrap_or_default(),
            is_check: self.check.unwrap_or_default(),
        })
    }
}

impl ExportQuery {
    /// Parses [`ExportParams`] and the run filters.
    pub(crate) fn read(format: Format, pairs: &Pairs) -> Result<Self, ApiError> {
        let (params, filters) = ExportParams::split(pairs)?;
        let mut names = filters.iter().map(|(name, _)| name);
        if let Some(name) = names.find(|name| PAGE_PARAMS.contains(name)) {
            let message = format!(
                "unknown query parameter: `{name}`; an export has a fixed order and no pages"
            );
            return Err(ApiError::new(ErrorCode::UnknownParameter, message));
        }
        if let (Some(is_guarded), false) = (params.formulas, format == Format::Csv) {
            let value = if is_guarded { "guarded" } else { "raw" };
            return Err(invalid_parameter(
                "formulas",
                value,
                "only with `format=csv`",
            ));
        }
        Ok(Self {
            runs: RunQuery::from_pairs(filters.iter())?,
            format,
            limit: params.limit.map(|limit| limit as u64),
            began_at_ms: params.began_at,
            is_guarded: params.formulas.unwrap_or(true),
            after: After::of(params)?,
        })
    }

    /// When the first of the exports began that continue each other.
    pub(crate) fn began_ms(&self, now_ms: UnixMs) -> UnixMs {
        self.began_at_ms.unwrap_or(now_ms).min(now_ms)
    }

    /// The row after which the export continues.
    pub(crate) fn position(&self, projects: &Projects) -> Result<Option<ExportPosition>, ApiError> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let project_id = match (&after.project_id, projects) {
            (Some(project_id), _) => project_id.clone(),
            (None, Projects::Only(names)) if is_one(projects) => {
                names.first().cloned().unwrap_or_default()
            }
            (None, _) => {
                let message =
                    "`after_project_id` is required: the rows of this export contain a project";
                return Err(ApiError::new(ErrorCode::MissingParameter, message));
            }
        };
        Ok(Some(ExportPosition {
            started_at_ms: after.started_at_ms,
            project_id,
            app_id: after.app_id.clone(),
            run_id: after.run_id.clone(),
        }))
    }

    /// The encoder of rows; the dataset has its own for OpenAI lines.
    pub(crate) fn encoder(&self, shape: Shape) -> Result<Box<dyn Encoder>, ErrorResponse> {
        Ok(match self.format {
            Format::JsonLines | Format::OpenAi => Box::new(JsonLines),
            Format::Csv => Box::new(Csv::new(shape, self.is_guarded)),
            Format::Parquet => Box::new(Parquet::new(shape).map_err(|error| {
                tracing::error!(error.message = %error, "the schema of a Parquet file is wrong");
                ApiError::internal()
            })?),
        })
    }
}

impl After {
    fn of(params: ExportParams) -> Result<Option<Self>, ApiError> {
        match (
            params.after_started_at,
            params.after_app_id,
            params.after_run_id,
        ) {
            (None, None, None) if params.after_project_id.is_none() => Ok(None),
            (Some(started_at_ms), Some(app_id), Some(run_id)) => Ok(Some(Self {
                started_at_ms,
                app_id,
                run_id,
                project_id: params.after_project_id,
            })),
            _ => Err(ApiError::new(
                ErrorCode::MissingParameter,
                "`after_started_at`, `after_app_id` and `after_run_id` must be sent together",
            )),
        }
    }
}
