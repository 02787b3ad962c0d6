//! The modules of the Python and TypeScript clients import each other without a cycle; imports of types count too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::modules::{Imports, cycle_of, describe};
use crate::{assert_none, files, read};

/// The module of a package itself.
const PACKAGE: &str = "__init__";

/// Sources by their path below the client's folder.
type Sources = BTreeMap<PathBuf, String>;

#[test]
fn modules_of_the_clients_form_no_cycle() {
    let mut faults = Vec::new();
    let python = sources("clients/python/src", "py");
    let typescript = sources("clients/typescript/src", "ts");
    for (name, imports) in [
        ("clients/python", python_imports(&python)),
        ("clients/typescript", typescript_imports(&typescript)),
    ] {
        assert!(imports.len() > 5, "{name}: its imports are found");
        let cycle = cycle_of(imports);
        if !cycle.is_empty() {
            faults.push(describe(name, &cycle));
        }
    }
    assert_none(&faults, "modules that import each other in a cycle");
}

#[test]
fn a_cycle_is_found_in_every_form_of_import() {
    let sources = |files: &[(&str, &str)]| -> Sources {
        let owned = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        files.iter().map(owned).collect()
    };
    let python = sources(&[
        ("p/__init__.py", "from .a import A"),
        ("p/a.py", "from . import (\n    b,\n)"),
        ("p/b.py", "if TYPE_CHECKING:\n    from p.c.d import D"),
        ("p/c/d.py", "from ..e import E"),
        ("p/e.py", "import p"),
        ("p/f.py", "from .a import A"),
    ]);
    let cycle: Vec<String> = cycle_of(python_imports(&python)).into_keys().collect();
    assert_eq!(cycle, ["p/__init__", "p/a", "p/b", "p/c/d", "p/e"]);
    let typescript = sources(&[
        ("a.ts", "import type {\n  B,\n} from \"./c/b.js\";"),
        ("c/b.ts", "export { d } from \"../d.js\";"),
        ("d.ts", "const a = await import(\"./a.js\");"),
        ("e.ts", "import { a } from \"./a.js\";"),
    ]);
    let cycle: Vec<String> = cycle_of(typescript_imports(&typescript))
        .into_keys()
        .collect();
    assert_eq!(cycle, ["a", "c/b", "d"]);
}

fn sources(folder: &str, extension: &str) -> Sources {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| {
            let below = path.strip_prefix(folder).ok()?.to_owned();
            Some((below, read(&path)))
        })
        .collect()
}

fn module(path: &Path) -> String {
    path.with_extension("").to_str().unwrap().to_owned()
}

fn modules(sources: &Sources) -> BTreeSet<String> {
    sources.keys().map(|path| module(path)).collect()
}

fn add(imports: &mut Imports, path: &Path, imported: String) {
    let importing = module(path);
    if imported != importing {
        let found = imports.entry(importing).or_default();
        found.insert(imported, path.to_owned());
    }
}

fn python_imports(sources: &Sources) -> Imports {
    let modules = modules(sources);
    let mut imports = Imports::new();
    for (path, text) in sources {
        let text = text.replace("(\n", "(");
        let mut rest = text.as_str();
        while let Some((line, after)) = rest.split_once('\n').or(match rest {
            "" => None,
            last => Some((last, "")),
        }) {
            rest = after;
            let Some((from, names)) = python_import(line.trim_start(), after) else {
                continue;
            };
            let base = python_module(path, from);
            let below = |name: &str| match base.is_empty() {
                true => name.to_owned(),
                false => format!("{base}/{name}"),
            };
            let submodules = names.iter().map(|name| below(name));
            let mut found: Vec<String> = submodules.filter(|name| modules.contains(name)).collect();
            if found.is_empty() {
                found.extend([base.clone(), below(PACKAGE)]);
            }
            for name in found.into_iter().filter(|name| modules.contains(name)) {
                add(&mut imports, path, name);
            }
        }
    }
    imports
}

/// The module that a line imports from, and the names; those in parentheses go on in the lines after it.
fn python_import<'a>(line: &'a str, after: &'a str) -> Option<(&'a str, Vec<&'a str>)> {
    if let Some(name) = line.strip_prefix("import ") {
        return Some((name.split([' ', ',']).next()?, Vec::new()));
    }
    let (from, names) = line.strip_prefix("from ")?.split_once(" import ")?;
    let more = match names.contains('(') && !names.contains(')') {
        true => after.split(')').next().unwrap_or_default(),
        false => "",
    };
    let names = names.split(',').chain(more.split([',', '\n']));
    let name = |name: &'a str| name.trim_matches(['(', ')', ' ']).split(' ').next();
    Some((from, names.filter_map(name).collect()))
}

/// `..a.b` seen from this file, as a path below the client's folder.
fn python_module(path: &Path, from: &str) -> String {
    let name = from.trim_start_matches('.');
    let dots = from.len() - name.len();
    let around = path.ancestors().nth(dots).filter(|_| dots > 0);
    let around = around.map(|folder| folder.to_str().unwrap());
    let parts = around.into_iter().chain(name.split('.'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

fn typescript_imports(sources: &Sources) -> Imports {
    let modules = modules(sources);
    let mut imports = Imports::new();
    for (path, text) in sources {
        for marker in ["from \"", "import \"", "import(\""] {
            for (at, _) in text.match_indices(marker) {
                let target = text[at + marker.len()..].split('"').next().unwrap();
                if target.starts_with('.') {
                    let imported = typescript_module(path, target);
                    assert!(modules.contains(&imported), "{path:?} imports {target}");
                    add(&mut imports, path, imported);
                }
            }
        }
    }
    imports
}

/// `../a.js` seen from this file, as a path below the client's folder.
fn typescript_module(path: &Path, target: &str) -> String {
    let mut folder = path.parent().unwrap().to_owned();
    for part in target.trim_end_matches(".js").split('/') {
        match part {
            "." => {}
            ".." => assert!(folder.pop(), "{path:?} imports {target}"),
            part => folder.push(part),
        }
    }
    folder.to_str().unwrap().to_owned()
}
