//! The decoration of model names: what clients, gateways and clouds write around the name that a provider's price list
//! has. Data and pure functions; nothing allocates, because each call of an unknown model comes through here.
//!
//! A name is folded first ([`Folded`]): small letters, and dashes for the dots of versions. Then decoration is taken off
//! from the front ([`PROVIDERS`], [`BEDROCK`]) and, for each of what remains, from the end ([`SUFFIXES`]). So a price
//! of `azure/gpt-4o` counts for `azure/gpt-4o-2024-11-20` before that of `gpt-4o` does.
//!
//! A model that several hosts serve at prices of their own ([`OPEN_WEIGHTS`]) is not found by its bare name, only by a
//! row for that host. What distinguishes siblings (`-mini`, `-audio-preview`, `-0613`, `:free`) is no decoration.

/// Longest name that is looked at: Bedrock's resource names have about 120 bytes (X1).
const NAME_BYTES_MAX: usize = 256;
/// Most decorations at the front, and most at the end.
const DEPTH_MAX: usize = 6;

/// How far the rest of a name has the price of the bare name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// The provider's own service: all its models, unless the name is also one that other hosts serve.
    Maker,
    /// The service of another company: only the models of [`SAME_PRICE`].
    Host,
    /// The rest is still a name of the same service.
    Own,
}

/// What stands before `/` or `:`, in ascending order.
const PROVIDERS: &[(&str, Front)] = &[
    ("accounts", Front::Host),
    ("anthropic", Front::Maker),
    ("azure", Front::Host),
    ("azure_ai", Front::Host),
    ("azure_openai", Front::Host),
    ("bedrock", Front::Own),
    ("bedrock_converse", Front::Own),
    ("cohere", Front::Maker),
    ("cohere_chat", Front::Maker),
    ("converse", Front::Own),
    ("deepinfra", Front::Host),
    ("deepseek", Front::Maker),
    ("fireworks", Front::Host),
    ("fireworks_ai", Front::Host),
    ("gateway", Front::Host),
    ("gemini", Front::Maker),
    ("global", Front::Host),
    ("global-standard", Front::Host),
    ("google", Front::Maker),
    ("google-gla", Front::Maker),
    ("google-vertex", Front::Host),
    ("google_genai", Front::Maker),
    ("google_vertexai", Front::Host),
    ("groq", Front::Host),
    ("invoke", Front::Own),
    ("litellm_proxy", Front::Host),
    ("mistral", Front::Maker),
    ("mistralai", Front::Maker),
    ("models", Front::Maker),
    ("openai", Front::Maker),
    ("openai-chat", Front::Maker),
    ("openai-responses", Front::Maker),
    ("openrouter", Front::Host),
    ("perplexity", Front::Maker),
    ("publishers", Front::Host),
    ("responses", Front::Own),
    ("text-completion-openai", Front::Maker),
    ("together", Front::Host),
    ("together_ai", Front::Host),
    ("vercel", Front::Host),
    ("vercel_ai_gateway", Front::Host),
    ("vertex_ai", Front::Host),
    ("vertex_ai_beta", Front::Host),
    ("voyage", Front::Maker),
    ("x-ai", Front::Maker),
    ("xai", Front::Maker),
];

/// What stands before `.` in Bedrock's names, in ascending order: inference profiles and vendors. Rows with the full
/// name come first, so a region that costs more has such a row.
const BEDROCK: &[(&str, Front)] = &[
    ("amazon", Front::Host),
    ("anthropic", Front::Host),
    ("apac", Front::Host),
    ("au", Front::Host),
    ("cohere", Front::Host),
    ("eu", Front::Host),
    ("global", Front::Host),
    ("jp", Front::Host),
    ("us", Front::Host),
];

/// Resource names that end in `/` and the name.
const RESOURCES: &[(&str, Front)] = &[
    ("arn:aws:bedrock:", Front::Own),
    ("arn:aws-us-gov:bedrock:", Front::Own),
    ("projects/", Front::Host),
];

/// Families that cost the same wherever they are served, apart from rows that say otherwise.
const SAME_PRICE: &[&str] = &[
    "chatgpt",
    "claude",
    "gemini",
    "gpt",
    "grok",
    "o1",
    "o3",
    "o4",
    "sonar",
    "text-embedding",
    "voyage",
];

/// Words in the names of models that several hosts serve at prices of their own.
const OPEN_WEIGHTS: &[&str] = &[
    "gemma", "glm-", "gpt-oss", "kimi", "llama", "mixtral", "minimax", "phi-", "qwen",
];

/// What stands at the end of a name.
enum Suffix {
    Text(&'static str),
    /// `@20250929`, as Vertex AI writes versions.
    VersionAt,
    /// `-v1:0`, `-v2:0:200k`, `-v1` or `:0`, as Bedrock writes versions.
    BedrockVersion,
    /// `-20250929` or `-2024-08-06`.
    Date,
}

/// In the order in which they are tried.
const SUFFIXES: &[Suffix] = &[
    Suffix::Text("[1m]"),
    // OpenRouter's names for the same model at the same price. `:free`, `:online`, `:nitro` and others are not.
    Suffix::Text(":beta"),
    Suffix::Text(":thinking"),
    Suffix::Text("@default"),
    Suffix::Text("@latest"),
    Suffix::VersionAt,
    Suffix::BedrockVersion,
    Suffix::Text("-latest"),
    Suffix::Date,
];

/// Other ways to write the beginning of a folded name: a row for the first is found by the second.
const SPELLINGS: &[(&str, &str)] = &[("gpt-3-5-", "gpt-35-")];

/// A name in small letters, with dashes for the dots between digits.
pub(super) struct Folded {
    bytes: [u8; NAME_BYTES_MAX],
    len: usize,
}

/// A part of a name that a row may be found by, as positions in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether rows for prefixes may be looked at: the front is off, and nothing of a variant is left at the end.
    pub(super) is_for_prefixes: bool,
}

impl Folded {
    /// `None` for a name that is longer than any decorated one.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES_MAX];
        let folded = bytes.get_mut(..name.len())?;
        folded.copy_from_slice(name.as_bytes());
        folded.make_ascii_lowercase();
        for at in 1..folded.len().saturating_sub(1) {
            let is_version = folded[at - 1].is_ascii_digit() && folded[at + 1].is_ascii_digit();
            if folded[at] == b'.' && is_version {
                folded[at] = b'-';
            }
        }
        Some(Self {
            bytes,
            len: name.len(),
        })
    }

    /// Positions are the same as in the name.
    pub(super) fn text(&self) -> &str {
        // Only ASCII was replaced, by ASCII.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// The other spellings of a folded name.
pub(super) fn spellings(folded: &str) -> impl Iterator<Item = String> + '_ {
    SPELLINGS.iter().filter_map(|(written, other)| {
        let rest = folded.strip_prefix(written)?;
        Some(format!("{other}{rest}"))
    })
}

/// Calls `look` with every part of a folded name that a row may be found by, in order, until it finds one.
pub(super) fn find<T>(name: &str, mut look: impl FnMut(Candidate) -> Option<T>) -> Option<T> {
    let is_bedrock = is_bedrock(name);
    let mut start = 0;
    for _ in 0..=DEPTH_MAX {
        if let Some(found) = find_from(name, start, is_bedrock, &mut look) {
            return Some(found);
        }
        let (len, front) = front_of(&name[start..])?;
        start += len;
        if !is_same_price(bare(&name[start..]), front) {
            return None;
        }
    }
    None
}

/// The same for what begins at `start`: as it is, then with less and less at its end.
fn find_from<T>(
    name: &str,
    start: usize,
    is_bedrock: bool,
    look: &mut impl FnMut(Candidate) -> Option<T>,
) -> Option<T> {
    let mut end = name.len();
    // The whole name was looked up by prefixes before.
    let mut is_for_prefixes = start > 0;
    for _ in 0..=DEPTH_MAX {
        let part = &name[start..end];
        let candidate = Candidate {
            start,
            end,
            is_for_prefixes: is_for_prefixes && !part.contains(':'),
        };
        if let Some(found) = look(candidate) {
            return Some(found);
        }
        // A prefix of the longer part is one of the shorter.
        is_for_prefixes &= !candidate.is_for_prefixes;
        let suffix = SUFFIXES
            .iter()
            .find_map(|suffix| suffix.len_in(part, is_bedrock));
        end -= suffix.filter(|len| *len < part.len())?;
    }
    None
}

/// The name without all that stands at its front.
fn bare(mut name: &str) -> &str {
    for _ in 0..DEPTH_MAX {
        match front_of(name) {
            Some((len, _)) => name = &name[len..],
            None => break,
        }
    }
    name
}

/// Bytes of the decoration at the front of a folded name.
fn front_of(name: &str) -> Option<(usize, Front)> {
    let at = name.find(['/', ':', '.'])?;
    let rows = match name.as_bytes()[at] {
        b'.' => BEDROCK,
        _ => PROVIDERS,
    };
    if let Ok(row) = rows.binary_search_by_key(&&name[..at], |(text, _)| text) {
        return Some((at + 1, rows[row].1));
    }
    let is_resource = |(text, _): &&(&str, Front)| name.starts_with(text);
    let (_, front) = RESOURCES.iter().find(is_resource)?;
    Some((name.rfind('/')? + 1, *front))
}

/// Whether a model that was named behind such a front costs what its bare name costs.
fn is_same_price(bare: &str, front: Front) -> bool {
    let is_open = || OPEN_WEIGHTS.iter().any(|word| bare.contains(word));
    let is_family = |family: &str| {
        let rest = bare.strip_prefix(family);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    match front {
        Front::Own => true,
        Front::Maker => !is_open(),
        Front::Host => SAME_PRICE.iter().any(|family| is_family(family)) && !is_open(),
    }
}

/// Whether one of Bedrock's regions or vendors is in the name.
fn is_bedrock(name: &str) -> bool {
    let mut dots = name.match_indices('.').map(|(at, _)| &name[..at]);
    dots.any(|front| {
        let word = front.rsplit(['/', ':', '.']).next().unwrap_or_default();
        BEDROCK.iter().any(|(vendor, _)| *vendor == word)
    })
}

impl Suffix {
    /// Bytes of it at the end of a folded name.
    fn len_in(&self, name: &str, is_bedrock: bool) -> Option<usize> {
        let rest = match self {
            Suffix::Text(text) => name.strip_suffix(text)?,
            Suffix::VersionAt => {
                let (rest, date) = name.rsplit_once('@')?;
                is_date(date).then_some(rest)?
            }
            Suffix::BedrockVersion => without_bedrock_version(name, is_bedrock)?,
            Suffix::Date => without_date(name)?,
        };
        Some(name.len() - rest.len())
    }
}

fn without_bedrock_version(name: &str, is_bedrock: bool) -> Option<&str> {
    let is_number = |text: &str| {
        (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let without_version = |name| {
        let (rest, version) = str::rsplit_once(name, "-v")?;
        is_number(version).then_some(rest)
    };
    let Some((rest, revision)) = name.rsplit_once(':') else {
        // Elsewhere `-v2` is another model.
        return without_version(name).filter(|_| is_bedrock);
    };
    let is_context = revision.strip_suffix('k').is_some_and(is_number);
    let is_revision = is_number(revision) || is_context;
    is_revision.then(|| without_version(rest).unwrap_or(rest))
}

fn without_date(name: &str) -> Option<&str> {
    let compact = || {
        let (rest, date) = name.rsplit_once('-')?;
        is_date(date).then_some(rest)
    };
    let dashed = || {
        let at = name.len().checked_sub("-2024-08-06".len())?;
        let (rest, date) = name.split_at_checked(at)?;
        let [b'-', digits @ ..] = date.as_bytes() else {
            return None;
        };
        let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = digits else {
            return None;
        };
        let compact = [y0, y1, y2, y3, m0, m1, d0, d1];
        is_date(std::str::from_utf8(&compact).ok()?).then_some(rest)
    };
    compact().or_else(dashed)
}

/// Whether the text is a day of this century, such as `20250929`.
fn is_date(text: &str) -> bool {
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        && text.starts_with("20")
        && ("01"..="12").contains(&&text[4..6])
        && ("01"..="31").contains(&&text[6..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(name: &str) -> Vec<String> {
        let folded = Folded::of(name).unwrap();
        let mut all = Vec::new();
        find(folded.text(), |candidate| -> Option<()> {
            all.push(folded.text()[candidate.start..candidate.end].to_owned());
            None
        });
        all
    }

    #[test]
    fn the_tables_are_sorted_for_their_search() {
        assert!(PROVIDERS.is_sorted_by_key(|(name, _)| name));
        assert!(BEDROCK.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn decoration_is_taken_off_in_its_order() {
        for (name, expected) in [
            ("our-model", &["our-model"][..]),
            ("GPT-4.1-Mini", &["gpt-4-1-mini"]),
            (
                "openrouter/anthropic/claude-sonnet-4.5:beta",
                &[
                    "openrouter/anthropic/claude-sonnet-4-5:beta",
                    "openrouter/anthropic/claude-sonnet-4-5",
                    "anthropic/claude-sonnet-4-5:beta",
                    "anthropic/claude-sonnet-4-5",
                    "claude-sonnet-4-5:beta",
                    "claude-sonnet-4-5",
                ],
            ),
            (
                "us.anthropic.claude-opus-4-6-v1",
                &[
                    "us.anthropic.claude-opus-4-6-v1",
                    "us.anthropic.claude-opus-4-6",
                    "anthropic.claude-opus-4-6-v1",
                    "anthropic.claude-opus-4-6",
                    "claude-opus-4-6-v1",
                    "claude-opus-4-6",
                ],
            ),
            (
                "claude-sonnet-4-5-20250929-v1:0",
                &[
                    "claude-sonnet-4-5-20250929-v1:0",
                    "claude-sonnet-4-5-20250929",
                    "claude-sonnet-4-5",
                ],
            ),
            (
                "claude-sonnet-4-5@20250929",
                &["claude-sonnet-4-5@20250929", "claude-sonnet-4-5"],
            ),
            ("gpt-4o-2024-08-06", &["gpt-4o-2024-08-06", "gpt-4o"]),
            // Another model than its bare name, or another price.
            ("gpt-4-0613", &["gpt-4-0613"]),
            ("gemini-1.5-pro@002", &["gemini-1-5-pro@002"]),
            (
                "deepseek/deepseek-chat-v3",
                &["deepseek/deepseek-chat-v3", "deepseek-chat-v3"],
            ),
            (
                "ft:gpt-4o-2024-08-06:acme::7p4lURel",
                &["ft:gpt-4o-2024-08-06:acme::7p4lurel"],
            ),
            ("claude-3-haiku:free", &["claude-3-haiku:free"]),
            // A price of the host's own.
            (
                "openrouter/deepseek/deepseek-chat",
                &["openrouter/deepseek/deepseek-chat"],
            ),
            (
                "together_ai/openai/gpt-oss-120b",
                &["together_ai/openai/gpt-oss-120b"],
            ),
            ("openai/llama-3.3-70b", &["openai/llama-3-3-70b"]),
            (
                "mistral.mistral-large-2407-v1:0",
                &[
                    "mistral.mistral-large-2407-v1:0",
                    "mistral.mistral-large-2407",
                ],
            ),
            // Nothing is left.
            ("20250929", &["20250929"]),
            ("-20250929", &["-20250929"]),
            ("openai/", &["openai/", ""]),
            ("", &[""]),
        ] {
            assert_eq!(candidates(name), expected, "{name}");
        }
    }

    #[test]
    fn folding_keeps_positions_and_leaves_what_is_no_version() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(Folded::of(&long).is_none());
        for (name, expected) in [
            ("Us.Anthropic.X", "us.anthropic.x"),
            ("1.2.3.", "1-2-3."),
            ("ä.1.5", "ä.1-5"),
            (".", "."),
        ] {
            assert_eq!(Folded::of(name).unwrap().text(), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_name_ends_in_a_few_parts_of_it(
            name in "((openai|azure|us|anthropic|models|projects|ä|arn:aws:bedrock:)[/:.]){0,9}\
                     [a-z0-9.ä]{0,4}((-v1)|(:0)|(-20250929)|(-2024-08-06)|(@20250929)|(-latest)|ä){0,9}",
        ) {
            let Some(folded) = Folded::of(&name) else { return Ok(()) };
            let mut number = 0;
            find(folded.text(), |Candidate { start, end, .. }| -> Option<()> {
                assert!(name.is_char_boundary(start) && name.is_char_boundary(end) && start <= end);
                number += 1;
                None
            });
            proptest::prop_assert!(number <= (DEPTH_MAX + 1) * (DEPTH_MAX + 1));
        }
    }
}
