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
        session = grants(SESSION_GRANTS),
        granted = grants(GRANTS),
    )
}

fn grants(rights: &[&str]) -> String {
    let queries = rights
        .iter()
        .map(|right| format!("<query>GRANT {right}</query>"));
    queries.collect()
}
