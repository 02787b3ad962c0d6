//! `GET /v1/datasets/{slug}`: the saved runs with a tag, as lunary's clients read a dataset.
//!
//! To lunary a dataset is a list with a name. Here the saved runs are the dataset, and a tag is the name that is theirs
//! already.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::filter::{LIMIT_MAX, RunQuery};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::whole::{Reader, together};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::export::Row;
use crate::params::{Pairs, PathId};
use crate::state::{QueryState, now_ms};

/// Bytes of inputs, outputs and metadata in one answer: a client reads it whole, and so does this server (X1).
const ITEM_BYTES: usize = 16 << 20;

/// Saved runs as a dataset of lunary.
#[derive(Serialize, ToSchema)]
pub(crate) struct LunaryDataset {
    /// The tag.
    slug: String,
    /// For their Python client.
    items: Vec<Item>,
    /// For their JavaScript client: the same runs.
    runs: Vec<ItemRun>,
    /// Whether there are more than fit: the newest are given, and `/api/dataset/export` has all.
    truncated: bool,
}

/// What went in, and what came out and was found good.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    /// The run.
    id: String,
    /// Any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// Any JSON: the run's output.
    #[schema(value_type = Option<serde_json::Value>)]
    ideal_output: Option<Box<RawValue>>,
    /// The run's metadata.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
}

/// The run behind an item.
#[derive(Serialize, ToSchema)]
pub(crate) struct ItemRun {
    /// The run.
    id: String,
    /// `agent`, `llm`, `tool`, ...
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Name.
    name: Option<String>,
    /// Any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<Box<RawValue>>,
    /// Any JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Box<RawValue>>,
    /// Tags.
    tags: Vec<String>,
}

/// Read a dataset, for lunary
///
/// The saved runs that carry the tag, newest first: at most 1000, and 16 MiB of what went in and out.
#[utoipa::path(
    get,
    path = "/v1/datasets/{slug}",
    operation_id = "get_dataset_items",
    tag = "older clients",
    params(
        ("slug" = String, Path, description = "The tag"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The dataset", body = LunaryDataset),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "No saved run carries the tag", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or enough exports are running", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn items(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(slug): PathId,
    pairs: Pairs,
) -> Result<Json<LunaryDataset>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.readable(project_id)?;
    let mut query = RunQuery {
        limit: LIMIT_MAX,
        ..RunQuery::default()
    };
    query.filter.saved = Some(true);
    query.filter.tags = vec![slug.clone()];
    // It holds as much as an export does.
    let mut place = state.exports().take(&caller, "items")?;
    let now_ms = now_ms();
    let page = state
        .store()
        .list_runs(&projects, &query, None, now_ms)
        .await?;
    if page.runs.is_empty() {
        let message = format!(
            "no saved run carries the tag `{slug}`: a dataset is the saved runs with that tag"
        );
        return Err(Fault::not_found(message).into());
    }
    let reader = Reader {
        store: state.store().clone(),
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
        place.read(rows.len());
        for row in rows {
            // The first one is given whatever its size: an event is a mebibyte at most.
            let bytes = bytes_of(&row);
            if bytes > room && !dataset.items.is_empty() {
                dataset.truncated = true;
                place.complete();
                return Ok(Json(dataset));
            }
            room = room.saturating_sub(bytes);
            dataset.add(row);
        }
    }
    place.complete();
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
