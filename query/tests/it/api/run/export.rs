//! Exports of runs over HTTP: what is in the files, how they end, and how one goes on after a cut.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use futures::StreamExt;
use http_body_util::BodyExt;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use rust_decimal::Decimal;
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};
use store::tables::rows::RunRow;
use tower::ServiceExt;

use crate::tier::{NOON_MS, Tier, run};

pub(crate) async fn open(tier: &Tier, secret: &str, path: &str) -> Response<Body> {
    let request = Request::builder()
        .uri(path)
        .header("authorization", format!("Bearer {secret}"))
        .body(Body::empty())
        .unwrap();
    tier.router.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn file(tier: &Tier, secret: &str, path: &str) -> Vec<u8> {
    let response = open(tier, secret, path).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .to_vec()
}

pub(crate) fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The records of a file by RFC 4180, read by a reader of its own.
pub(crate) fn records(bytes: &[u8]) -> Vec<Vec<String>> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(rest.next(), Some('\n'));
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            letter => cell.push(letter),
        }
    }
    assert!(record.is_empty() && cell.is_empty(), "the last record ends");
    records
}

/// The rows of a Parquet file, each as its columns.
pub(crate) fn rows(bytes: Vec<u8>) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let row = |row: Row| {
        let columns = row.get_column_iter();
        columns
            .map(|(name, field)| (name.clone(), field.clone()))
            .collect()
    };
    reader
        .get_row_iter(None)
        .unwrap()
        .map(|found| row(found.unwrap()))
        .collect()
}

/// An amount of a Parquet file, exact.
fn amount(field: &Field) -> Decimal {
    let Field::Decimal(decimal) = field else {
        panic!("{field:?} is no decimal");
    };
    assert_eq!((decimal.precision(), decimal.scale()), (38, 18));
    let units = i128::from_be_bytes(decimal.data().try_into().unwrap());
    Decimal::from_i128_with_scale(units, 18)
}

/// The number under a key of a line, as it is written.
fn written<'a>(line: &'a str, key: &str) -> &'a str {
    let at = line.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    line[at..].split([',', '}']).next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_costs_of_every_format_add_up_to_the_last_digit_and_to_the_analytics() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let names: Vec<String> = (0..12_000).map(|n| format!("run-{n:05}")).collect();
    let amounts: Vec<i128> = names
        .iter()
        .map(|_| i128::from(rand::random::<u64>()) * i128::from(rand::random::<u8>()))
        .collect();
    let rows_of = names
        .iter()
        .zip(&amounts)
        .enumerate()
        .map(|(n, (name, amount))| RunRow {
            cost: *amount,
            total_cost: amount * 3,
            started_at: NOON_MS + (n as i64 / 7) * 250,
            ..run("ours", "app", name, "")
        });
    tier.store.insert_runs(rows_of).await.unwrap();
    let units: i128 = amounts.iter().sum();
    let expected = Decimal::from_i128_with_scale(units, 18);

    let text = String::from_utf8(file(&tier, &key, "/api/run/export").await).unwrap();
    let sum = |key: &str| -> Decimal {
        let amounts = text
            .lines()
            .map(|line| written(line, key).parse::<Decimal>().unwrap());
        amounts.sum()
    };
    assert_eq!(text.lines().count(), 12_000);
    assert_eq!(
        (sum("cost"), sum("total_cost")),
        (expected, expected * Decimal::from(3))
    );

    let records = records(&file(&tier, &key, "/api/run/export?format=csv").await);
    let place = records[0].iter().position(|name| name == "cost").unwrap();
    let sum: Decimal = records[1..]
        .iter()
        .map(|record| record[place].parse::<Decimal>().unwrap())
        .sum();
    assert_eq!((records.len(), sum), (12_001, expected));

    let rows = rows(file(&tier, &key, "/api/run/export?format=parquet").await);
    let sum: Decimal = rows.iter().map(|row| amount(&row["cost"])).sum();
    assert_eq!((rows.len(), sum), (12_000, expected));

    // The text as it came: a JSON number read as a float would lose what is looked at here.
    let path = "/api/analytics/usage/costs?from=2026-11-01&to=2026-12-31&interval=hour";
    let usage = String::from_utf8(file(&tier, &key, path).await).unwrap();
    let (_, totals) = usage.split_once("\"totals\":").unwrap();
    assert_eq!(
        written(totals, "cost").parse::<Decimal>().unwrap(),
        expected
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_back_from_every_format_as_the_list_has_it() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let odd = RunRow {
        name: "=HYPERLINK(\"x\"), \r\n\"quoted\"",
        tags: vec!["a,b", "c\"d", "ä"],
        error_name: "-E",
        error_message: "line\nline",
        feedback_comment: "@SUM(A1)",
        feedback_at: Some(NOON_MS + 5),
        ..run("ours", "app", "odd", "parent")
    };
    let bare = RunRow {
        started_at: NOON_MS + 1,
        latency_ms: None,
        ended_at: None,
        prompt_tokens: None,
        tags: vec![],
        feedback_rating: "",
        agent: "",
        ..run("ours", "app", "bare", "")
    };
    tier.store
        .insert_runs([odd, bare].into_iter())
        .await
        .unwrap();
    let (_, page) = tier.get(&key, "/api/run?sort=started_at").await;
    let list = page["data"].as_array().unwrap();

    assert_eq!(
        &lines(&file(&tier, &key, "/api/run/export?format=jsonl").await),
        list
    );

    let guarded = records(&file(&tier, &key, "/api/run/export?format=csv").await);
    let raw = records(&file(&tier, &key, "/api/run/export?format=csv&formulas=raw").await);
    let cell = |records: &[Vec<String>], row: usize, name: &str| {
        let place = records[0].iter().position(|known| known == name).unwrap();
        records[row][place].clone()
    };
    assert_eq!(
        cell(&guarded, 1, "name"),
        "'=HYPERLINK(\"x\"), \r\n\"quoted\""
    );
    assert_eq!(cell(&guarded, 1, "feedback_comment"), "'@SUM(A1)");
    assert_eq!(cell(&guarded, 1, "error_name"), "'-E");
    assert_eq!(cell(&raw, 1, "name"), list[0]["name"].as_str().unwrap());
    assert_eq!(
        cell(&raw, 1, "tags"),
        json!(["a,b", "c\"d", "ä"]).to_string()
    );
    assert_eq!(cell(&raw, 1, "latency_s"), "1.234");
    for (row, run) in list.iter().enumerate() {
        for (name, value) in [
            ("run_id", &run["run_id"]),
            ("parent_run_id", &run["parent_run_id"]),
            ("started_at", &run["started_at"]),
            ("ended_at", &run["ended_at"]),
            ("agent", &run["agent"]),
            ("cost_status", &run["cost_status"]),
            ("error_message", &run["error"]["message"]),
            ("feedback_at", &run["feedback"]["at"]),
        ] {
            assert_eq!(
                cell(&raw, row + 1, name),
                value.as_str().unwrap_or_default(),
                "{name}"
            );
        }
        for name in ["prompt_tokens", "llm_calls", "saved", "stale"] {
            let expected = match &run[name] {
                Value::Null => String::new(),
                value => value.to_string(),
            };
            assert_eq!(cell(&raw, row + 1, name), expected, "{name}");
        }
    }

    let rows = rows(file(&tier, &key, "/api/run/export?format=parquet").await);
    assert_eq!(
        rows[0]["name"],
        Field::Str(list[0]["name"].as_str().unwrap().to_owned())
    );
    assert_eq!(rows[0]["started_at"], Field::TimestampMillis(NOON_MS));
    assert_eq!(rows[0]["feedback_at"], Field::TimestampMillis(NOON_MS + 5));
    assert_eq!(rows[0]["latency_s"], Field::Double(1.234));
    assert_eq!(rows[0]["prompt_tokens"], Field::Long(7));
    let Field::ListInternal(tags) = &rows[0]["tags"] else {
        panic!("tags are a list");
    };
    let tags: Vec<&Field> = tags.elements().iter().collect();
    assert_eq!(
        tags,
        [
            &Field::Str("a,b".into()),
            &Field::Str("c\"d".into()),
            &Field::Str("ä".into())
        ]
    );
    for (column, absent) in [
        ("agent", Field::Null),
        ("latency_s", Field::Null),
        ("feedback_rating", Field::Null),
        ("stale", Field::Bool(false)),
    ] {
        assert_eq!(rows[1][column], absent, "{column}");
    }
    assert!(matches!(&rows[1]["tags"], Field::ListInternal(tags) if tags.len() == 0));
    let empty = rows_of_nothing(&tier, &key).await;
    assert_eq!(empty, (0, 1, 0));
}

/// What an export of nothing holds in each format: lines, records, rows.
async fn rows_of_nothing(tier: &Tier, key: &str) -> (usize, usize, usize) {
    let path = |format: &str| format!("/api/run/export?model=none&format={format}");
    (
        lines(&file(tier, key, &path("jsonl")).await).len(),
        records(&file(tier, key, &path("csv")).await).len(),
        rows(file(tier, key, &path("parquet")).await).len(),
    )
}

/// Runs enough for several chunks, three to a moment, in two apps.
async fn fill(tier: &Tier, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|n| format!("run-{n:06}")).collect();
    let rows = names.iter().enumerate().map(|(n, name)| RunRow {
        started_at: NOON_MS + (n as i64 / 3) * 100,
        ..run(
            "ours",
            if n.is_multiple_of(2) { "even" } else { "odd" },
            name,
            "",
        )
    });
    tier.store.insert_runs(rows).await.unwrap();
    names
}

fn after(run: &Value) -> String {
    let text = |name: &str| run[name].as_str().unwrap();
    format!(
        "after_started_at={}&after_app_id={}&after_run_id={}",
        text("started_at"),
        text("app_id"),
        text("run_id")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_is_cut_anywhere_goes_on_and_has_every_run_once_p3() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let names = fill(&tier, 11_000).await;
    let response = open(&tier, &key, "/api/run/export").await;
    let began_at = response.headers()["x-export-began-at"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut body = response.into_body().into_data_stream();
    let mut part = Vec::new();
    while part.len() < 5_000_000 {
        part.extend(body.next().await.unwrap().unwrap());
    }
    drop(body);
    // The last line is cut as a rule; what a client has are whole lines.
    let whole = part.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let mut all = lines(&part[..whole]);
    assert!((1000..11_000).contains(&all.len()));
    let path = format!(
        "/api/run/export?{}&began_at={began_at}",
        after(all.last().unwrap())
    );
    all.extend(lines(&file(&tier, &key, &path).await));
    let mut found: Vec<&str> = all
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, names);

    // A file that is only whole as a whole comes in parts.
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let part = rows(
            file(
                &tier,
                &key,
                &format!("/api/run/export?format=parquet&limit=4000{from}"),
            )
            .await,
        );
        let Some(last) = part.last() else { break };
        let Field::TimestampMillis(started_at) = last["started_at"] else {
            panic!("a start is a time");
        };
        from = format!(
            "&after_started_at={started_at}&after_app_id={}&after_run_id={}",
            text(&last["app_id"]),
            text(&last["run_id"])
        );
        found.extend(part.iter().map(|row| text(&row["run_id"])));
    }
    found.sort_unstable();
    assert_eq!(found, names);
}

fn text(field: &Field) -> String {
    let Field::Str(text) = field else {
        panic!("{field:?} is no text");
    };
    text.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_breaks_on_the_way_does_not_look_whole() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    fill(&tier, 30_000).await;
    let mut body = open(&tier, &key, "/api/run/export")
        .await
        .into_body()
        .into_data_stream();
    let mut bytes = body.next().await.unwrap().unwrap().len();
    let Tier {
        store, registry, ..
    } = tier;
    let reader = (*store).clone();
    drop(store);
    let count = async || {
        reader
            .bounded_query("SELECT count() FROM runs")
            .one::<u64>()
            .await
    };
    until(async || count().await.is_err()).await;
    let end = loop {
        match body.next().await {
            Some(Ok(piece)) => bytes += piece.len(),
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(_))), "after {bytes} bytes: {end:?}");
    until(async || outcomes(&registry) == [("failed".to_owned(), 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_export_and_frees_its_place_q1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    fill(&tier, 30_000).await;
    let mut bodies = Vec::new();
    // Two exports of a credential, and three of its project.
    let other = tier.key("ours", &[Scope::Read]).await;
    for (key, count) in [(&key, 2), (&other, 1)] {
        for _ in 0..count {
            let mut body = open(&tier, key, "/api/run/export")
                .await
                .into_body()
                .into_data_stream();
            body.next().await.unwrap().unwrap();
            bodies.push(body);
        }
        let refused = open(&tier, key, "/api/run/export").await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "(X1)");
        assert!(refused.headers().contains_key("retry-after"));
    }
    bodies.clear();
    until(async || outcomes(&tier.registry) == [("dropped".to_owned(), 3)]).await;
    until(async || tier.store.connections().active == 0).await;
    assert_eq!(
        lines(&file(&tier, &key, "/api/run/export?limit=7").await).len(),
        7
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_export_stays_the_end_however_often_it_is_asked_for() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    fill(&tier, 10).await;
    let mut body = open(&tier, &key, "/api/run/export").await.into_body();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
    for _ in 0..3 {
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_ends_the_exports_it_began() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    fill(&tier, 30_000).await;
    let admin = tier.token(Role::Admin, None).await;
    let (_, keys) = tier.get(&admin, "/api/internal/keys?project_id=ours").await;
    let mut body = open(&tier, &key, "/api/run/export")
        .await
        .into_body()
        .into_data_stream();
    body.next().await.unwrap().unwrap();
    let path = format!(
        "/api/internal/keys/{}",
        keys["data"][0]["id"].as_str().unwrap()
    );
    let (status, _) = tier.ask(Method::DELETE, &admin, &path, None).await;
    assert_eq!(status, StatusCode::OK);
    let end = loop {
        match body.next().await {
            Some(Ok(_)) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(_))), "{end:?}");
}

/// How exports ended, from the metrics.
fn outcomes(registry: &prometheus::Registry) -> Vec<(String, u64)> {
    let families = registry.gather();
    let ended = families
        .iter()
        .filter(|family| family.name() == "spindle_query_exports_total");
    let metrics = ended.flat_map(|family| family.get_metric());
    let outcome = |metric: &prometheus::proto::Metric| {
        let label = metric.get_label().first().unwrap().value().to_owned();
        (label, metric.get_counter().get_value() as u64)
    };
    metrics
        .map(outcome)
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Waits until something is so; gives up after half a minute.
async fn until(is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_what_its_filter_and_its_credential_allow_t1() {
    let tier = Tier::new().await;
    let theirs = RunRow {
        model: "m",
        ..run("theirs", "app", "their", "")
    };
    let ours = RunRow {
        model: "m",
        started_at: NOON_MS + 1,
        ..run("ours", "app", "r", "")
    };
    let other = RunRow {
        started_at: NOON_MS + 2,
        ..run("ours", "app", "other", "")
    };
    tier.store
        .insert_runs([theirs, ours, other].into_iter())
        .await
        .unwrap();
    let key = tier.key("ours", &[Scope::Read]).await;
    let viewer = tier.token(Role::Viewer, None).await;
    let ids = async |secret: &str, query: &str| -> Vec<String> {
        let runs = lines(&file(&tier, secret, &format!("/api/run/export?{query}")).await);
        runs.iter()
            .map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&key, "").await, ["r", "other"]);
    assert_eq!(ids(&key, "model=m").await, ["r"]);
    assert_eq!(ids(&viewer, "model=m").await, ["their", "r"]);
    assert_eq!(ids(&viewer, "limit=2").await, ["their", "r"]);
    assert_eq!(ids(&viewer, "project_id=theirs").await, ["their"]);
    let on = "after_started_at=2026-11-20T10:00:00.000Z&after_app_id=app&after_run_id=their";
    assert_eq!(
        ids(&viewer, &format!("{on}&after_project_id=theirs")).await,
        ["r", "other"]
    );
    // A caller who reaches several projects gets the project in every format.
    let runs = lines(&file(&tier, &viewer, "/api/run/export").await);
    assert_eq!(runs[0]["project_id"], "theirs");
    let header = &records(&file(&tier, &viewer, "/api/run/export?format=csv").await)[0];
    assert_eq!(header[0], "project_id");
    let header = &records(&file(&tier, &key, "/api/run/export?format=csv").await)[0];
    assert_eq!(header[0], "run_id");

    let reporter = tier.key("ours", &[Scope::Report]).await;
    for (secret, query, expected, named) in [
        ("", "", 401, ""),
        (reporter.as_str(), "", 403, ""),
        (&key, "project_id=theirs", 403, ""),
        (&key, "format=xml", 400, "`jsonl`, `csv`, `parquet`"),
        (&key, "format=openai-jsonl", 400, "format"),
        (&key, "limit=0", 400, "limit"),
        (&key, "limit=5&limit=6", 400, "once"),
        (&key, "sort=-started_at", 400, "sort"),
        (&key, "cursor=x", 400, "cursor"),
        (&key, "check=true", 400, "check"),
        (&key, "colour=red", 400, "colour"),
        (&key, "status=done", 400, "status"),
        (&key, "after_run_id=r", 400, "after_started_at"),
        (
            &key,
            "after_started_at=x&after_app_id=a&after_run_id=r",
            400,
            "after_started_at",
        ),
        (&key, "began_at=x", 400, "began_at"),
        (&key, "formulas=raw", 400, "format=csv"),
        (&viewer, on, 400, "after_project_id"),
    ] {
        let (status, body) = tier.get(secret, &format!("/api/run/export?{query}")).await;
        assert_eq!(status.as_u16(), expected, "{query}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains(named),
            "{query}: {body}"
        );
    }
}
