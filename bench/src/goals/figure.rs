//! What was measured, beside its goal.

use serde::Serialize;

/// JSON names are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// `None` for a figure that explains others.
    pub(super) goal: Option<Goal>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(goal) => value <= goal,
            Self::AtLeast(goal) => value >= goal,
        }
    }
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            goal: None,
        }
    }

    pub(super) fn at_most(self, goal: f64) -> Self {
        let goal = Some(Goal::AtMost(goal));
        Self { goal, ..self }
    }

    pub(super) fn at_least(self, goal: f64) -> Self {
        let goal = Some(Goal::AtLeast(goal));
        Self { goal, ..self }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| match value.abs() {
            large if large >= 1000.0 => format!("{value:.0}"),
            large if large >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        let (name, unit) = (&self.name, self.unit);
        write!(f, "{name:64} {:>9} {unit:12}", number(self.value))?;
        let (sign, goal) = match self.goal {
            None => return Ok(()),
            Some(Goal::AtMost(goal)) => ("<=", goal),
            Some(Goal::AtLeast(goal)) => (">=", goal),
        };
        let is_met = self.goal.is_some_and(|goal| goal.is_met(self.value));
        let result = if is_met { "met" } else { "MISSED" };
        write!(f, " {sign} {goal:<8} {result}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_beside_its_goal() {
        let figure = Figure::new("pages", 12.34, "ms").at_most(10.0);
        assert!(
            figure
                .to_string()
                .ends_with("12.3 ms           <= 10       MISSED"),
            "{figure}"
        );
        let figure = Figure::new("pages", 10.0, "ms").at_most(10.0);
        assert!(figure.to_string().ends_with("met"), "{figure}");
        let figure = Figure::new("events", 9.5, "/s").at_least(10.0);
        assert!(figure.to_string().ends_with("MISSED"), "{figure}");
        assert!(!Figure::new("events", 9.5, "/s").to_string().contains("M"));
    }
}
