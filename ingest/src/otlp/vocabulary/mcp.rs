//! Requests of the Model Context Protocol, by client and server.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "MCP",
    source: "OpenTelemetry semantic conventions, docs/gen-ai/mcp.md",
    prefix: "mcp.",
    kinds: &[("mcp.method.name", &[("tools/call", "tool")])],
    names: &[("tool", "gen_ai.tool.name"), ("tool", "mcp.tool.name")],
    input: &["mcp.request.argument"],
    ..Vocabulary::EMPTY
};
