//! The running server as a command reaches it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::serve::folder::{Secrets, announced_address, credentials_file};

/// Where the server is when neither a flag nor the data folder says so.
const USUAL_URL: &str = "http://127.0.0.1:7070";
/// How long the server may take for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// What of a name is escaped where it stands in a path.
const IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// How to reach the server and as whom.
#[derive(Args)]
pub(crate) struct Access {
    /// Address of the server [default: what the server left in the data folder, else http://127.0.0.1:7070]
    #[arg(long, env = "SPINDLE_URL")]
    url: Option<String>,
    /// Admin token [default: the one in the credentials file of the data folder]
    #[arg(long, env = "SPINDLE_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Data folder of the server
    #[arg(
        long,
        value_name = "DIR",
        default_value = "./spindle-data",
        env = "SPINDLE_SERVER__DATA_DIR"
    )]
    data_dir: PathBuf,
    /// Print the answer of the server as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is asked of the server.
pub(crate) struct Ask {
    method: Method,
    path: String,
    /// JSON.
    body: Option<String>,
}

impl Ask {
    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            body: None,
        }
    }

    pub(crate) fn post(path: &str, body: &Value) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            body: Some(body.to_string()),
        }
    }

    /// Puts the JSON text under a name; it goes out as it stands.
    pub(crate) fn put(path: &str, name: &str, body: String) -> anyhow::Result<Self> {
        Ok(Self {
            method: Method::PUT,
            path: format!("{path}/{}", segment(name)?),
            body: Some(body),
        })
    }

    /// Asks for what is under these parts of a path: the first as it stands, the others as names.
    pub(crate) fn get_at(parts: &[&str]) -> anyhow::Result<Self> {
        Ok(Self::get(&joined(parts)?))
    }

    /// Puts the JSON text there; it goes out as it stands.
    pub(crate) fn put_at(parts: &[&str], body: String) -> anyhow::Result<Self> {
        Ok(Self {
            method: Method::PUT,
            path: joined(parts)?,
            body: Some(body),
        })
    }

    pub(crate) fn delete(path: &str, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            method: Method::DELETE,
            path: format!("{path}/{}", segment(name)?),
            body: None,
        })
    }

    /// Adds a parameter.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            let mark = if self.path.contains('?') { '&' } else { '?' };
            let value = utf8_percent_encode(value, IN_A_PATH);
            self.path = format!("{}{mark}{name}={value}", self.path);
        }
        self
    }
}

fn joined(parts: &[&str]) -> anyhow::Result<String> {
    let (first, names) = parts.split_first().context("a path has a beginning")?;
    let mut path = (*first).to_owned();
    for name in names {
        path.push('/');
        path.push_str(&segment(name)?);
    }
    Ok(path)
}

/// A name as one segment of a path: whatever it holds, it cannot lead elsewhere.
fn segment(name: &str) -> anyhow::Result<String> {
    if matches!(name, "" | "." | "..") {
        bail!("`{name}` is no name: use one that `list` shows");
    }
    Ok(utf8_percent_encode(name, IN_A_PATH).to_string())
}

/// A server, and a token for it.
pub(crate) struct Server {
    client: Client,
    url: String,
    token: String,
}

impl Server {
    pub(crate) fn of(access: &Access) -> anyhow::Result<Self> {
        let announced = || announced_address(&access.data_dir);
        let url = access
            .url
            .clone()
            .or_else(announced)
            .unwrap_or_else(|| USUAL_URL.to_owned());
        let token = match &access.token {
            Some(token) => token.clone(),
            None => {
                match Secrets::read(&access.data_dir)?.and_then(|secrets| secrets.admin_token) {
                    Some(token) => token,
                    None => bail!(
                        "no admin token: give --token or SPINDLE_ADMIN_TOKEN, or --data-dir of the server ({} has none)",
                        credentials_file(&access.data_dir).display()
                    ),
                }
            }
        };
        Ok(Self {
            client: Client::builder().timeout(ANSWER_TIME).build()?,
            url: url.trim_end_matches('/').to_owned(),
            token,
        })
    }

    /// The answer, JSON as it stands; a refusal is an error that says what the server said.
    pub(crate) async fn ask(&self, ask: &Ask) -> anyhow::Result<String> {
        let url = &self.url;
        let mut request = self
            .client
            .request(ask.method.clone(), format!("{url}{}", ask.path))
            .bearer_auth(&self.token);
        if let Some(body) = &ask.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                bail!("no server answers at {url}: is `spindle serve` running?")
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot ask the server at {url}"));
            }
        };
        let status = response.status();
        let text = response
            .text()
            .await
            .context("the answer of the server broke off")?;
        if status.is_success() {
            return Ok(text);
        }
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = answer["message"].as_str().unwrap_or("no reason given");
        match status {
            StatusCode::UNAUTHORIZED => bail!("the server does not know this token: {message}"),
            StatusCode::FORBIDDEN => bail!("this token may not do that: {message}"),
            _ => bail!("the server refused ({}): {message}", status.as_u16()),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_change_the_path() {
        for name in ["", ".", ".."] {
            assert!(Ask::delete("/keys", name).is_err(), "{name}");
        }
        for (name, path) in [
            ("k-1_A", "/keys/k-1_A"),
            ("../projects/x", "/keys/..%2Fprojects%2Fx"),
            ("a/b?c=d#e ä", "/keys/a%2Fb%3Fc%3Dd%23e%20%C3%A4"),
        ] {
            assert_eq!(Ask::delete("/keys", name).unwrap().path, path);
        }
    }

    #[test]
    fn parameters_are_added_where_they_are_given() {
        let ask = Ask::get("/x")
            .with("a", Some("1&2"))
            .with("b", None)
            .with("c", Some("ä"));
        assert_eq!(ask.path, "/x?a=1%262&c=%C3%A4");
    }
}
