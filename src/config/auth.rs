//! The settings of `[auth.oidc]`: the trusted identity provider, if there is one.

use query::{ClaimRules, IdentityConfig, SigningAlgorithm};
use reqwest::Url;
use schemas::credential::Role;
use schemas::ids::ProjectId;

use super::reader::Reader;
use super::{ms, secs};

/// Entries of each list; more are a mistake.
const ENTRIES_MAX: usize = 1000;
/// Longest path to a claim, so that its look-up stays cheap.
const PATH_BYTES: usize = 256;

/// `None` without an issuer.
pub(crate) fn read(from: &mut Reader) -> Option<IdentityConfig> {
    let issuer = from.text("auth.oidc.issuer");
    let allow_http = from
        .choice("auth.oidc.allow_http", &[("no", false), ("yes", true)])
        .unwrap_or_default();
    let projects_claim = from.text("auth.oidc.projects_claim");
    let config = IdentityConfig {
        rules: ClaimRules {
            audience: list(from, "auth.oidc.audience"),
            role_claim: path(from, "auth.oidc.role_claim"),
            roles: roles(from),
            projects_claim: (!projects_claim.is_empty())
                .then(|| path(from, "auth.oidc.projects_claim")),
            projects: projects(from),
            leeway_ms: from
                .duration("auth.oidc.leeway", ms(0)..=secs(300))
                .as_millis()
                .try_into()
                .unwrap_or(i64::MAX),
            issuer,
        },
        algorithms: algorithms(from),
        jwks_refresh: from.duration("auth.oidc.jwks_refresh", secs(1)..=secs(86_400)),
        jwks_max_age: from.duration("auth.oidc.jwks_max_age", secs(1)..=secs(7 * 86_400)),
        timeout: from.duration("auth.oidc.timeout", ms(100)..=secs(60)),
    };
    if config.rules.issuer.is_empty() {
        return None;
    }
    check(from, &config, allow_http);
    Some(config)
}

/// Checks that only apply with an issuer.
fn check(from: &mut Reader, config: &IdentityConfig, allow_http: bool) {
    let rules = &config.rules;
    match Url::parse(&rules.issuer) {
        Ok(url) if url.scheme() == "https" => {}
        // An attacker on the network path could supply other keys.
        Ok(url) if url.scheme() == "http" && (allow_http || is_loopback(&url)) => {}
        Ok(url) if url.scheme() == "http" => from.fault(format!(
            "`auth.oidc.issuer` is \"{}\", but must be https: set `auth.oidc.allow_http` to \"yes\" where the network to it is trusted",
            rules.issuer
        )),
        _ => from.fault(format!(
            "`auth.oidc.issuer` is \"{}\", but must be an address such as \"https://id.example.com/realms/main\", or empty",
            rules.issuer
        )),
    }
    for (key, is_missing) in [
        ("audience", rules.audience.is_empty()),
        ("roles", rules.roles.is_empty()),
        ("role_claim", rules.role_claim.is_empty()),
        ("algorithms", config.algorithms.is_empty()),
    ] {
        if is_missing {
            from.fault(format!(
                "`auth.oidc.{key}` must not be empty when `auth.oidc.issuer` is set"
            ));
        }
    }
    match (&rules.projects_claim, rules.projects.is_empty()) {
        (None, true) => from.fault(
            "`auth.oidc.projects` must name the projects that people reach, or \"*\" for all, unless `auth.oidc.projects_claim` is set",
        ),
        (Some(_), false) => from.fault(
            "`auth.oidc.projects` and `auth.oidc.projects_claim` exclude each other",
        ),
        _ => {}
    }
    if config.jwks_max_age < config.jwks_refresh {
        from.fault("`auth.oidc.jwks_max_age` must not be less than `auth.oidc.jwks_refresh`");
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn list(from: &mut Reader, key: &str) -> Vec<String> {
    let entries = from.list(key);
    if entries.len() > ENTRIES_MAX || entries.iter().any(String::is_empty) {
        from.fault(format!(
            "`{key}` must have at most {ENTRIES_MAX} entries, and none that is empty"
        ));
    }
    entries
}

fn path(from: &mut Reader, key: &str) -> String {
    let path = from.text(key);
    if path.len() > PATH_BYTES {
        from.fault(format!("`{key}` must have at most {PATH_BYTES} bytes"));
    }
    path
}

/// `theirs=ours`; `theirs` may contain `=`.
fn roles(from: &mut Reader) -> Vec<(String, Role)> {
    let mut roles = Vec::new();
    for entry in list(from, "auth.oidc.roles") {
        let pair = entry.rsplit_once('=');
        let pair = pair.and_then(|(theirs, ours)| Some((theirs.trim(), Role::named(ours.trim())?)));
        match pair {
            Some((theirs, ours)) if !theirs.is_empty() => roles.push((theirs.to_owned(), ours)),
            _ => from.fault(format!(
                "`auth.oidc.roles` has \"{entry}\", but must have entries like \"their-role=viewer\", with viewer, starter, operator or admin"
            )),
        }
    }
    roles
}

fn projects(from: &mut Reader) -> Vec<String> {
    let projects = list(from, "auth.oidc.projects");
    for project in &projects {
        if project != "*" && !ProjectId::is_valid(project) {
            from.fault(format!(
                "`auth.oidc.projects` has \"{project}\", which cannot name a project: 1 to 64 of a-z, 0-9 and -"
            ));
        }
    }
    projects
}

fn algorithms(from: &mut Reader) -> Vec<SigningAlgorithm> {
    let mut algorithms = Vec::new();
    for name in list(from, "auth.oidc.algorithms") {
        match SigningAlgorithm::named(&name) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known = SigningAlgorithm::ALL.map(|(name, _)| name).join(", ");
                from.fault(format!(
                    "`auth.oidc.algorithms` has \"{name}\", but must be of {known}"
                ));
            }
        }
    }
    algorithms
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::DEFAULT_FILE;
    use super::*;

    fn settings(lines: &[&str]) -> Result<Option<IdentityConfig>, String> {
        let file = format!("[auth.oidc]\n{}", lines.join("\n"));
        let mut reader = Reader::new(DEFAULT_FILE, &file, [], BTreeMap::new());
        let config = super::super::Config::read(&mut reader);
        match reader.finish() {
            Ok(_) => Ok(config.identity),
            Err(faults) => Err(faults.to_string()),
        }
    }

    const ISSUER: &str = "issuer = \"https://id.example.com/realms/r\"";
    const AUDIENCE: &str = "audience = [\"spindle\"]";
    const ROLES: &str = "roles = [\"sre=operator\", \"cn=ops,ou=it=admin\"]";
    const PROJECTS: &str = "projects = [\"shop\"]";

    #[test]
    fn there_is_no_provider_unless_one_is_named() {
        assert!(settings(&[]).unwrap().is_none());
        assert!(settings(&[AUDIENCE, ROLES]).unwrap().is_none());
    }

    #[test]
    fn a_provider_has_an_audience_roles_and_projects() {
        let config = settings(&[ISSUER, AUDIENCE, ROLES, PROJECTS])
            .unwrap()
            .unwrap();
        let roles = [("sre", Role::Operator), ("cn=ops,ou=it", Role::Admin)];
        assert_eq!(
            config.rules.roles,
            roles.map(|(name, role)| (name.to_owned(), role))
        );
        assert_eq!(config.rules.role_claim, "roles");
        assert_eq!(config.rules.projects, ["shop"]);
        assert_eq!(config.algorithms.len(), SigningAlgorithm::ALL.len());
        assert_eq!(
            (config.rules.leeway_ms, config.jwks_max_age),
            (30_000, secs(3600))
        );
        let by_claim = settings(&[ISSUER, AUDIENCE, ROLES, "projects_claim = \"groups\""]);
        let by_claim = by_claim.unwrap().unwrap();
        assert_eq!(by_claim.rules.projects_claim.as_deref(), Some("groups"));
    }

    #[test]
    fn what_is_missing_or_cannot_be_meant_is_a_fault() {
        let good = [ISSUER, AUDIENCE, ROLES, PROJECTS];
        for (missing, word) in [(1, "audience"), (2, "roles"), (3, "projects")] {
            let mut lines = good.to_vec();
            lines.remove(missing);
            let faults = settings(&lines).unwrap_err();
            assert!(faults.contains(&format!("auth.oidc.{word}")), "{faults}");
        }
        for (at, line, word) in [
            (0, "issuer = \"http://id.example.com\"", "allow_http"),
            (0, "issuer = \"id.example.com\"", "an address"),
            (2, "roles = [\"sre=chief\"]", "sre=chief"),
            (2, "roles = [\"=admin\"]", "=admin"),
            (3, "projects = [\"My Shop\"]", "My Shop"),
            (
                3,
                "projects = [\"shop\"]\nprojects_claim = \"groups\"",
                "exclude",
            ),
            (3, "projects = [\"*\"]\nalgorithms = [\"HS256\"]", "HS256"),
            (3, "projects = [\"*\"]\nalgorithms = [\"none\"]", "none"),
            (3, "projects = [\"*\"]\nalgorithms = []", "algorithms"),
            (
                3,
                "projects = [\"*\"]\njwks_max_age = \"1m\"",
                "jwks_max_age",
            ),
        ] {
            let mut lines = good;
            lines[at] = line;
            let faults = settings(&lines).unwrap_err();
            assert!(faults.contains(word), "{faults}");
        }
    }

    #[test]
    fn plain_http_is_spoken_within_the_machine_or_where_somebody_says_so() {
        for issuer in [
            "http://127.0.0.1:1",
            "http://localhost:1/x",
            "http://[::1]:1",
        ] {
            let issuer = format!("issuer = \"{issuer}\"");
            assert!(
                settings(&[&issuer, AUDIENCE, ROLES, PROJECTS]).is_ok(),
                "{issuer}"
            );
        }
        let issuer = "issuer = \"http://keycloak:8080\"\nallow_http = \"yes\"";
        assert!(settings(&[issuer, AUDIENCE, ROLES, PROJECTS]).is_ok());
    }
}
