//! From what a provider claims of somebody to what they may do here. Pure: the time is an argument.

use schemas::credential::{Credential, Role};
use schemas::ids::ProjectId;
use schemas::limits::ID_BYTES;
use schemas::timestamp::{UnixMs, to_text};
use serde_json::{Map, Value};

/// Where the settings or a claim have this for a project, all are meant.
const ALL_PROJECTS: &str = "*";
/// Characters shown of a name.
const NAME_CHARS: usize = 100;
/// Claims by which people know somebody, best first; the last always is there.
const NAME_CLAIMS: [&str; 4] = ["preferred_username", "email", "name", "sub"];
/// Claims that hold several values in one text, with blanks between them (RFC 8693, section 4.2).
const BLANKED_CLAIMS: [&str; 2] = ["scope", "scp"];

/// Claims that say whether others hold.
const HOLDING_CLAIMS: [&str; 4] = ["iss", "aud", "exp", "nbf"];

/// What is asked of claims, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// Who has to have issued the token: `iss`, to the letter.
    pub issuer: String,
    /// For whom: one of these has to be in `aud`.
    pub audience: Vec<String>,
    /// Where the roles are, with dots between the levels.
    pub role_claim: String,
    /// What each of the provider's roles means here. What is not named means nothing.
    pub roles: Vec<(String, Role)>,
    /// Where the projects are, as the roles; without it everybody reaches [`ClaimRules::projects`].
    pub projects_claim: Option<String>,
    /// Projects that everybody reaches where no claim says it; `*` for all.
    pub projects: Vec<String>,
    /// How far the clocks of the provider and of this server may be apart, milliseconds.
    pub leeway_ms: i64,
}

impl ClaimRules {
    /// Who is meant, if the claims hold at `now_ms`; otherwise why they do not, for a person, without what they say.
    pub(super) fn person(
        &self,
        claims: &Map<String, Value>,
        now_ms: UnixMs,
    ) -> Result<Credential, String> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(
                "the token is of another issuer than the one this server trusts".to_owned(),
            );
        }
        let is_ours = |name: &str| self.audience.iter().any(|ours| ours == name);
        if !texts(claims.get("aud")).any(is_ours) {
            return Err("the token is for another audience".to_owned());
        }
        let Some(ends_ms) = moment_ms(claims, "exp")? else {
            return Err("the token has no `exp`: one without an end is not accepted".to_owned());
        };
        let expires_at_ms = ends_ms.saturating_add(self.leeway_ms);
        if expires_at_ms <= now_ms {
            return Err(format!("the token expired at {}", to_text(ends_ms)));
        }
        if let Some(begins_ms) = moment_ms(claims, "nbf")?
            && begins_ms.saturating_sub(self.leeway_ms) > now_ms
        {
            return Err(format!(
                "the token is not valid before {}",
                to_text(begins_ms)
            ));
        }
        let id = claims
            .get("sub")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !(1..=ID_BYTES).contains(&id.len()) || id.chars().any(char::is_control) {
            return Err(format!("the token has no `sub` of 1 to {ID_BYTES} bytes"));
        }
        let provider_roles: Vec<String> =
            named(claims, &self.role_claim).map(str::to_owned).collect();
        Ok(Credential::Person {
            id: id.to_owned(),
            name: name(claims),
            roles: self.roles_of(&provider_roles),
            provider_roles,
            projects: self.projects_of(claims),
            expires_at_ms,
        })
    }

    /// The claims that [`ClaimRules::person`] looks at, and no others: nothing is kept of a person that is not needed.
    pub(super) fn kept(&self, mut claims: Map<String, Value>) -> Map<String, Value> {
        let paths = [Some(&self.role_claim), self.projects_claim.as_ref()];
        let is_on_a_path = |claim: &str| {
            let mut paths = paths.iter().flatten();
            paths.any(|path| {
                let inner = path.strip_prefix(claim);
                inner.is_some_and(|inner| inner.is_empty() || inner.starts_with('.'))
            })
        };
        claims.retain(|claim, _| {
            let is_named = |names: &[&str]| names.contains(&claim.as_str());
            is_named(&HOLDING_CLAIMS) || is_named(&NAME_CLAIMS) || is_on_a_path(claim)
        });
        claims
    }

    /// Every role that one of the provider's means, each once.
    fn roles_of(&self, provider_roles: &[String]) -> Vec<Role> {
        let is_meant = |role: &Role| {
            let mut rules = self.roles.iter();
            rules.any(|(name, meant)| meant == role && provider_roles.contains(name))
        };
        Role::ALL.into_iter().filter(is_meant).collect()
    }

    /// The projects within reach; `None` for all. Where a claim says it, it alone does: one that is missing means none.
    fn projects_of(&self, claims: &Map<String, Value>) -> Option<Vec<ProjectId>> {
        let names: Vec<&str> = match &self.projects_claim {
            Some(path) => named(claims, path).collect(),
            None => self.projects.iter().map(String::as_str).collect(),
        };
        if names.contains(&ALL_PROJECTS) {
            return None;
        }
        let valid = names.into_iter().filter(|name| ProjectId::is_valid(name));
        Some(valid.map(ProjectId::new).collect())
    }
}

/// A moment in seconds since 1970, which may have a fraction; `None` without it.
fn moment_ms(claims: &Map<String, Value>, claim: &str) -> Result<Option<UnixMs>, String> {
    match claims.get(claim) {
        None => Ok(None),
        // Beyond what a calendar can show, `as` gives the greatest number there is.
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1000.0) as UnixMs)),
            _ => Err(format!("`{claim}` of the token is not a time")),
        },
    }
}

fn name(claims: &Map<String, Value>) -> String {
    let shown = |claim: &&str| {
        let text = claims.get(*claim)?.as_str()?;
        let clean: String = text
            .chars()
            .filter(|c| !c.is_control())
            .take(NAME_CHARS)
            .collect();
        (!clean.trim().is_empty()).then_some(clean)
    };
    NAME_CLAIMS.iter().find_map(shown).unwrap_or_default()
}

/// The values of a claim by its path.
fn named<'c>(claims: &'c Map<String, Value>, path: &str) -> impl Iterator<Item = &'c str> {
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_blanked = BLANKED_CLAIMS.contains(&last);
    texts(at(claims, path)).flat_map(move |text| {
        let whole = (!is_blanked).then_some(text);
        let parts = is_blanked.then(|| text.split_ascii_whitespace());
        whole.into_iter().chain(parts.into_iter().flatten())
    })
}

/// What is at a path. A name may have dots in it itself, as those of claims with a namespace have.
fn at<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let inner = claims.get(&path[..dot])?.as_object()?;
        at(inner, &path[dot + 1..])
    })
}

/// One text, or those in a list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice);
    let one = value.and_then(Value::as_str);
    let listed = list.unwrap_or_default().iter().filter_map(Value::as_str);
    one.into_iter().chain(listed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOW_MS: UnixMs = 1_795_168_800_000;

    fn rules() -> ClaimRules {
        ClaimRules {
            issuer: "https://id.example.com/realms/r".to_owned(),
            audience: vec!["spindle".to_owned(), "spindle-staging".to_owned()],
            role_claim: "realm_access.roles".to_owned(),
            roles: vec![
                ("observers".to_owned(), Role::Viewer),
                ("robots".to_owned(), Role::Starter),
                ("sre".to_owned(), Role::Operator),
                ("sre".to_owned(), Role::Viewer),
                ("root=yes".to_owned(), Role::Admin),
            ],
            projects_claim: None,
            projects: vec!["shop".to_owned()],
            leeway_ms: 30_000,
        }
    }

    fn good() -> Value {
        json!({
            "iss": "https://id.example.com/realms/r", "aud": ["account", "spindle"], "sub": "u-1",
            "exp": NOW_MS / 1000 + 300, "iat": NOW_MS / 1000, "preferred_username": "ada",
            "realm_access": {"roles": ["observers", "other"]},
        })
    }

    fn person(rules: &ClaimRules, claims: &Value) -> Result<Credential, String> {
        rules.person(claims.as_object().unwrap(), NOW_MS)
    }

    fn with(claim: &str, value: Value) -> Value {
        let mut claims = good();
        claims[claim] = value;
        claims
    }

    fn roles(rules: &ClaimRules, claims: &Value) -> Vec<Role> {
        match person(rules, claims).unwrap() {
            Credential::Person { roles, .. } => roles,
            other => panic!("{other:?}"),
        }
    }

    fn projects(rules: &ClaimRules, claims: &Value) -> Option<Vec<ProjectId>> {
        match person(rules, claims).unwrap() {
            Credential::Person { projects, .. } => projects,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_kept_of_claims_makes_the_same_person_and_is_no_more() {
        let mut claims = good();
        claims["realm_access.roles"] = json!(["sre"]);
        claims["address"] = json!({"street_address": "1 Main St"});
        claims["projects"] = json!(["shop"]);
        for projects_claim in [None, Some("projects".to_owned())] {
            let rules = ClaimRules {
                projects_claim: projects_claim.clone(),
                ..rules()
            };
            let kept = Value::Object(rules.kept(claims.as_object().unwrap().clone()));
            assert_eq!(person(&rules, &kept), person(&rules, &claims));
            assert_eq!(kept.get("address"), None);
            assert_eq!(kept.get("projects").is_some(), projects_claim.is_some());
        }
    }

    #[test]
    fn good_claims_make_a_person() {
        let expected = Credential::Person {
            id: "u-1".to_owned(),
            name: "ada".to_owned(),
            roles: vec![Role::Viewer],
            provider_roles: vec!["observers".to_owned(), "other".to_owned()],
            projects: Some(vec![ProjectId::new("shop")]),
            expires_at_ms: NOW_MS + 330_000,
        };
        assert_eq!(person(&rules(), &good()), Ok(expected));
    }

    #[test]
    fn a_refusal_says_which_claim_does_not_hold_and_not_what_it_is() {
        let now_s = NOW_MS / 1000;
        for (claim, value, word) in [
            (
                "iss",
                json!("https://id.example.com/realms/r/"),
                "another issuer",
            ),
            (
                "iss",
                json!(["https://id.example.com/realms/r"]),
                "another issuer",
            ),
            ("iss", Value::Null, "another issuer"),
            ("aud", json!("other"), "another audience"),
            ("aud", json!([]), "another audience"),
            ("aud", json!({"spindle": true}), "another audience"),
            ("aud", Value::Null, "another audience"),
            (
                "exp",
                json!(now_s - 30),
                "expired at 2026-11-20T09:59:30.000Z",
            ),
            ("exp", json!("soon"), "`exp` of the token is not a time"),
            ("exp", json!(-1), "`exp` of the token is not a time"),
            ("exp", Value::Null, "`exp` of the token is not a time"),
            (
                "nbf",
                json!(now_s + 31),
                "not valid before 2026-11-20T10:00:31.000Z",
            ),
            ("nbf", json!("now"), "`nbf` of the token is not a time"),
            ("sub", json!(""), "no `sub`"),
            ("sub", json!(7), "no `sub`"),
            ("sub", json!("a\nb"), "no `sub`"),
            ("sub", json!("s".repeat(257)), "no `sub`"),
        ] {
            let message = person(&rules(), &with(claim, value)).unwrap_err();
            assert!(message.contains(word), "{claim}: {message}");
        }
        for claim in ["iss", "aud", "exp", "sub"] {
            let mut claims = good();
            claims.as_object_mut().unwrap().remove(claim);
            assert!(person(&rules(), &claims).is_err(), "{claim}");
        }
    }

    #[test]
    fn clocks_may_be_apart_by_the_leeway() {
        let now_s = NOW_MS / 1000;
        assert!(person(&rules(), &with("exp", json!(now_s - 29))).is_ok());
        assert!(person(&rules(), &with("exp", json!(now_s as f64 - 29.5))).is_ok());
        assert!(person(&rules(), &with("nbf", json!(now_s + 30))).is_ok());
        assert!(person(&rules(), &with("exp", json!(1e300))).is_ok());
    }

    #[test]
    fn every_role_that_is_mapped_is_held_and_no_other() {
        let given = |names: Value| {
            let claims = with("realm_access", json!({"roles": names}));
            roles(&rules(), &claims)
        };
        assert_eq!(
            given(json!(["robots", "observers"])),
            [Role::Viewer, Role::Starter]
        );
        assert_eq!(given(json!(["sre"])), [Role::Viewer, Role::Operator]);
        assert_eq!(given(json!("root=yes")), [Role::Admin]);
        // Our own names mean nothing unless the settings say so.
        assert_eq!(given(json!(["admin", "viewer", "Observers", 7])), []);
        assert_eq!(given(json!({"observers": true})), []);
    }

    #[test]
    fn roles_are_found_by_a_path_in_which_names_may_have_dots() {
        let at_path = |path: &str, claims: &Value| {
            let rules = ClaimRules {
                role_claim: path.to_owned(),
                ..rules()
            };
            roles(&rules, claims)
        };
        let client = json!({"spindle.api": {"roles": ["robots"]}});
        let path = "resource_access.spindle.api.roles";
        assert_eq!(
            at_path(path, &with("resource_access", client)),
            [Role::Starter]
        );
        let url = "https://example.com/roles";
        assert_eq!(at_path(url, &with(url, json!(["robots"]))), [Role::Starter]);
        assert_eq!(
            at_path("scope", &with("scope", json!("openid robots"))),
            [Role::Starter]
        );
        assert_eq!(at_path("roles", &with("roles", json!("openid robots"))), []);
        assert_eq!(at_path("nowhere.at.all", &good()), []);
    }

    #[test]
    fn projects_come_from_the_settings_unless_a_claim_says_them_t1() {
        let from_settings = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            projects(
                &ClaimRules {
                    projects: names,
                    ..rules()
                },
                &good(),
            )
        };
        assert_eq!(
            from_settings(&[]),
            Some(vec![]),
            "none unless they are named"
        );
        assert_eq!(from_settings(&["*"]), None);
        let by_claim = ClaimRules {
            projects_claim: Some("groups".to_owned()),
            projects: vec!["*".to_owned()],
            ..rules()
        };
        let from_claim = |value: Value| projects(&by_claim, &with("groups", value));
        assert_eq!(from_claim(json!(["a", "b"])).unwrap().len(), 2);
        assert_eq!(from_claim(json!("a")), Some(vec![ProjectId::new("a")]));
        assert_eq!(from_claim(json!(["Not A Project", 7])), Some(vec![]));
        assert_eq!(from_claim(json!(["*"])), None);
        assert_eq!(
            projects(&by_claim, &good()),
            Some(vec![]),
            "a claim that is missing"
        );
    }

    #[test]
    fn a_name_cannot_break_a_line_of_the_log_x2() {
        let named = |claims: Value| match person(&rules(), &claims).unwrap() {
            Credential::Person { name, .. } => name,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            named(with("preferred_username", json!("a\nb\u{1b}[31m"))),
            "ab[31m"
        );
        assert_eq!(
            named(with("preferred_username", json!("x".repeat(1000)))).len(),
            100
        );
        let mut without = good();
        without
            .as_object_mut()
            .unwrap()
            .remove("preferred_username");
        assert_eq!(named(without.clone()), "u-1");
        without["email"] = json!("ada@example.com");
        assert_eq!(named(without), "ada@example.com");
    }

    proptest! {
        #[test]
        fn whatever_the_times_are_a_person_is_let_in_only_between_them(
            exp in any::<i64>(), nbf in any::<i64>(), now_ms in 0..4_000_000_000_000_i64,
        ) {
            let mut claims = good();
            claims["exp"] = json!(exp);
            claims["nbf"] = json!(nbf);
            let rules = ClaimRules { leeway_ms: 0, ..rules() };
            if rules.person(claims.as_object().unwrap(), now_ms).is_ok() {
                prop_assert!(exp.saturating_mul(1000) > now_ms && nbf.saturating_mul(1000) <= now_ms);
            }
        }
    }
}
