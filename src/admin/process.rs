//! The commands for builds of applications and their processes.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::Value;

use super::read_file;
use super::server::{Access, Ask, Server};

const APPS: &str = "/api/platform/app";
/// Bytes of a file: the server's limit.
const FILE_BYTES: u64 = 4 << 20;

#[derive(Subcommand)]
pub(crate) enum ProcessCommand {
    /// Registers a build with the processes that can be started in it.
    Register {
        /// JSON: the body of the API, with `appId` and `buildId` unless they are given as flags
        file: PathBuf,
        /// Application of the build
        #[arg(long)]
        app: Option<String>,
        /// Id of the build
        #[arg(long)]
        build: Option<String>,
        /// Project of the build [default: the only project of the token, else `default`]
        #[arg(long)]
        project: Option<String>,
        #[command(flatten)]
        access: Access,
    },
    /// Lists the builds of an application with the names of their processes.
    List {
        /// The application
        app: String,
        /// Only builds of this project
        #[arg(long)]
        project: Option<String>,
        #[command(flatten)]
        access: Access,
    },
}

pub(crate) async fn run(command: ProcessCommand) -> anyhow::Result<()> {
    match command {
        ProcessCommand::Register {
            file,
            app,
            build,
            project,
            access,
        } => {
            let (app, build, body) = read(&file, app, build)?;
            let ask = Ask::put_at(&[APPS, &app, "build", &build], body)?
                .with("project_id", project.as_deref());
            let answer = Server::of(&access)?.ask(&ask).await?;
            if access.json {
                println!("{answer}");
                return Ok(());
            }
            let answer: Value =
                serde_json::from_str(&answer).context("the answer of the server is not a build")?;
            println!("{}", registered(&answer));
        }
        ProcessCommand::List {
            app,
            project,
            access,
        } => {
            let ask = Ask::get_at(&[APPS, &app, "build"])?.with("project_id", project.as_deref());
            let answer = Server::of(&access)?.ask(&ask).await?;
            super::print(&serde_json::from_str(&answer).unwrap_or_default(), &access);
        }
    }
    Ok(())
}

/// App, build, and the body for the server, without these two.
fn read(
    path: &Path,
    app: Option<String>,
    build: Option<String>,
) -> anyhow::Result<(String, String, String)> {
    let text = read_file(path, FILE_BYTES)?;
    taken(&text, app, build).with_context(|| path.display().to_string())
}

fn taken(
    text: &str,
    app: Option<String>,
    build: Option<String>,
) -> anyhow::Result<(String, String, String)> {
    let mut body: Value = serde_json::from_str(text).context("invalid JSON")?;
    let Some(fields) = body.as_object_mut() else {
        bail!("the build must be a JSON object");
    };
    let mut take =
        |field: &str, given: Option<String>, flag: &str| match (fields.remove(field), given) {
            (None, Some(given)) => Ok(given),
            (Some(Value::String(said)), None) => Ok(said),
            (Some(Value::String(said)), Some(given)) if said == given => Ok(said),
            (Some(Value::String(said)), Some(given)) => {
                bail!("`{field}` is `{said}`, but {flag} is `{given}`")
            }
            (Some(_), _) => bail!("`{field}` must be text"),
            (None, None) => bail!("`{field}` is missing: add it to the file, or set {flag}"),
        };
    let (app, build) = (
        take("appId", app, "--app")?,
        take("buildId", build, "--build")?,
    );
    Ok((app, build, body.to_string()))
}

fn registered(build: &Value) -> String {
    let text = |field: &str| build[field].as_str().unwrap_or_default().to_owned();
    let processes = build["processes"].as_array().map_or(0, Vec::len);
    format!(
        "build {} of {} in project {}: {processes} processes, status {}",
        text("buildId"),
        text("appId"),
        text("projectId"),
        text("status")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_and_build_come_from_the_file_or_the_flags_and_have_to_agree() {
        let file = r#"{"appId": "a", "buildId": "b", "status": "s", "processes": []}"#;
        let some = |text: &str| Some(text.to_owned());
        let (app, build, body) = taken(file, None, some("b")).unwrap();
        assert_eq!((&*app, &*build), ("a", "b"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, serde_json::json!({"status": "s", "processes": []}));
        assert_eq!(taken("{}", some("x"), some("y")).unwrap().0, "x");
        for (text, app, named) in [
            (file, some("c"), "--app"),
            ("{}", None, "appId"),
            (r#"{"appId": 7}"#, None, "text"),
            ("[]", None, "object"),
            ("{", None, "JSON"),
        ] {
            let why = format!("{:#}", taken(text, app, None).unwrap_err());
            assert!(why.contains(named), "{why}");
        }
    }
}
