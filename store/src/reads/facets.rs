//! Facets: the values of a field and the number of runs with each, every run once (P3).

use clickhouse::Row;
use futures::{StreamExt, TryStreamExt, stream};
use schemas::filter::RunFilter;
use schemas::usage::{FACET_VALUES_MAX, Facet, FacetValue};
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::current::{Current, Layout, Scope};

/// Facets read concurrently: each may use two threads and much memory on the server.
const AT_ONCE: usize = 2;

/// A field with facets: its name as a filter, the column, the counted expression, and the filter without it.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    column: &'static str,
    value: &'static str,
    leave_out: fn(&mut RunFilter),
}

const FIELDS: [Field; 8] = [
    field("app_id", "app_id", |filter| filter.app_id = None),
    field("status", "status", |filter| filter.status = None),
    field("model", "model", |filter| filter.model = None),
    field("agent", "agent", |filter| filter.agent = None),
    field("type", "type", |filter| filter.kind = None),
    field("name", "name", |filter| filter.name = None),
    Field {
        name: "tags",
        column: "tags",
        value: "arrayJoin(tags)",
        leave_out: |filter| filter.tags.clear(),
    },
    field("user_email", "user_email", |filter| {
        filter.user_email = None
    }),
];

const fn field(name: &'static str, column: &'static str, leave_out: fn(&mut RunFilter)) -> Field {
    Field {
        name,
        column,
        value: column,
        leave_out,
    }
}

#[derive(Row, Deserialize)]
struct Counted {
    value: String,
    count: u64,
}

impl Store {
    /// The values of each field by its name, most frequent first. A filter on a field does not apply to the field's own
    /// values, so that its alternatives are listed.
    pub async fn facets(&self, scope: Scope<'_>) -> Result<Vec<(&'static str, Facet)>, StoreError> {
        let limit = self.config().query_timeout;
        let all = async {
            let layout = self.layout(scope.filter).await?;
            stream::iter(FIELDS)
                .map(|field| self.facet(&layout, scope, field))
                .buffered(AT_ONCE)
                .try_collect()
                .await
        };
        match tokio::time::timeout(limit, all).await {
            Ok(found) => found,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    async fn facet(
        &self,
        layout: &Layout,
        scope: Scope<'_>,
        field: Field,
    ) -> Result<(&'static str, Facet), StoreError> {
        let mut filter = scope.filter.clone();
        (field.leave_out)(&mut filter);
        let current = Current::of(
            layout,
            Scope {
                filter: &filter,
                ..scope
            },
        );
        let sql = format!(
            "SELECT toString({}) AS v, count() AS n FROM {} GROUP BY v HAVING v != '' ORDER BY n DESC, v LIMIT {}",
            field.value,
            current.rows(field.column, None),
            FACET_VALUES_MAX + 1
        );
        let rows: Vec<Counted> = current.query(self, &sql).rows().await?;
        let truncated = rows.len() > FACET_VALUES_MAX;
        let values = rows
            .into_iter()
            .take(FACET_VALUES_MAX)
            .map(|row| FacetValue {
                value: row.value,
                count: row.count,
            })
            .collect();
        Ok((field.name, Facet { values, truncated }))
    }
}
