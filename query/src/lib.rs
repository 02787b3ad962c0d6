//! Placeholder: replaced by its author within the hour.
