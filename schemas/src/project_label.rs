//! Projects as values of a metric's label, bounded in number.
//!
//! Other labels come from closed sets and are never an id. But each project's accepted events must be comparable with
//! its stored ones, so projects are labels; beyond the bound they are counted together.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Projects that one process counts separately: each is a line for each metric with this label (X1).
pub const PROJECTS_MAX: usize = 200;
/// The label of all other projects.
pub const OTHER: &str = "_other";

/// The projects with separate labels, in order of appearance.
#[derive(Debug, Default)]
pub struct ProjectLabels {
    seen: RwLock<HashSet<Box<str>>>,
}

impl ProjectLabels {
    /// The label of a project: its id, or [`OTHER`]. Constant for as long as the process runs.
    pub fn of<'a>(&self, project: &'a str) -> &'a str {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(project) {
            return project;
        }
        if seen.len() >= PROJECTS_MAX {
            return OTHER;
        }
        drop(seen);
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= PROJECTS_MAX && !seen.contains(project) {
            return OTHER;
        }
        seen.insert(project.into());
        project
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_projects_have_labels_of_their_own_and_keep_them_x1() {
        let labels = ProjectLabels::default();
        let names: Vec<String> = (0..PROJECTS_MAX + 50).map(|n| format!("p{n}")).collect();
        for _ in 0..2 {
            for (at, name) in names.iter().enumerate() {
                let label = labels.of(name);
                assert_eq!(label == name, at < PROJECTS_MAX, "{label}");
                assert!(label == name || label == OTHER);
            }
        }
    }
}
