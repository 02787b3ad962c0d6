//! Two projects with the same app and run ids never see each other, through any endpoint (T1).

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// Reports the same two runs, told apart only by a word in every field of text.
async fn report(server: &Server, key: &str, word: &str) {
    let mut parent = event("shared", "run-1", "agent_start", 0);
    parent["input"] = json!({"text": word});
    parent["agent"] = json!(format!("agent-{word}"));
    parent["user_email"] = json!(format!("{word}@example.com"));
    parent["tags"] = json!([word]);
    parent["metadata"] = json!({"word": word});
    parent["thread_id"] = json!("thread-1");
    let mut child = event("shared", "run-2", "llm_call", 5);
    child["type"] = json!("llm");
    child["parent_run_id"] = json!("run-1");
    child["model"] = json!(format!("model-{word}"));
    child["output"] = json!({"text": word});
    child["error"] = json!({"message": word});
    let answer = server.report_as(key, &[parent, child]).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
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

#[tokio::test]
async fn two_projects_with_the_same_ids_never_see_each_other_through_any_endpoint_t1() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let (ours, theirs) = (
        project(&server, "ours").await,
        project(&server, "theirs").await,
    );
    report(&server, &ours, "apricot").await;
    report(&server, &theirs, "blueberry").await;
    for key in [&ours, &theirs] {
        server
            .until(
                "both runs of the project are there",
                VISIBLE_WITHIN,
                async || {
                    let (_, page) = server.get_as(key, "/api/run?app_id=shared").await;
                    (page["data"].as_array().is_some_and(|runs| runs.len() == 2)).then_some(())
                },
            )
            .await;
    }

    let (_, document) = server.get("/api/openapi.json").await;
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path == "/docs" || path == "/metrics" {
            continue;
        }
        for run in ["run-1", "run-2"] {
            let path = path.replace("{run_id}", run);
            for query in ["", "?app_id=shared"] {
                let (_, body) = server.get_as(&ours, &format!("{path}{query}")).await;
                assert!(
                    !body.to_string().contains("blueberry"),
                    "{path}{query} tells of the other project: {body}"
                );
                asked += 1;
            }
        }
    }
    assert!(asked >= 12, "the document names the endpoints: {asked}");

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
    ] {
        let (status, body) = server.get_as(token, path).await;
        assert!(status.is_client_error(), "{path}: {status} {body}");
        assert!(!body.to_string().contains("blueberry"), "{path}: {body}");
    }
}
