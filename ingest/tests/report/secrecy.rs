//! Neither a secret nor what an event holds is written to the program's log (X2).

use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::http::header::CONTENT_ENCODING;
use eventlog::Fault;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{batch, event, tier, with_authorization};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_secret_and_no_content_is_logged_whatever_happens_x2() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tier = tier();
    let body = batch(&[
        event("a").replace("hello", "MARKED-CONTENT"),
        "\"MARKED-CONTENT\"".to_owned(),
    ]);
    for secret in ["report", "read", "token", "broken", "MARKED-SECRET"] {
        tier.send(with_authorization(
            Some(&format!("Bearer {secret}")),
            body.clone(),
        ))
        .await;
    }
    for fault in [Fault::Full, Fault::Unavailable, Fault::Damaged] {
        tier.log.fail_next_append(fault);
        tier.send(with_authorization(Some("Bearer report"), body.clone()))
            .await;
    }
    tier.send(with_authorization(
        Some("Bearer report"),
        format!("{body}x"),
    ))
    .await;
    let mut garbled = with_authorization(Some("Bearer report"), body.clone());
    garbled
        .headers_mut()
        .insert(CONTENT_ENCODING, "gzip".parse().unwrap());
    tier.send(garbled).await;
    tier.send(with_authorization(Some("Bearer report"), body))
        .await;

    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("the event log takes no records"),
        "something is logged: {text}"
    );
    assert!(text.contains("takes records again"), "{text}");
    assert_eq!(
        text.matches("WARN").count() + text.matches("ERROR").count(),
        1,
        "told once, not each time: {text}"
    );
    for marked in ["MARKED", "Bearer", "sp_key"] {
        assert!(!text.contains(marked), "{marked} in {text}");
    }
}
