//! Look-ups of many runs whose starts are known, at least about: the runs of a recalculation, and their parents.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemas::timestamp::UnixMs;

use super::{LOOKUP_BOUNDS, StoredRun, state_columns};
use crate::client::Store;
use crate::error::StoreError;

/// Fewer runs are looked up by their ids.
const RUNS_AT_LEAST: usize = 1000;
/// Rows of a range for each run that is wanted of it: reading that many costs less than finding the run by its id
/// (measured on a table of 20 apps: 53 µs for each run found by its id, 4 µs for each row of a range).
const ROWS_FOR_EACH: u64 = 8;

/// A run, and where its row may be.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace<'a> {
    pub app: &'a str,
    pub run_id: &'a str,
    pub started_at: UnixMs,
    /// Whether that is the start in its row, and not only one near it.
    pub is_exact: bool,
}

impl Store {
    /// The newest row of each key of these runs, tombstones included, in no order, as far as they are where they are
    /// expected: a run with no row here may still have one elsewhere. A run whose start is only about known is found
    /// where the runs are many and close to each other in time.
    pub async fn load_states_near(
        &self,
        project: &str,
        places: &[RunPlace<'_>],
    ) -> Result<Vec<StoredRun>, StoreError> {
        let mut places = places.to_vec();
        places.sort_by_key(|place| place.started_at);
        let mut found = Vec::with_capacity(places.len());
        let mut scattered: BTreeMap<&str, Vec<(&str, UnixMs)>> = BTreeMap::new();
        let mut rest = vec![places.as_slice()];
        while let Some(part) = rest.pop() {
            if part.len() < RUNS_AT_LEAST {
                for place in part.iter().filter(|place| place.is_exact) {
                    let of_app = scattered.entry(place.app).or_default();
                    of_app.push((place.run_id, place.started_at));
                }
            } else if let Some(rows) = self.range(project, part).await? {
                found.extend(rows);
            } else {
                let (left, right) = part.split_at(part.len() / 2);
                // In the order of their starts.
                rest.extend([right, left]);
            }
        }
        for (app, placed) in scattered {
            found.extend(self.load_states_at(project, app, &placed).await?);
        }
        Ok(found)
    }

    /// The rows of these runs by one read of everything that started in their time; `None` if that is too much.
    async fn range(
        &self,
        project: &str,
        places: &[RunPlace<'_>],
    ) -> Result<Option<Vec<StoredRun>>, StoreError> {
        let [Some(first), Some(last)] = [places.first(), places.last()] else {
            return Ok(None);
        };
        let runs = self.runs;
        let apps: HashSet<&str> = places.iter().map(|place| place.app).collect();
        let of_range = "project_id = {project:String} AND app_id IN {apps:Array(String)} \
             AND started_at >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') \
             AND started_at <= fromUnixTimestamp64Milli({last:Int64}, 'UTC')";
        let query = |sql: &str| {
            self.bounded_query_within(sql, LOOKUP_BOUNDS)
                .param("project", project)
                .param("apps", Vec::from_iter(&apps))
                .param("first", first.started_at)
                .param("last", last.started_at)
        };
        let count = format!("SELECT count() FROM {runs} WHERE {of_range}");
        if query(&count).one::<u64>().await? > ROWS_FOR_EACH * places.len() as u64 {
            return Ok(None);
        }
        let wanted = places.iter().map(|place| (place.app, place.run_id));
        let wanted: HashSet<(&str, &str)> = wanted.collect();
        let columns = state_columns();
        let sql = format!("SELECT {columns} FROM {runs} WHERE {of_range}");
        let mut rows = query(&sql).cursor::<StoredRun>().await?;
        let mut newest: HashMap<(String, String, UnixMs), StoredRun> = HashMap::new();
        loop {
            match rows.next().await {
                Ok(None) => return Ok(Some(newest.into_values().collect())),
                Ok(Some(row)) if wanted.contains(&(row.app_id.as_str(), row.run_id.as_str())) => {
                    let key = (row.app_id.clone(), row.run_id.clone(), row.started_at);
                    match newest.get(&key) {
                        Some(known) if known.version >= row.version => {}
                        _ => drop(newest.insert(key, row)),
                    }
                }
                Ok(Some(_)) => {}
                Err(error) if error.is_too_large() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}
