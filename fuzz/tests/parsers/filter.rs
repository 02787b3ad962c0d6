//! Query strings: the filters of the run list, of threads, of usage and of exports.

use fuzz::{Seeds, fuzz};
use schemas::api_error::{ApiError, CUT, MESSAGE_BYTES};
use schemas::filter::RunQuery;
use schemas::thread::ThreadQuery;
use schemas::usage::Question;

use crate::report::NOW_MS;

fn seeds() -> Seeds {
    Seeds::of_files("filter")
        .with("")
        .with("app_id=a&status=error&model=gpt-4o&agent=x&user_email=a%40b.c&type=llm&name=n&thread_id=t")
        .with("parent_run_id=p&root=true&saved=false&stale=true&feedback=any&q=h%C3%A9llo+w&count=true")
        .with("min_latency=0.5&max_latency=1e3&min_cost=0.000001&max_cost=1000000000&limit=1000&sort=-total_cost")
        .with("tags=a,b&tags[]=c%2Cd&tags_all=x&metadata.k=v&metadata[a]=b&project_id=p")
        .with("from=2024-05-01&to=2024-05-01T10:00:00%2B02:00&interval=hour&group_by=day&sort=started_at")
        .with("from=1714557600000&format=csv&limit=10&after_started_at=2024-05-01&after_app_id=a&after_run_id=r&began_at=1")
        .with("cursor=abc&limit=50&sort=-latency_s")
        .with_words(&["&", "=", "%", "+", "%00", "%FF", "1e-30", "NaN", "inf", "-0", "0.", "from=", "to=", "tags=", "metadata."])
}

#[test]
fn filter() {
    fuzz!(seeds(), 4000, examine);
}

fn examine(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else {
        return;
    };
    let pairs = match query::fuzz::pairs(query) {
        Ok(pairs) => pairs,
        Err(fault) => return is_a_400(&fault),
    };
    let mut pairs: Vec<(&str, &str)> = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let read = RunQuery::from_pairs(pairs.iter().copied());
    let threads = ThreadQuery::from_pairs(pairs.iter().copied());
    let usage = Question::from_pairs(pairs.iter().copied(), &["interval", "group_by"], NOW_MS);
    for fault in [
        read.as_ref().err(),
        threads.as_ref().err(),
        usage.as_ref().err(),
        query::fuzz::export(query).as_ref().err(),
    ] {
        fault.into_iter().for_each(is_a_400);
    }
    pairs.reverse();
    let reversed = RunQuery::from_pairs(pairs.iter().copied());
    match (read, reversed) {
        (Ok(one), Ok(other)) => {
            assert_eq!(
                one.fingerprint(),
                other.fingerprint(),
                "the order of parameters counts"
            );
            assert_eq!(one, other);
        }
        (one, other) => assert_eq!(one.is_ok(), other.is_ok(), "the order of parameters counts"),
    }
}

/// The error is short, and names the parameter at fault.
fn is_a_400(fault: &ApiError) {
    assert_eq!(fault.status, 400, "{fault:?}");
    assert!(!fault.message.is_empty());
    assert!(
        fault.message.len() <= MESSAGE_BYTES + CUT.len(),
        "{} bytes: {fault:?}",
        fault.message.len()
    );
}
