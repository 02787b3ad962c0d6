//! Attacks that worked once, each small and bounded, against the real binary. `docs/guide/security.md` has the threat model.

mod claims;
mod engine;
mod fairness;
mod files;
mod guesses;
mod lineage;
mod listener;
mod loss;
mod metrics;
mod numbers;
mod reports;
mod schemas;
