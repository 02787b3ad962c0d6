//! From the claims of a JWT to a [`Credential`]. Pure: the time is an argument.

use schemas::credential::{Credential, Role};
use schemas::ids::ProjectId;
use schemas::limits::ID_BYTES;
use schemas::timestamp::{UnixMs, to_text};
use serde_json::{Map, Value};

/// Stands for all projects, in settings and claims.
const ALL_PROJECTS: &str = "*";
/// Longest name that is kept.
const NAME_CHARS: usize = 100;
/// Claims with a display name, best first; `sub` always exists.
const NAME_CLAIMS: [&str; 4] = ["preferred_username", "email", "name", "sub"];
/// Claims with several values in one string, separated by spaces (RFC 8693, section 4.2).
const SPACED_CLAIMS: [&str; 2] = ["scope", "scp"];

/// Claims that decide whether a token is valid.
const VALIDITY_CLAIMS: [&str; 4] = ["iss", "aud", "exp", "nbf"];

/// Requirements on claims, and how roles and projects follow from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// Exact value of `iss`.
    pub issuer: String,
    /// `aud` must contain one of these.
    pub audience: Vec<String>,
    /// Path of the roles, with dots between the levels.
    pub role_claim: String,
    /// Role of the provider to role of Spindle; other roles of the provider are ignored.
    pub roles: Vec<(String, Role)>,
    /// Path of the projects; without it every user reaches [`ClaimRules::projects`].
    pub projects_claim: Option<String>,
    /// Projects of every user without a `projects_claim`; `*` for all.
    pub projects: Vec<String>,
    /// Tolerated difference between the clocks of the provider and this server, milliseconds.
    pub leeway_ms: i64,
}

impl ClaimRules {
    /// The user, if the claims are valid at `now_ms`.
    ///
    /// # Errors
    /// The claim that is invalid and why, without its value.
    pub(super) fn person(
        &self,
        claims: &Map<String, Value>,
        now_ms: UnixMs,
    ) -> Result<Credential, String> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err("`iss` of the token is another issuer than the trusted one".to_owned());
        }
        let is_ours = |name: &str| self.audience.iter().any(|ours| ours == name);
        if !texts(claims.get("aud")).any(is_ours) {
            return Err("`aud` of the token is another audience".to_owned());
        }
        let Some(ends_ms) = moment_ms(claims, "exp")? else {
            return Err("the token has no `exp`; tokens must expire".to_owned());
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
            return Err(format!(
                "`sub` of the token must be text of 1 to {ID_BYTES} bytes"
            ));
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

    /// The claims that [`ClaimRules::person`] reads: a session stores no other personal data.
    pub(super) fn needed(&self, mut claims: Map<String, Value>) -> Map<String, Value> {
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
            is_named(&VALIDITY_CLAIMS) || is_named(&NAME_CLAIMS) || is_on_a_path(claim)
        });
        claims
    }

    /// The mapped roles, each once.
    fn roles_of(&self, provider_roles: &[String]) -> Vec<Role> {
        let is_mapped = |role: &Role| {
            let mut rules = self.roles.iter();
            rules.any(|(name, mapped)| mapped == role && provider_roles.contains(name))
        };
        Role::ALL.into_iter().filter(is_mapped).collect()
    }

    /// The reachable projects; `None` for all. With a `projects_claim` a token without the claim reaches no project.
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

/// A time in seconds since 1970, which may have a fraction; `None` without the claim.
fn moment_ms(claims: &Map<String, Value>, claim: &str) -> Result<Option<UnixMs>, String> {
    match claims.get(claim) {
        None => Ok(None),
        // `as` saturates beyond the range of the calendar.
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1000.0) as UnixMs)),
            _ => Err(format!("`{claim}` of the token is not a time")),
        },
    }
}

fn name(claims: &Map<String, Value>) -> String {
    let clean = |claim: &&str| {
        let text = claims.get(*claim)?.as_str()?;
        let name: String = text
            .chars()
            .filter(|c| !c.is_control())
            .take(NAME_CHARS)
            .collect();
        (!name.trim().is_empty()).then_some(name)
    };
    NAME_CLAIMS.iter().find_map(clean).unwrap_or_default()
}

/// The values of the claim at a path.
fn named<'c>(claims: &'c Map<String, Value>, path: &str) -> impl Iterator<Item = &'c str> {
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_spaced = SPACED_CLAIMS.contains(&last);
    texts(at(claims, path)).flat_map(move |text| {
        let whole = (!is_spaced).then_some(text);
        let parts = is_spaced.then(|| text.split_ascii_whitespace());
        whole.into_iter().chain(parts.into_iter().flatten())
    })
}

/// The value at a path. Names may contain dots, as claims with a namespace do.
fn at<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let inner = claims.get(&path[..dot])?.as_object()?;
        at(inner, &path[dot + 1..])
    })
}

/// One string, or the strings of a list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice);
    let one = value.and_then(Value::as_str);
    let listed = list.unwrap_or_default().iter().filter_map(Value::as_str);
    one.into_iter().chain(listed)
}

#[cfg(test)]
mod tests;
