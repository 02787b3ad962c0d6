//! What a retention dropped, counted in bounded room: it is part of the job's row, which is written after every day.

use std::collections::BTreeMap;

use schemas::job::{OtherProjects, ProjectRetention};
use serde::{Deserialize, Serialize};
use store::maintenance::retention::{Day, DayTable, Going};

use super::DAY_MS;

/// Projects that are counted separately, in order of appearance; the rest is counted as one. A row of 100 projects has
/// about 30 KB.
pub(super) const NAMED_MAX: usize = 100;
/// Ranges of days kept per project. Beyond it the nearest two ranges are merged, and the days between them counted too.
const STRETCHES_MAX: usize = 64;

/// Ranges of days: the first and the last day of each, in days since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Days(Vec<(i64, i64)>);

impl Days {
    fn insert(&mut self, day: i64) {
        let at = self
            .0
            .partition_point(|(_, last)| last.saturating_add(1) < day);
        match self.0.get_mut(at) {
            Some((first, last)) if *first <= day.saturating_add(1) => {
                *first = day.min(*first);
                *last = day.max(*last);
            }
            _ => self.0.insert(at, (day, day)),
        }
        let gap = |at: &usize| self.0[at + 1].0.saturating_sub(self.0[*at].1);
        let is_full = self.0.len() > STRETCHES_MAX;
        let nearest = (0..self.0.len() - 1).min_by_key(gap);
        let touching = (0..self.0.len() - 1).find(|at| gap(at) <= 1);
        if let Some(at) = touching.or(nearest.filter(|_| is_full)) {
            let (_, last) = self.0.remove(at + 1);
            self.0[at].1 = last;
        }
    }

    fn count(&self) -> u64 {
        let days = self.0.iter().map(|(first, last)| last.abs_diff(*first) + 1);
        days.sum()
    }
}

/// What was dropped of one project, or of several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Dropped {
    days: Days,
    /// By table.
    rows: BTreeMap<String, u64>,
    bytes: u64,
}

impl Dropped {
    fn add(&mut self, pending: &Pending, rows: u64, of_rows: u64) {
        self.days.insert(pending.start_day);
        *self.rows.entry(pending.table.clone()).or_default() += rows;
        let share = u128::from(pending.bytes) * u128::from(rows) / u128::from(of_rows.max(1));
        self.bytes += u64::try_from(share).unwrap_or(u64::MAX);
    }

    fn rows(&self, table: DayTable) -> u64 {
        self.rows.get(table.name()).copied().unwrap_or(0)
    }
}

/// A day that is being dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    table: String,
    day: String,
    start_day: i64,
    going: Vec<(String, u64)>,
    other_projects: u64,
    other_rows: u64,
    bytes: u64,
}

impl Pending {
    pub(super) fn is_of(&self, day: &Day) -> bool {
        day.table.name() == self.table && day.id == self.day
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    named: BTreeMap<String, Dropped>,
    others: Dropped,
    /// The highest number of them on one day of one table.
    other_projects: u64,
}

impl Tally {
    /// Bounded counts of what is dropped of a day: `rows` in all, hidden rows included.
    pub(super) fn pending(&self, day: &Day, going: Vec<Going>, rows: u64) -> Pending {
        let bytes = u128::from(day.bytes) * u128::from(rows) / u128::from(day.rows.max(1));
        let mut pending = Pending {
            table: day.table.name().to_owned(),
            day: day.id.clone(),
            start_day: day.start_ms.div_euclid(DAY_MS),
            going: Vec::new(),
            other_projects: 0,
            other_rows: 0,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        };
        let mut room = NAMED_MAX.saturating_sub(self.named.len());
        for Going { project_id, rows } in going {
            let is_named = self.named.contains_key(&project_id);
            if is_named || room > 0 {
                room -= usize::from(!is_named);
                pending.going.push((project_id, rows));
            } else {
                pending.other_projects += 1;
                pending.other_rows += rows;
            }
        }
        pending
    }

    pub(super) fn count(&mut self, mut pending: Pending) {
        let named: u64 = pending.going.iter().map(|(_, rows)| rows).sum();
        let all = named + pending.other_rows;
        for (project, rows) in std::mem::take(&mut pending.going) {
            self.named
                .entry(project)
                .or_default()
                .add(&pending, rows, all);
        }
        if pending.other_projects > 0 {
            self.others.add(&pending, pending.other_rows, all);
            self.other_projects = self.other_projects.max(pending.other_projects);
        }
    }

    pub(super) fn rows(&self) -> u64 {
        let all = self.named.values().chain([&self.others]);
        all.flat_map(|dropped| dropped.rows.values()).sum()
    }

    /// The projects that are counted separately.
    pub(super) fn projects(&self, days_of: &BTreeMap<String, u32>) -> Vec<ProjectRetention> {
        let projects = self
            .named
            .iter()
            .map(|(project, dropped)| ProjectRetention {
                project_id: project.clone(),
                retention_days: days_of.get(project).copied().unwrap_or(0),
                days: dropped.days.count(),
                runs: dropped.rows(DayTable::Runs),
                events: dropped.rows(DayTable::Events),
                messages: dropped.rows(DayTable::Messages),
                feedback: dropped.rows(DayTable::Feedback),
                bytes: dropped.bytes,
            });
        projects.collect()
    }

    /// The other projects.
    pub(super) fn others(&self) -> Option<OtherProjects> {
        let dropped = &self.others;
        (self.other_projects > 0).then(|| OtherProjects {
            projects_at_least: self.other_projects,
            days: dropped.days.count(),
            runs: dropped.rows(DayTable::Runs),
            events: dropped.rows(DayTable::Events),
            messages: dropped.rows(DayTable::Messages),
            feedback: dropped.rows(DayTable::Feedback),
            bytes: dropped.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_count_each_day_once_and_are_bounded() {
        let mut days = Days::default();
        for day in [5, 7, 6, 6, 1, 2, 9, 5] {
            days.insert(day);
        }
        assert_eq!(
            (days.0.clone(), days.count()),
            (vec![(1, 2), (5, 7), (9, 9)], 6)
        );
        let mut apart = Days::default();
        for day in 0..1000 {
            apart.insert(day * 3);
        }
        assert!(apart.0.len() <= STRETCHES_MAX && apart.count() >= 1000);
    }

    #[test]
    fn hundreds_of_projects_over_years_stay_small_and_every_row_is_counted() {
        let mut tally = Tally::default();
        let mut rows = 0;
        let mut longest = 0;
        for number in 0..700 {
            for table in DayTable::ALL {
                let day = Day {
                    table,
                    id: format!("{:08}", 20_200_000 + number),
                    // Days with nothing in between.
                    start_ms: (18_000 + 2 * number) * DAY_MS,
                    rows: 1_000_000,
                    bytes: 1 << 40,
                };
                let going = (0..800).map(|project| Going {
                    project_id: format!("a-project-with-a-long-name-{project:04}"),
                    rows: 1_000_000_000 + project,
                });
                let going: Vec<Going> = going.collect();
                rows += going.iter().map(|going| going.rows).sum::<u64>();
                let pending = tally.pending(&day, going, 1_000_000);
                assert!(pending.is_of(&day));
                longest = longest.max(serde_json::to_string(&pending).unwrap().len());
                tally.count(pending);
            }
        }
        assert_eq!(tally.rows(), rows);
        assert!(longest < 8 << 10, "{longest}");
        let kept = serde_json::to_string(&tally).unwrap().len();
        assert!(kept < 160 << 10, "{kept}");
        let projects = tally.projects(&BTreeMap::new());
        assert_eq!(projects.len(), NAMED_MAX);
        let others = tally.others().unwrap();
        assert_eq!(others.projects_at_least, 700);
        let runs: u64 = projects.iter().map(|project| project.runs).sum();
        assert_eq!(4 * (runs + others.runs), rows);
    }
}
