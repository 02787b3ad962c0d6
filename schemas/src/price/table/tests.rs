//! The decoration of names, on the shipped prices and on prices of users.

use super::super::rate::{Per, Rate};
use super::super::shipped::shipped;
use super::*;

/// 2026-11-21T00:00:00Z.
const NOW_MS: UnixMs = 1_795_219_200_000;

fn row(model: &str, is_prefix: bool, per_1m: &str) -> PriceRow {
    PriceRow {
        key: PriceKey {
            model: model.to_owned(),
            is_prefix,
            effective_from: None,
        },
        rates: Rates {
            input: Rate::read(per_1m, Per::Million).unwrap(),
            ..Rates::default()
        },
    }
}

/// The row by which each name is found, `...` behind that of a prefix.
#[track_caller]
fn check(table: &PriceTable, names: &[(&str, &str)]) {
    for (name, expected) in names {
        let found = table.row(name, NOW_MS).map(|row| {
            let dots = if row.key.is_prefix { "..." } else { "" };
            format!("{}{dots}", row.key.model)
        });
        assert_eq!(found.as_deref().unwrap_or("none"), *expected, "{name}");
    }
}

#[test]
fn decorated_names_have_the_price_of_the_bare_name() {
    let table = PriceTable::new(shipped().unwrap().rows);
    check(
        &table,
        &[
            ("openai/gpt-4o-mini", "gpt-4o-mini"),
            ("openai:gpt-4o-mini", "gpt-4o-mini"),
            ("openai/responses/gpt-5", "gpt-5"),
            ("azure/gpt-4o-2024-08-06", "gpt-4o-20..."),
            ("azure/gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
            ("azure/gpt-35-turbo", "gpt-3.5-turbo"),
            ("gpt-35-turbo-0125", "gpt-3.5-turbo-0125"),
            ("GPT-4o", "gpt-4o"),
            ("gpt-4-1-mini", "gpt-4.1-mini"),
            ("text-completion-openai/gpt-3.5-turbo", "gpt-3.5-turbo"),
            ("azure_ai/claude-sonnet-4-5", "claude-sonnet-4-5"),
            ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
            (
                "anthropic:claude-sonnet-4-5-20250929",
                "claude-sonnet-4-5-20...",
            ),
            ("claude-sonnet-4.5", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5-latest", "claude-sonnet-4-5"),
            ("claude-opus-4-6[1m]", "claude-opus-4-6"),
            (
                "openrouter/anthropic/claude-sonnet-4.5",
                "claude-sonnet-4-5",
            ),
            (
                "openrouter/anthropic/claude-opus-4.1:beta",
                "claude-opus-4-1",
            ),
            (
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                "claude-sonnet-4-5-20...",
            ),
            (
                "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "claude-sonnet-4-5-20...",
            ),
            (
                "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
                "claude-3-5-sonnet-20...",
            ),
            (
                "bedrock/us.anthropic.claude-opus-4-1-20250805-v1:0",
                "claude-opus-4-1-20...",
            ),
            (
                "bedrock/converse/eu.anthropic.claude-sonnet-4-20250514-v1:0",
                "claude-sonnet-4-20...",
            ),
            (
                "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0",
                "claude-sonnet-4-20...",
            ),
            ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
            ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("claude-haiku-4-5@default", "claude-haiku-4-5"),
            ("gemini/gemini-2.5-flash", "gemini-2.5-flash"),
            ("models/gemini-2.5-flash", "gemini-2.5-flash"),
            ("google/gemini-2.5-pro", "gemini-2.5-pro"),
            ("google-gla:gemini-2.5-flash", "gemini-2.5-flash"),
            ("vertex_ai/gemini-2.0-flash-001", "gemini-2.0-flash-0..."),
            (
                "publishers/google/models/gemini-2.5-flash-lite",
                "gemini-2.5-flash-lite",
            ),
            (
                "projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash",
                "gemini-2.5-flash",
            ),
            ("xai/grok-4", "grok-4"),
            ("x-ai/grok-4", "grok-4"),
            ("mistral/mistral-small-latest", "mistral-small-latest"),
            ("mistralai/mistral-large-2512", "mistral-large-2512"),
            ("deepseek/deepseek-chat", "deepseek-chat"),
            ("cohere/command-a-03-2025", "command-a-03-2025"),
            ("perplexity/sonar-pro", "sonar-pro"),
            ("bedrock/amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0"),
            ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
            (
                "groq/llama-3.3-70b-versatile",
                "groq/llama-3.3-70b-versatile",
            ),
            (
                "together_ai/meta-llama/llama-3.3-70b-instruct-turbo",
                "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
            ),
            (
                "fireworks_ai/accounts/fireworks/models/gpt-oss-120b",
                "fireworks_ai/accounts/fireworks/models/gpt-oss-120b",
            ),
            ("dashscope/qwen-max", "dashscope/qwen-max"),
            ("anthropic/claude-3.7-sonnet", "claude-3-7-sonnet"),
            ("anthropic/claude-sonnet-4", "claude-sonnet-4"),
            // Its region costs more than the bare name.
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "us.anthropic.claude-sonnet-4-5",
            ),
            (
                "bedrock/converse/eu.anthropic.claude-haiku-4-5-20251001-v1:0",
                "eu.anthropic.claude-haiku-4-5",
            ),
            (
                "bedrock/us.meta.llama3-3-70b-instruct-v1:0",
                "us.meta.llama3-3-70b-instruct-v1:0",
            ),
            ("openai/text-embedding-3-small", "text-embedding-3-small"),
        ],
    );
}

#[test]
fn another_model_or_another_price_is_not_found_by_what_is_left_of_its_name() {
    let table = PriceTable::new(shipped().unwrap().rows);
    for name in [
        "gpt-4o-audio-preview-2099-12-17",
        "openai/gpt-4o-transcribe-diarize-x",
        "gpt-4-1106-preview-x",
        "gpt-3.5-turbo-0301",
        "azure/gpt-35-turbo-0301",
        "openai/o1-preview",
        "ft:gpt-4o-2024-08-06:acme::7p4lURel",
        "anthropic/claude-sonnet-4-5:free",
        "openrouter/anthropic/claude-sonnet-4.5:online",
        "claude-9-sonnet",
        "anthropic/claude-2",
        "us-gov.anthropic.claude-3-haiku-20240307-v1:0",
        "azure/eu/gpt-4o",
        "gemini-2.5-flash-native-audio",
        "gemini-1.5-pro@002",
        "vertex_ai/meta/llama-3.3-70b-instruct-maas",
        "openrouter/meta-llama/llama-3.3-70b-instruct",
        "openrouter/deepseek/deepseek-chat",
        "openrouter/openai/gpt-oss-120b",
        "deepinfra/openai/gpt-oss-120b",
        "deepseek/deepseek-chat-v3",
        "mistral.mistral-large-2512-v1:0",
        "apac.amazon.nova-sonic-v1:0",
        "au.amazon.nova-pro-v1:0",
        "openai.chat",
        "openai",
        "gpt",
        "anthropic/",
        "-latest",
        "",
    ] {
        let found = table.row(name, NOW_MS);
        assert_eq!(found.map(|row| &row.key), None, "{name}");
    }
}

#[test]
fn a_row_for_the_decorated_name_comes_first() {
    let table = PriceTable::new([
        row("gpt-4o", false, "1"),
        row("gpt-4o-20", true, "2"),
        row("azure/gpt-4o", false, "3"),
        row("groq/llama-3.3-70b", false, "4"),
        row("llama-3.3-70b", false, "5"),
        row("our-llm", false, "6"),
        row("openrouter/", true, "7"),
        row("US.anthropic.claude-sonnet-4-5", false, "8"),
        row("claude-", true, "9"),
    ]);
    check(
        &table,
        &[
            ("azure/gpt-4o", "azure/gpt-4o"),
            ("azure/gpt-4o-2024-11-20", "azure/gpt-4o"),
            ("openai/gpt-4o-2024-11-20", "gpt-4o-20..."),
            ("openai/GPT-4o", "gpt-4o"),
            ("groq/llama-3.3-70b", "groq/llama-3.3-70b"),
            ("together_ai/llama-3.3-70b", "none"),
            ("openai/our-llm", "our-llm"),
            ("groq/our-llm", "none"),
            ("openrouter/anything", "openrouter/..."),
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "US.anthropic.claude-sonnet-4-5",
            ),
            ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-..."),
            ("eu.anthropic.claude-sonnet-4-5:free", "none"),
        ],
    );
}

#[test]
fn of_names_that_differ_in_dots_and_case_only_the_written_one_counts() {
    let table = PriceTable::new([
        row("claude-x-4.5", false, "1"),
        row("claude-x-4-5", false, "2"),
        row("gpt-3.5-a", false, "3"),
        row("gpt-3-5-a", false, "4"),
        row("gpt-3.5-b", false, "5"),
        row("gpt-35-b", false, "6"),
    ]);
    check(
        &table,
        &[
            ("claude-x-4.5", "claude-x-4.5"),
            ("anthropic/claude-x-4.5", "claude-x-4.5"),
            ("anthropic/claude-x-4-5", "claude-x-4-5"),
            ("Claude-X-4.5", "none"),
            ("azure/gpt-35-a", "none"),
            ("azure/gpt-35-b", "gpt-35-b"),
        ],
    );
}

#[test]
fn a_row_counts_for_decorated_names_from_its_date() {
    let mut later = row("m", false, "1");
    later.key.effective_from = Some(100);
    let table = PriceTable::new([later, row("anthropic/m", false, "2")]);
    let found = |name: &str, at_ms| table.row(name, at_ms).map(|row| row.key.model.as_str());
    assert_eq!(found("openai/m", 99), None);
    assert_eq!(found("openai/m", 100), Some("m"));
    assert_eq!(found("openai/anthropic/m", 0), Some("anthropic/m"));
}
