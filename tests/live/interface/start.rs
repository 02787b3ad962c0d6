//! Start process by build and process name: sections 2.3, 3, 4.3, 5 and 7.3 of the interface; and that it is durable.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN};

crate::harness::both_ways!(
    starting_a_process_answers_as_the_interface_says,
    an_instance_and_its_run_outlive_a_kill_right_after_the_answer_r1
);

const FRONT: &str = "https://front.example";
const METHODS: &str = "GET, PUT, POST, DELETE, PATCH";
/// Starts of each of two processes.
const STARTS: usize = 1000;

fn path(app: &str, build: &str, name: &str) -> String {
    let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("/rtm/api/runtime/app/{app}/build/{build}/process-name/{name}/start")
}

/// Registers the build `b1` of `shop` from the command line, as an operator does.
async fn register(setup: &Setup, server: &Server) {
    let schema = json!({
        "type": "object", "required": ["key1", "key2"],
        "properties": {"key1": {"type": "string"}, "key2": {"type": "string"}, "n": {"type": "integer"}}
    });
    let process = |name: &str| json!({"name": name, "schema": schema});
    let approvers = json!({"name": "Approve", "schema": {}, "roles": ["approver"]});
    let body = json!({
        "appId": "shop", "buildId": "b1", "status": "COMMITTED", "parentApplicationId": "parent",
        "processes": [process("Order"), process("Order [v2] (x)"), process("a/b"), process("größe ☃"), approvers]
    });
    let file = setup.folder.path().join("build.json");
    std::fs::write(&file, body.to_string()).unwrap();
    let done = server.command(&["process", "register", file.to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    let done = server.command(&["process", "list", "shop"]);
    let listed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        listed.contains("buildId=b1") && listed.contains("größe ☃"),
        "{listed}"
    );
}

/// A request and what the document says of its answer.
struct Row {
    rule: &'static str,
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
    /// What the message says.
    said: &'static str,
}

impl Row {
    fn new(rule: &'static str, token: &str, status: u16, said: &'static str) -> Self {
        Self {
            rule,
            method: Method::POST,
            path: path("shop", "b1", "Order"),
            headers: vec![
                ("Authorization", format!("Bearer {token}")),
                ("Content-Type", "application/json".to_owned()),
                ("svc-platform", "web".to_owned()),
                ("Accept-Encoding", "identity".to_owned()),
            ],
            body: json!({"key1": "a", "key2": "b"}).to_string().into(),
            status,
            said,
        }
    }

    fn at(self, path: String) -> Self {
        Self { path, ..self }
    }

    fn body(self, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { body, ..self }
    }

    /// With this header, or without it where it is empty.
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.headers.push((name, value.to_owned()));
        }
        self
    }

    async fn send(&self, server: &Server) -> Response {
        let url = format!("{}{}", server.url, self.path);
        let mut request = server.client.request(self.method.clone(), url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(self.body.clone()).send().await.unwrap()
    }
}

/// Section 4.3: the headers that every answer of the path has, whatever it says.
fn check_headers(rule: &str, headers: &HeaderMap) {
    let value = |name: &str| {
        let values: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(values.len(), 1, "{rule}: {name}: {headers:?}");
        values[0].to_str().unwrap().to_owned()
    };
    assert_eq!(value("access-control-allow-credentials"), "true", "{rule}");
    assert_eq!(value("access-control-allow-methods"), METHODS, "{rule}");
    assert_eq!(value("x-content-type-options"), "nosniff", "{rule}");
    assert_eq!(value("x-xss-protection"), "0", "{rule}");
    assert!(
        value("strict-transport-security").starts_with("max-age="),
        "{rule}"
    );
    assert!(value("vary").starts_with("Accept-Encoding"), "{rule}");
    let allowed = value("access-control-allow-headers");
    for header in ["Authorization", "Content-Type", "svc-platform"] {
        assert!(
            allowed.split(", ").any(|one| one == header),
            "{rule}: {allowed}"
        );
    }
}

/// Section 7.3, completed by the API: everything that is refused, and why.
fn refusals(admin: &str, key: &str, viewer: &str, starter: &str) -> Vec<Row> {
    let row = |rule, status, said| Row::new(rule, admin, status, said);
    vec![
        row("4.3 appId must form a valid pair", 404, "not found").at(path("other", "b1", "Order")),
        row("4.3 buildId must form a valid pair", 404, "not found").at(path("shop", "b2", "Order")),
        row("4.3 process definition must exist", 404, "not found").at(path("shop", "b1", "order")),
        row("4.3 brackets count", 404, "not found").at(path("shop", "b1", "Order [v2]")),
        row("4.3 svc-platform is required", 400, "svc-platform").with("svc-platform", ""),
        row("4.3 svc-platform says something", 400, "svc-platform").with("svc-platform", " "),
        row("4.3 Content-Type is required", 415, "application/json").with("Content-Type", ""),
        row("4.3 Content-Type is JSON", 415, "application/json").with("Content-Type", "text/plain"),
        row("2.3 the body is JSON", 400, "not JSON").body("{"),
        row("2.3 the body is an object", 400, "JSON object").body("[1]"),
        row("2.3 the body is bounded", 413, "bytes").body(vec![b' '; 600_000]),
        row("unknown parameters", 400, "colour")
            .at(format!("{}?colour=red", path("shop", "b1", "Order"))),
        row("2.3 the body conforms", 422, "schema").body(r#"{"n":"x"}"#),
        row("5 a token is required", 401, "credential").with("Authorization", ""),
        row("5 Bearer only", 401, "credential").with("Authorization", admin),
        row("5 the token is known", 401, "not known").with("Authorization", "Bearer unknown"),
        Row::new("5 a key is no token", key, 403, "starter"),
        Row::new("5 a viewer starts nothing", viewer, 403, "starter"),
        Row::new("5 roles of the process", starter, 403, "roles").at(path("shop", "b1", "Approve")),
    ]
}

async fn token_of(server: &Server, role: &str) -> String {
    let (status, made) = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/tokens",
            Some(json!({"role": role})),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["secret"].as_str().unwrap().to_owned()
}

async fn starting_a_process_answers_as_the_interface_says(setup: Setup) {
    let setup = setup.with("platform.allowed_origins", FRONT);
    let server = setup.start_ready().await;
    register(&setup, &server).await;
    let (viewer, starter) = (
        token_of(&server, "viewer").await,
        token_of(&server, "starter").await,
    );
    for row in refusals(&setup.token, &setup.key, &viewer, &starter) {
        let answer = row.send(&server).await;
        let status = answer.status().as_u16();
        check_headers(row.rule, answer.headers());
        let body: Value = answer.json().await.unwrap();
        assert_eq!(status, row.status, "{}: {body}", row.rule);
        assert_eq!(body["status"], json!(row.status), "{}", row.rule);
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(row.said), "{}: {body}", row.rule);
        if status == 422 {
            let violations = body["details"]["violations"].as_array().unwrap();
            let says = |path: &str, word: &str| {
                violations.iter().any(|one| {
                    one["path"] == path
                        && one["message"].as_str().unwrap().contains(word)
                        && one["schemaPath"].is_string()
                })
            };
            assert!(
                says("", "key1") && says("", "key2") && says("/n", "integer"),
                "{body}"
            );
        }
    }
    every_field_of_a_start(&server, &starter).await;
    headers_for_pages(&server, &starter).await;
    the_build_determines_the_project(&server, &starter).await;
}

/// Section 4.3: the workspace is resolved from the build; only a build of several projects needs `project_id`.
async fn the_build_determines_the_project(server: &Server, starter: &str) {
    let admin = async |method: Method, path: &str, body: Value| {
        let (status, answer) = server.ask(method, &server.token, path, Some(body)).await;
        assert!(status.is_success(), "{path}: {answer}");
    };
    let registered = async |project: &str| {
        let path = format!("/api/platform/app/shop/build/b7?project_id={project}");
        let processes = json!([{"name": "Order", "schema": {}}]);
        let body = json!({"status": "COMMITTED", "processes": processes});
        admin(Method::PUT, &path, body).await;
    };
    let started = async |chosen: &str, status: u16| {
        let path = format!("{}{chosen}", path("shop", "b7", "Order"));
        let row = Row::new("4.3 resolved from the build", starter, status, "").at(path);
        let answer = row.send(server).await;
        assert_eq!(answer.status().as_u16(), status, "{chosen}");
        answer.json::<Value>().await.unwrap()
    };
    let other = json!({"project_id": "other"});
    admin(Method::POST, "/api/internal/projects", other).await;
    registered("other").await;
    let found = started("", 200).await;
    let instance = format!("/api/platform/process/{}", found["uuid"].as_str().unwrap());
    let (_, whole) = server.get_as(&server.token, &instance).await;
    assert_eq!(whole["projectId"], "other", "{whole}");
    registered("default").await;
    // Another process of the deployment may know it a second later.
    server.informed().await;
    let fault = started("", 409).await;
    assert_eq!(fault["error"], "ambiguous_project");
    assert_eq!(fault["details"]["projects"], json!(["default", "other"]));
    for project in ["default", "other"] {
        started(&format!("?project_id={project}"), 200).await;
    }
}

/// Sections 2.3 and 3: every field, for names of every kind; and the run that the start is.
async fn every_field_of_a_start(server: &Server, starter: &str) {
    for name in ["Order", "Order [v2] (x)", "a/b", "größe ☃"] {
        let row = Row::new("2.3", starter, 200, "").at(path("shop", "b1", name));
        let answer = row.send(server).await;
        check_headers(name, answer.headers());
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        let started: Value = answer.json().await.unwrap();
        let number = started["instanceMetadata"]["processInstanceId"]
            .as_u64()
            .unwrap();
        let uuid = started["uuid"].as_str().unwrap().to_owned();
        assert!(number < 1 << 53 && uuid.len() == 36);
        for (field, expected) in [
            ("buildId", json!("b1")),
            ("buildStatusAtStart", json!("COMMITTED")),
            ("applicationId", json!("shop")),
            ("parentApplicationId", json!("parent")),
            ("rootApplicationId", Value::Null),
            ("processDefinitionName", json!(name)),
            ("state", json!("STARTED")),
            (
                "instanceMetadata",
                json!({"processInstanceId": number, "processInstanceUuid": uuid}),
            ),
        ] {
            assert_eq!(started.get(field), Some(&expected), "{field}: {started}");
        }
        assert!(started["processDefinitionFlowxUuid"].is_string());
        let tokens = started["tokens"].as_array().unwrap();
        assert!(tokens.len() == 1 && tokens[0]["id"].is_u64(), "{started}");
        assert_eq!(tokens[0]["state"], json!("ACTIVE"));
        assert_eq!(tokens[0]["statusCurrentNode"], json!("ARRIVED"));

        let instance = format!("/api/platform/process/{uuid}");
        let (status, whole) = server.get(&instance).await;
        assert_eq!(
            (status, &whole["tokens"]),
            (StatusCode::OK, &started["tokens"])
        );
        assert_eq!(whole["input"], json!({"key1": "a", "key2": "b"}));
        let run = run_of(server, &uuid).await;
        assert_eq!(
            (&run["type"], &run["name"]),
            (&json!("process"), &json!(name))
        );
        assert_eq!(
            (&run["app_id"], &run["status"]),
            (&json!("shop"), &json!("started"))
        );
        assert_eq!(run["input"], whole["input"]);
    }
    let (_, listed) = server
        .get("/api/platform/process/?app_id=shop&name=a/b")
        .await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
}

async fn run_of(server: &Server, uuid: &str) -> Value {
    let ask = async || {
        let (status, run) = server.get(&format!("/api/run/{uuid}")).await;
        (status == StatusCode::OK).then_some(run)
    };
    server
        .until("the start is a run", VISIBLE_WITHIN, ask)
        .await
}

/// Section 4.3: what depends on the origin and on the encodings that the caller takes.
async fn headers_for_pages(server: &Server, starter: &str) {
    let origin = |answer: &Response| {
        let origin = answer.headers().get("access-control-allow-origin");
        origin.map(|origin| origin.to_str().unwrap().to_owned())
    };
    let row = || Row::new("4.3 origin", starter, 200, "");
    for (given, expected) in [
        ("", Some(FRONT)),
        (FRONT, Some(FRONT)),
        ("https://evil.example", None),
    ] {
        let answer = row().with("Origin", given).send(server).await;
        assert_eq!(origin(&answer).as_deref(), expected, "{given}");
        let mut preflight = row().with("Origin", given).with("Authorization", "");
        preflight.method = Method::OPTIONS;
        let preflight = preflight.with("Access-Control-Request-Method", "POST");
        let answer = preflight.send(server).await;
        assert!(answer.status().is_success(), "{answer:?}");
        check_headers("preflight", answer.headers());
        assert_eq!(origin(&answer).as_deref(), expected, "preflight of {given}");
    }
    for encoding in ["gzip", "br", "deflate", "zstd"] {
        for row in [row(), row().with("svc-platform", "")] {
            let answer = row.with("Accept-Encoding", encoding).send(server).await;
            assert_eq!(answer.headers()["content-encoding"], encoding);
            check_headers(encoding, answer.headers());
        }
    }
    let mut other = row();
    other.method = Method::GET;
    let answer = other.send(server).await;
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    check_headers("405", answer.headers());
}

async fn an_instance_and_its_run_outlive_a_kill_right_after_the_answer_r1(setup: Setup) {
    let mut server = setup.start_ready().await;
    register(&setup, &server).await;
    for round in 0..3 {
        let key = format!("round-{round}");
        let row = || Row::new("R1", &setup.token, 200, "").with("Idempotency-Key", &key);
        let answer = row().send(&server).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let started: Value = answer.json().await.unwrap();
        server.kill();
        server.ended(Duration::from_secs(20)).await;
        server = setup.start_ready().await;
        let uuid = started["uuid"].as_str().unwrap();
        let ask = async || {
            let (status, whole) = server.get(&format!("/api/platform/process/{uuid}")).await;
            (status == StatusCode::OK).then_some(whole)
        };
        let there = server.until("the instance is there", VISIBLE_WITHIN, ask);
        let whole = there.await;
        assert_eq!(whole["instanceMetadata"], started["instanceMetadata"]);
        let run = run_of(&server, uuid).await;
        assert_eq!(run["name"], json!("Order"));
        // The client that did not see the answer sends it again.
        let again: Value = row().send(&server).await.json().await.unwrap();
        assert_eq!(again, started);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_at_two_processes_at_once_have_identities_of_their_own() {
    let setup = Setup::distributed().await;
    let server = setup.start_ready().await;
    let other = setup.start_tier("query").await;
    other.ready().await;
    register(&setup, &server).await;
    let path = path("shop", "b1", "Order");
    let starts = (0..2 * STARTS).map(|number| {
        let url = if number % 2 == 0 {
            &server.url
        } else {
            &other.url
        };
        let request = server.client.post(format!("{url}{path}"));
        let request = request
            .bearer_auth(&setup.token)
            .header("svc-platform", "web");
        request.json(&json!({"key1": "a", "key2": "b"})).send()
    });
    let mut starts = futures::stream::iter(starts).buffer_unordered(100);
    let (mut uuids, mut numbers) = (HashSet::new(), HashSet::new());
    while let Some(answer) = starts.next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let started: Value = answer.json().await.unwrap();
        assert!(uuids.insert(started["uuid"].to_string()));
        assert!(numbers.insert(started["instanceMetadata"]["processInstanceId"].as_u64()));
        assert!(numbers.insert(started["tokens"][0]["id"].as_u64()));
    }
    assert_eq!((uuids.len(), numbers.len()), (2 * STARTS, 4 * STARTS));
}
