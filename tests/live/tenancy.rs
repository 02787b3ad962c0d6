//! Two projects with the same app and run ids never see each other, through any endpoint (T1).

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

crate::harness::both_ways!(
    two_projects_with_the_same_ids_never_see_each_other_through_any_endpoint_t1
);

/// Endpoints with other methods than GET. The test fails on a new one until a comment here says which test shows that
/// it keeps to its project.
const WRITES: [&str; 27] = [
    "/api/report",
    // The same handler; ingest/tests/report has the keys that its events name.
    "/v1/runs/ingest",
    "/v1/runs/{run_id}/score",
    // The same path from the key on; ingest/tests/report has whose project an export goes to.
    "/v1/traces",
    "/api/public/otel/v1/traces",
    "/api/public/ingestion",
    "/api/public/scores",
    "/v1/logs",
    "/api/run/compare",
    // Reaches what its token reaches; query/tests/it has it.
    "/api/session",
    "/api/run/{run_id}/feedback",
    "/api/run/{run_id}/save",
    "/api/run/{run_id}/unsave",
    // Only for administrators; query/tests/it has what those reach that are limited to projects.
    "/api/internal/cache/clear",
    "/api/internal/cost/recalculate",
    "/api/internal/dead-letters/redrive",
    "/api/internal/jobs/{id}/cancel",
    "/api/internal/keys",
    "/api/internal/keys/{id}",
    "/api/internal/prices/{model}",
    "/api/internal/projects",
    "/api/internal/rebuild",
    "/api/internal/retention",
    "/api/internal/tokens",
    "/api/internal/tokens/{id}",
    // Takes no keys; query/tests/it has tokens of two projects that have the same build.
    "/api/platform/app/{appId}/build/{buildId}",
    "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start",
];
/// A tag that both projects have.
const SHARED_TAG: &str = "golden";
/// Public, or a stream without an end that is read below.
const NOT_WALKED: [&str; 3] = ["/docs", "/metrics", "/api/run/live"];

/// Reports the same two runs and the same message, told apart only by a word in every field of text.
async fn report(server: &Server, key: &str, word: &str) {
    let mut parent = event("shared", "run-1", "agent_start", 0);
    parent["input"] = json!({"text": word});
    parent["agent"] = json!(format!("agent-{word}"));
    parent["user_email"] = json!(format!("{word}@example.com"));
    parent["tags"] = json!([word, SHARED_TAG]);
    parent["metadata"] = json!({"word": word});
    parent["thread_id"] = json!("thread-1");
    let mut child = event("shared", "run-2", "llm_call", 5);
    child["type"] = json!("llm");
    child["parent_run_id"] = json!("run-1");
    child["model"] = json!(format!("model-{word}"));
    child["output"] = json!({"text": word});
    child["error"] = json!({"message": word});
    let mut said = event("shared", "message-1", "chat", 10);
    said["role"] = json!("user");
    said["content"] = json!(word);
    said["thread_id"] = json!("thread-1");
    let events = [parent, child, said];
    let answer = server.report_as(key, &events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

/// Status and body as they stand.
async fn text(server: &Server, secret: &str, path: &str) -> (StatusCode, String) {
    let request = server.client.get(format!("{}{path}", server.url));
    let request = request.bearer_auth(secret).timeout(VISIBLE_WITHIN);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

/// Waits until an answer has a word in it.
async fn until_told(server: &Server, key: &str, path: &str, word: &str) {
    let told = async || text(server, key, path).await.1.contains(word).then_some(());
    server.until(path, VISIBLE_WITHIN, told).await;
}

async fn project(server: &Server, name: &str) -> String {
    let made = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/projects",
            Some(json!({"project_id": name})),
        )
        .await;
    assert!(made.0.is_success(), "{made:?}");
    let key = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/keys",
            Some(json!({"project_id": name})),
        )
        .await;
    assert!(key.0.is_success(), "{key:?}");
    key.1["secret"].as_str().unwrap().to_owned()
}

async fn two_projects_with_the_same_ids_never_see_each_other_through_any_endpoint_t1(setup: Setup) {
    let server = setup.start_ready().await;
    let (ours, theirs) = (
        project(&server, "ours").await,
        project(&server, "theirs").await,
    );
    report(&server, &ours, "apricot").await;
    report(&server, &theirs, "blueberry").await;
    let sides = [(&ours, "apricot"), (&theirs, "blueberry")];
    for (key, word) in sides {
        for run in ["run-1", "run-2"] {
            until_told(&server, key, &format!("/api/run/{run}"), word).await;
        }
        until_told(&server, key, "/api/thread/thread-1", word).await;
        // What people do reaches the run of their project, though the other's has the same ids.
        let judged = json!({"rating": "positive", "comment": format!("{word} it is")});
        for (run, act, body) in [
            ("run-2", "feedback", Some(judged)),
            ("run-2", "save", None),
            ("run-1", "save", None),
        ] {
            let path = format!("/api/run/{run}/{act}?app_id=shared");
            let (status, body) = server.ask(Method::POST, key, &path, body).await;
            assert_eq!(status, StatusCode::ACCEPTED, "{path}: {body}");
        }
        let scored = json!({"label": word, "value": 0.5});
        let path = "/v1/runs/run-2/score";
        let (status, body) = server.ask(Method::PATCH, key, path, Some(scored)).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        until_told(&server, key, "/api/dataset", word).await;
        until_told(&server, key, "/api/run/run-2", &format!("{word} it is")).await;
        until_told(&server, key, "/api/run/run-2", &format!("{word} = 0.5")).await;
    }

    let (_, document) = server.get("/api/openapi.json").await;
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let mut names = methods.as_object().unwrap().keys();
        let writes = names.any(|method| method != "get");
        assert!(
            !writes || WRITES.contains(&&**path),
            "{path} is new: say in WRITES which test shows that it keeps to its project"
        );
        if methods.get("get").is_none() || NOT_WALKED.contains(&&**path) {
            continue;
        }
        let takes_project = methods["get"]["parameters"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["name"] == "project_id"));
        for run in ["run-1", "run-2"] {
            let path = path
                .replace("{run_id}", run)
                .replace("{thread_id}", "thread-1")
                // The tag that the other project's saved run has.
                .replace("{slug}", SHARED_TAG);
            for (key, other, other_word) in
                [(&ours, "theirs", "blueberry"), (&theirs, "ours", "apricot")]
            {
                for query in [
                    "",
                    "?app_id=shared",
                    "?format=csv",
                    &format!("?project_id={other}"),
                ] {
                    let (status, body) = text(&server, key, &format!("{path}{query}")).await;
                    assert!(
                        !body.contains(other_word),
                        "{path}{query} tells of the other project: {body}"
                    );
                    if takes_project && query.contains("project_id") {
                        assert_eq!(status, StatusCode::FORBIDDEN, "{path}{query}: {body}");
                    }
                    asked += 1;
                }
            }
        }
    }
    assert!(asked >= 160, "the document names the endpoints: {asked}");
    // So nothing above was left unsaid because nothing was said at all.
    for path in [
        "/api/run",
        "/api/run/run-2/tree",
        "/api/run/export",
        "/api/run/facets",
        "/api/thread",
        "/api/dataset",
        "/api/dataset/export",
        "/v1/datasets/golden",
        "/v1/runs/run-2/feedback",
        "/api/analytics/usage/models",
        "/api/analytics/usage/agents",
        "/api/analytics/usage/users",
        "/api/analytics/usage/errors",
    ] {
        for (key, word) in sides {
            let (status, body) = text(&server, key, path).await;
            assert!(
                status == StatusCode::OK && body.contains(word),
                "{path}: {status} {body}"
            );
        }
    }

    let both = json!({"run_id_a": "run-1", "run_id_b": "run-2"});
    let compare = "/api/run/compare";
    let (status, body) = server.ask(Method::POST, &ours, compare, Some(both)).await;
    let body = body.to_string();
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.contains("apricot") && !body.contains("blueberry"));

    // The stream, from before everything was written.
    let mut stream = server
        .client
        .get(format!("{}/api/run/live", server.url))
        .bearer_auth(&ours)
        .header("last-event-id", "1")
        .send()
        .await
        .unwrap();
    let both_runs = async {
        let mut shown = String::new();
        while !["\"run_id\":\"run-1\"", "\"run_id\":\"run-2\""]
            .iter()
            .all(|run| shown.contains(run))
        {
            let bytes = stream.chunk().await.unwrap().expect("the stream ended");
            shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        shown
    };
    let shown = tokio::time::timeout(VISIBLE_WITHIN, both_runs)
        .await
        .unwrap();
    assert!(
        shown.contains("apricot") && !shown.contains("blueberry"),
        "{shown}"
    );

    // What belongs to the other is as if it were not there.
    for filter in [
        "model=model-blueberry",
        "agent=agent-blueberry",
        "user_email=blueberry@example.com",
        "tags=blueberry",
    ] {
        let (status, page) = server.get_as(&ours, &format!("/api/run?{filter}")).await;
        assert_eq!(
            (status, &page["data"]),
            (StatusCode::OK, &json!([])),
            "{filter}"
        );
    }
    let (_, own) = server.get_as(&ours, "/api/run/run-1?app_id=shared").await;
    assert!(own.to_string().contains("apricot"));

    // A token limited to one project is a key-holder's equal, not more.
    let limited = json!({"role": "viewer", "projects": ["ours"]});
    let (_, token): (_, Value) = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/tokens",
            Some(limited),
        )
        .await;
    let token = token["secret"].as_str().unwrap();
    for path in [
        "/api/run?project_id=theirs",
        "/api/run/run-1?project_id=theirs",
        "/api/run/run-1/tree?project_id=theirs",
        "/api/run/export?project_id=theirs",
        "/api/dataset/export?project_id=theirs",
        "/api/run/facets?project_id=theirs",
        "/api/thread/thread-1?project_id=theirs",
        "/api/run/live?project_id=theirs",
    ] {
        let (status, body) = text(&server, token, path).await;
        assert!(status.is_client_error(), "{path}: {status} {body}");
        assert!(!body.contains("blueberry"), "{path}: {body}");
    }
}
