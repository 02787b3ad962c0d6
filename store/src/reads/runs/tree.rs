//! A run with all descendants, by the links to parents. Bounded, and safe on cycles: no run is visited twice.

use std::collections::{HashMap, HashSet};

use super::RunRecord;
use super::keys::{merged, seek};
use crate::client::Store;
use crate::error::StoreError;
use crate::reads::filter_sql::{Conditions, Projects, Value, scope};

/// Runs in one tree; a response with them has about 10 MB.
const TREE_MAX: usize = 10_000;
/// Parents in one query.
const PARENTS_PER_QUERY: usize = 200;
/// Queries for one tree: a deeper chain is cut. The root link usually makes it two or three.
const QUERIES_MAX: usize = 200;

#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Parents before their children; the requested run is the first.
    pub runs: Vec<RunRecord>,
    /// Whether there are more.
    pub truncated: bool,
}

impl Store {
    /// All descendants of `run` in its project and app.
    pub async fn tree(&self, run: RunRecord) -> Result<Tree, StoreError> {
        let mut at = scope(&Projects::Only(vec![run.project_id.clone()]));
        at.and_with(
            "app_id = {app:String}",
            "app",
            Value::Text(run.app_id.clone()),
        );
        let mut found: HashMap<String, RunRecord> = HashMap::new();
        let mut truncated = false;
        // Most runs of a tree name its root: one query returns them. Others (below parents that arrived late) are found
        // below. For a run inside of a tree it would return the whole tree, so that only goes by parents.
        if run.root_run_id == run.run_id {
            let root = vec![run.run_id.clone()];
            truncated |= self.linked(&at, "root_run_id", root, &mut found).await?;
        }
        found.insert(run.run_id.clone(), run.clone());
        let mut asked: HashSet<String> = HashSet::new();
        for query in 0.. {
            let open: Vec<String> = found
                .keys()
                .filter(|id| !asked.contains(*id))
                .take(PARENTS_PER_QUERY)
                .cloned()
                .collect();
            if open.is_empty() || truncated {
                break;
            }
            if query == QUERIES_MAX {
                truncated = true;
                break;
            }
            asked.extend(open.iter().cloned());
            truncated |= self.linked(&at, "parent_run_id", open, &mut found).await?;
        }
        Ok(Tree {
            runs: below(&run.run_id, found),
            truncated,
        })
    }

    /// Adds the current runs whose link is one of `ids`; `true` when there was no room for all.
    async fn linked(
        &self,
        at: &Conditions,
        link: &'static str,
        ids: Vec<String>,
        found: &mut HashMap<String, RunRecord>,
    ) -> Result<bool, StoreError> {
        let mut links = Conditions::default();
        links.and_with(
            &format!("{link} IN {{ids:Array(String)}}"),
            "ids",
            Value::Texts(ids),
        );
        let room = TREE_MAX + 1;
        let sql = format!(
            "SELECT {columns} FROM runs FINAL PREWHERE {at} AND (started_at, run_id) IN (\
               SELECT started_at, run_id FROM runs WHERE {at} AND is_deleted = 0 AND {links} \
               ORDER BY started_at, run_id LIMIT {room}) \
             WHERE {links} ORDER BY started_at, run_id LIMIT {room}",
            columns = RunRecord::list_columns(),
            at = at.sql(),
            links = links.sql(),
        );
        let rows: Vec<RunRecord> = links
            .fill(at.fill(merged(seek(self.bounded_query(&sql)))))
            .rows()
            .await?;
        let mut truncated = rows.len() >= room;
        for row in rows {
            if found.len() >= TREE_MAX && !found.contains_key(&row.run_id) {
                truncated = true;
            } else {
                found.insert(row.run_id.clone(), row);
            }
        }
        Ok(truncated)
    }
}

/// The run and its descendants, level by level, each level by start.
fn below(run_id: &str, found: HashMap<String, RunRecord>) -> Vec<RunRecord> {
    let mut rest = found;
    let mut children: HashMap<String, Vec<String>> = HashMap::new();
    for row in rest.values().filter(|row| !row.parent_run_id.is_empty()) {
        children
            .entry(row.parent_run_id.clone())
            .or_default()
            .push(row.run_id.clone());
    }
    let mut tree: Vec<RunRecord> = rest.remove(run_id).into_iter().collect();
    let mut next = 0;
    while next < tree.len() {
        let below = children.remove(&tree[next].run_id).unwrap_or_default();
        // A visited run is gone from the rest, so cycles end here.
        let mut level: Vec<RunRecord> = below
            .into_iter()
            .filter_map(|id| rest.remove(&id))
            .collect();
        level.sort_by(|left, right| {
            (left.started_at, &left.run_id).cmp(&(right.started_at, &right.run_id))
        });
        tree.extend(level);
        next += 1;
    }
    tree
}
