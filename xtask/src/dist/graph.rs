//! Which crates are linked into the program, from `cargo metadata` and `Cargo.lock`.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of the program, by name and version.
pub struct Graph {
    /// The program's version.
    pub version: String,
    pub parts: BTreeMap<(String, String), Part>,
}

/// One crate.
pub struct Part {
    pub name: String,
    pub version: String,
    /// As its manifest says it.
    pub licence: String,
    pub folder: PathBuf,
    pub repository: Option<String>,
    /// SHA-256 of what was downloaded; none for crates of this repository.
    pub checksum: Option<String>,
    /// Names and versions.
    pub needs: Vec<(String, String)>,
}

impl Graph {
    /// What `daruma` is linked from: its dependencies for the target, without those of build scripts and tests.
    pub fn read(root: &Path, target: &str) -> Result<Graph, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(root)
            .args(["metadata", "--format-version=1", "--locked"])
            .args(["--filter-platform", target]);
        let metadata = super::said(&mut cargo)?;
        let metadata: Value =
            serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        let lock =
            fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
        let graph = read(&metadata, &checksums(&lock));
        graph.ok_or_else(|| "cargo metadata: the program is not there".to_string())
    }
}

fn read(metadata: &Value, checksums: &HashMap<(String, String), String>) -> Option<Graph> {
    let by_id = |items: &'_ Value| -> HashMap<String, Value> {
        let items = items.as_array().into_iter().flatten();
        items
            .filter_map(|item| Some((item["id"].as_str()?.to_string(), item.clone())))
            .collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let (root, program) = packages.iter().find(|(_, p)| p["name"] == "daruma")?;
    let named = |id: &String| {
        let package = packages.get(id)?;
        let text = |field: &str| Some(package[field].as_str()?.to_string());
        Some((text("name")?, text("version")?))
    };
    let (mut parts, mut seen, mut open) = (BTreeMap::new(), HashSet::new(), vec![root.clone()]);
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let package = packages.get(&id)?;
        let linked = linked(nodes.get(&id)?);
        let (name, version) = named(&id)?;
        let key = (name.clone(), version.clone());
        let part = Part {
            licence: package["license"].as_str().unwrap_or_default().to_string(),
            folder: Path::new(package["manifest_path"].as_str()?)
                .parent()?
                .into(),
            repository: package["repository"].as_str().map(str::to_string),
            checksum: checksums.get(&key).cloned(),
            needs: linked.iter().filter_map(named).collect(),
            name,
            version,
        };
        parts.insert(key, part);
        open.extend(linked);
    }
    Some(Graph {
        version: program["version"].as_str()?.to_string(),
        parts,
    })
}

/// Ids of what a crate is linked with.
fn linked(node: &Value) -> Vec<String> {
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let all = node["deps"].as_array().into_iter().flatten();
    all.filter(is_normal)
        .filter_map(|dependency| Some(dependency["pkg"].as_str()?.to_string()))
        .collect()
}

/// By name and version.
fn checksums(lock: &str) -> HashMap<(String, String), String> {
    let value = |package: &str, field: &str| {
        let line = package.lines().find_map(|l| l.strip_prefix(field))?;
        Some(
            line.strip_prefix(" = \"")?
                .trim_end_matches('"')
                .to_string(),
        )
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let key = (value(package, "name")?, value(package, "version")?);
            Some((key, value(package, "checksum")?))
        })
        .collect()
}
