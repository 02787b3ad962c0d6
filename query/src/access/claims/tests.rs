//! Tokens of a provider under the rules of the settings.

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
fn stored_claims_authenticate_the_same_person_and_hold_nothing_else() {
    let mut claims = good();
    claims["realm_access.roles"] = json!(["sre"]);
    claims["address"] = json!({"street_address": "1 Main St"});
    claims["projects"] = json!(["shop"]);
    for projects_claim in [None, Some("projects".to_owned())] {
        let rules = ClaimRules {
            projects_claim: projects_claim.clone(),
            ..rules()
        };
        let needed = Value::Object(rules.needed(claims.as_object().unwrap().clone()));
        assert_eq!(person(&rules, &needed), person(&rules, &claims));
        assert_eq!(needed.get("address"), None);
        assert_eq!(needed.get("projects").is_some(), projects_claim.is_some());
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
fn an_error_names_the_invalid_claim_without_its_value() {
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
        ("sub", json!(""), "`sub` of the token"),
        ("sub", json!(7), "`sub` of the token"),
        ("sub", json!("a\nb"), "`sub` of the token"),
        ("sub", json!("s".repeat(257)), "`sub` of the token"),
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
fn clocks_may_differ_by_the_leeway() {
    let now_s = NOW_MS / 1000;
    assert!(person(&rules(), &with("exp", json!(now_s - 29))).is_ok());
    assert!(person(&rules(), &with("exp", json!(now_s as f64 - 29.5))).is_ok());
    assert!(person(&rules(), &with("nbf", json!(now_s + 30))).is_ok());
    assert!(person(&rules(), &with("exp", json!(1e300))).is_ok());
}

#[test]
fn only_mapped_roles_are_held() {
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
    // Names of built-in roles are not mapped by themselves.
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
fn projects_come_from_the_claim_if_one_is_set_and_else_from_the_settings_t1() {
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
    assert_eq!(from_settings(&[]), Some(vec![]), "no project by default");
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
        "a missing claim"
    );
}

#[test]
fn a_name_contains_no_control_character_x2() {
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
    fn a_token_is_valid_only_between_its_times(
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
