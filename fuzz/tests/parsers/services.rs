//! Answers of the services and storages that a scan of the platform asks.

use fuzz::{Seeds, fuzz};

/// Longest problem and version: a sentence, and some words.
const TEXT_BYTES: usize = 1024;

#[test]
fn health_answer() {
    let seeds = Seeds::of_files("health_answer")
        .with(r#"{"status":"UP","version":"1.2.3","build":{"version":"2"}}"#)
        .with(r#"{"state":{"code":"down"},"healthy":false,"info":{"app":{"version":"v"}}}"#)
        .with_words(&["\"status\"", "\"DOWN\"", "\"healthy\":false", "\"version\""])
        .as_json();
    fuzz!(seeds, 2000, |body: &[u8]| {
        let (problem, version) = query::fuzz::health_answer(body);
        for text in problem.iter().chain(&version) {
            assert!((1..=TEXT_BYTES).contains(&text.len()), "{text}");
        }
    });
}

#[test]
fn storage_page() {
    let seeds = Seeds::of_files("storage_page")
        .with(r#"<?xml version="1.0" encoding="UTF-8"?><ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>i</ID></Owner><Buckets><Bucket><Name>a</Name><CreationDate>2026-01-01T00:00:00.000Z</CreationDate></Bucket></Buckets><ContinuationToken>t</ContinuationToken></ListAllMyBucketsResult>"#)
        .with("<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>")
        .with_words(&["<!--", "-->", "<![CDATA[", "]]>", "&lt;", "&#0;", "&#x110000;", "<!DOCTYPE a [<!ENTITY b \"c\">]>", "xmlns:a=\"\"", "<?", "?>", "<Bucket>", "</Bucket>", "<Name>"]);
    fuzz!(seeds, 2000, |body: &[u8]| {
        let Ok(text) = std::str::from_utf8(body) else {
            return;
        };
        if let Some((buckets, token)) = query::fuzz::storage_page(text) {
            assert!(buckets <= text.len() as u64);
            assert!(token.is_none_or(|token| token.len() <= text.len()));
        }
    });
}
