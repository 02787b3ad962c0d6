//! Files of prices, and prices as the API takes them.

use fuzz::{Seeds, fuzz};
use schemas::price::written::WrittenPrice;
use schemas::price::{PriceTable, Usage};

use crate::price_file;

/// The faults of a file are bounded together, and so is each.
const FAULTS_BYTES: usize = 32 << 10;

fn seeds() -> Seeds {
    Seeds::of_files("prices")
        .with(r#"[{"model":"gpt-4o","input_per_1m":2.5,"output_per_1m":10,"cached_input_per_1m":1.25}]"#)
        .with(r#"{"data":[{"model":"m","input_per_1k":0.1,"output_per_1k":0.000000000000001,"effective_from":"2024-01-01","prefix":true}]}"#)
        .with("model,input_per_1m,output_per_1m,prefix\n# comment\n\"a,\"\"b\"\"\",2.5,10,true\nc,1e-3,0,\n")
        .with_words(&["input_per_1k", "output_per_1k", "total_per_1m", "effective_from", "model", "1e-30", "999.999999999999999", "\u{feff}"])
        .as_json()
}

#[test]
fn prices() {
    fuzz!(seeds(), 3000, examine);
}

fn examine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let entries = match price_file::read(text) {
        Ok(entries) => entries,
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(faults.len() <= FAULTS_BYTES, "{} bytes", faults.len());
            return;
        }
    };
    let mut keys = std::collections::HashSet::new();
    for entry in &entries {
        assert!(keys.insert(&entry.row.key), "a price stands there twice");
        // The body of the request means the same row.
        let written: WrittenPrice = serde_json::from_str(&entry.body).unwrap();
        assert_eq!(written.row(&entry.row.key.model).unwrap(), entry.row);
    }
    let models: Vec<String> = entries
        .iter()
        .map(|entry| entry.row.key.model.clone())
        .collect();
    let table = PriceTable::new(entries.into_iter().map(|entry| entry.row));
    for model in &models {
        for tokens in [0, 1, u64::MAX] {
            let _ = table.charge(Usage {
                model,
                prompt: Some(tokens),
                completion: Some(tokens),
                total: None,
                cached: Some(tokens),
                cache_write: Some(tokens),
                output_audio: Some(tokens),
                requests: Some(tokens),
                service_tier: "priority",
                at_ms: crate::report::NOW_MS,
                ..Usage::default()
            });
        }
    }
}
