//! Users and grants of the engine: its users file.

use super::USER;

/// Grants of [`USER`]: everything the tables need, and nothing that leaves them: no files, no URLs, no other servers,
/// no listeners, no users, no dictionaries or functions.
///
/// Sources (`file`, `url`, `remote`) need a separate grant (`READ ON FILE`), and so does each table engine.
const GRANTS: &[&str] = &[
    "SELECT, INSERT, ALTER TABLE, TRUNCATE, OPTIMIZE, SHOW ON *.*",
    "CREATE DATABASE, CREATE TABLE, CREATE TEMPORARY TABLE, DROP DATABASE, DROP TABLE ON *.*",
    "TABLE ENGINE ON MergeTree",
    "TABLE ENGINE ON ReplacingMergeTree",
];

/// What the local session does.
const SESSION_GRANTS: &[&str] = &["SYSTEM LISTEN ON *.*", "SELECT ON system.numbers"];

/// Name of the server in the engine's settings that decides logins of `default`.
pub(super) const SESSION_LOGIN: &str = "session_login";

/// Settings of every query. Formatting a result in parallel takes two more threads, and most results are small. Compiling
/// an expression takes as much CPU as ten small queries, so only expressions of frequent queries are compiled.
/// Measurements are in docs/decisions/0002-embedded-engine.md.
const QUERY_SETTINGS: &[(&str, u32)] = &[
    ("output_format_parallel_formatting", 0),
    ("min_count_to_compile_expression", 50),
    ("min_count_to_compile_aggregate_expression", 50),
    ("min_count_to_compile_sort_description", 50),
];

/// The users file. `default` is the local session's user; [`super::login`] accepts that one login.
///
/// No response contains `Access-Control-Allow-Origin`: the setting that adds it is constant.
pub(super) fn users_xml(password_hash: &str) -> String {
    format!(
        "<clickhouse>
  <profiles>
    <default>
      <add_http_cors_header>0</add_http_cors_header>
      <constraints><add_http_cors_header><const/></add_http_cors_header></constraints>
      {settings}
    </default>
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default>
      <http_authentication><server>{SESSION_LOGIN}</server><scheme>basic</scheme></http_authentication>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <grants>{session}</grants>
    </default>
    <{USER}>
      <password_sha256_hex>{password_hash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <grants>{granted}</grants>
    </{USER}>
  </users>
</clickhouse>
",
        settings = settings(),
        session = grants(SESSION_GRANTS),
        granted = grants(GRANTS),
    )
}

fn settings() -> String {
    let settings = QUERY_SETTINGS.iter();
    let settings = settings.map(|(name, value)| format!("<{name}>{value}</{name}>"));
    settings.collect()
}

fn grants(rights: &[&str]) -> String {
    let queries = rights
        .iter()
        .map(|right| format!("<query>GRANT {right}</query>"));
    queries.collect()
}
