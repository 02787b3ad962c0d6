//! The top-level modules of each crate import each other without a cycle.
//!
//! Read from tokens, macros included: `crate::name`, `crate::{name, ...}` and `super::` as far as it leads to the root.
//! A name that `lib.rs` or `main.rs` re-exports counts as its module; code under `#[cfg(test)]` does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{CRATES, assert_none, files, folder, read};

/// For each module, the modules it imports, each with one file that does.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, PathBuf>>;

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let mut faults = Vec::new();
    for name in CRATES {
        let cycle = cycle_of(imports_of(&sources_of(name)));
        if !cycle.is_empty() {
            faults.push(describe(name, &cycle));
        }
    }
    assert_none(
        &faults,
        "top-level modules that import each other in a cycle",
    );
}

#[test]
fn a_cycle_is_found_in_groups_macros_and_reexports() {
    let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let cycle = |sources: &[(PathBuf, String)]| -> Vec<String> {
        cycle_of(imports_of(sources)).into_keys().collect()
    };
    let root = source(
        "lib.rs",
        "pub mod a; mod b; mod c; pub use b::{Thing, inner::Other as Renamed};",
    );
    let knotted = [
        root.clone(),
        source("a.rs", "use crate::{Renamed, a::x};"),
        source("b/inner.rs", "fn f() { vec![super::super::c::g()] }"),
        source(
            "c.rs",
            "#[cfg(test)] mod tests { use crate::b; } use super::a;",
        ),
    ];
    assert_eq!(cycle(&knotted), ["a", "b", "c"]);
    let open = [
        root,
        source("a.rs", "use crate::Thing; /* crate::c */"),
        source(
            "b.rs",
            "mod inner { fn f() { super::g(); super::super::c::g(); } }",
        ),
        source(
            "c.rs",
            "//! crate::a\n#[cfg(test)] mod tests { use crate::a; } #[cfg(test)] use crate::b;",
        ),
    ];
    assert_eq!(cycle(&open), [""; 0]);
}

/// The sources of a crate, by their path below `src`.
fn sources_of(name: &str) -> Vec<(PathBuf, String)> {
    let folder = match name {
        "spindle" => PathBuf::from("src"),
        name => Path::new(folder(name)).join("src"),
    };
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| {
            let below = path.strip_prefix(&folder).ok()?.to_owned();
            Some((below, read(&path)))
        })
        .collect()
}

fn imports_of(sources: &[(PathBuf, String)]) -> Imports {
    let modules: BTreeSet<String> = sources
        .iter()
        .filter_map(|(path, _)| module_path(path).into_iter().next())
        .collect();
    let tokens = |(path, text): &(PathBuf, String)| -> TokenStream {
        text.parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let roots = sources
        .iter()
        .filter(|(path, _)| module_path(path).is_empty());
    let mut reexports = BTreeMap::new();
    for source in roots {
        collect_reexports(tokens(source), &modules, &mut reexports);
    }
    let mut imports = Imports::new();
    for source in sources {
        let own = module_path(&source.0);
        let Some(module) = own.first() else { continue };
        let mut names = BTreeSet::new();
        collect_root_names(tokens(source), own.len(), &mut names);
        for name in names {
            let imported = reexports.get(&name).unwrap_or(&name);
            if imported != module && modules.contains(imported) {
                let files = imports.entry(module.clone()).or_default();
                files
                    .entry(imported.clone())
                    .or_insert_with(|| source.0.clone());
            }
        }
    }
    imports
}

/// `a/b.rs` is `[a, b]`; the root of a crate is empty. Test modules in files of their own are no modules.
fn module_path(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let parts: Vec<String> = path
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    let is_root = parts.len() == 1 && (parts[0] == "lib" || parts[0] == "main");
    let is_test = parts.iter().any(|part| part == "tests");
    if is_root || is_test {
        Vec::new()
    } else {
        parts
    }
}

/// Names that the root takes out of its modules, each with its module.
fn collect_reexports(
    tokens: TokenStream,
    modules: &BTreeSet<String>,
    found: &mut BTreeMap<String, String>,
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if is_ident(token, "use") {
            let end = tokens[at..]
                .iter()
                .position(|token| is_punct(token, ';'))
                .map_or(tokens.len(), |length| at + length);
            let mut names = Vec::new();
            flatten(&tokens[at + 1..end], &mut names);
            let module = tokens[at + 1..end].iter().find_map(|token| match token {
                TokenTree::Ident(ident) if modules.contains(&ident.to_string()) => {
                    Some(ident.to_string())
                }
                _ => None,
            });
            if let Some(module) = module {
                found.extend(
                    names
                        .into_iter()
                        .filter(|name| *name != module)
                        .map(|name| (name, module.clone())),
                );
            }
        }
    }
}

/// The names that a use tree brings into scope: the last of each path, or what it is renamed to.
fn flatten(tree: &[TokenTree], names: &mut Vec<String>) {
    for branch in tree.split(|token| is_punct(token, ',')) {
        match branch.last() {
            Some(TokenTree::Group(group)) => {
                flatten(&group.stream().into_iter().collect::<Vec<_>>(), names);
            }
            Some(TokenTree::Ident(ident)) => names.push(ident.to_string()),
            _ => {}
        }
    }
}

/// Names that code at this depth below the root takes from the root.
fn collect_root_names(tokens: TokenStream, depth: usize, names: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at = after_item(&tokens, at + 2);
            continue;
        }
        let mut level = depth;
        let mut next = at;
        if is_ident(&tokens[at], "crate") {
            level = 0;
            next = at + 1;
        } else {
            while level > 0
                && tokens
                    .get(next)
                    .is_some_and(|token| is_ident(token, "super"))
            {
                level -= 1;
                next += 1;
                // A further `super` stands behind a path separator.
                if tokens
                    .get(next + 2)
                    .is_some_and(|token| is_ident(token, "super"))
                    && is_separator(&tokens[next..])
                {
                    next += 2;
                }
            }
        }
        if next > at && level == 0 && is_separator(&tokens[next..]) {
            match tokens.get(next + 2) {
                Some(TokenTree::Ident(ident)) => {
                    names.insert(ident.to_string());
                }
                Some(TokenTree::Group(group)) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in inner.split(|token| is_punct(token, ',')) {
                        names.extend(branch.first().map(ToString::to_string));
                    }
                }
                _ => {}
            }
        }
        if let TokenTree::Group(group) = &tokens[at] {
            let is_module = at >= 2
                && is_ident(&tokens[at - 2], "mod")
                && group.delimiter() == Delimiter::Brace;
            collect_root_names(group.stream(), depth + usize::from(is_module), names);
        }
        at = next.max(at + 1);
    }
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn is_separator(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2 && is_punct(&tokens[0], ':') && is_punct(&tokens[1], ':')
}

/// `#[cfg(test)]`, alone or with more conditions.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = tokens else {
        return false;
    };
    let text = group.to_string().replace(' ', "");
    is_punct(hash, '#') && (text == "[cfg(test)]" || text.starts_with("[cfg(all(test,"))
}

/// Where the item ends that begins here: behind its block or its semicolon.
fn after_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let is_use = tokens.get(from).is_some_and(|token| is_ident(token, "use"));
    let length = tokens[from..].iter().position(|token| {
        if is_use {
            is_punct(token, ';')
        } else {
            ends(token)
        }
    });
    length.map_or(tokens.len(), |length| from + length + 1)
}

/// What is left when modules that import none of the others, or that none of the others imports, are taken away again
/// and again: empty where there is no cycle.
pub(crate) fn cycle_of(mut imports: Imports) -> Imports {
    loop {
        let importing: BTreeSet<String> = imports.keys().cloned().collect();
        let imported: BTreeSet<String> = imports
            .values()
            .flat_map(|names| names.keys().cloned())
            .collect();
        let before = edges(&imports);
        imports.retain(|module, _| imported.contains(module));
        for names in imports.values_mut() {
            names.retain(|name, _| importing.contains(name));
        }
        imports.retain(|_, names| !names.is_empty());
        if edges(&imports) == before {
            return imports;
        }
    }
}

fn edges(imports: &Imports) -> usize {
    imports.values().map(BTreeMap::len).sum()
}

pub(crate) fn describe(name: &str, cycle: &Imports) -> String {
    let edges = cycle.iter().flat_map(|(module, names)| {
        names.iter().map(move |(imported, file)| {
            format!("\n    {module} -> {imported} ({})", file.display())
        })
    });
    format!(
        "{name}: {} modules{}",
        cycle.len(),
        edges.collect::<String>()
    )
}
