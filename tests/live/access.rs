//! Who may do what: every endpoint of the document with every kind of credential, good and bad.

mod table;

use std::time::Duration;

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup};
use crate::provider::{AUDIENCE, Provider, Signer, now_s};
use table::{Holder, Need, ROWS, Row};

crate::harness::both_ways!(
    every_endpoint_lets_in_those_who_may_and_tells_the_others_why,
    people_come_and_go_with_the_keys_of_their_provider
);

/// From a change at the provider until the server acts on it: a refresh that is due, and a pause after a failure.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);

/// A server that trusts a provider, whose keys it asks for every second.
pub(crate) fn trusting(setup: Setup, provider: &Provider) -> Setup {
    setup
        .with("auth.oidc.issuer", &provider.issuer)
        .with("auth.oidc.audience", AUDIENCE)
        .with("auth.oidc.role_claim", "realm_access.roles")
        .with("auth.oidc.roles", "see=viewer,begin=starter,rule=admin")
        .with("auth.oidc.projects_claim", "projects")
        .with("auth.oidc.leeway", "0s")
        .with("auth.oidc.jwks_refresh", "1s")
        .with("auth.oidc.jwks_max_age", "8s")
}

/// Makes a key or a token; its id and its secret.
async fn make(server: &Server, kind: &str, body: Value) -> (String, String) {
    let path = format!("/api/internal/{kind}");
    let (status, made) = server
        .ask(Method::POST, &server.token, &path, Some(body))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

async fn revoked(server: &Server, kind: &str, body: Value) -> String {
    let (id, secret) = make(server, kind, body).await;
    let path = format!("/api/internal/{kind}/{id}");
    let (status, gone) = server.ask(Method::DELETE, &server.token, &path, None).await;
    assert_eq!(status, StatusCode::OK, "{gone}");
    secret
}

/// One that has ended, made on the command line.
async fn expired(server: &Server) -> String {
    let asked = ["token", "create", "--role", "admin", "--expires-in", "1s"];
    let made = server.command(&asked);
    let shown = String::from_utf8(made.stdout).unwrap();
    assert!(shown.contains("expires_at: "), "{shown}");
    let secret = shown.lines().find_map(|line| line.strip_prefix("secret: "));
    let secret = secret.unwrap().to_owned();
    let has_ended = async || {
        let (_, fault) = server.get_as(&secret, "/api/internal/tokens").await;
        let message = fault["message"].as_str().unwrap_or_default();
        message.contains("expired").then_some(())
    };
    server
        .until("the token ends", TAKEN_OVER_WITHIN, has_ended)
        .await;
    secret
}

/// Rejected credentials, each with a word of the error message.
async fn bad(server: &Server, provider: &Provider, key: &Signer) -> Vec<(String, &'static str)> {
    let admin = json!({"role": "admin"});
    let ours = [
        ("sp_tok_nobodys".to_owned(), "not known"),
        (
            revoked(server, "keys", json!({"project_id": "default"})).await,
            "not known",
        ),
        (revoked(server, "tokens", admin).await, "not known"),
        (expired(server).await, "expired"),
        (format!("sp_tok_{}", "x".repeat(600)), "not known"),
    ];
    let good = provider.claims("u-1", &["rule"], 600);
    let with = |claim: &str, value: Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        key.sign(&claims)
    };
    let without_end = {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove("exp");
        key.sign(&claims)
    };
    let unsigned = {
        let signed = key.sign(&good);
        let (_, rest) = signed.split_once('.').unwrap();
        let (claims, _) = rest.split_once('.').unwrap();
        // {"alg":"none","typ":"JWT"}
        format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}.")
    };
    // In the name of the key that the provider has, and of one that it has not.
    let forged = Signer::new("current").sign(&good);
    let unpublished = Signer::new("unpublished").sign(&good);
    let theirs = [
        (with("exp", json!(now_s() - 1)), "expired"),
        (with("nbf", json!(now_s() + 600)), "not valid before"),
        (with("aud", json!("others")), "audience"),
        (with("iss", json!("http://127.0.0.1:1")), "issuer"),
        (without_end, "`exp`"),
        (forged, "signature"),
        (unpublished, "does not publish"),
        (unsigned, "`alg`"),
    ];
    ours.into_iter().chain(theirs).collect()
}

/// Good credentials of every kind.
async fn good(server: &Server, provider: &Provider, key: &Signer) -> Vec<Holder> {
    let mut holders = Vec::new();
    for scope in ["report", "read"] {
        let body = json!({"project_id": "default", "scopes": [scope]});
        let (_, secret) = make(server, "keys", body).await;
        holders.push(Holder::key(secret, scope));
    }
    for role in ["viewer", "starter", "operator", "admin"] {
        let (_, secret) = make(server, "tokens", json!({ "role": role })).await;
        holders.push(Holder::token(secret, role));
        let body = json!({"role": role, "projects": ["elsewhere"]});
        let (_, secret) = make(server, "tokens", body).await;
        holders.push(Holder::token(secret, role).elsewhere());
    }
    let person = |roles: &[&str], meant: &[&'static str]| {
        let secret = key.sign(&provider.claims("u-1", roles, 3600));
        Holder::person(secret, meant)
    };
    holders.push(person(&[], &[]));
    holders.push(person(&["admin", "viewer"], &[]));
    holders.push(person(&["see", "begin"], &["viewer", "starter"]));
    holders.push(person(&["rule"], &["admin"]));
    let mut claims = provider.claims("u-2", &["rule"], 3600);
    claims["projects"] = json!(["elsewhere"]);
    holders.push(Holder::person(key.sign(&claims), &["admin"]).elsewhere());
    holders
}

/// Asks for what a row is about; status, challenge and body.
async fn ask(
    server: &Server,
    row: &Row,
    (secret, query): (Option<&str>, &str),
) -> (StatusCode, Option<String>, Value) {
    let url = format!("{}{}{query}", server.url, row.path());
    let mut request = server.client.request(row.method(), url);
    if let Some(secret) = secret {
        request = request.bearer_auth(secret);
    }
    for (name, value) in row.headers() {
        request = request.header(*name, *value);
    }
    if let Some(body) = row.body() {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let challenge = answer.headers().get("www-authenticate");
    let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
    let body = match row.has_an_end() || !status.is_success() {
        true => answer.json().await.unwrap_or_default(),
        false => Value::Null,
    };
    (status, challenge, body)
}

/// What is wrong with a refusal, if something is.
fn fault_in(
    row: &Row,
    expected: StatusCode,
    (status, challenge, body): &(StatusCode, Option<String>, Value),
) -> Option<String> {
    let shown = format!("{status} {body}");
    if *status != expected {
        return Some(format!("{expected} was expected: {shown}"));
    }
    let code = match expected {
        StatusCode::UNAUTHORIZED => "unauthorized",
        _ => "forbidden",
    };
    let is_shaped = if row.has_own_faults() {
        body["status"] == "error" && body["message"].is_string() && body["timestamp"].is_string()
    } else {
        body["error"] == code && body["message"].is_string() && body["status"] == status.as_u16()
    };
    if !is_shaped {
        return Some(format!("the body has another shape: {shown}"));
    }
    let is_challenged = challenge.as_deref() == Some("Bearer");
    if !row.has_own_faults()
        && row.need != Need::Report
        && is_challenged != (expected == StatusCode::UNAUTHORIZED)
    {
        return Some(format!("the challenge is {challenge:?}: {shown}"));
    }
    None
}

async fn every_endpoint_lets_in_those_who_may_and_tells_the_others_why(setup: Setup) {
    let key = Signer::new("current");
    let provider = Provider::publishing(&[&key]).await;
    // Every endpoint is asked with every credential that is none.
    let setup = trusting(setup, &provider).with("auth.failures_per_minute", "0");
    let server = setup.start_ready().await;
    let (status, made) = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/projects",
            Some(json!({"project_id": "elsewhere"})),
        )
        .await;
    assert!(status.is_success(), "{made}");
    let bad = bad(&server, &provider, &key).await;
    let good = good(&server, &provider, &key).await;
    server.informed().await;

    let (_, document) = server.get("/api/openapi.json").await;
    table::assert_complete(&document);
    let server = &server;
    let mut faults = Vec::new();
    let mut asked = 0;
    for row in ROWS {
        if row.need == Need::Public {
            let (status, _, body) = ask(server, row, (None, "")).await;
            assert!(status.is_success(), "{row:?}: {status} {body}");
            continue;
        }
        if row.need == Need::InBody {
            let answer = ask(server, row, (Some(&server.token), "")).await;
            let fault = fault_in(row, StatusCode::UNAUTHORIZED, &answer);
            faults.extend(fault.map(|fault| format!("{row:?}: {fault}")));
            continue;
        }
        let mut note = |who: &str, fault: Option<String>| {
            asked += 1;
            faults.extend(fault.map(|fault| format!("{row:?} as {who}: {fault}")));
        };
        let answer = ask(server, row, (None, "")).await;
        let is_told = answer.2["message"].to_string().contains("required");
        note(
            "no credential",
            fault_in(row, StatusCode::UNAUTHORIZED, &answer),
        );
        note("no credential", (!is_told).then(|| format!("{}", answer.2)));
        let answers = bad.iter().map(|(secret, word)| async move {
            (secret, word, ask(server, row, (Some(secret), "")).await)
        });
        for (secret, word, answer) in join_all(answers).await {
            let message = answer.2["message"].as_str().unwrap_or_default();
            note(word, fault_in(row, StatusCode::UNAUTHORIZED, &answer));
            // Where events are reported, only keys are known.
            let is_told = row.need == Need::Report || message.contains(word);
            let is_quiet = !message.contains(secret.as_str());
            note(word, (!is_told || !is_quiet).then(|| message.to_owned()));
        }
        // One after the other: a few exports at once are all there may be.
        for holder in &good {
            let query = row.query(holder);
            let answer = ask(server, row, (Some(&holder.secret), query)).await;
            let who = holder.name();
            match row.expected(holder) {
                Some(refusal) => note(&who, fault_in(row, refusal, &answer)),
                None => {
                    let is_let_in = answer.0.as_u16() < 500
                        && answer.0 != StatusCode::UNAUTHORIZED
                        && answer.0 != StatusCode::FORBIDDEN;
                    let shown = format!("refused: {} {}", answer.0, answer.2);
                    note(&who, (!is_let_in).then_some(shown));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(asked > 30 * (bad.len() + good.len()), "{asked}");
}

/// Follows runs until the server ends the stream.
async fn stream_ends(server: &Server, secret: &str) {
    let request = server.client.get(format!("{}/api/run/live", server.url));
    let mut stream = request.bearer_auth(secret).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let to_its_end = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(TAKEN_OVER_WITHIN, to_its_end)
        .await
        .expect("a stream goes on though its credential has ended");
}

async fn people_come_and_go_with_the_keys_of_their_provider(setup: Setup) {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let provider = Provider::publishing(&[&old]).await;
    provider.call_itself("https://other.example.com");
    let setup = trusting(setup, &provider);
    let server = setup.start_ready().await;
    let claims = provider.claims("u-1", &["rule"], 3600);
    let (by_old, by_new) = (old.sign(&claims), new.sign(&claims));
    let path = "/api/internal/tokens";
    let until = async |secret: &str, expected: StatusCode| {
        let answered = async || (server.get_as(secret, path).await.0 == expected).then_some(());
        let what = format!("a token is answered {expected}");
        server.until(&what, TAKEN_OVER_WITHIN, answered).await;
    };
    let unavailable = async || {
        let request = server.client.get(format!("{}{path}", server.url));
        let answer = request.bearer_auth(&by_new).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key("retry-after"));
    };

    // A discovery document of another issuer is not the provider's: 503, and no token is called invalid.
    unavailable().await;
    provider.call_itself(&provider.issuer);
    until(&by_old, StatusCode::OK).await;
    assert_eq!(
        server.get_as(&by_new, path).await.0,
        StatusCode::UNAUTHORIZED
    );

    // A new key is known, and one that was taken back is not.
    provider.publish(&[&old, &new]);
    until(&by_new, StatusCode::OK).await;
    assert_eq!(server.get_as(&by_old, path).await.0, StatusCode::OK);
    provider.publish(&[&new]);
    until(&by_old, StatusCode::UNAUTHORIZED).await;
    assert_eq!(server.get_as(&by_new, path).await.0, StatusCode::OK);

    // Streams end with the credential they were opened with, of either kind.
    let (_, ours) = make(
        &server,
        "tokens",
        json!({"role": "viewer", "expires_in": "3s"}),
    )
    .await;
    let theirs = new.sign(&provider.claims("u-1", &["see"], 3));
    tokio::join!(stream_ends(&server, &ours), stream_ends(&server, &theirs));

    // Its keys are among the caches of the deployment.
    let caches = "/api/internal/cache";
    let (_, listed) = server.get_as(&by_new, caches).await;
    assert!(listed.to_string().contains("identity_keys"), "{listed}");
    let names = json!({"cacheNames": ["svc:core:cache"]});
    let clear = format!("{caches}/clear");
    let (status, cleared) = server.ask(Method::POST, &by_new, &clear, Some(names)).await;
    assert_eq!(status, StatusCode::OK, "{cleared}");

    // The provider away: for a while with the keys that are known, then not, and never without.
    assert_eq!(server.get_as(&by_new, path).await.0, StatusCode::OK);
    provider.leave(true);
    assert_eq!(server.get_as(&by_new, path).await.0, StatusCode::OK);
    until(&by_new, StatusCode::SERVICE_UNAVAILABLE).await;
    unavailable().await;
    assert_eq!(server.get_as(&server.token, path).await.0, StatusCode::OK);
    provider.leave(false);
    until(&by_new, StatusCode::OK).await;
}
