//! What a scan looks at, and its bounds.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Url;
use store::config::Secret;

use super::report::UNKNOWN;

/// Services that may be set: a scan asks each, and a report names each (X1).
pub const SERVICES_MAX: usize = 200;
/// Capabilities of a service that may be set (X1).
const CAPABILITIES_MAX: usize = 50;
/// Bytes of a key, a name, a version and a capability (X1).
const TEXT_BYTES: usize = 200;
/// Keys of the tiers of this program, which it finds by itself.
pub(crate) const TIER_KEYS: [&str; 3] = ["spindleIngest", "spindleProcessor", "spindleQuery"];

/// What a scan looks at.
#[derive(Clone, Debug)]
pub struct ScanConfig {
    /// Time for one service or system to answer.
    pub probe_timeout: Duration,
    /// Time for the whole scan; what did not answer by then is unhealthy.
    pub scan_timeout: Duration,
    /// Services beside the known ones, or in their place by key.
    pub services: Vec<ServiceConfig>,
    /// The identity provider, if there is one.
    pub auth_provider: Option<AuthProviderConfig>,
    /// Where documents lie, if anywhere.
    pub document_storage: Option<StorageConfig>,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Its key in the report.
    pub key: String,
    /// For a person; the key if empty.
    pub name: String,
    /// Its version, where its health answer does not tell; empty for none.
    pub version: String,
    /// Where others reach it; may hold a user and a password, which are never shown.
    pub endpoint: Option<Url>,
    /// Where it tells how it is; the endpoint if there is none.
    pub health_url: Option<Url>,
    /// What it provides.
    pub capabilities: Vec<String>,
}

/// The identity provider.
#[derive(Clone, Debug)]
pub struct AuthProviderConfig {
    /// For a person.
    pub name: String,
    /// Its issuer, an `http` or `https` address: its discovery document lies below, and names it letter by letter.
    pub issuer: String,
}

/// A store that speaks S3.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// For a person.
    pub name: String,
    /// Where it is.
    pub endpoint: Url,
    /// Its region, such as `us-east-1`.
    pub region: String,
    /// Who asks.
    pub access_key: String,
    /// What requests are signed with.
    pub secret_key: Secret,
}

impl Default for ScanConfig {
    fn default() -> Self {
        Self {
            probe_timeout: Duration::from_secs(3),
            scan_timeout: Duration::from_secs(10),
            services: Vec::new(),
            auth_provider: None,
            document_storage: None,
        }
    }
}

/// Services that every report has.
pub(crate) const KNOWN_SERVICES: usize = 7;
/// Keys of what a report has beside services.
const SYSTEM_KEYS: [&str; 5] = [
    "database",
    "messageBroker",
    "cacheStore",
    "authProvider",
    "documentStorage",
];

/// The services that every report has: key, name, capabilities.
const KNOWN: [(&str, &str, &[&str]); KNOWN_SERVICES] = [
    (
        "svcEngine",
        "Process engine",
        &["process-execution", "process-start", "token-management"],
    ),
    (
        "svcDesigner",
        "Designer",
        &["process-modelling", "build-publishing"],
    ),
    (
        "svcAdmin",
        "Administration",
        &["configuration", "cache-management", "platform-rescan"],
    ),
    (
        "svcCms",
        "Content management",
        &["content", "translations", "media"],
    ),
    (
        "documentManagement",
        "Document management",
        &["document-storage", "document-generation"],
    ),
    (
        "notifications",
        "Notifications",
        &["e-mail", "messages", "templates"],
    ),
    (
        "taskManagement",
        "Task management",
        &["tasks", "assignment", "due-dates"],
    ),
];

impl ScanConfig {
    /// What is wrong with the services, one line each, by key where there is one.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.services.len() > SERVICES_MAX {
            faults.push(format!("at most {SERVICES_MAX} services can be set"));
        }
        let mut seen = BTreeSet::new();
        for (at, service) in self.services.iter().enumerate() {
            let key = service.key.as_str();
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if !(1..=TEXT_BYTES).contains(&key.len()) || !key.bytes().all(is_key) {
                faults.push(format!(
                    "service {} has the key \"{key}\", but must have one of 1 to {TEXT_BYTES} letters, digits, `_`, `-` and `.`",
                    at + 1
                ));
            } else if TIER_KEYS.contains(&key) {
                faults.push(format!(
                    "service `{key}` is a tier of this program, which it finds by itself"
                ));
            } else if SYSTEM_KEYS.contains(&key) {
                faults.push(format!(
                    "service `{key}` has the key of a system that every report names; choose another"
                ));
            } else if !seen.insert(key) {
                faults.push(format!("service `{key}` is set twice"));
            }
            let texts = [&service.name, &service.version];
            if texts
                .into_iter()
                .chain(&service.capabilities)
                .any(|text| text.len() > TEXT_BYTES)
            {
                faults.push(format!(
                    "service `{key}` has a text of more than {TEXT_BYTES} bytes"
                ));
            }
            if service.capabilities.len() > CAPABILITIES_MAX {
                faults.push(format!(
                    "service `{key}` has more than {CAPABILITIES_MAX} capabilities"
                ));
            }
        }
        if self.scan_timeout < self.probe_timeout {
            faults.push("the time for a scan must not be less than that for a probe".to_owned());
        }
        faults
    }

    /// Every service of a report but the tiers: the known ones, with those of the settings in their place or beside.
    pub(crate) fn all_services(&self) -> Vec<ServiceConfig> {
        let known = KNOWN.iter().map(|(key, name, capabilities)| ServiceConfig {
            key: (*key).to_owned(),
            name: (*name).to_owned(),
            capabilities: capabilities.iter().map(|word| (*word).to_owned()).collect(),
            ..ServiceConfig::default()
        });
        let mut all: Vec<ServiceConfig> = known.collect();
        for set in &self.services {
            match all.iter_mut().find(|known| known.key == set.key) {
                Some(known) => {
                    let mut set = set.clone();
                    if set.name.is_empty() {
                        set.name.clone_from(&known.name);
                    }
                    if set.capabilities.is_empty() {
                        set.capabilities.clone_from(&known.capabilities);
                    }
                    *known = set;
                }
                None => all.push(set.clone()),
            }
        }
        all
    }
}

impl ServiceConfig {
    /// Where to ask it how it is.
    pub(crate) fn probed(&self) -> Option<&Url> {
        self.health_url.as_ref().or(self.endpoint.as_ref())
    }

    /// Where it is, as a report shows it: without user, password and query.
    pub(crate) fn shown_endpoint(&self) -> String {
        match (&self.endpoint, &self.health_url) {
            (Some(endpoint), _) => shown(endpoint),
            (None, Some(health)) => health.origin().ascii_serialization(),
            (None, None) => String::new(),
        }
    }

    pub(crate) fn shown_name(&self) -> String {
        let name = match self.name.as_str() {
            "" => &self.key,
            name => name,
        };
        name.to_owned()
    }

    pub(crate) fn shown_version(&self) -> String {
        let version = match self.version.as_str() {
            "" => UNKNOWN,
            version => version,
        };
        version.to_owned()
    }
}

/// An address as it may be shown: whatever could be a secret is left out (X2).
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // They fail for addresses without a host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    let text = url.to_string();
    match url.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(key: &str) -> ServiceConfig {
        ServiceConfig {
            key: key.to_owned(),
            ..ServiceConfig::default()
        }
    }

    #[test]
    fn the_seven_known_services_are_always_there_and_can_be_replaced() {
        let mut config = ScanConfig::default();
        let keys = |config: &ScanConfig| -> Vec<String> {
            let all = config.all_services();
            all.into_iter().map(|service| service.key).collect()
        };
        let known = keys(&config);
        assert_eq!(known.len(), 7);
        config.services = vec![
            service("mine"),
            ServiceConfig {
                version: "4.2".to_owned(),
                ..service("svcCms")
            },
        ];
        let all = config.all_services();
        assert_eq!(all.len(), 8);
        let cms = all.iter().find(|service| service.key == "svcCms").unwrap();
        assert_eq!(
            (cms.name.as_str(), cms.version.as_str()),
            ("Content management", "4.2")
        );
        assert!(!cms.capabilities.is_empty());
    }

    #[test]
    fn addresses_are_shown_without_what_could_be_a_secret() {
        for (url, expected) in [
            ("http://u:hunter2@a:81/x?key=hunter2#h", "http://a:81/x"),
            ("https://a/", "https://a"),
            ("https://a/b/", "https://a/b/"),
        ] {
            assert_eq!(shown(&url.parse().unwrap()), expected);
        }
        let health = ServiceConfig {
            health_url: Some("http://u:p@a:81/health".parse().unwrap()),
            ..service("a")
        };
        assert_eq!(health.shown_endpoint(), "http://a:81");
    }

    #[test]
    fn every_fault_is_named() {
        let config = ScanConfig {
            services: vec![
                service("a b"),
                service("x"),
                service("x"),
                service("spindleQuery"),
                service("database"),
            ],
            scan_timeout: Duration::from_secs(1),
            ..ScanConfig::default()
        };
        let faults = config.faults().join("\n");
        for word in [
            "\"a b\"",
            "`x` is set twice",
            "`spindleQuery`",
            "`database` has the key of a system",
            "probe",
        ] {
            assert!(faults.contains(word), "{word}: {faults}");
        }
        assert!(ScanConfig::default().faults().is_empty());
        let many = ScanConfig {
            services: (0..=SERVICES_MAX)
                .map(|n| service(&format!("s{n}")))
                .collect(),
            ..ScanConfig::default()
        };
        assert_eq!(many.faults().len(), 1);
    }
}
