//! Datasets: the list, the whole runs in every format, and lines for fine-tuning.

use parquet::record::Field;
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};
use store::tables::rows::{EventRow, RunRow};

use crate::api::run::export::{file, lines, records, rows};
use crate::tier::{NOON_MS, Tier, run};

/// A saved run of a type with a start and an end event.
pub(crate) struct Told {
    pub(crate) project: &'static str,
    pub(crate) run_id: String,
    pub(crate) kind: &'static str,
    pub(crate) parent: &'static str,
    pub(crate) saved: u8,
    pub(crate) started_at: i64,
    pub(crate) payloads: [String; 2],
}

impl Told {
    pub(crate) fn new(
        number: i64,
        run_id: &str,
        kind: &'static str,
        (input, output): (Value, Value),
    ) -> Self {
        let started_at = NOON_MS + number * 1000;
        let at = |ms| schemas::timestamp::to_text(ms);
        let start = json!({"name": "llm_start", "run_id": run_id, "timestamp": at(started_at), "type": kind,
            "input": input, "metadata": {"env": "prod", "n": number}});
        let end = json!({"name": "llm_end", "run_id": run_id, "timestamp": at(started_at + 500), "output": output});
        Self {
            project: "ours",
            run_id: run_id.to_owned(),
            kind,
            parent: "",
            saved: 1,
            started_at,
            payloads: [start.to_string(), end.to_string()],
        }
    }

    fn row(&self) -> RunRow<'_> {
        RunRow {
            r#type: self.kind,
            calls: u64::from(self.kind == "llm"),
            saved: self.saved,
            started_at: self.started_at,
            root_run_id: if self.parent.is_empty() {
                &self.run_id
            } else {
                "agent"
            },
            first_event_at: self.started_at,
            last_event_at: self.started_at + 500,
            ..run(self.project, "app", &self.run_id, self.parent)
        }
    }

    fn events(&self) -> impl Iterator<Item = EventRow<'_>> {
        self.payloads.iter().enumerate().map(|(part, payload)| {
            let timestamp = self.started_at + part as i64 * 500;
            EventRow {
                project_id: self.project,
                app_id: "app",
                timestamp,
                run_id: &self.run_id,
                event_id: (self.started_at * 2) as u128 + part as u128,
                name: "llm",
                payload: payload.as_bytes(),
                received_at: timestamp,
                stored_at: timestamp,
            }
        })
    }
}

pub(crate) async fn write(tier: &Tier, told: &[Told]) {
    tier.store
        .insert_runs(told.iter().map(Told::row))
        .await
        .unwrap();
    let events = told.iter().flat_map(Told::events);
    tier.store.insert_events(events).await.unwrap();
}

pub(crate) fn asked(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_is_the_saved_runs_with_the_filters_and_paging_of_the_list() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let unsaved = Told {
        saved: 0,
        ..Told::new(3, "c", "llm", (json!("x"), json!("y")))
    };
    let theirs = Told {
        project: "theirs",
        ..Told::new(4, "t", "llm", (json!("x"), json!("y")))
    };
    let told = [
        Told::new(1, "a", "llm", (json!("x"), json!("y"))),
        Told::new(2, "b", "agent", (json!("x"), json!("y"))),
        unsaved,
        theirs,
    ];
    write(&tier, &told).await;
    let ids = |page: &Value| -> Vec<String> {
        let runs = page["data"].as_array().unwrap().iter();
        runs.map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, list) = tier
        .get(&key, "/api/run?saved=true&limit=1&count=true")
        .await;
    let (_, page) = tier.get(&key, "/api/dataset?limit=1&count=true").await;
    let seen = (&page["data"], &page["count"], ids(&page));
    assert_eq!(seen, (&list["data"], &list["count"], vec!["b".to_owned()]));
    let cursor = page["next_cursor"].as_str().unwrap();
    let (_, page) = tier
        .get(&key, &format!("/api/dataset?limit=1&cursor={cursor}"))
        .await;
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec!["a".to_owned()], &json!(false))
    );
    let (_, page) = tier.get(&key, "/api/dataset?type=agent&saved=true").await;
    assert_eq!(ids(&page), ["b"]);
    for (path, expected) in [
        ("/api/dataset?saved=false", 400),
        ("/api/dataset?colour=red", 400),
        ("/api/dataset/export?saved=false", 400),
        ("/api/dataset/export?include=children", 400),
        (
            "/api/dataset/export?format=openai-jsonl&include=parents",
            400,
        ),
        ("/api/dataset/export?format=openai-jsonl&check=perhaps", 400),
        ("/api/dataset/export?project_id=theirs", 403),
    ] {
        let (status, body) = tier.get(&key, path).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
    }
    let reporter = tier.key("ours", &[Scope::Report]).await;
    assert_eq!(tier.get(&reporter, "/api/dataset").await.0.as_u16(), 403);
    assert_eq!(tier.get("", "/api/dataset/export").await.0.as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_dataset_come_whole_in_every_format() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    // One run is larger than what is read together, and one has no events left.
    let long = "long ".repeat(180_000);
    let question = |n: i64| match n {
        100..130 => long.clone(),
        _ => format!("q{n}"),
    };
    let told: Vec<Told> = (0..450)
        .map(|n| {
            let said = (asked(&question(n)), json!(format!("a{n}")));
            Told::new(n, &format!("run-{n:03}"), "llm", said)
        })
        .collect();
    write(&tier, &told).await;
    let bare = RunRow {
        saved: 1,
        ..run("ours", "app", "no-events", "")
    };
    let twin = RunRow {
        saved: 1,
        ..run("ours", "other", "run-007", "")
    };
    tier.store
        .insert_runs([bare, twin].into_iter())
        .await
        .unwrap();

    let dataset = lines(&file(&tier, &key, "/api/dataset/export").await);
    assert_eq!(dataset.len(), 452);
    for run in &dataset {
        let id = run["run_id"].as_str().unwrap();
        if id == "no-events" || run["app_id"] == "other" {
            assert_eq!(
                (&run["input"], &run["output"], &run["metadata"]),
                (&json!(null), &json!(null), &json!({}))
            );
            continue;
        }
        let n: i64 = id[4..].parse().unwrap();
        assert_eq!(run["input"], asked(&question(n)), "{id}");
        assert_eq!(run["output"], json!(format!("a{n}")));
        assert_eq!(run["metadata"], json!({"env": "prod", "n": n}));
        assert_eq!(
            (&run["saved"], &run["events_truncated"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(run["feedback"]["rating"], "positive");
    }
    let records = records(&file(&tier, &key, "/api/dataset/export?format=csv&formulas=raw").await);
    let place = |name: &str| records[0].iter().position(|known| known == name).unwrap();
    let parquet = rows(file(&tier, &key, "/api/dataset/export?format=parquet").await);
    for (n, run) in dataset.iter().enumerate() {
        let expected = match &run["input"] {
            Value::Null => String::new(),
            value => value.to_string(),
        };
        assert_eq!(
            records[n + 1][place("run_id")],
            run["run_id"].as_str().unwrap()
        );
        assert_eq!(records[n + 1][place("input")], expected);
        assert_eq!(
            records[n + 1][place("metadata")],
            run["metadata"].to_string()
        );
        let field = match expected.as_str() {
            "" => Field::Null,
            _ => Field::Str(expected),
        };
        assert_eq!(parquet[n]["input"], field);
    }
    let some = lines(
        &file(
            &tier,
            &key,
            "/api/dataset/export?limit=3&from=2026-11-20T10:01:00Z",
        )
        .await,
    );
    let ids: Vec<&Value> = some.iter().map(|run| &run["run_id"]).collect();
    assert_eq!(ids, ["run-060", "run-061", "run-062"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn model_calls_become_lines_and_what_cannot_is_counted() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let below = |number, id: &str, kind, parent, saved| Told {
        parent,
        saved,
        ..Told::new(
            number,
            id,
            kind,
            (asked(id), json!({"role": "ai", "text": "yes"})),
        )
    };
    write(
        &tier,
        &[
            Told::new(
                1,
                "good",
                "llm",
                (
                    asked("why?"),
                    json!({"role": "assistant", "content": "because"}),
                ),
            ),
            Told::new(2, "odd", "llm", (json!({"question": 1}), json!("x"))),
            Told::new(3, "silent", "llm", (asked("why?"), Value::Null)),
            Told::new(4, "agent", "agent", (json!("go"), json!("done"))),
            below(5, "call-1", "llm", "agent", 0),
            below(6, "tool", "tool", "agent", 0),
            below(7, "call-2", "llm", "tool", 0),
            below(8, "inner", "agent", "agent", 1),
            below(9, "call-3", "llm", "inner", 0),
            below(10, "call-4", "llm", "agent", 1),
        ],
    )
    .await;
    let questions = |lines: &[Value]| -> Vec<String> {
        let line = |line: &Value| line["messages"][0]["content"].as_str().unwrap().to_owned();
        lines.iter().map(line).collect()
    };
    let chat = lines(&file(&tier, &key, "/api/dataset/export?format=openai-jsonl").await);
    assert_eq!(
        chat[0],
        json!({"messages": [
            {"role": "user", "content": "why?"}, {"role": "assistant", "content": "because"}
        ]})
    );
    assert_eq!(questions(&chat), ["why?", "call-4"]);
    let all = "/api/dataset/export?format=openai-jsonl&include=children";
    let chat = lines(&file(&tier, &key, all).await);
    assert_eq!(
        questions(&chat),
        ["why?", "call-1", "call-2", "call-3", "call-4"]
    );

    let (_, report) = tier
        .get(&key, "/api/dataset/export?format=openai-jsonl&check=true")
        .await;
    assert_eq!(
        (&report["runs"], &report["lines"], &report["left_out"]),
        (&json!(6), &json!(2), &json!(4))
    );
    assert_eq!(
        report["reasons"],
        json!({"input_shape": 1, "no_output": 1, "not_llm": 2})
    );
    assert_eq!(
        report["examples"][0],
        json!({"app_id": "app", "run_id": "odd", "reason": "input_shape"})
    );
    assert_eq!(
        (&report["complete"], &report["last"]["run_id"]),
        (&json!(true), &json!("call-4"))
    );
    let (_, report) = tier.get(&key, &format!("{all}&check=true")).await;
    assert_eq!(
        (&report["lines"], &report["left_out"]),
        (&json!(5), &json!(2))
    );
    let viewer = tier.token(Role::Viewer, Some(&["theirs"])).await;
    assert!(file(&tier, &viewer, all).await.is_empty());
}
