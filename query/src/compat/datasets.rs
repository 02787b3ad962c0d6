//! `GET /v1/datasets/{slug}`: the saved runs with a tag, in the shape of a dataset of lunary.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::ApiError;
use schemas::filter::{LIMIT_MAX, RunQuery};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::clock::now_ms;
use crate::datasets::whole::{Reader, together};
use crate::export::{ExportState, Row};
use crate::params::{Pairs, ProjectParams, any_text, path_params};

/// Bytes of inputs, outputs and metadata in one answer, which client and server hold in memory (X1).
const ITEM_BYTES: usize = 16 << 20;

path_params! {
    pub(crate) struct SlugPath {
        /// The tag
        "slug" slug: any_text(),
    }
}

/// Saved runs in the shape of lunary's datasets.
#[derive(Serialize, ToSchema)]
pub(crate) struct LunaryDataset {
    /// The tag.
    slug: String,
    /// Read by lunary's Python client.
    items: Vec<Item>,
    /// The same runs, read by lunary's JavaScript client.
    runs: Vec<ItemRun>,
    /// Whether runs were left out. The newest are included; `/api/dataset/export` has all.
    truncated: bool,
}

/// Input and output of a saved run.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    /// Id of the run.
    id: String,
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// Output of the run.
    #[schema(value_type = Option<serde_json::Value>)]
    ideal_output: Option<Box<RawValue>>,
    /// Metadata of the run.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
}

/// The run behind an item.
#[derive(Serialize, ToSchema)]
pub(crate) struct ItemRun {
    id: String,
    /// `agent`, `llm`, `tool` or another type.
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    tags: Vec<String>,
}

/// Read a dataset (lunary)
///
/// The saved runs with the tag, newest first: at most 1000 runs, and 16 MiB of inputs, outputs and metadata.
#[utoipa::path(
    get,
    path = "/v1/datasets/{slug}",
    operation_id = "get_dataset_items",
    tag = "older clients",
    params(SlugPath, ProjectParams),
    responses(
        (status = 200, description = "The dataset", body = LunaryDataset),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn items(
    State(state): State<ExportState>,
    caller: Caller,
    SlugPath { slug }: SlugPath,
    pairs: Pairs,
) -> Result<Json<LunaryDataset>, ErrorResponse> {
    let store = state.store.on_behalf_of(caller.holder());
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.readable(project_id.as_deref())?;
    let mut query = RunQuery {
        limit: LIMIT_MAX,
        ..RunQuery::default()
    };
    query.filter.saved = Some(true);
    query.filter.tags = vec![slug.clone()];
    // Takes as much memory as an export.
    let mut permit = state.exports.acquire(&caller, "items")?;
    let now_ms = now_ms();
    let page = store.list_runs(&projects, &query, None, now_ms).await?;
    if page.runs.is_empty() {
        let message =
            format!("no saved run has the tag `{slug}`; a dataset is the saved runs with a tag");
        return Err(ApiError::not_found(message).into());
    }
    let reader = Reader {
        store,
        projects: projects.clone(),
        now_ms,
    };
    let mut dataset = LunaryDataset {
        slug,
        items: Vec::new(),
        runs: Vec::new(),
        truncated: page.next.is_some(),
    };
    let mut waiting = page.runs.into();
    let mut room = ITEM_BYTES;
    loop {
        let rows = reader.rows(together(&mut waiting)).await?;
        if rows.is_empty() {
            break;
        }
        permit.read(rows.len());
        for row in rows {
            // The first run is included whatever its size: an event has at most a mebibyte.
            let bytes = bytes_of(&row);
            if bytes > room && !dataset.items.is_empty() {
                dataset.truncated = true;
                permit.complete();
                return Ok(Json(dataset));
            }
            room = room.saturating_sub(bytes);
            dataset.add(row);
        }
    }
    permit.complete();
    Ok(Json(dataset))
}

fn bytes_of(row: &Row) -> usize {
    let Some(whole) = &row.whole else { return 0 };
    let texts = [&whole.input, &whole.output].into_iter().flatten();
    texts.map(|text| text.get().len()).sum::<usize>() + whole.metadata.get().len()
}

impl LunaryDataset {
    fn add(&mut self, row: Row) {
        let Row { run, whole } = row;
        let Some(whole) = whole else { return };
        self.items.push(Item {
            id: run.run_id.clone(),
            input: whole.input.clone(),
            ideal_output: whole.output.clone(),
            metadata: whole.metadata,
        });
        self.runs.push(ItemRun {
            id: run.run_id,
            kind: run.kind,
            name: run.name,
            input: whole.input,
            output: whole.output,
            tags: run.tags,
        });
    }
}
