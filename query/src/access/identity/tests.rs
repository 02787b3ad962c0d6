//! Tokens of a provider that is reached over HTTP.

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

/// Behavior of the provider.
#[derive(Clone, Default)]
struct Script {
    issuer: String,
    keys: Vec<Value>,
    is_away: bool,
    fetches: u32,
}

/// A provider on its own port.
struct TestProvider {
    issuer: String,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TestProvider {
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
        script.fetches += 1;
        return axum::Json(json!({ "keys": script.keys })).into_response();
    }
    let keys = format!("{}/certs", script.issuer);
    axum::Json(json!({"issuer": script.issuer, "jwks_uri": keys})).into_response()
}

impl TestProvider {
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
        let provider = Self {
            issuer,
            script,
            task,
        };
        provider.publish(keys);
        provider
    }

    fn publish(&self, keys: &[(&TestKey, &str)]) {
        let keys = keys.iter().map(|(key, id)| key.jwk(id)).collect();
        self.script.lock().unwrap().keys = keys;
    }

    fn set_away(&self, is_away: bool) {
        self.script.lock().unwrap().is_away = is_away;
    }

    fn fetches(&self) -> u32 {
        self.script.lock().unwrap().fetches
    }

    fn identity(&self, jwks_refresh: Duration, jwks_max_age: Duration) -> Identity {
        let config = IdentityConfig {
            rules: ClaimRules {
                issuer: self.issuer.clone(),
                audience: vec!["spindle".to_owned()],
                role_claim: "roles".to_owned(),
                roles: vec![("readers".to_owned(), Role::Viewer)],
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
        json!({"iss": self.issuer, "aud": "spindle", "sub": "u-1", "exp": NOW_MS / 1000 + 60, "roles": "readers"})
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

async fn check(identity: &Identity, token: &str) -> Result<Arc<Credential>, Denied> {
    let jwt = Jwt::parse(token).unwrap();
    identity.person(token, &jwt, NOW_MS).await
}

fn reason(answer: Result<Arc<Credential>, Denied>) -> String {
    match answer {
        Err(Denied::Rejected(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_valid_token_of_every_algorithm_is_accepted_and_verified_once() {
    let keys = [
        (test_keys::rsa(), Algorithm::RS256),
        (test_keys::rsa(), Algorithm::PS384),
        (test_keys::p256(), Algorithm::ES256),
        (test_keys::p384(), Algorithm::ES384),
        (test_keys::ed25519(), Algorithm::EdDSA),
    ];
    let names = ["a", "b", "c", "d", "e"];
    let published: Vec<_> = keys.iter().map(|(key, _)| key).zip(names).collect();
    let provider = TestProvider::new(&published).await;
    let identity = provider.identity(DAY, DAY);
    for ((key, algorithm), name) in keys.iter().zip(names) {
        let token = token(key, *algorithm, json!({"kid": name}), &provider.claims());
        for _ in 0..2 {
            let person = check(&identity, &token).await.unwrap();
            assert!(person.covers(Role::Viewer) && person.id() == "u-1");
        }
    }
    let report = identity.report();
    assert_eq!((report.entries, report.hits, report.misses), (5, 5, 5));
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test]
async fn a_public_key_is_not_a_shared_secret_and_a_wrong_signature_is_rejected() {
    let (rsa, other) = (test_keys::rsa(), test_keys::ed25519());
    let known = test_keys::ed25519();
    let provider = TestProvider::new(&[(&rsa, "r"), (&known, "e")]).await;
    let identity = provider.identity(DAY, DAY);
    let rejected = async |token: String| reason(check(&identity, &token).await);
    // Signed with another key under the id of a published one.
    let forged = token(
        &other,
        Algorithm::EdDSA,
        json!({"kid": "e"}),
        &provider.claims(),
    );
    assert!(rejected(forged).await.contains("signature"));
    // Signed with a key that is part of the token.
    let brought = json!({"kid": "e", "jwk": other.jwk("e"), "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"});
    let forged = token(&other, Algorithm::EdDSA, brought, &provider.claims());
    assert!(rejected(forged).await.contains("signature"));
    // The algorithm of one key with the id of another.
    let crossed = token(
        &known,
        Algorithm::EdDSA,
        json!({"kid": "r"}),
        &provider.claims(),
    );
    assert!(rejected(crossed).await.contains("alg"));
    // Signed with the public part of the RSA key as the secret; and not signed.
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for algorithm in ["HS256", "none", "None"] {
        let header = part(json!({"alg": algorithm, "kid": "r"}));
        let message = format!("{header}.{}", part(provider.claims()));
        let secret = rsa.jwk("r")["n"].as_str().unwrap().to_owned();
        let secret = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &secret, Algorithm::HS256).unwrap();
        for signature in [signature.as_str(), ""] {
            assert!(
                rejected(format!("{message}.{signature}"))
                    .await
                    .contains("alg")
            );
        }
    }
    // One signed letter changed.
    let good = token(
        &known,
        Algorithm::EdDSA,
        json!({"kid": "e"}),
        &provider.claims(),
    );
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let mut claims = provider.claims();
    claims["sub"] = json!("u-2");
    let changed = format!("{header}.{}.{signature}", part(claims));
    assert!(rejected(changed).await.contains("signature"));
    assert_eq!(identity.report().entries, 0, "no rejected token is cached");
}

#[tokio::test]
async fn a_cached_token_is_rejected_when_it_expires() {
    let key = test_keys::ed25519();
    let provider = TestProvider::new(&[(&key, "k")]).await;
    let identity = provider.identity(DAY, DAY);
    let token = token(
        &key,
        Algorithm::EdDSA,
        json!({"kid": "k"}),
        &provider.claims(),
    );
    assert!(check(&identity, &token).await.is_ok());
    let jwt = Jwt::parse(&token).unwrap();
    let later = identity.person(&token, &jwt, NOW_MS + 60_000).await;
    assert!(reason(later).contains("expired"));
}

#[tokio::test]
async fn unknown_keys_cause_few_fetches() {
    let (old, new) = (test_keys::ed25519(), test_keys::p256());
    let provider = TestProvider::new(&[(&old, "old")]).await;
    let identity = provider.identity(DAY, DAY);
    let by_old = token(
        &old,
        Algorithm::EdDSA,
        json!({"kid": "old"}),
        &provider.claims(),
    );
    let by_new = token(
        &new,
        Algorithm::ES256,
        json!({"kid": "new"}),
        &provider.claims(),
    );
    assert!(check(&identity, &by_old).await.is_ok());
    provider.publish(&[(&new, "new")]);
    // Many at once: one fetch.
    let checks = (0..8).map(|_| check(&identity, &by_new));
    let answers = futures::future::join_all(checks).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(provider.fetches(), 2);
    // The old key is gone, so its cached token is rejected, without another fetch so soon.
    assert!(reason(check(&identity, &by_old).await).contains("does not publish"));
    assert_eq!(provider.fetches(), 2);
    // Nor for a token whose claims are invalid.
    let mut claims = provider.claims();
    claims["aud"] = json!("others");
    let other = token(&new, Algorithm::ES256, json!({"kid": "newest"}), &claims);
    assert!(reason(check(&identity, &other).await).contains("audience"));
    // A provider that is away may have the key, so the token is unavailable rather than rejected.
    provider.set_away(true);
    identity.warm().await;
    let newest = token(
        &new,
        Algorithm::ES256,
        json!({"kid": "newest"}),
        &provider.claims(),
    );
    assert_eq!(check(&identity, &newest).await, Err(Denied::Unavailable));
    assert!(check(&identity, &by_new).await.is_ok());
}

#[tokio::test]
async fn old_keys_are_refreshed_in_the_background() {
    let (old, new) = (test_keys::ed25519(), test_keys::ed25519());
    let provider = TestProvider::new(&[(&old, "old")]).await;
    let identity = provider.identity(Duration::ZERO, DAY);
    let by_old = token(
        &old,
        Algorithm::EdDSA,
        json!({"kid": "old"}),
        &provider.claims(),
    );
    assert!(check(&identity, &by_old).await.is_ok());
    provider.publish(&[(&new, "new")]);
    // Until the refresh removes the old key.
    let gone = async {
        while check(&identity, &by_old).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .unwrap();
    assert!(provider.fetches() >= 2);
}

#[tokio::test]
async fn cached_keys_outlast_an_outage_of_the_provider_up_to_their_maximum_age() {
    let key = test_keys::ed25519();
    let provider = TestProvider::new(&[(&key, "k")]).await;
    let token = token(
        &key,
        Algorithm::EdDSA,
        json!({"kid": "k"}),
        &provider.claims(),
    );
    let (lenient, strict) = (
        provider.identity(Duration::ZERO, DAY),
        provider.identity(DAY, Duration::ZERO),
    );
    assert!(check(&lenient, &token).await.is_ok());
    assert!(check(&strict, &token).await.is_ok());
    provider.set_away(true);
    for _ in 0..3 {
        assert!(check(&lenient, &token).await.is_ok());
        assert_eq!(check(&strict, &token).await, Err(Denied::Unavailable));
    }
    // Clearing the cache during an outage locks no user out; the keys are fetched when the provider is back.
    lenient.clear();
    assert!(check(&lenient, &token).await.is_ok());
    provider.set_away(false);
    let (fetches, new) = (provider.fetches(), test_keys::ed25519());
    provider.publish(&[(&new, "k")]);
    let gone = async {
        while check(&lenient, &token).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone);
    gone.await.unwrap();
    assert!(provider.fetches() > fetches);
    provider.set_away(true);
    let without_keys = provider.identity(DAY, DAY);
    assert_eq!(check(&without_keys, &token).await, Err(Denied::Unavailable));
}

#[tokio::test]
async fn a_discovery_document_of_another_issuer_is_rejected() {
    let key = test_keys::ed25519();
    let provider = TestProvider::new(&[(&key, "k")]).await;
    provider.script.lock().unwrap().issuer = "https://id.example.com".to_owned();
    let identity = provider.identity(DAY, DAY);
    let token = token(
        &key,
        Algorithm::EdDSA,
        json!({"kid": "k"}),
        &provider.claims(),
    );
    assert_eq!(check(&identity, &token).await, Err(Denied::Unavailable));
    assert_eq!(provider.fetches(), 0);
}
