//! The interface of platform administration, field by field: one row for each documented field, header and error, so
//! that a reader can tick the document off against it. One file for each of its operations.

mod cache;
mod costs;
mod events;
mod list;
mod report;
mod rescan;
mod start;

/// A secret in every form of `Authorization` that is not `Bearer <secret>`.
fn other_schemes(secret: &str) -> Vec<String> {
    let basic = |user: &str, password: &str| {
        let request = reqwest::Client::new().get("http://127.0.0.1");
        let request = request.basic_auth(user, Some(password)).build().unwrap();
        request.headers()["authorization"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    vec![
        secret.to_owned(),
        basic(secret, ""),
        basic("user", secret),
        format!("Token {secret}"),
        format!("Digest {secret}"),
    ]
}
