//! Against a provider over HTTP.

use std::sync::Mutex;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use schemas::credential::Role;
use serde_json::{Value, json};

use super::super::test_keys::{self, TestKey};
use super::*;

const NOW_MS: UnixMs = 1_795_168_800_000;
const DAY: Duration = Duration::from_secs(86_400);

/// What a provider does when it is asked.
#[derive(Clone, Default)]
struct Script {
    issuer: String,
    keys: Vec<Value>,
    is_away: bool,
    asked: u32,
}

/// A provider on a port of its own.
struct Stage {
    issuer: String,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, Path(path): Path<String>) -> Response {
    let mut script = script.lock().unwrap();
    if script.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if path == "certs" {
        script.asked += 1;
        return axum::Json(json!({ "keys": script.keys })).into_response();
    }
    let keys = format!("{}/certs", script.issuer);
    axum::Json(json!({"issuer": script.issuer, "jwks_uri": keys})).into_response()
}

impl Stage {
    async fn new(keys: &[(&TestKey, &str)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script {
            issuer: issuer.clone(),
            ..Script::default()
        }));
        let router = Router::new()
            .route("/{*path}", get(answer))
            .with_state(script.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let stage = Self {
            issuer,
            script,
            task,
        };
        stage.publish(keys);
        stage
    }

    fn publish(&self, keys: &[(&TestKey, &str)]) {
        let keys = keys.iter().map(|(key, id)| key.jwk(id)).collect();
        self.script.lock().unwrap().keys = keys;
    }

    fn leave(&self, is_away: bool) {
        self.script.lock().unwrap().is_away = is_away;
    }

    fn asked(&self) -> u32 {
        self.script.lock().unwrap().asked
    }

    fn identity(&self, jwks_refresh: Duration, jwks_max_age: Duration) -> Identity {
        let config = IdentityConfig {
            rules: ClaimRules {
                issuer: self.issuer.clone(),
                audience: vec!["spindle".to_owned()],
                role_claim: "roles".to_owned(),
                roles: vec![("look".to_owned(), Role::Viewer)],
                projects_claim: None,
                projects: vec!["*".to_owned()],
                leeway_ms: 0,
            },
            algorithms: SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm).into(),
            jwks_refresh,
            jwks_max_age,
            timeout: Duration::from_secs(5),
        };
        let metrics = IdentityMetrics::register(&Registry::new()).unwrap();
        Identity::new(config, metrics).unwrap()
    }

    fn claims(&self) -> Value {
        json!({"iss": self.issuer, "aud": "spindle", "sub": "u-1", "exp": NOW_MS / 1000 + 60, "roles": "look"})
    }
}

fn token(key: &TestKey, algorithm: Algorithm, header: Value, claims: &Value) -> String {
    let mut header = header;
    header["alg"] = json!(algorithm);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = key.sign(message.as_bytes(), algorithm);
    format!("{message}.{signature}")
}

async fn ask(identity: &Identity, token: &str) -> Result<Arc<Credential>, Denied> {
    let jwt = Jwt::of(token).unwrap();
    identity.person(token, &jwt, NOW_MS).await
}

fn why(answer: Result<Arc<Credential>, Denied>) -> String {
    match answer {
        Err(Denied::Refused(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_good_token_of_every_kind_is_let_in_and_computed_once() {
    let keys = [
        (test_keys::rsa(), Algorithm::RS256),
        (test_keys::rsa(), Algorithm::PS384),
        (test_keys::p256(), Algorithm::ES256),
        (test_keys::p384(), Algorithm::ES384),
        (test_keys::ed25519(), Algorithm::EdDSA),
    ];
    let names = ["a", "b", "c", "d", "e"];
    let published: Vec<_> = keys.iter().map(|(key, _)| key).zip(names).collect();
    let stage = Stage::new(&published).await;
    let identity = stage.identity(DAY, DAY);
    for ((key, algorithm), name) in keys.iter().zip(names) {
        let token = token(key, *algorithm, json!({"kid": name}), &stage.claims());
        for _ in 0..2 {
            let person = ask(&identity, &token).await.unwrap();
            assert!(person.covers(Role::Viewer) && person.id() == "u-1");
        }
    }
    let report = identity.report();
    assert_eq!((report.entries, report.hits, report.misses), (5, 5, 5));
    assert_eq!(stage.asked(), 1);
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret_and_a_wrong_signature_is_wrong() {
    let (rsa, other) = (test_keys::rsa(), test_keys::ed25519());
    let known = test_keys::ed25519();
    let stage = Stage::new(&[(&rsa, "r"), (&known, "e")]).await;
    let identity = stage.identity(DAY, DAY);
    let refused = async |token: String| why(ask(&identity, &token).await);
    // Signed by somebody else in the name of a key that is known.
    let forged = token(
        &other,
        Algorithm::EdDSA,
        json!({"kid": "e"}),
        &stage.claims(),
    );
    assert!(refused(forged).await.contains("signature"));
    // Signed with a key that the token brings along.
    let brought = json!({"kid": "e", "jwk": other.jwk("e"), "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"});
    let forged = token(&other, Algorithm::EdDSA, brought, &stage.claims());
    assert!(refused(forged).await.contains("signature"));
    // The way of one key with the name of another.
    let crossed = token(
        &known,
        Algorithm::EdDSA,
        json!({"kid": "r"}),
        &stage.claims(),
    );
    assert!(refused(crossed).await.contains("alg"));
    // Signed with what is public of the RSA key as the secret; and not at all.
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for algorithm in ["HS256", "none", "None"] {
        let header = part(json!({"alg": algorithm, "kid": "r"}));
        let message = format!("{header}.{}", part(stage.claims()));
        let secret = rsa.jwk("r")["n"].as_str().unwrap().to_owned();
        let secret = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &secret, Algorithm::HS256).unwrap();
        for signature in [signature.as_str(), ""] {
            assert!(
                refused(format!("{message}.{signature}"))
                    .await
                    .contains("alg")
            );
        }
    }
    // One letter changed in what was signed.
    let good = token(
        &known,
        Algorithm::EdDSA,
        json!({"kid": "e"}),
        &stage.claims(),
    );
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let mut claims = stage.claims();
    claims["sub"] = json!("u-2");
    let changed = format!("{header}.{}.{signature}", part(claims));
    assert!(refused(changed).await.contains("signature"));
    assert_eq!(identity.report().entries, 0, "nothing of it is remembered");
}

#[tokio::test]
async fn what_ends_is_refused_when_it_ends_though_it_was_good_before() {
    let key = test_keys::ed25519();
    let stage = Stage::new(&[(&key, "k")]).await;
    let identity = stage.identity(DAY, DAY);
    let token = token(&key, Algorithm::EdDSA, json!({"kid": "k"}), &stage.claims());
    assert!(ask(&identity, &token).await.is_ok());
    let jwt = Jwt::of(&token).unwrap();
    let later = identity.person(&token, &jwt, NOW_MS + 60_000).await;
    assert!(why(later).contains("expired"));
}

#[tokio::test]
async fn a_key_that_is_not_known_has_the_provider_asked_once_in_a_while() {
    let (old, new) = (test_keys::ed25519(), test_keys::p256());
    let stage = Stage::new(&[(&old, "old")]).await;
    let identity = stage.identity(DAY, DAY);
    let by_old = token(
        &old,
        Algorithm::EdDSA,
        json!({"kid": "old"}),
        &stage.claims(),
    );
    let by_new = token(
        &new,
        Algorithm::ES256,
        json!({"kid": "new"}),
        &stage.claims(),
    );
    assert!(ask(&identity, &by_old).await.is_ok());
    stage.publish(&[(&new, "new")]);
    // Many at once: one question.
    let asked = (0..8).map(|_| ask(&identity, &by_new));
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stage.asked(), 2);
    // The old key is gone with that, though its token was found good before; nobody is asked again so soon.
    assert!(why(ask(&identity, &by_old).await).contains("does not publish"));
    assert_eq!(stage.asked(), 2);
    // Nor for a token that cannot be good whoever signed it.
    let mut claims = stage.claims();
    claims["aud"] = json!("others");
    let other = token(&new, Algorithm::ES256, json!({"kid": "newest"}), &claims);
    assert!(why(ask(&identity, &other).await).contains("audience"));
    // A provider that is away may know better: then nobody can say that it is wrong.
    stage.leave(true);
    identity.warm().await;
    let newest = token(
        &new,
        Algorithm::ES256,
        json!({"kid": "newest"}),
        &stage.claims(),
    );
    assert_eq!(ask(&identity, &newest).await, Err(Denied::Unavailable));
    assert!(ask(&identity, &by_new).await.is_ok());
}

#[tokio::test]
async fn keys_are_asked_for_behind_requests_when_they_are_old() {
    let (old, new) = (test_keys::ed25519(), test_keys::ed25519());
    let stage = Stage::new(&[(&old, "old")]).await;
    let identity = stage.identity(Duration::ZERO, DAY);
    let by_old = token(
        &old,
        Algorithm::EdDSA,
        json!({"kid": "old"}),
        &stage.claims(),
    );
    assert!(ask(&identity, &by_old).await.is_ok());
    stage.publish(&[(&new, "new")]);
    // Until the answer is there; with it the old key goes.
    let gone = async {
        while ask(&identity, &by_old).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .unwrap();
    assert!(stage.asked() >= 2);
}

#[tokio::test]
async fn a_provider_that_is_away_is_done_without_for_a_while_and_never_without_checking() {
    let key = test_keys::ed25519();
    let stage = Stage::new(&[(&key, "k")]).await;
    let token = token(&key, Algorithm::EdDSA, json!({"kid": "k"}), &stage.claims());
    let (patient, strict) = (
        stage.identity(Duration::ZERO, DAY),
        stage.identity(DAY, Duration::ZERO),
    );
    assert!(ask(&patient, &token).await.is_ok());
    assert!(ask(&strict, &token).await.is_ok());
    stage.leave(true);
    for _ in 0..3 {
        assert!(ask(&patient, &token).await.is_ok());
        assert_eq!(ask(&strict, &token).await, Err(Denied::Unavailable));
    }
    // An order to empty caches locks nobody out; it is carried out when the provider is back.
    patient.clear();
    assert!(ask(&patient, &token).await.is_ok());
    stage.leave(false);
    let (asked, new) = (stage.asked(), test_keys::ed25519());
    stage.publish(&[(&new, "k")]);
    let gone = async {
        while ask(&patient, &token).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone);
    gone.await.unwrap();
    assert!(stage.asked() > asked);
    stage.leave(true);
    let from_the_start = stage.identity(DAY, DAY);
    assert_eq!(ask(&from_the_start, &token).await, Err(Denied::Unavailable));
}

#[tokio::test]
async fn a_provider_of_another_name_is_not_believed() {
    let key = test_keys::ed25519();
    let stage = Stage::new(&[(&key, "k")]).await;
    stage.script.lock().unwrap().issuer = "https://id.example.com".to_owned();
    let identity = stage.identity(DAY, DAY);
    let token = token(&key, Algorithm::EdDSA, json!({"kid": "k"}), &stage.claims());
    assert_eq!(ask(&identity, &token).await, Err(Denied::Unavailable));
    assert_eq!(stage.asked(), 0);
}
