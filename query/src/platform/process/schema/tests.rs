//! Valid schemas and malicious schemas.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::super::checks::Validations;
use super::*;

/// Longer than any of these validations takes on a busy machine.
const TIME: Duration = Duration::from_secs(30);

fn compiled(schema: &Value) -> Schema {
    Schema::compile(schema).unwrap_or_else(|error| panic!("{error}"))
}

fn found(schema: &Schema, value: &Value) -> (Vec<Violation>, bool) {
    let found = schema.violations(value, Instant::now() + TIME);
    let found = found.unwrap_or_else(|exceeded| panic!("{exceeded:?}"));
    (found.listed, found.has_more)
}

fn order() -> Schema {
    compiled(&json!({
        "type": "object", "required": ["key1", "key2"], "additionalProperties": false,
        "properties": {
            "key1": {"type": "string", "minLength": 1},
            "key2": {"$ref": "#/$defs/name"},
            "items": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}}
        },
        "$defs": {"name": {"type": "string", "pattern": "^(?!x)[a-z]+$"}}
    }))
}

#[test]
fn every_violation_has_its_path_and_not_the_value() {
    let wrong = json!({"key1": "", "key2": "SECRET", "items": [{"count": "many"}], "more": 1});
    let (violations, is_cut) = found(&order(), &wrong);
    assert!(!is_cut);
    let places: Vec<(&str, &str)> = violations
        .iter()
        .map(|one| (one.path.as_str(), one.schema_path.as_str()))
        .collect();
    for place in [
        ("/key1", "/properties/key1/minLength"),
        ("/key2", "/$defs/name/pattern"),
        (
            "/items/0/count",
            "/properties/items/items/properties/count/type",
        ),
        ("", "/additionalProperties"),
    ] {
        assert!(places.contains(&place), "{place:?}: {violations:?}");
    }
    assert_eq!(violations.len(), 4);
    let text = serde_json::to_string(&violations).unwrap();
    assert!(!text.contains("SECRET") && text.contains("more"), "{text}");
    let (missing, _) = found(&order(), &json!({}));
    let messages: Vec<&str> = missing.iter().map(|one| one.message.as_str()).collect();
    assert!(messages[0].contains("key1") && messages[1].contains("key2"));
    assert_eq!(
        found(&order(), &json!({"key1": "a", "key2": "b"})),
        (vec![], false)
    );
}

#[test]
fn an_invalid_schema_or_a_foreign_reference_is_rejected_with_a_reason() {
    for (schema, named) in [
        (json!(7), "an object"),
        (json!(false), "an object"),
        (json!({"type": "thing"}), "type"),
        (json!({"properties": {"a": {"minLength": -1}}}), "minLength"),
        (json!({"$ref": "https://example.org/other.json"}), "other"),
        (json!({"$ref": "file:///etc/passwd"}), "passwd"),
        (json!({"$ref": "#/$defs/none"}), "none"),
        (json!({"pattern": "("}), "pattern"),
        (
            json!({"$schema": "https://example.org/own-dialect"}),
            "own-dialect",
        ),
    ] {
        let error = Schema::compile(&schema).err().unwrap_or_default();
        assert!(error.contains(named), "{schema}: {error}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"properties": {"next": {"$ref": "#"}}}),
        json!({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}]}),
    ] {
        if let Ok(compiled) = Schema::compile(&schema) {
            found(&compiled, &json!({"next": {"next": {}}}));
        }
    }
}

#[test]
fn a_pattern_with_too_much_backtracking_is_a_violation() {
    let schema = compiled(&json!({"pattern": "^(?=(a+)+$)(a|aa)+\\1b$"}));
    let started = std::time::Instant::now();
    let (violations, _) = found(&schema, &json!("a".repeat(5000)));
    assert_eq!(violations.len(), 1);
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn violations_and_their_texts_are_bounded_x1() {
    let long = "p".repeat(3000);
    let schema = compiled(&json!({"items": {"required": [long]}}));
    let many = Value::Array(vec![json!({}); 1000]);
    let (violations, is_cut) = found(&schema, &many);
    assert_eq!((violations.len(), is_cut), (VIOLATIONS_MAX, true));
    assert!(violations.iter().all(|one| one.message.len() < 600));
}

proptest! {
    #[test]
    fn any_name_and_value_is_validated_without_a_panic(key in ".{0,20}", text in ".{0,20}") {
        let schema = compiled(&json!({"properties": {key.clone(): {"type": "number"}}}));
        let (violations, _) = found(&schema, &json!({key: text}));
        prop_assert_eq!(violations.len(), 1);
    }
}

/// Definitions that each apply the next one twice to the value itself, and the last of them.
fn doubled(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
    let mut defs = json!({format!("a{levels}"): {}});
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        defs[format!("a{level}")] = twice(next);
    }
    json!({"$defs": defs, "$ref": "#/$defs/a0"})
}

#[test]
fn a_schema_with_2_to_the_60_checks_of_one_value_is_rejected_x1() {
    let error = |schema: &Value| Schema::compile(schema).err().unwrap_or_default();
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let why = error(&doubled(60, |next| json!({keyword: [next, next]})));
        for named in ["50000", "`$ref`", "at most"] {
            assert!(why.contains(named), "{keyword}: {why}");
        }
    }
    for twice in [
        |next: Value| json!({"if": next, "else": {"not": next}}),
        |next: Value| json!({"dependentSchemas": {"x": next, "y": next}}),
        |next: Value| json!({"dependencies": {"x": next, "y": next}}),
    ] {
        assert!(error(&doubled(30, twice)).contains("50000"));
    }
    // By anchors, dynamic anchors and identifiers.
    let named = |by: fn(usize) -> Value, reference: fn(usize) -> Value| {
        let mut schema = json!({"$defs": {}, "allOf": [reference(0)]});
        for level in 0..40 {
            let mut one = by(level);
            one["allOf"] = json!([reference(level + 1), reference(level + 1)]);
            schema["$defs"][level.to_string()] = one;
        }
        schema["$defs"]["40"] = by(40);
        error(&schema)
    };
    let anchors = named(
        |level| json!({"$anchor": format!("a{level}")}),
        |level| json!({"$ref": format!("#a{level}")}),
    );
    let dynamic = named(
        |level| json!({"$dynamicAnchor": format!("a{level}")}),
        |level| json!({"$dynamicRef": format!("#a{level}")}),
    );
    let identified = named(
        |level| json!({"$id": format!("https://example.org/x/{level}")}),
        |level| json!({"$ref": format!("https://example.org/x/{level}")}),
    );
    for why in [anchors, dynamic, identified] {
        assert!(why.contains("at most 50000"), "{why}");
    }
}

#[test]
fn a_schema_over_a_bound_is_rejected_with_the_bound() {
    let many = |count: usize, one: fn(usize) -> Value| {
        let properties = (0..count).map(|number| (format!("p{number}"), one(number)));
        json!({"properties": properties.collect::<serde_json::Map<_, _>>()})
    };
    let chain = |length| doubled(length, |next| next);
    let wide = json!({"$defs": {"union": {"anyOf": vec![json!({}); 49_000 / 10]}}, "properties":
        (0..300).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/union"}))).collect::<serde_json::Map<_, _>>()});
    for (schema, named) in [
        (many(10_001, |_| json!({})), "10000 subschemas"),
        (
            many(201, |number| json!({"pattern": format!("a{number}")})),
            "200 patterns",
        ),
        (
            json!({"patternProperties": many(201, |_| json!({}))["properties"]}),
            "200 patterns",
        ),
        (chain(200), "128 subschemas"),
        (wide, "1000000 checks together"),
        (json!({"$ref": "#"}), "refers to itself"),
        (json!({"pattern": "(\\w{1000}){1000}"}), "pattern"),
    ] {
        let why = Schema::compile(&schema).err().unwrap_or_default();
        assert!(why.contains(named), "{named}: {why}");
    }
    compiled(&many(9_999, |_| json!({})));
    compiled(&chain(100));
}

#[test]
fn large_valid_schemas_are_accepted() {
    // An order with two hundred fields, each of one of forty types that refer to each other.
    let mut defs = serde_json::Map::new();
    for number in 0..40 {
        let other = format!("#/$defs/type{}", (number + 1) % 40);
        let own = json!({"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
            "id": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}, "next": {"$ref": other},
            "all": {"type": "array", "items": {"$ref": "#/$defs/type0"}, "uniqueItems": true},
            "either": {"oneOf": [{"$ref": other}, {"type": "null"}]},
        }});
        defs.insert(format!("type{number}"), own);
    }
    let fields = (0..200).map(|number| {
        let reference =
            json!({"$ref": format!("#/$defs/type{}", number % 40), "description": "a field"});
        (format!("field{number}"), reference)
    });
    let order = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/order",
        "type": "object", "properties": fields.collect::<serde_json::Map<_, _>>(), "$defs": defs, "unevaluatedProperties": false});
    let order = compiled(&order);
    let good = json!({"field0": {"id": "a", "next": {"id": "b", "all": [{"id": "c"}]}}});
    assert_eq!(found(&order, &good), (vec![], false));
    let wrong = json!({"field0": {"id": "a", "all": [{"id": "a"}, {"id": "a"}]}, "other": 1});
    assert_eq!(found(&order, &wrong).0.len(), 2);

    let tree = compiled(
        &json!({"$ref": "#/definitions/node", "definitions": {"node": {"type": "object", "properties": {
        "value": {"type": "number"}, "left": {"$ref": "#/definitions/node"}, "right": {"$ref": "#/definitions/node"},
        "children": {"type": "array", "items": {"$ref": "#"}}}}}}),
    );
    let leaf = json!({"value": 1, "children": [{"value": 2}]});
    assert_eq!(
        found(&tree, &json!({"left": leaf, "right": leaf})),
        (vec![], false)
    );
    let wrong = json!({"left": {"children": [{"right": {"value": "x"}}]}});
    assert_eq!(found(&tree, &wrong).0.len(), 1);

    // A union of three hundred kinds, told apart by a constant.
    let kinds = (0..300).map(|number| {
        json!({"allOf": [{"$ref": "#/$defs/base"}], "required": ["kind"],
        "properties": {"kind": {"const": format!("kind{number}")}, "size": {"minimum": number}}})
    });
    let union = compiled(
        &json!({"items": {"oneOf": kinds.collect::<Vec<_>>()}, "$defs": {"base": {"type": "object"}}}),
    );
    let items: Vec<Value> = (0..300)
        .map(|number| json!({"kind": format!("kind{number}"), "size": 300}))
        .collect();
    assert_eq!(found(&union, &json!(items)), (vec![], false));

    compiled(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}));
}

#[test]
fn the_largest_body_of_small_values_is_within_the_step_limit() {
    let numbers = compiled(
        &json!({"type": "object", "properties": {"all": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}),
    );
    let body = json!({"all": vec![1; 260_000]});
    assert_eq!(found(&numbers, &body), (vec![], false));
}

#[test]
fn a_validation_always_ends_x1() {
    let deep = (0..120).fold(json!(1), |value, _| json!({"c": value}));
    let wide = json!(vec![json!({"c": [1, "a"]}); 5_000]);
    // Nested empty arrays: a hash that ignores nesting is the same for all.
    let nests: Vec<Value> = (0..20)
        .scan(json!([]), |value, _| {
            *value = json!([value, []]);
            Some(value.clone())
        })
        .collect();
    let nested: Vec<Value> = (0..3_000)
        .map(|number| {
            json!([
                nests[number % 20],
                nests[number / 20 % 20],
                nests[number / 400]
            ])
        })
        .collect();
    let nested = json!(nested);
    let schemas = [
        // Each level of the body doubles the checks of the level above.
        json!({"$defs": {"n": {"properties": {"c": {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}}}}, "$ref": "#/$defs/n"}),
        json!({"$defs": {"n": {"additionalProperties": {"anyOf": [{"$ref": "#/$defs/n"}, {"not": {"$ref": "#/$defs/n"}}]}}}, "$ref": "#/$defs/n"}),
        json!({"$defs": {"n": {"properties": {"c": {"$ref": "#/$defs/n"}}, "patternProperties": {"c": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}),
        json!({"$defs": {"n": {"unevaluatedProperties": {"oneOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}}}, "$ref": "#/$defs/n"}),
        json!({"$dynamicAnchor": "n", "properties": {"c": {"allOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}]}}}),
        // Many checks of each of many values.
        json!({"items": doubled(12, |next| json!({"allOf": [next, next]})), "$defs": doubled(12, |next| json!({"allOf": [next, next]}))["$defs"]}),
        json!({"items": {"contains": {"type": "string"}, "uniqueItems": true, "unevaluatedItems": false}, "uniqueItems": true, "unevaluatedItems": false}),
        json!({"uniqueItems": true}),
        json!({"items": {"properties": {"c": {"items": {"pattern": "^(?=(a+)+$)(a|aa)+\\1b$"}}}}}),
        json!({"unevaluatedItems": false}),
    ];
    for schema in schemas {
        let schema = compiled(&schema);
        for body in [&deep, &wide, &nested] {
            let started = Instant::now();
            let _ = schema.violations(body, started + Duration::from_millis(300));
            // One access can be a match of a pattern, or some thousand checks without an access.
            assert!(started.elapsed() < TIME, "{:?}", started.elapsed());
        }
    }
    let doubling = compiled(
        &json!({"$defs": {"n": {"properties": {"c": {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}}}}, "$ref": "#/$defs/n"}),
    );
    assert_eq!(
        doubling.violations(&deep, Instant::now() + TIME),
        Err(Exceeded::Steps)
    );
    assert_eq!(
        doubling.violations(&deep, Instant::now()),
        Err(Exceeded::Time)
    );
}

#[test]
fn more_violations_than_fit_in_memory_are_reduced_to_the_first_x1() {
    let schema = compiled(&json!({"allOf": vec![json!({"required": ["more"]}); 400]}));
    let body = json!({"text": "x".repeat(500_000)});
    let (violations, is_cut) = found(&schema, &body);
    assert_eq!((violations.len(), is_cut), (1, true));
}

#[test]
fn items_are_unique_as_json_schema_defines() {
    let schema = compiled(&json!({"uniqueItems": true}));
    let is_unique = |value: Value| found(&schema, &value).0.is_empty();
    assert!(is_unique(
        json!([[], [[]], [[], []], {}, {"a": []}, 0, false, "", null, "0", 0.5])
    ));
    for twice in [
        json!([1, 1.0]),
        json!([0, -0.0]),
        json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
        json!([[[]], [[]]]),
        json!([u64::MAX, u64::MAX]),
    ] {
        assert!(!is_unique(twice.clone()), "{twice}");
    }
    assert!(is_unique(json!([u64::MAX, u64::MAX - 1, i64::MIN])));
}

#[tokio::test]
async fn the_deepest_body_fits_the_stack_under_the_deepest_schema() {
    let mut schema = doubled(100, |next| json!({"allOf": [next]}));
    schema["$defs"]["a100"] =
        json!({"properties": {"c": {"$ref": "#/$defs/a0"}}, "additionalProperties": false});
    assert!(Schema::compile(&schema).is_err(), "200 subschemas deep");
    let mut schema = doubled(60, |next| json!({"allOf": [next]}));
    schema["$defs"]["a60"] = json!({"properties": {"c": {"$ref": "#/$defs/a0"}}, "additionalProperties": false, "unevaluatedProperties": false});
    let body = (0..126).fold(json!({"d": 1}), |value, _| json!({"c": value}));
    let check = move |deadline| compiled(&schema).violations(&body, deadline);
    let checked = Validations::new().run("p", TIME, check).await;
    assert!(
        matches!(checked, Ok(Ok(_) | Err(Exceeded::Steps))),
        "{checked:?}"
    );
}
