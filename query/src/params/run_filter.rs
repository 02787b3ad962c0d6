//! The filter parameters that every read of runs takes, as the OpenAPI document shows them.
//!
//! They are read by [`schemas::filter::RunQuery::from_pairs`], which also says what is wrong with them.

use utoipa::IntoParams;

/// The run filters. Only documents; nothing makes a value of it.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(
    dead_code,
    reason = "documents what schemas::filter reads, which knows nothing of OpenAPI"
)]
pub(crate) struct RunFilterParams {
    /// App
    #[param(min_length = 1, max_length = 256)]
    app_id: Option<String>,
    /// `success`, `error` or `started`
    #[param(pattern = "^(success|error|started)$")]
    status: Option<String>,
    /// Model, exactly
    #[param(min_length = 1, max_length = 512)]
    model: Option<String>,
    /// Agent, exactly
    #[param(min_length = 1, max_length = 512)]
    agent: Option<String>,
    /// Finished runs of at least so many seconds
    #[param(minimum = 0, maximum = 1000000000)]
    min_latency_s: Option<f64>,
    /// Finished runs of at most so many seconds
    #[param(minimum = 0, maximum = 1000000000)]
    max_latency_s: Option<f64>,
    /// Total cost in USD of at least
    #[param(minimum = 0, maximum = 1000000000)]
    min_cost: Option<f64>,
    /// Total cost in USD of at most
    #[param(minimum = 0, maximum = 1000000000)]
    max_cost: Option<f64>,
    /// Any of these tags: repeated or separated by commas; as `tags[]` a comma is part of the tag
    tags: Option<Vec<String>>,
    /// All of these tags; written like `tags`
    tags_all: Option<Vec<String>>,
    /// User, exactly
    #[param(min_length = 1, max_length = 512)]
    user_email: Option<String>,
    /// Started at or after: ISO 8601 with any offset, a date, or integer milliseconds since 1970
    from: Option<String>,
    /// Started at or before: written like `from`; a date means its end
    to: Option<String>,
    /// Type: `agent`, `llm`, `tool`, ...
    #[param(min_length = 1, max_length = 512)]
    r#type: Option<String>,
    /// Name, exactly
    #[param(min_length = 1, max_length = 512)]
    name: Option<String>,
    /// Thread
    #[param(min_length = 1, max_length = 256)]
    thread_id: Option<String>,
    /// Children of this run
    #[param(min_length = 1, max_length = 256)]
    parent_run_id: Option<String>,
    /// Runs without (true) or with (false) a parent
    root: Option<bool>,
    /// Runs that are (not) saved
    saved: Option<bool>,
    /// Runs that have (not) been `started` for more than five minutes
    stale: Option<bool>,
    /// `positive`, `negative`, `any` or `none`
    #[param(pattern = "^(positive|negative|any|none)$")]
    feedback: Option<String>,
    /// Value of a metadata key, exactly; up to 16 keys
    #[param(rename = "metadata.<key>", min_length = 1, max_length = 512)]
    metadata: Option<String>,
    /// Text in the name, the error, or the first 160 characters of input and output, whatever its case
    #[param(min_length = 1, max_length = 512)]
    q: Option<String>,
    /// One of the projects the credential reaches; all of them without it
    #[param(min_length = 1, max_length = 256)]
    project_id: Option<String>,
}
