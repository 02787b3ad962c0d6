//! Restores lists and objects that were flattened into attributes (`llm.input_messages.0.message.role`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::value::{Any, plain};

/// Parts of a name that are split; the rest stays one key. Deeper than any convention goes.
const DEPTH: usize = 12;

/// Names that are restored: each may take a node for each of its parts, which can be two bytes long. Others stay as
/// they are.
const LEAVES: usize = 8192;

/// Numbers are ordered by value, before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Word(&'a str),
}

#[derive(Debug)]
enum Node<'a> {
    Leaf(&'a Any),
    Branch(BTreeMap<Part<'a>, Node<'a>>),
}

/// The value with these leaves, named without their common prefix. Numbered parts become a list in the order of their
/// numbers, wherever those begin and whichever are missing. `None` without leaves.
pub(crate) fn restored<'a>(pairs: impl Iterator<Item = (&'a str, &'a Any)>) -> Option<Value> {
    let mut root = BTreeMap::new();
    for (path, any) in pairs.take(LEAVES) {
        insert(&mut root, path, any);
    }
    (!root.is_empty()).then(|| value(Node::Branch(root)))
}

fn insert<'a>(root: &mut BTreeMap<Part<'a>, Node<'a>>, path: &'a str, any: &'a Any) {
    let mut branch = root;
    let mut parts = path.splitn(DEPTH, '.').peekable();
    while let Some(text) = parts.next() {
        let part = match text.parse() {
            Ok(number) if text.len() < 20 => Part::Number(number),
            _ => Part::Word(text),
        };
        if parts.peek().is_none() {
            branch.entry(part).or_insert(Node::Leaf(any));
            return;
        }
        let node = branch
            .entry(part)
            .or_insert_with(|| Node::Branch(BTreeMap::new()));
        // A value and parts of it under one name: the parts contain more.
        if let Node::Leaf(_) = node {
            *node = Node::Branch(BTreeMap::new());
        }
        let Node::Branch(next) = node else { return };
        branch = next;
    }
}

fn value(node: Node<'_>) -> Value {
    match node {
        Node::Leaf(any) => plain(any),
        Node::Branch(parts) if parts.keys().all(|part| matches!(part, Part::Number(_))) => {
            parts.into_values().map(value).collect()
        }
        Node::Branch(parts) => {
            let pairs = parts.into_iter().map(|(part, node)| {
                let key = match part {
                    Part::Number(number) => number.to_string(),
                    Part::Word(word) => word.to_owned(),
                };
                (key, value(node))
            });
            Value::Object(Map::from_iter(pairs))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(names: &[&str], expected: Value) {
        let values: Vec<Any> = (0..).map(Any::IntValue).take(names.len()).collect();
        let pairs = names.iter().copied().zip(&values);
        assert_eq!(restored(pairs), Some(expected), "{names:?}");
    }

    #[test]
    fn numbers_make_a_list_in_their_order_wherever_they_begin() {
        check(&["0", "1"], json!([0, 1]));
        check(
            &["10.a", "9.a", "1.a"],
            json!([{"a": 2}, {"a": 1}, {"a": 0}]),
        );
        check(
            &[
                "0.message.role",
                "0.message.tool_calls.1.id",
                "0.message.tool_calls.0.id",
            ],
            json!([{"message": {"role": 0, "tool_calls": [{"id": 2}, {"id": 1}]}}]),
        );
        check(
            &["18446744073709551616"],
            json!({"18446744073709551616": 0}),
        );
    }

    #[test]
    fn names_that_fit_no_tree_do_no_harm() {
        check(&["a", "a.b"], json!({"a": {"b": 1}}));
        check(&["a.b", "a"], json!({"a": {"b": 0}}));
        check(&["", ".", ".."], json!({"": {"": {"": 2}}}));
        check(&["0", "a"], json!({"0": 0, "a": 1}));
        assert_eq!(restored(std::iter::empty()), None);
        let deep = "a.".repeat(1000);
        check(
            &[&deep],
            restored([(deep.as_str(), &Any::IntValue(0))].into_iter()).unwrap(),
        );
    }
}
