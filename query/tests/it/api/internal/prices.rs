//! Prices and the models that lack one.

use axum::http::{Method, StatusCode};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};

use crate::tier::Tier;

const PRICES: &str = "/api/internal/prices";

pub(crate) async fn put(
    tier: &Tier,
    secret: &str,
    model: &str,
    body: Value,
) -> (StatusCode, Value) {
    let path = format!("{PRICES}/{model}");
    tier.ask(Method::PUT, secret, &path, Some(body)).await
}

async fn delete(tier: &Tier, secret: &str, path: &str) -> (StatusCode, Value) {
    let path = format!("{PRICES}/{path}");
    tier.ask(Method::DELETE, secret, &path, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_is_set_listed_and_deleted() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let (_, all) = tier.get(&admin, PRICES).await;
    let shipped = all["data"].as_array().unwrap().len();
    assert!(shipped >= 60);
    assert!(
        all["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["origin"] == "shipped")
    );

    let body =
        json!({"input_per_1k": 0.0025, "output_per_1k": 0.01, "cached_input_per_1k": 0.00125});
    let (status, price) = put(&tier, &admin, "house%2Fmodel%20%C3%A4", body).await;
    assert_eq!(status, StatusCode::OK, "{price}");
    let mut expected = json!({
        "model": "house/model ä", "prefix": false, "effective_from": null, "origin": "changed",
        "input_per_1k": 0.0025, "output_per_1k": 0.01, "cached_input_per_1k": 0.00125, "total_per_1k": null,
        "input_per_1m": 2.5, "output_per_1m": 10, "cached_input_per_1m": 1.25, "total_per_1m": null
    });
    expected["changed_at"] = price["changed_at"].clone();
    assert_eq!(price, expected);
    assert!(price["changed_at"].is_string());

    let dated = json!({"input_per_1m": 1, "output_per_1m": 2, "total_per_1m": 1.5, "effective_from": "2026-12-01", "prefix": true});
    let (status, price) = put(&tier, &admin, "house%2Fmodel%20%C3%A4", dated).await;
    assert_eq!(
        (status, &price["effective_from"]),
        (StatusCode::OK, &json!("2026-12-01T00:00:00.000Z"))
    );
    let (_, changed) = tier.get(&admin, &format!("{PRICES}?origin=changed")).await;
    assert_eq!(changed["data"].as_array().unwrap().len(), 2, "{changed}");
    let (_, named) = tier
        .get(
            &admin,
            &format!("{PRICES}?model=house/model+%C3%A4&origin=shipped"),
        )
        .await;
    assert_eq!(named["data"], json!([]));

    for (path, status) in [
        ("house%2Fmodel%20%C3%A4?effective_from=2026-12-02", 404),
        (
            "house%2Fmodel%20%C3%A4?effective_from=none&prefix=true",
            404,
        ),
        ("house%2Fmodel%20%C3%A4?prefix=true", 200),
        ("house%2Fmodel%20%C3%A4?prefix=true", 404),
        ("house%2Fmodel%20%C3%A4", 200),
        ("house%2Fmodel%20%C3%A4", 404),
        ("unknown", 404),
        ("gpt-4o", 200),
        ("gpt-4o", 404),
    ] {
        let (found, answer) = delete(&tier, &admin, path).await;
        assert_eq!(found.as_u16(), status, "{path}: {answer}");
    }
    let (_, all) = tier.get(&admin, PRICES).await;
    assert_eq!(all["data"].as_array().unwrap().len(), shipped - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_keeps_digits_that_a_float_would_lose() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    // As text: JSON values of this test would go through floats themselves.
    let text = r#"{"input_per_1m": 0.123456789012, "output_per_1m": 999999.999999999999}"#;
    let (status, answer) = tier
        .ask_with(Method::PUT, &admin, &format!("{PRICES}/m"), text.to_owned())
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(
        answer.contains(r#""output_per_1m":999999.999999999999,"#),
        "{answer}"
    );
    assert!(
        answer.contains(r#""input_per_1k":0.000123456789012,"#),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn prices_of_every_kind_and_tier_come_back_in_both_units() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let body = json!({
        "input_per_1m": 3, "output_per_1m": 15, "cache_write_per_1m": 3.75, "cache_write_1h_per_1m": 6,
        "input_audio_per_1m": 7, "input_image_per_1m": 8, "output_audio_per_1m": 9, "reasoning_per_1m": 10,
        "request": 0.01, "service_tiers": {"batch": 0.5, "priority": 2},
        "tiers": [{"above_input_tokens": 200000, "input_per_1m": 6, "cache_write_per_1m": 7.5}]
    });
    let (status, mut price) = put(&tier, &admin, "m", body).await;
    assert_eq!(status, StatusCode::OK, "{price}");
    price["changed_at"] = Value::Null;
    let expected = json!({
        "model": "m", "prefix": false, "effective_from": null, "origin": "changed", "changed_at": null,
        "input_per_1k": 0.003, "output_per_1k": 0.015, "cached_input_per_1k": null, "total_per_1k": null,
        "input_per_1m": 3, "output_per_1m": 15, "cached_input_per_1m": null, "total_per_1m": null,
        "cache_write_per_1k": 0.00375, "cache_write_1h_per_1k": 0.006, "input_audio_per_1k": 0.007,
        "input_image_per_1k": 0.008, "output_audio_per_1k": 0.009, "reasoning_per_1k": 0.01,
        "cache_write_per_1m": 3.75, "cache_write_1h_per_1m": 6, "input_audio_per_1m": 7,
        "input_image_per_1m": 8, "output_audio_per_1m": 9, "reasoning_per_1m": 10,
        "request": 0.01, "service_tiers": {"batch": 0.5, "priority": 2},
        "tiers": [{
            "above_input_tokens": 200000, "input_per_1k": 0.006, "cache_write_per_1k": 0.0075,
            "input_per_1m": 6, "cache_write_per_1m": 7.5
        }]
    });
    assert_eq!(price, expected);
    let (_, listed) = tier.get(&admin, &format!("{PRICES}?model=m")).await;
    assert_eq!(listed["data"][0]["tiers"], expected["tiers"]);
    // What is left out is gone.
    let plain = json!({"input_per_1m": 3, "output_per_1m": 15});
    let (_, price) = put(&tier, &admin, "m", plain).await;
    assert_eq!(
        (&price["tiers"], &price["request"]),
        (&Value::Null, &Value::Null)
    );
    let (_, sonnet) = tier
        .get(&admin, &format!("{PRICES}?model=claude-haiku-5-5"))
        .await;
    let sonnet = &sonnet["data"][0];
    assert_eq!(sonnet["cache_write_per_1m"], 0.125);
    assert_eq!(sonnet["tiers"][0]["above_input_tokens"], 100_000);
    assert_eq!(sonnet["service_tiers"]["batch"], 0.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_price_is_a_400_that_names_it() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    for (body, named) in [
        (json!({}), "input_per_1m"),
        (json!({"input_per_1k": 1}), "output_per_1k"),
        (
            json!({"input_per_1k": 1, "output_per_1m": 1}),
            "cannot stand together",
        ),
        (json!({"input_per_1k": -1, "output_per_1k": 1}), "negative"),
        (json!({"input_per_1k": "1", "output_per_1k": 1}), "number"),
        (
            json!({"input_per_1k": 1e30, "output_per_1k": 1}),
            "at most 1 USD",
        ),
        (json!({"input_per_1k": 1e-16, "output_per_1k": 1}), "digits"),
        (
            json!({"input_per_1k": 1, "output_per_1k": 1, "colour": 1}),
            "colour",
        ),
        (
            json!({"input_per_1k": 1, "output_per_1k": 1, "tiers": [{"above_input_tokens": 1, "input_per_1k": -1}]}),
            "`tiers[0].input_per_1k` must not be negative",
        ),
        (
            json!({"input_per_1k": 1, "output_per_1k": 1, "service_tiers": {"batch": 1e9}}),
            "service_tiers.batch",
        ),
        (
            json!({"input_per_1k": 1, "output_per_1k": 1, "prefix": 1}),
            "boolean",
        ),
        (
            json!({"input_per_1k": 1, "output_per_1k": 1, "effective_from": "soon"}),
            "effective_from",
        ),
    ] {
        let (status, answer) = put(&tier, &admin, "m", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(named), "{named}: {message}");
    }
    for (path, named) in [
        ("m?effective_from=soon", "effective_from"),
        ("m?prefix=perhaps", "prefix"),
        ("m?colour=red", "colour"),
    ] {
        let (status, answer) = delete(&tier, &admin, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert!(
            answer["message"].as_str().unwrap().contains(named),
            "{answer}"
        );
    }
    let (status, answer) = tier.get(&admin, &format!("{PRICES}?origin=home")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    let long = "x".repeat(513);
    let good = json!({"input_per_1k": 1, "output_per_1k": 1});
    assert_eq!(
        put(&tier, &admin, &long, good).await.0,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_unlimited_admin_changes_prices_and_every_admin_sees_them() {
    let tier = Tier::new().await;
    let limited = tier.token(Role::Admin, Some(&["ours"])).await;
    let operator = tier.token(Role::Operator, None).await;
    let key = tier.key("ours", &[Scope::Read, Scope::Report]).await;
    let good = json!({"input_per_1k": 1, "output_per_1k": 1});
    for (secret, list, change) in [
        (limited.as_str(), 200, 403),
        (&operator, 403, 403),
        (&key, 403, 403),
        ("", 401, 401),
    ] {
        assert_eq!(tier.get(secret, PRICES).await.0.as_u16(), list);
        let set = put(&tier, secret, "m", good.clone()).await;
        assert_eq!(set.0.as_u16(), change);
        assert_eq!(delete(&tier, secret, "gpt-4o").await.0.as_u16(), change);
    }
}
