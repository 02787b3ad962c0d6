//! Projects, API keys and tokens.
