//! The settings of `[platform]`: the targets of a scan.

use query::platform::scan::{AuthProviderConfig, ScanConfig, ServiceConfig, StorageConfig};
use reqwest::Url;
use store::Secret;
use toml::Value;

use super::reader::Reader;
use super::{ms, secs};

const SERVICES: &str = "platform.services";
/// Fields of a service's table.
const FIELDS: [&str; 6] = [
    "key",
    "name",
    "version",
    "endpoint",
    "health_url",
    "capabilities",
];

/// Users and the proxies between them and the server wait no longer than half a minute for a response. `issuer` is the
/// trusted one, if any: it is the identity provider unless another is set.
pub(super) fn read(from: &mut Reader, issuer: Option<&str>) -> ScanConfig {
    let config = ScanConfig {
        probe_timeout: from.duration("platform.probe_timeout", ms(10)..=secs(25)),
        scan_timeout: from.duration("platform.scan_timeout", ms(100)..=secs(25)),
        services: read_services(from),
        auth_provider: read_auth_provider(from, issuer),
        document_storage: read_document_storage(from),
    };
    for fault in config.faults() {
        from.fault(format!("`platform`: {fault}"));
    }
    config
}

fn read_services(from: &mut Reader) -> Vec<ServiceConfig> {
    let tables = from.tables(SERVICES);
    let mut services = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        match service(table) {
            Ok(service) => services.push(service),
            Err(fault) => from.fault(format!("`{SERVICES}`, table {}: {fault}", at + 1)),
        }
    }
    services
}

fn service(table: &toml::Table) -> Result<ServiceConfig, String> {
    if let Some(name) = table.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(format!(
            "`{name}` is not known; there are {}",
            FIELDS.join(", ")
        ));
    }
    let text = |name: &str| match table.get(name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{name}` must be text")),
    };
    let url = |name: &str| match text(name)?.as_str() {
        "" => Ok(None),
        text => web_address(text)
            .map(Some)
            .ok_or_else(|| format!("`{name}` must be an http or https address")),
    };
    let key = text("key")?;
    if key.is_empty() {
        return Err("`key` is missing".to_owned());
    }
    let capabilities = match table.get("capabilities") {
        None => Some(Vec::new()),
        Some(Value::Array(words)) => words
            .iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect(),
        Some(_) => None,
    };
    Ok(ServiceConfig {
        key,
        name: text("name")?,
        version: text("version")?,
        endpoint: url("endpoint")?,
        health_url: url("health_url")?,
        capabilities: capabilities.ok_or("`capabilities` must be a list of texts")?,
    })
}

fn read_auth_provider(from: &mut Reader, issuer: Option<&str>) -> Option<AuthProviderConfig> {
    let set = address(from, "platform.auth_provider.url").map(|(issuer, _)| issuer);
    let name = from.text("platform.auth_provider.name");
    let issuer = set.or_else(|| issuer.map(str::to_owned))?;
    Some(AuthProviderConfig { name, issuer })
}

fn read_document_storage(from: &mut Reader) -> Option<StorageConfig> {
    let endpoint = address(from, "platform.document_storage.url");
    let name = from.text("platform.document_storage.name");
    let region = from.text("platform.document_storage.region");
    let access_key = from.text("platform.document_storage.access_key");
    let secret_key = Secret::new(from.secret("platform.document_storage.secret_key"));
    let (_, endpoint) = endpoint?;
    for (key, is_empty) in [
        ("region", region.is_empty()),
        ("access_key", access_key.is_empty()),
        ("secret_key", secret_key.reveal().is_empty()),
    ] {
        if is_empty {
            from.fault(format!(
                "`platform.document_storage.{key}` is needed with `platform.document_storage.url`"
            ));
        }
    }
    Some(StorageConfig {
        name,
        endpoint,
        region,
        access_key,
        secret_key,
    })
}

/// A URL as written and as parsed; `None` when it is empty or invalid.
fn address(from: &mut Reader, key: &str) -> Option<(String, Url)> {
    let text = from.text(key);
    if text.is_empty() {
        return None;
    }
    let is_plain = |url: &Url| {
        let is_anybodys = url.username().is_empty() && url.password().is_none();
        is_anybodys && url.query().is_none() && url.fragment().is_none()
    };
    let url = web_address(&text).filter(is_plain);
    if url.is_none() {
        from.fault(format!(
            "`{key}` must be an http or https address without user, password, query and fragment, or empty"
        ));
    }
    url.map(|url| (text, url))
}

fn web_address(text: &str) -> Option<Url> {
    let url: Url = text.parse().ok()?;
    (["http", "https"].contains(&url.scheme()) && url.has_host()).then_some(url)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::DEFAULT_FILE;
    use super::super::reader::Shown;
    use super::*;

    fn settings(
        file: &str,
        environment: &[(&str, &str)],
    ) -> Result<(ScanConfig, Vec<Shown>), String> {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut reader = Reader::new(DEFAULT_FILE, file, environment, BTreeMap::new());
        let config = super::super::Config::read(&mut reader);
        match reader.finish() {
            Ok(shown) => Ok((config.scan, shown)),
            Err(faults) => Err(faults.to_string()),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_scan() {
        let (config, _) = settings("", &[]).unwrap();
        assert_eq!(
            format!("{config:?}"),
            format!("{:?}", ScanConfig::default())
        );
    }

    #[test]
    fn services_are_read_from_the_file_and_from_the_environment() {
        let expected = ServiceConfig {
            key: "svcCms".to_owned(),
            name: "Content".to_owned(),
            version: "1".to_owned(),
            endpoint: Some("http://u:hunter2@cms:81".parse().unwrap()),
            health_url: Some("http://cms:81/health".parse().unwrap()),
            capabilities: vec!["content".to_owned()],
        };
        let file = "[[platform.services]]\nkey = \"svcCms\"\nname = \"Content\"\nversion = \"1\"\nendpoint = \"http://u:hunter2@cms:81\"\nhealth_url = \"http://cms:81/health\"\ncapabilities = [\"content\"]";
        let json = r#"[{"key":"svcCms","name":"Content","version":"1","endpoint":"http://u:hunter2@cms:81","health_url":"http://cms:81/health","capabilities":["content"]}]"#;
        let toml = "[{key = 'svcCms', name = 'Content', version = '1', endpoint = 'http://u:hunter2@cms:81', health_url = 'http://cms:81/health', capabilities = ['content']}]";
        let name = "SPINDLE_PLATFORM__SERVICES";
        for (file, environment) in [
            (file, &[][..]),
            ("", &[(name, json)]),
            ("", &[(name, toml)]),
        ] {
            let (config, shown) = settings(file, environment).unwrap();
            assert_eq!(config.services, std::slice::from_ref(&expected));
            assert!(!format!("{shown:?}").contains("hunter2"), "(X2)");
        }
    }

    #[test]
    fn every_fault_of_a_service_is_named_and_no_secret_x2() {
        for (services, word) in [
            ("[{key = 'a', colour = 'red'}]", "`colour`"),
            ("[{name = 'a'}]", "`key`"),
            ("[{key = 'a', endpoint = 'hunter2'}]", "`endpoint`"),
            (
                "[{key = 'a', health_url = 'ftp://u:hunter2@a'}]",
                "`health_url`",
            ),
            ("[{key = 'a', capabilities = 'x'}]", "`capabilities`"),
            ("[{key = 'a', version = 2}]", "`version`"),
            ("[{key = 'a'}, {key = 'a'}]", "twice"),
            ("[{key = 'spindleQuery'}]", "`spindleQuery`"),
            ("['hunter2']", "platform.services"),
            ("7", "platform.services"),
        ] {
            let faults = settings(&format!("[platform]\nservices = {services}"), &[]);
            let faults = faults.unwrap_err();
            assert!(faults.contains(word), "{services}: {faults}");
            assert!(!faults.contains("hunter2"), "{faults}");
        }
    }

    #[test]
    fn the_issuer_whose_tokens_are_good_is_the_identity_provider_unless_another_is_set() {
        let good = "[auth.oidc]\nissuer = \"https://id\"\naudience = [\"a\"]\nroles = [\"r=viewer\"]\nprojects = [\"*\"]\n";
        let other = format!("{good}[platform.auth_provider]\nurl = \"https://other\"");
        for (file, issuer) in [(good, "https://id"), (&other, "https://other")] {
            let (config, _) = settings(file, &[]).unwrap();
            assert_eq!(config.auth_provider.unwrap().issuer, issuer);
        }
    }

    #[test]
    fn systems_of_others_are_set_whole_or_not_at_all() {
        let file = "[platform.auth_provider]\nurl = \"https://id\"\n[platform.document_storage]\nurl = \"http://s3:9000\"\naccess_key = \"k\"\nsecret_key = \"hunter2\"";
        let (config, shown) = settings(file, &[]).unwrap();
        assert_eq!(config.auth_provider.unwrap().issuer, "https://id");
        assert_eq!(config.document_storage.unwrap().region, "us-east-1");
        assert!(!format!("{shown:?}").contains("hunter2"), "(X2)");
        for (file, word) in [
            (
                "[platform.document_storage]\nurl = \"http://s3\"",
                "secret_key",
            ),
            (
                "[platform.document_storage]\nurl = \"s3\"",
                "document_storage.url",
            ),
            (
                "[platform.auth_provider]\nurl = \"http://u@a\"",
                "auth_provider.url",
            ),
            (
                "[platform.auth_provider]\nurl = \"http://:hunter2@a\"",
                "auth_provider.url",
            ),
            (
                "[platform.auth_provider]\nurl = \"http://a/#hunter2\"",
                "auth_provider.url",
            ),
            ("[platform]\nscan_timeout = \"1s\"", "probe"),
        ] {
            let faults = settings(file, &[]).unwrap_err();
            assert!(faults.contains(word), "{faults}");
        }
    }
}
