//! Registering builds, starting processes, and looking at instances, over a real engine.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use schemas::credential::{Role, Scope};
use schemas::ids::ProjectId;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::tier::Tier;

const BUILD: &str = "/api/platform/app/shop/build/b1";

fn schema() -> Value {
    json!({"type": "object", "required": ["key1"], "properties": {"key1": {"type": "string"}, "n": {"type": "integer"}}})
}

fn build(processes: Value) -> Value {
    json!({"status": "COMMITTED", "processes": processes})
}

async fn tier() -> (Tier, String) {
    let tier = Tier::new().await;
    for project in ["default", "theirs"] {
        let project = ProjectId::new(project);
        tier.credentials
            .put_project(&project, "app", &[])
            .await
            .unwrap();
    }
    let admin = tier.token(Role::Admin, None).await;
    (tier, admin)
}

async fn put(tier: &Tier, secret: &str, path: &str, body: Value) -> (StatusCode, Value) {
    tier.ask(Method::PUT, secret, path, Some(body)).await
}

fn path_of(build: &str, name: &str) -> String {
    format!("/rtm/api/runtime/app/shop/build/{build}/process-name/{name}/start")
}

/// Starts with these headers over the usual ones; an empty value leaves one out.
async fn start_with(
    tier: &Tier,
    secret: &str,
    path: &str,
    body: &str,
    changed: &[(&str, &str)],
) -> (StatusCode, Value) {
    let authorization = format!("Bearer {secret}");
    let mut headers = vec![
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("svc-platform", "web"),
    ];
    headers.retain(|(name, _)| changed.iter().all(|(other, _)| other != name));
    headers.extend(changed.iter().filter(|(_, value)| !value.is_empty()));
    let mut request = Request::builder().method(Method::POST).uri(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = tier.router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 8 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn start(tier: &Tier, secret: &str, path: &str, body: Value) -> (StatusCode, Value) {
    start_with(tier, secret, path, &body.to_string(), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_has_every_documented_field_and_is_a_run_and_an_instance() {
    let (tier, admin) = tier().await;
    let body = json!({
        "status": "COMMITTED", "workspaceId": "w", "parentApplicationId": "parent",
        "processes": [
            {"name": "Order", "schema": schema(), "startNodes": ["a", "b"]},
            {"name": "Plain", "schema": {}, "uuid": "P-7"},
        ]
    });
    let (status, registered) = put(&tier, &admin, BUILD, body).await;
    assert_eq!(status, StatusCode::OK, "{registered}");
    assert_eq!(
        (
            &registered["projectId"],
            &registered["workspaceId"],
            &registered["rootApplicationId"]
        ),
        (&json!("default"), &json!("w"), &Value::Null)
    );
    let (status, started) =
        start(&tier, &admin, &path_of("b1", "Order"), json!({"key1": "x"})).await;
    assert_eq!(status, StatusCode::OK, "{started}");
    let number = started["instanceMetadata"]["processInstanceId"]
        .as_u64()
        .unwrap();
    assert!(number < 1 << 53);
    let uuid = started["uuid"].as_str().unwrap();
    let token = |id: u64, node: &str| json!({"id": id, "state": "ACTIVE", "statusCurrentNode": "ARRIVED", "currentNode": node});
    let expected = json!({
        "processDefinitionFlowxUuid": registered["processes"][0]["uuid"],
        "buildId": "b1", "buildStatusAtStart": "COMMITTED", "applicationId": "shop",
        "parentApplicationId": "parent", "rootApplicationId": null, "processDefinitionName": "Order",
        "tokens": [token(number + 1, "a"), token(number + 2, "b")], "state": "STARTED", "uuid": uuid,
        "instanceMetadata": {"processInstanceId": number, "processInstanceUuid": uuid}
    });
    assert_eq!(started, expected);

    let (project, app, event) = tier.reports.0.lock().unwrap().pop().unwrap();
    assert_eq!((&*project, &*app), ("default", "shop"));
    assert_eq!(
        (
            &event["name"],
            &event["run_id"],
            &event["type"],
            &event["input"]
        ),
        (
            &json!("Order_start"),
            &started["uuid"],
            &json!("process"),
            &json!({"key1": "x"})
        )
    );
    assert_eq!(event["metadata"]["build_id"], json!("b1"));
    assert_eq!(event["metadata"]["platform"], json!("web"));
    assert_eq!(event["metadata"]["process_instance_id"], json!(number));

    let (status, whole) = tier
        .get(&admin, &format!("/api/platform/process/{uuid}"))
        .await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&whole[field], value, "{field}");
    }
    assert_eq!(
        (&whole["input"], &whole["platform"]),
        (&json!({"key1": "x"}), &json!("web"))
    );
    assert_eq!(whole["startedAt"], event["timestamp"]);

    let (_, plain) = start(&tier, &admin, &path_of("b1", "Plain"), json!({})).await;
    assert_eq!(plain["processDefinitionFlowxUuid"], json!("P-7"));
    let tokens = plain["tokens"].as_array().unwrap();
    assert_eq!((tokens.len(), &tokens[0]["currentNode"]), (1, &Value::Null));
    let (_, page) = tier
        .get(
            &admin,
            "/api/platform/process?app_id=shop&build_id=b1&limit=1",
        )
        .await;
    assert_eq!(
        (&page["data"][0]["uuid"], &page["has_more"]),
        (&plain["uuid"], &json!(true))
    );
    assert!(page["data"][0].get("input").is_none());
    let next = page["next_cursor"].as_str().unwrap();
    let (_, page) = tier
        .get(
            &admin,
            &format!("/api/platform/process?app_id=shop&build_id=b1&cursor={next}"),
        )
        .await;
    assert_eq!(
        (&page["data"][0]["uuid"], &page["has_more"]),
        (&started["uuid"], &json!(false))
    );
    for (query, named) in [
        (format!("cursor={next}"), "cursor"),
        ("limit=0".to_owned(), "limit"),
        ("from=soon".to_owned(), "from"),
        (
            "from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z".to_owned(),
            "from",
        ),
        ("colour=red".to_owned(), "colour"),
    ] {
        let (status, answer) = tier
            .get(&admin, &format!("/api/platform/process?{query}"))
            .await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_characters_are_started_and_unknown_ones_are_told_apart() {
    let (tier, admin) = tier().await;
    let names = [
        "Order [v2] (x)",
        "a/b//c",
        "größe ☃",
        "..",
        ".hidden.",
        "50%",
        "a+b c?#&=",
        "%2F",
    ];
    let processes: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "schema": {}}))
        .collect();
    let (status, answer) = put(&tier, &admin, BUILD, build(json!(processes))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, started) = start(&tier, &admin, &path_of("b1", &encoded), json!({})).await;
        assert_eq!(status, StatusCode::OK, "{name}: {started}");
        assert_eq!(started["processDefinitionName"], json!(name));
    }
    for (path, unknown) in [
        (path_of("b2", ".hidden."), "appId/buildId"),
        (
            "/rtm/api/runtime/app/other/build/b1/process-name/.hidden./start".to_owned(),
            "appId/buildId",
        ),
        (path_of("b1", "order"), "processDefinitionName"),
        (path_of("b1", "a%2Fb"), "processDefinitionName"),
    ] {
        let (status, answer) = start(&tier, &admin, &path, json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        assert_eq!(answer["details"]["unknown"], json!(unknown), "{path}");
    }
    let (status, _) = start(&tier, &admin, &path_of("b1", "%FF"), json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_refused_with_the_reason_and_nothing_is_stored() {
    let (tier, admin) = tier().await;
    let process = json!([{"name": "Order", "schema": schema()}]);
    put(&tier, &admin, BUILD, build(process)).await;
    let path = path_of("b1", "Order");
    let good = r#"{"key1":"x"}"#;
    let long = "k".repeat(256);
    for (body, changed, status, named) in [
        ("{", vec![], 400, "JSON"),
        ("", vec![], 400, "JSON"),
        ("[]", vec![], 400, "object"),
        ("null", vec![], 400, "object"),
        (good, vec![("svc-platform", "")], 400, "svc-platform"),
        (good, vec![("svc-platform", " ")], 400, "svc-platform"),
        (good, vec![("content-type", "")], 415, "Content-Type"),
        (
            good,
            vec![("content-type", "text/plain")],
            415,
            "Content-Type",
        ),
        (
            good,
            vec![("idempotency-key", long.as_str())],
            400,
            "Idempotency-Key",
        ),
        (good, vec![("authorization", "")], 401, "credential"),
        (
            good,
            vec![("authorization", "Bearer unknown")],
            401,
            "credential",
        ),
    ] {
        let (found, answer) = start_with(&tier, &admin, &path, body, &changed).await;
        assert_eq!(found.as_u16(), status, "{body} {changed:?}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{answer}"
        );
        assert_eq!(answer["status"], json!(status));
    }
    let large = json!({"key1": "x".repeat(600_000)});
    let (status, _) = start(&tier, &admin, &path, large).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, answer) = start(&tier, &admin, &format!("{path}?colour=red"), json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    let (status, answer) = start(&tier, &admin, &path, json!({"n": 1.5})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert_eq!(answer["error"], json!("schema_violation"));
    let violations = answer["details"]["violations"].as_array().unwrap();
    assert_eq!(violations.len(), 2, "{answer}");
    for (path, schema_path) in [("", "/required"), ("/n", "/properties/n/type")] {
        let named = |one: &&Value| one["path"] == path && one["schemaPath"] == schema_path;
        assert!(violations.iter().any(|one| named(&one)), "{path}: {answer}");
    }
    let (_, page) = tier.get(&admin, "/api/platform/process").await;
    assert_eq!(page["data"], json!([]));
    assert!(tier.reports.0.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_register_start_and_look_t1() {
    let (tier, admin) = tier().await;
    let processes = json!([
        {"name": "Any", "schema": {}},
        {"name": "Operators", "schema": {}, "roles": ["operator"]},
        {"name": "Approvers", "schema": {}, "roles": ["approver"]},
    ]);
    let mut secrets = Vec::new();
    for role in [Role::Viewer, Role::Starter, Role::Operator, Role::Admin] {
        secrets.push(tier.token(role, Some(&["ours"])).await);
    }
    let reader = tier.key("ours", &[Scope::Read]).await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    secrets.extend([reader, reporter, String::new()]);
    let mut table = Vec::new();
    for secret in &secrets {
        let mut row = Vec::new();
        let (status, _) = put(&tier, secret, BUILD, build(processes.clone())).await;
        row.push(status.as_u16());
        put(
            &tier,
            &admin,
            &format!("{BUILD}?project_id=ours"),
            build(processes.clone()),
        )
        .await;
        for name in ["Any", "Operators", "Approvers"] {
            let (status, _) = start(&tier, secret, &path_of("b1", name), json!({})).await;
            row.push(status.as_u16());
        }
        for path in [
            BUILD,
            "/api/platform/app/shop/build",
            "/api/platform/process",
        ] {
            row.push(tier.get(secret, path).await.0.as_u16());
        }
        table.push(row);
    }
    let expected: [[u16; 7]; 7] = [
        [403, 403, 403, 403, 200, 200, 200],
        [403, 200, 403, 403, 200, 200, 200],
        [403, 200, 200, 403, 200, 200, 200],
        [200, 200, 200, 200, 200, 200, 200],
        [403, 403, 403, 403, 200, 200, 200],
        [403, 403, 403, 403, 403, 403, 403],
        [401, 401, 401, 401, 401, 401, 401],
    ];
    assert_eq!(table, expected);

    // Another project's build and instance are not there, and cannot be named.
    let theirs = tier.token(Role::Operator, Some(&["theirs"])).await;
    let (status, _) = start(&tier, &theirs, &path_of("b1", "Any"), json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, page) = tier.get(&admin, "/api/platform/process?limit=1").await;
    let uuid = page["data"][0]["uuid"].as_str().unwrap();
    let path = format!("/api/platform/process/{uuid}");
    assert_eq!(tier.get(&theirs, &path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        tier.get(&theirs, &format!("{path}?project_id=ours"))
            .await
            .0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        tier.get(&theirs, "/api/platform/process").await.1["data"],
        json!([])
    );
    assert_eq!(tier.get(&theirs, BUILD).await.0, StatusCode::NOT_FOUND);

    let (status, _) = put(
        &tier,
        &admin,
        &format!("{BUILD}?project_id=nobodys"),
        build(json!([])),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_build_determines_the_project_unless_several_have_it_t1() {
    let (tier, admin) = tier().await;
    let both = tier.token(Role::Starter, Some(&["ours", "theirs"])).await;
    let one = tier.token(Role::Starter, Some(&["ours"])).await;
    let register = async |project: &str| {
        let path = format!("{BUILD}?project_id={project}");
        let body = build(json!([{"name": "Any", "schema": {}}]));
        let (status, answer) = put(&tier, &admin, &path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    };
    // Where it was started, or the projects that are named.
    let started = async |secret: &str, chosen: &str| {
        let path = format!("{}{chosen}", path_of("b1", "Any"));
        let (status, answer) = start(&tier, secret, &path, json!({})).await;
        if status == StatusCode::OK {
            let uuid = answer["uuid"].as_str().unwrap();
            let path = format!("/api/platform/process/{uuid}");
            let (_, instance) = tier.get(&admin, &path).await;
            return instance["projectId"].clone();
        }
        let (build, other) = tier.get(&admin, BUILD).await;
        assert_eq!(
            (status, build),
            (StatusCode::CONFLICT, StatusCode::CONFLICT)
        );
        for answer in [&answer, &other] {
            assert_eq!(answer["error"], "ambiguous_project", "{answer}");
        }
        answer["details"]["projects"].clone()
    };
    register("ours").await;
    for secret in [&admin, &both, &one] {
        assert_eq!(started(secret, "").await, "ours");
    }
    register("default").await;
    assert_eq!(started(&admin, "").await, json!(["default", "ours"]));
    assert_eq!(started(&admin, "?project_id=default").await, "default");
    assert_eq!(
        started(&both, "").await,
        "ours",
        "it does not reach `default`"
    );
    register("theirs").await;
    assert_eq!(started(&both, "").await, json!(["ours", "theirs"]));
    assert_eq!(started(&both, "?project_id=theirs").await, "theirs");
    assert_eq!(started(&one, "").await, "ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_registered_again_counts_at_once() {
    let (tier, admin) = tier().await;
    put(
        &tier,
        &admin,
        BUILD,
        build(json!([{"name": "A", "schema": {}}])),
    )
    .await;
    assert_eq!(
        start(&tier, &admin, &path_of("b1", "A"), json!({})).await.0,
        StatusCode::OK
    );
    let stricter = json!({"status": "RELEASED", "processes": [{"name": "A", "schema": schema()}, {"name": "B", "schema": {}}]});
    put(&tier, &admin, BUILD, stricter).await;
    let (status, _) = start(&tier, &admin, &path_of("b1", "A"), json!({})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (_, started) = start(&tier, &admin, &path_of("b1", "B"), json!({})).await;
    assert_eq!(started["buildStatusAtStart"], json!("RELEASED"));
    let (_, list) = tier.get(&admin, "/api/platform/app/shop/build").await;
    assert_eq!(list["data"][0]["processes"], json!(["A", "B"]));
    assert_eq!(list["truncated"], json!(false));
    for (body, named) in [
        (json!({"status": "s"}), "processes"),
        (
            json!({"status": "s", "processes": [], "colour": 1}),
            "colour",
        ),
        (
            json!({"status": "s", "processes": [{"name": "a"}]}),
            "schema",
        ),
        (
            json!({"status": "s", "processes": [{"name": "a", "schema": {"$ref": "https://x.example/y"}}]}),
            "other documents",
        ),
    ] {
        let (status, answer) = put(&tier, &admin, BUILD, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{named}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_sent_again_with_its_key_is_started_once() {
    let (tier, admin) = tier().await;
    put(
        &tier,
        &admin,
        BUILD,
        build(json!([{"name": "A", "schema": {}}, {"name": "B", "schema": {}}])),
    )
    .await;
    let path = path_of("b1", "A");
    let key = [("idempotency-key", "k-1")];
    // At once and one after the other, in any spelling of the same body.
    let bodies = [r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#];
    let starts = (0..12).map(|number| start_with(&tier, &admin, &path, bodies[number % 2], &key));
    let mut answers = futures::future::join_all(starts).await;
    answers.push(start_with(&tier, &admin, &path, bodies[0], &key).await);
    for (status, answer) in &answers {
        assert_eq!(*status, StatusCode::OK, "{answer}");
        assert_eq!(answer, &answers[0].1);
    }
    let (_, page) = tier.get(&admin, "/api/platform/process").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    let reports = std::mem::take(&mut *tier.reports.0.lock().unwrap());
    assert_eq!(reports.len(), 1);

    let (status, answer) = start_with(&tier, &admin, &path, r#"{"a":2}"#, &key).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert_eq!(answer["error"], json!("idempotency_key_reused"));
    // Another process, and another caller, have keys of their own.
    let other = tier.token(Role::Starter, None).await;
    let first = answers[0].1["uuid"].clone();
    for (secret, path) in [(&admin, path_of("b1", "B")), (&other, path)] {
        let (status, answer) = start_with(&tier, secret, &path, r#"{"a":2}"#, &key).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_ne!(answer["uuid"], first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_of_a_deployment_start_once_under_one_key() {
    let (tier, admin) = tier().await;
    put(
        &tier,
        &admin,
        BUILD,
        build(json!([{"name": "A", "schema": {}}])),
    )
    .await;
    let routers: Vec<_> = (0..2).map(|_| tier.another_process()).collect();
    assert!(tier.reports.1.set((*tier.store).clone()).is_ok());
    for round in 0..5 {
        let key = format!("k-{round}");
        let starts = (0..8).map(|number| {
            let request = Request::builder()
                .method(Method::POST)
                .uri(path_of("b1", "A"))
                .header("authorization", format!("Bearer {admin}"))
                .header("content-type", "application/json")
                .header("svc-platform", "web")
                .header("idempotency-key", &key)
                .body(Body::from("{}"))
                .unwrap();
            let router: axum::Router = routers[number % 2].clone();
            async move {
                let response = router.oneshot(request).await.unwrap();
                let status = response.status();
                let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
                (status, serde_json::from_slice::<Value>(&bytes).unwrap())
            }
        });
        let answers = futures::future::join_all(starts).await;
        for (status, answer) in &answers {
            assert_eq!(*status, StatusCode::OK, "{answer}");
            assert_eq!(answer, &answers[0].1, "round {round}");
        }
    }
    let (_, page) = tier.get(&admin, "/api/platform/process").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_was_not_reported_is_a_503_and_a_repeat_mends_it() {
    let (tier, admin) = tier().await;
    put(
        &tier,
        &admin,
        BUILD,
        build(json!([{"name": "A", "schema": {}}])),
    )
    .await;
    let key = [("idempotency-key", "k")];
    let path = path_of("b1", "A");
    tier.reports.fail(true);
    let (status, answer) = start_with(&tier, &admin, &path, "{}", &key).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    tier.reports.fail(false);
    let (status, answer) = start_with(&tier, &admin, &path, "{}", &key).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (_, _, event) = tier.reports.0.lock().unwrap().pop().unwrap();
    assert_eq!(event["run_id"], answer["uuid"]);
    let (_, page) = tier.get(&admin, "/api/platform/process").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_starts_at_once_have_identities_of_their_own() {
    let (tier, admin) = tier().await;
    let tier = std::sync::Arc::new(tier);
    put(
        &tier,
        &admin,
        BUILD,
        build(json!([{"name": "A", "schema": {}, "startNodes": ["x", "y"]}])),
    )
    .await;
    let path = path_of("b1", "A");
    let (mut uuids, mut numbers) = (
        std::collections::HashSet::new(),
        std::collections::HashSet::new(),
    );
    // As many at a time as there is room for: more would be refused.
    for _ in 0..5 {
        let starts = (0..2000).map(|_| {
            let (tier, admin, path) = (tier.clone(), admin.clone(), path.clone());
            tokio::spawn(async move { start(&tier, &admin, &path, json!({})).await })
        });
        for answer in futures::future::join_all(starts).await {
            let (status, answer) = answer.unwrap();
            assert_eq!(status, StatusCode::OK, "{answer}");
            assert!(uuids.insert(answer["uuid"].as_str().unwrap().to_owned()));
            let tokens = answer["tokens"].as_array().unwrap().iter();
            for id in tokens
                .map(|token| &token["id"])
                .chain([&answer["instanceMetadata"]["processInstanceId"]])
            {
                assert!(numbers.insert(id.as_u64().unwrap()));
            }
        }
    }
    assert_eq!((uuids.len(), numbers.len()), (10_000, 30_000));
}
