//! Settings of scans.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Url;
use store::Secret;

use super::report::UNKNOWN;

/// Most configured services: each is probed and listed (X1).
pub const SERVICES_MAX: usize = 200;
/// Most capabilities of a service (X1).
const CAPABILITIES_MAX: usize = 50;
/// Bytes of a key, a name, a version and a capability (X1).
const TEXT_BYTES: usize = 200;
/// Keys of Spindle's tiers, which need no configuration.
pub(crate) const TIER_KEYS: [&str; 3] = ["spindleIngest", "spindleProcessor", "spindleQuery"];

/// Settings of scans.
#[derive(Clone, Debug)]
pub struct ScanConfig {
    /// Timeout of one service or system.
    pub probe_timeout: Duration,
    /// Timeout of the scan; systems without an answer by then are unhealthy.
    pub scan_timeout: Duration,
    /// Additional services, or replacements of known ones by key.
    pub services: Vec<ServiceConfig>,
    pub auth_provider: Option<AuthProviderConfig>,
    pub document_storage: Option<StorageConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Key in the report.
    pub key: String,
    /// Display name; the key if empty.
    pub name: String,
    /// Version if the health response has none; may be empty.
    pub version: String,
    /// Address; reports do not contain its user and password.
    pub endpoint: Option<Url>,
    /// Address of the health check; by default the endpoint.
    pub health_url: Option<Url>,
    pub capabilities: Vec<String>,
}

/// The identity provider.
#[derive(Clone, Debug)]
pub struct AuthProviderConfig {
    /// Display name.
    pub name: String,
    /// Issuer, an `http` or `https` URL, exactly as in its discovery document.
    pub issuer: String,
}

/// A storage with the S3 API.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Display name.
    pub name: String,
    pub endpoint: Url,
    /// Region, for example `us-east-1`.
    pub region: String,
    pub access_key: String,
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

/// Number of services in every report.
pub(crate) const KNOWN_SERVICES: usize = 7;
/// Keys of the other systems in a report.
const SYSTEM_KEYS: [&str; 5] = [
    "database",
    "messageBroker",
    "cacheStore",
    "authProvider",
    "documentStorage",
];

/// The services in every report: key, name, capabilities.
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
    /// Violated rules, one line each.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.services.len() > SERVICES_MAX {
            faults.push(format!(
                "at most {SERVICES_MAX} services can be configured, got {}",
                self.services.len()
            ));
        }
        let mut seen = BTreeSet::new();
        for (at, service) in self.services.iter().enumerate() {
            let key = service.key.as_str();
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if !(1..=TEXT_BYTES).contains(&key.len()) || !key.bytes().all(is_key) {
                faults.push(format!(
                    "the key of service {} must have 1 to {TEXT_BYTES} letters, digits, `_`, `-` and `.`, got \"{key}\"",
                    at + 1
                ));
            } else if TIER_KEYS.contains(&key) {
                faults.push(format!(
                    "service `{key}` is a tier of Spindle, which needs no configuration"
                ));
            } else if SYSTEM_KEYS.contains(&key) {
                faults.push(format!(
                    "service `{key}` has the key of a system of every report; choose another key"
                ));
            } else if !seen.insert(key) {
                faults.push(format!("service `{key}` is configured twice"));
            }
            let texts = [&service.name, &service.version];
            if texts
                .into_iter()
                .chain(&service.capabilities)
                .any(|text| text.len() > TEXT_BYTES)
            {
                faults.push(format!(
                    "name, version and capabilities of service `{key}` must have at most {TEXT_BYTES} bytes each"
                ));
            }
            if service.capabilities.len() > CAPABILITIES_MAX {
                faults.push(format!(
                    "service `{key}` must have at most {CAPABILITIES_MAX} capabilities"
                ));
            }
        }
        if self.scan_timeout < self.probe_timeout {
            faults.push("`scan_timeout` must not be less than `probe_timeout`".to_owned());
        }
        faults
    }

    /// All services of a report except the tiers: the known ones, and the configured ones that replace or extend them.
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
    /// Address of the health check.
    pub(crate) fn health_address(&self) -> Option<&Url> {
        self.health_url.as_ref().or(self.endpoint.as_ref())
    }

    /// The address without user, password and query.
    pub(crate) fn public_endpoint(&self) -> String {
        match (&self.endpoint, &self.health_url) {
            (Some(endpoint), _) => without_secrets(endpoint),
            (None, Some(health)) => health.origin().ascii_serialization(),
            (None, None) => String::new(),
        }
    }

    pub(crate) fn display_name(&self) -> String {
        let name = match self.name.as_str() {
            "" => &self.key,
            name => name,
        };
        name.to_owned()
    }

    pub(crate) fn version_or_unknown(&self) -> String {
        let version = match self.version.as_str() {
            "" => UNKNOWN,
            version => version,
        };
        version.to_owned()
    }
}

/// A URL without the parts that may contain secrets (X2).
pub(crate) fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    // These fail for URLs without a host, which have no user either.
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
    fn the_known_services_always_exist_and_can_be_replaced() {
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
    fn urls_are_reported_without_secrets() {
        for (url, expected) in [
            ("http://u:hunter2@a:81/x?key=hunter2#h", "http://a:81/x"),
            ("https://a/", "https://a"),
            ("https://a/b/", "https://a/b/"),
        ] {
            assert_eq!(without_secrets(&url.parse().unwrap()), expected);
        }
        let health = ServiceConfig {
            health_url: Some("http://u:p@a:81/health".parse().unwrap()),
            ..service("a")
        };
        assert_eq!(health.public_endpoint(), "http://a:81");
    }

    #[test]
    fn every_violated_rule_is_named() {
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
            "`x` is configured twice",
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
