//! The commands for caches.

use std::fmt::Write as _;

use clap::Subcommand;
use serde_json::{Value, json};

use super::print;
use super::server::{Access, Ask, Server};

const CACHES: &str = "/api/internal/cache";
const CLEAR: &str = "/api/internal/cache/clear";

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// Lists the caches and their contents in every process.
    List {
        #[command(flatten)]
        access: Access,
    },
    /// Clears the caches of every process.
    Clear {
        /// Names as listed
        #[arg(value_name = "NAME", default_value = query::CORE_CACHE)]
        names: Vec<String>,
        #[command(flatten)]
        access: Access,
    },
}

pub(super) async fn run(command: CacheCommand) -> anyhow::Result<()> {
    match command {
        CacheCommand::List { access } => {
            let answer = asked(&access, &Ask::get(CACHES)).await?;
            if access.json {
                print(&answer, &access);
            } else {
                print!("{}", table(&answer));
            }
        }
        CacheCommand::Clear { names, access } => {
            let ask = Ask::post(CLEAR, &json!({ "cacheNames": names }));
            print(&asked(&access, &ask).await?, &access);
        }
    }
    Ok(())
}

async fn asked(access: &Access, ask: &Ask) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&Server::of(access)?.ask(ask).await?)?)
}

/// A line for each cache, followed by one for each part.
fn table(answer: &Value) -> String {
    let mut text = String::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for cache in list(&answer["data"]) {
        let name = cache["name"].as_str().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}  {}", figures(&cache));
        for part in list(&cache["parts"]) {
            let [name, role, endpoint] =
                ["name", "role", "endpoint"].map(|field| part[field].as_str().unwrap_or_default());
            let _ = writeln!(text, "  {name}  {role} {endpoint}  {}", figures(&part));
        }
    }
    text
}

fn figures(cache: &Value) -> String {
    let rate = cache["hit_rate"].as_f64();
    let rate = rate.map_or("none yet".to_owned(), |rate| {
        format!("{:.1} %", rate * 100.0)
    });
    format!(
        "entries={} bytes={}/{} hits={} misses={} hit rate={rate}",
        cache["entries"], cache["used_bytes"], cache["max_bytes"], cache["hits"], cache["misses"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_line_with_its_parts_below() {
        let figures = |rate| json!({"entries": 2, "used_bytes": 10, "max_bytes": 20, "hits": 1, "misses": 1, "hit_rate": rate});
        let mut cache = figures(json!(0.5));
        cache["name"] = json!("svc:core:cache");
        let mut part = figures(json!(null));
        part["name"] = json!("prices");
        part["role"] = json!("query");
        part["endpoint"] = json!("http://a");
        cache["parts"] = json!([part]);
        assert_eq!(
            table(&json!({ "data": [cache] })),
            "svc:core:cache  entries=2 bytes=10/20 hits=1 misses=1 hit rate=50.0 %\n  \
             prices  query http://a  entries=2 bytes=10/20 hits=1 misses=1 hit rate=none yet\n"
        );
    }
}
