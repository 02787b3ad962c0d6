//! OpenLIT, beside the GenAI conventions.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "OpenLIT",
    source: "openlit 1 (PyPI), openlit.semcov",
    prefix: "gen_ai.request.user",
    user: &["gen_ai.request.user"],
    ..Vocabulary::EMPTY
};
