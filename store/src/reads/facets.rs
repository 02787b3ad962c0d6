//! Facets: the values of a field and the number of runs with each, every run once (P3).

use clickhouse::Row;
use futures::{StreamExt, TryStreamExt, stream};
use schemas::filter::RunFilter;
use schemas::usage::{FACET_VALUES_MAX, Facet, FacetValue};
use serde::Deserialize;

use crate::client::Store;
use crate::error::StoreError;
use crate::reads::current::{Current, Layout, Scope};

/// Passes over the runs at a time: each may use two threads and much memory on the server.
const AT_ONCE: usize = 2;

/// The values that a run has of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// One of few.
    Few,
    /// One of as many as there are runs: its groups take memory.
    Many,
    /// Each one of a list: it multiplies the rows.
    List,
}

/// A field with facets, and the filter without it.
#[derive(Clone, Copy)]
struct Field {
    /// As a filter, and as a column.
    name: &'static str,
    /// What a run counts for.
    values: Values,
    leave_out: fn(&mut RunFilter),
}

const FIELDS: [Field; 8] = [
    field("app_id", Values::Few, |filter| filter.app_id = None),
    field("status", Values::Few, |filter| filter.status = None),
    field("model", Values::Few, |filter| filter.model = None),
    field("agent", Values::Few, |filter| filter.agent = None),
    field("type", Values::Few, |filter| filter.kind = None),
    field("name", Values::Few, |filter| filter.name = None),
    field("tags", Values::List, |filter| filter.tags.clear()),
    field("user_email", Values::Many, |filter| {
        filter.user_email = None
    }),
];

const fn field(name: &'static str, values: Values, leave_out: fn(&mut RunFilter)) -> Field {
    Field {
        name,
        values,
        leave_out,
    }
}

/// Fields whose values are counted in one pass, because they have the same filter.
struct Pass {
    filter: RunFilter,
    fields: Vec<Field>,
}

/// As few passes as there are filters; only fields with few values share one. On a cluster none do: its shards do not
/// know the function that tells the sets of a group apart.
fn passes(filter: &RunFilter, is_cluster: bool) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for field in FIELDS {
        let mut filter = filter.clone();
        (field.leave_out)(&mut filter);
        let same = passes.iter_mut().find(|pass| {
            let mut fields = pass.fields.iter().chain([&field]);
            let are_few = fields.all(|field| field.values == Values::Few);
            !is_cluster && are_few && pass.filter == filter
        });
        match same {
            Some(pass) => pass.fields.push(field),
            None => passes.push(Pass {
                filter,
                fields: vec![field],
            }),
        }
    }
    passes
}

#[derive(Row, Deserialize)]
struct Counted {
    /// Index of the field in the pass.
    field: u8,
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
            let passes = stream::iter(passes(scope.filter, self.config().cluster.is_some()));
            let mut found: Vec<(&'static str, Facet)> = passes
                .map(|pass| self.facets_of(&layout, scope, pass))
                .buffered(AT_ONCE)
                .try_concat()
                .await?;
            let place = |name| FIELDS.iter().position(|field| field.name == name);
            found.sort_by_key(|(name, _)| place(*name));
            Ok(found)
        };
        match tokio::time::timeout(limit, all).await {
            Ok(found) => found,
            Err(_) => Err(StoreError::TimedOut(limit)),
        }
    }

    /// The facets of one pass. Merging replaced rows takes most of its time, so a pass over several columns takes little
    /// longer than over one.
    async fn facets_of(
        &self,
        layout: &Layout,
        scope: Scope<'_>,
        pass: Pass,
    ) -> Result<Vec<(&'static str, Facet)>, StoreError> {
        let filter = &pass.filter;
        let current = Current::of(layout, Scope { filter, ..scope });
        let columns = |of: fn(&Field) -> String, between: &str| -> String {
            let columns: Vec<String> = pass.fields.iter().map(of).collect();
            columns.join(between)
        };
        let rows = current.rows(&columns(|field| field.name.to_owned(), ", "), None);
        let values = columns(
            |field| match field.values == Values::List {
                true => format!("arrayJoin({0}) AS value_of_{0}", field.name),
                false => format!("{0} AS value_of_{0}", field.name),
            },
            ", ",
        );
        let most = FACET_VALUES_MAX + 1;
        let sql = match pass.fields.as_slice() {
            [field] => format!(
                "SELECT toUInt8(0) AS field, toString(value_of_{name}) AS value, count() AS runs \
                 FROM (SELECT {values} FROM {rows}) GROUP BY value HAVING value != '' \
                 ORDER BY runs DESC, value LIMIT {most}",
                name = field.name,
            ),
            fields => {
                let numbers: Vec<String> = (0..)
                    .zip(fields)
                    .map(|(number, field)| {
                        let number: u8 = number;
                        format!("grouping(value_of_{}) = 0, {number}", field.name)
                    })
                    .collect();
                format!(
                    "SELECT toUInt8(multiIf({numbers}, 255)) AS field, multiIf({texts}, '') AS value, count() AS runs \
                     FROM (SELECT {values} FROM {rows}) GROUP BY GROUPING SETS ({sets}) HAVING value != '' \
                     ORDER BY field, runs DESC, value LIMIT {most} BY field",
                    numbers = numbers.join(", "),
                    texts = columns(
                        |field| format!(
                            "grouping(value_of_{0}) = 0, toString(value_of_{0})",
                            field.name
                        ),
                        ", "
                    ),
                    sets = columns(|field| format!("(value_of_{})", field.name), ", "),
                )
            }
        };
        let mut found: Vec<(&'static str, Facet)> = pass
            .fields
            .iter()
            .map(|field| (field.name, Facet::default()))
            .collect();
        let query = current
            .query(self, &sql)
            .setting("group_by_use_nulls", "0")
            .setting("force_grouping_standard_compatibility", "1");
        let rows: Vec<Counted> = query.rows().await?;
        for Counted {
            field,
            value,
            count,
        } in rows
        {
            let Some((_, facet)) = found.get_mut(usize::from(field)) else {
                continue;
            };
            match facet.values.len() < FACET_VALUES_MAX {
                true => facet.values.push(FacetValue { value, count }),
                false => facet.truncated = true,
            }
        }
        Ok(found)
    }
}
