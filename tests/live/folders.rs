//! Data folders of released versions open and serve: everything that is stored is still read (`tests/folders/`).

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN};

/// Fields whose value depends on when they are asked for.
const OF_THE_MOMENT: [&str; 2] = ["stale", "next_cursor"];
/// What a later version says more exactly, by decision: field, before, now.
const SAID_MORE_EXACTLY: [(&str, &str, &str); 1] = [
    // The price in the folder has no rate for cached tokens; the cost is the same.
    ("cost_status", "priced", "partly_priced"),
];

/// Columns of `runs` that rows of earlier versions lack, or that these versions filled in another way.
const FILLED_BY_A_REBUILD: [&str; 2] = ["turn_at", "output_preview"];

fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/folders");
    let paths = std::fs::read_dir(all)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect()
}

/// The folder in its archive, ready to start, and the answers of the version that wrote it.
fn unpacked(archive: &Path) -> (Setup, Value) {
    // Retention is due in every folder that is older than a day; it would be among the jobs.
    let mut setup = Setup::new().with("retention.at", "never");
    let done = Command::new("tar")
        .args(["--no-same-owner", "-xzf"])
        .arg(archive)
        .arg("-C")
        .arg(setup.folder.path())
        .status()
        .unwrap();
    assert!(done.success(), "{}", archive.display());
    let said = std::fs::read(setup.folder.path().join("answers.json")).unwrap();
    let said: Value = serde_json::from_slice(&said).unwrap();
    setup.key = said["key"].as_str().unwrap().to_owned();
    setup.token = said["token"].as_str().unwrap().to_owned();
    // Of the server that was killed: a command would ask there.
    std::fs::remove_file(setup.data().join("address")).unwrap();
    (setup, said)
}

/// Where `now` lacks something that `then` has. What a later version adds to an answer is no difference.
fn differences(path: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                let other = now.get(name).unwrap_or(&Value::Null);
                let is_more_exact = SAID_MORE_EXACTLY
                    .iter()
                    .any(|(field, before, now)| name == field && value == before && other == now);
                if !OF_THE_MOMENT.contains(&name.as_str()) && !is_more_exact {
                    differences(&format!("{path} {name}"), value, other, found);
                }
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (n, (value, other)) in then.iter().zip(now).enumerate() {
                differences(&format!("{path}[{n}]"), value, other, found);
            }
        }
        (then, now) if then == now => {}
        (then, now) => found.push(format!("{path}: was {then}, is {now}")),
    }
}

/// A body as JSON; lines of JSON as a list; other text as it is.
fn parsed(body: &str) -> Value {
    let lines = || body.lines().map(serde_json::from_str::<Value>).collect();
    let whole = serde_json::from_str(body).or_else(|_| lines());
    whole.unwrap_or_else(|_| Value::String(body.to_owned()))
}

async fn ask(server: &Server, path: &str) -> (StatusCode, Value) {
    let request = server.client.get(format!("{}{path}", server.url));
    let answer = request.bearer_auth(&server.token).send().await.unwrap();
    let status = answer.status();
    (status, parsed(&answer.text().await.unwrap()))
}

async fn every_answer_is_the_same(server: &Server, said: &Value) {
    let mut found = Vec::new();
    for answer in said["answers"].as_array().unwrap() {
        let path = answer["path"].as_str().unwrap();
        let (status, now) = ask(server, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {now}");
        let then = answer["body"]
            .as_str()
            .map_or(answer["body"].clone(), parsed);
        differences(path, &then, &now, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Of a cursor either the page follows, or the list has to be begun again: never another page.
    let (status, now) = ask(server, said["next_page"]["path"].as_str().unwrap()).await;
    if status == StatusCode::OK {
        differences("next page", &said["next_page"]["body"], &now, &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    } else {
        assert_eq!(
            (status, &now["error"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_cursor"))
        );
    }
}

async fn every_credential_reaches_what_it_did(server: &Server, said: &Value) {
    for secret in ["second", "viewer"] {
        let secret = said[secret].as_str().unwrap();
        let (status, page) = server.get_as(secret, "/api/run").await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        assert_eq!(page["data"][0]["run_id"], "theirs");
    }
}

async fn old_runs_take_new_events(server: &Server) {
    let at = |second: i64| 1_795_176_000_000 + second * 1000;
    let old_app = |run: &str, name: &str, second: i64| json!({"name": name, "app_id": "shop", "run_id": run, "timestamp": at(second)});
    let mut deep = old_app("model-10", "llm_call", 100);
    let more = json!({"parent_run_id": "step-5", "type": "llm", "model": "house-1", "prompt_tokens": 1000, "completion_tokens": 0});
    deep.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let events = [
        deep,
        old_app("root", "agent_error", 101),
        json!({"name": "saved", "run_id": "call-1", "timestamp": at(102)}),
        json!({"name": "chat", "run_id": "chat-3", "timestamp": at(103), "role": "assistant", "content": "bye", "thread_id": "thread-1"}),
    ];
    let (_, before) = server.get("/api/run/root?app_id=shop").await;
    let answer = server.report(&events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    server
        .until("old runs know new events", VISIBLE_WITHIN, async || {
            let (_, root) = server.get("/api/run/root?app_id=shop").await;
            let (_, call) = server.get("/api/run/call-1").await;
            let (_, thread) = server.get("/api/thread/thread-1").await;
            let gained = root["total_cost"].as_f64()? - before["total_cost"].as_f64()?;
            let costs = (gained - 0.5).abs() < 1e-9;
            let is_all = root["status"] == "error" && call["saved"] == true;
            (costs && is_all && thread["message_count"] == 4).then_some(())
        })
        .await;
    // The old rows and the new ones are what a fold of the stored events gives (P5), but for columns that a later
    // version added or fills in another way: `spindle rebuild` brings those up to date.
    let checked = server.command(&["check"]);
    let report = String::from_utf8_lossy(&checked.stdout);
    let count = |name: &str| {
        let mut lines = report.lines();
        let line = lines
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default();
        line.trim().parse::<usize>().unwrap()
    };
    let examples: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("columns="))
        .collect();
    for example in &examples {
        let columns = example.split_once("columns=[").unwrap().1;
        let columns = columns.split_once(']').unwrap().0;
        let mut columns = columns.split(',').map(|column| column.trim_matches('"'));
        assert!(
            columns.all(|column| FILLED_BY_A_REBUILD.contains(&column)),
            "{example}"
        );
    }
    assert_eq!(count("different:"), examples.len(), "{checked:?}");
    assert_eq!((count("missing:"), count("extra:")), (0, 0), "{checked:?}");
    let rebuilt = server.command(&["rebuild"]);
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    let checked = server.command(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_every_earlier_version_opens_and_serves() {
    let folders = folders();
    assert!(!folders.is_empty());
    for archive in folders {
        let (setup, said) = unpacked(&archive);
        let server = setup.start_ready().await;
        server
            .until("the backlog is processed", VISIBLE_WITHIN, async || {
                let (_, run) = server.get("/api/run/model-9?app_id=shop").await;
                let (_, rated) = server.get("/api/run/call-1").await;
                let changed = rated.to_string().contains("changed my mind");
                (run["run_id"] == "model-9" && changed).then_some(())
            })
            .await;
        every_answer_is_the_same(&server, &said).await;
        every_credential_reaches_what_it_did(&server, &said).await;
        old_runs_take_new_events(&server).await;
    }
}
