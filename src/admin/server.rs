//! The HTTP client of the commands.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::serve::folder::{Secrets, announced_address, credentials_file};

/// The server's URL when neither a flag nor the data folder has one.
const USUAL_URL: &str = "http://127.0.0.1:7070";
/// Time-out of a response.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Characters of a name that are escaped in a path.
const IN_A_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// URL and credential of the server.
#[derive(Args)]
pub(crate) struct Access {
    /// Address of the server [default: the file `address` in the data folder, else http://127.0.0.1:7070]
    #[arg(long, env = "SPINDLE_URL")]
    url: Option<String>,
    /// Admin token [default: from the credentials file in the data folder]
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

/// A request.
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

    /// PUT of a JSON text, which is sent unchanged, to a name below a path.
    pub(crate) fn put(path: &str, name: &str, body: String) -> anyhow::Result<Self> {
        Ok(Self {
            method: Method::PUT,
            path: format!("{path}/{}", segment(name)?),
            body: Some(body),
        })
    }

    /// GET of a path: its first part is used as it is, the others are escaped names.
    pub(crate) fn get_at(parts: &[&str]) -> anyhow::Result<Self> {
        Ok(Self::get(&joined(parts)?))
    }

    /// PUT of a JSON text, which is sent unchanged.
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

    /// Adds a query parameter.
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

/// A name as one path segment, escaped so that it cannot lead elsewhere.
fn segment(name: &str) -> anyhow::Result<String> {
    if matches!(name, "" | "." | "..") {
        bail!("`{name}` is not a valid name: use a name from `list`");
    }
    Ok(utf8_percent_encode(name, IN_A_PATH).to_string())
}

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

    /// The response as JSON text; an error response becomes an error with the server's message.
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
            .context("the answer of the server was interrupted")?;
        if status.is_success() {
            return Ok(text);
        }
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = answer["message"].as_str().unwrap_or("no reason given");
        match status {
            StatusCode::UNAUTHORIZED => bail!("the server rejected the token: {message}"),
            StatusCode::FORBIDDEN => bail!("the token lacks the permission: {message}"),
            _ => bail!("the server answered {}: {message}", status.as_u16()),
        }
    }
}

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
