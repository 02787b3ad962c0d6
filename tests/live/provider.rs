//! An OpenID provider: discovery, keys that change, and tokens signed by them.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// PKCS #8 of an Ed25519 key up to its 32 bytes, of which any are a key.
const ED25519_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// For whom its tokens are made out.
pub(crate) const AUDIENCE: &str = "spindle";

/// A key with its secret part and its name.
#[derive(Clone)]
pub(crate) struct Signer {
    key: EncodingKey,
    name: String,
}

impl Signer {
    pub(crate) fn new(name: &str) -> Self {
        let der = [&ED25519_HEAD[..], &rand::random::<[u8; 32]>()].concat();
        Self {
            key: EncodingKey::from_ed_der(&der),
            name: name.to_owned(),
        }
    }

    fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, Algorithm::EdDSA).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(self.name);
        jwk
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = Header {
            kid: Some(self.name.clone()),
            ..Header::new(Algorithm::EdDSA)
        };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

/// What it does when it is asked.
#[derive(Default)]
struct Script {
    /// As it calls itself.
    issuer: String,
    /// Where it is.
    url: String,
    keys: Vec<Value>,
    is_away: bool,
}

/// A running provider. Ends when dropped.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Provider {
    pub(crate) async fn publishing(keys: &[&Signer]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script {
            issuer: issuer.clone(),
            url: issuer.clone(),
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

    pub(crate) fn publish(&self, keys: &[&Signer]) {
        self.script.lock().unwrap().keys = keys.iter().map(|key| key.jwk()).collect();
    }

    pub(crate) fn leave(&self, is_away: bool) {
        self.script.lock().unwrap().is_away = is_away;
    }

    /// What it calls itself from now on.
    pub(crate) fn call_itself(&self, issuer: &str) {
        self.script.lock().unwrap().issuer = issuer.to_owned();
    }

    /// Claims of a user, valid for this many seconds.
    pub(crate) fn claims(&self, subject: &str, roles: &[&str], seconds: i64) -> Value {
        json!({
            "iss": self.issuer, "aud": [AUDIENCE], "sub": subject, "exp": now_s() + seconds,
            "realm_access": {"roles": roles}, "projects": ["*"],
        })
    }
}

pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, Path(path): Path<String>) -> Response {
    let script = script.lock().unwrap();
    if script.is_away {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let Script {
        issuer, url, keys, ..
    } = &*script;
    let body = match path.as_str() {
        ".well-known/openid-configuration" => {
            json!({"issuer": issuer, "jwks_uri": format!("{url}/certs")})
        }
        "certs" => json!({ "keys": keys }),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    axum::Json(body).into_response()
}
