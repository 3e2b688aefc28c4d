//! `cargo xtask dist [--target TRIPLE] [--out DIR] [--twice]`: what a release consists of, in one folder.
//!
//! | file | what it is |
//! |---|---|
//! | `daruma` | the program, static, without symbols |
//! | `daruma.debug` | its symbols; gdb and perf find them through the link in the program |
//! | `LICENCES.txt` | licences of everything that is linked in; one that is not known to be free for this use ends the command |
//! | `sbom.cdx.json` | the same parts as a CycloneDX bill of materials, with their checksums |
//! | `daruma-VERSION-TRIPLE.tar.gz` | program, licences and bill of materials |
//! | `LICENSE-MIT`, `LICENSE-APACHE`, `NOTICE` | our own |
//! | `daruma_VERSION-1_ARCH.deb` | the Debian package, where the program runs on this machine (by an emulator, if it must) and `dpkg-deb` is there |
//! | `SHA256SUMS` | checksums of all of them |
//!
//! Theory: the same commit gives the same bytes, wherever it is built. Paths of the machine are mapped to fixed ones in debug
//! information and panics, times are the commit's (`SOURCE_DATE_EPOCH` when it is set), archives are sorted. `--twice` makes everything
//! a second time in another folder and compares the checksums. A path of the machine that is in the program all the same is an error,
//! after everything is made.

mod graph;
mod licences;
mod needs;
mod sbom;

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask dist [--target TRIPLE] [--out DIR] [--twice]";
const TARGET_DEFAULT: &str = "x86_64-unknown-linux-musl";
/// What paths of the machine are called in the program.
const ROOT_IN_PROGRAM: &str = "/daruma";
const TARGET_IN_PROGRAM: &str = "/daruma/target";
const CARGO_IN_PROGRAM: &str = "/cargo";
const OUR_LICENCES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE"];

/// The command, with its arguments.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    match Options::parse(arguments).and_then(|options| make(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    target: String,
    out: PathBuf,
    twice: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            target: TARGET_DEFAULT.to_string(),
            out: target_folder().join("dist"),
            twice: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--target" => options.target = value()?,
                "--out" => {
                    let out = value()?;
                    options.out = std::path::absolute(&out).map_err(|e| format!("{out}: {e}"))?;
                }
                "--twice" => options.twice = true,
                _ => return Err(USAGE.to_string()),
            }
        }
        Ok(options)
    }
}

fn make(options: &Options) -> Result<(), String> {
    needs::check(&options.target)?;
    let graph = graph::Graph::read(&crate::root(), &options.target)?;
    let epoch = epoch()?;
    let built = build(options, &target_folder(), &epoch)?;
    let sums = assemble(options, &graph, &built, &options.out, &epoch)?;
    let told = tells_of(&built, &mapped(&target_folder())?)?;
    if options.twice {
        let second = options.out.join("second");
        let built = build(options, &second, &epoch)?;
        let again = assemble(options, &graph, &built, &second.join("dist"), &epoch)?;
        same(&sums, &again)?;
        println!("made twice, in two folders: the same bytes");
        fs::remove_dir_all(&second).map_err(|e| format!("{}: {e}", second.display()))?;
    }
    print!("{sums}");
    match told.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the program tells of this machine, and would be another one elsewhere: {}",
            told.join(", ")
        )),
    }
}

/// Folders of this machine that a program has in it, of those that were to be called something else.
fn tells_of(program: &Path, mapped: &[(PathBuf, &str)]) -> Result<Vec<String>, String> {
    let bytes = fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let folders = mapped
        .iter()
        .filter(|(from, to)| from != Path::new(to))
        .map(|(from, _)| format!("{}/", from.display()));
    Ok(folders.filter(|folder| text.contains(folder)).collect())
}

/// Folders of this machine, and what they are called in the program. The last one that fits counts, and the target folder may lie in
/// the root.
fn mapped(target_folder: &Path) -> Result<[(PathBuf, &'static str); 3], String> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
        .ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok([
        (cargo_home, CARGO_IN_PROGRAM),
        (crate::root(), ROOT_IN_PROGRAM),
        (target_folder.to_path_buf(), TARGET_IN_PROGRAM),
    ])
}

/// Makes the files of a release of a program, in `out`; their checksums, as they are written.
fn assemble(
    options: &Options,
    graph: &graph::Graph,
    built: &Path,
    out: &Path,
    epoch: &str,
) -> Result<String, String> {
    fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    split(built, out, needs::objcopy(&options.target))?;
    write(&out.join("LICENCES.txt"), &licences::text(graph)?)?;
    let bill = sbom::json(graph, &options.target, epoch)?;
    write(&out.join("sbom.cdx.json"), &bill)?;
    for file in OUR_LICENCES {
        fs::copy(crate::root().join(file), out.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let mut names: Vec<String> = ["daruma", "daruma.debug", "LICENCES.txt", "sbom.cdx.json"]
        .iter()
        .chain(&OUR_LICENCES)
        .map(|name| (*name).to_string())
        .collect();
    names.push(archive(options, out, &graph.version, epoch)?);
    names.extend(debian_package(options, out, epoch)?);
    names.sort();
    let sums = sums(out, &names)?;
    write(&out.join("SHA256SUMS"), &sums)?;
    Ok(sums)
}

/// `Err` names the files of which two sums differ.
fn same(first: &str, second: &str) -> Result<(), String> {
    let lines = first.lines().zip(second.lines());
    let differ: Vec<String> = lines
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("{a}\n  {b}"))
        .collect();
    match first == second {
        true => Ok(()),
        false => Err(format!(
            "what was made twice of one commit differs:\n  {}",
            differ.join("\n  ")
        )),
    }
}

/// Where cargo builds.
fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| crate::root()),
        None => crate::root().join("target"),
    }
}

/// Seconds since 1970 that stand for the time of the release.
fn epoch() -> Result<String, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        let number = given.parse::<u64>().map(|seconds| seconds.to_string());
        return number.map_err(|_| format!("SOURCE_DATE_EPOCH={given} is not a number of seconds"));
    }
    let mut git = Command::new("git");
    git.current_dir(crate::root())
        .args(["log", "-1", "--format=%ct"]);
    said(&mut git)
}

fn build(options: &Options, target_folder: &Path, epoch: &str) -> Result<PathBuf, String> {
    let mapped = mapped(target_folder)?;
    let flags = |prefix: &str| -> Vec<String> {
        let flag = |(from, to): &(PathBuf, &str)| format!("{prefix}{}={to}", from.display());
        mapped.iter().map(flag).collect()
    };
    let status = Command::new(env!("CARGO"))
        .current_dir(crate::root())
        .args(["build", "--release", "--locked", "--package", "daruma"])
        .args(["--target", &options.target])
        .env("CARGO_TARGET_DIR", target_folder)
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", epoch)
        .envs(needs::cross_variables(&options.target))
        .env_remove("RUSTFLAGS")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            flags("--remap-path-prefix=").join("\u{1f}"),
        )
        .env(
            format!("CFLAGS_{}", options.target.replace('-', "_")),
            flags("-ffile-prefix-map=").join(" "),
        )
        .status();
    match status {
        Ok(status) if status.success() => {
            Ok(target_folder.join(&options.target).join("release/daruma"))
        }
        Ok(status) => Err(format!("cargo build: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// The program without its symbols, and the symbols.
fn split(built: &Path, out: &Path, tool: &str) -> Result<(), String> {
    let (program, symbols) = (out.join("daruma"), out.join("daruma.debug"));
    let objcopy = |flags: &[&str], from: &Path, to: &Path| {
        let mut command = Command::new(tool);
        command.current_dir(out).args(flags).arg(from).arg(to);
        said(&mut command)
    };
    objcopy(
        &["--only-keep-debug", "--compress-debug-sections"],
        built,
        &symbols,
    )?;
    objcopy(
        &["--strip-all", "--add-gnu-debuglink=daruma.debug"],
        built,
        &program,
    )?;
    Ok(())
}

/// Makes the archive; its name.
fn archive(options: &Options, out: &Path, version: &str, epoch: &str) -> Result<String, String> {
    let name = format!("daruma-{version}-{}", options.target);
    let file = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(out)
        .args(["--create", "--sort=name", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--mode=u=rwX,go=rX"])
        .arg(format!("--mtime=@{epoch}"))
        .arg(format!("--transform=s,^,{name}/,"))
        .args(["--use-compress-program=gzip -n -9", "--file", &file])
        .args(["daruma", "LICENCES.txt", "sbom.cdx.json"])
        .args(OUR_LICENCES);
    said(&mut tar)?;
    Ok(file)
}

/// Makes the Debian package; its name. The script asks the program for its man pages, so the program must run here.
fn debian_package(options: &Options, out: &Path, epoch: &str) -> Result<Option<String>, String> {
    let runner = match needs::is_there("dpkg-deb") {
        true => needs::runner(&options.target),
        false => Err("dpkg-deb is missing".to_string()),
    };
    let runner = match runner {
        Ok(runner) => runner,
        Err(why) => {
            eprintln!("no Debian package: {why}");
            return Ok(None);
        }
    };
    let mut script = Command::new(crate::root().join("packaging/debian/build.sh"));
    script
        .args([&out.join("daruma"), out])
        .env("RUNNER", runner)
        .env("SOURCE_DATE_EPOCH", epoch);
    let made = said(&mut script)?;
    let name = Path::new(&made).file_name();
    let name = name.ok_or_else(|| format!("the package's script says '{made}'"))?;
    Ok(Some(name.to_string_lossy().into_owned()))
}

/// Lines as `sha256sum --check` takes them.
fn sums(out: &Path, names: &[String]) -> Result<String, String> {
    let mut lines = String::new();
    for name in names {
        lines.push_str(&format!("{}  {name}\n", checksum(&out.join(name))?));
    }
    Ok(lines)
}

fn checksum(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let hexed = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(hexed)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// What a command said that ended well.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, error.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_answered_by_the_usage() {
        let parse = |text: &str| Options::parse(text.split(' ').map(str::to_string));
        assert!(parse("--twice --out somewhere").is_ok());
        for bad in ["--fast", "--out", "--target"] {
            assert_eq!(parse(bad).err().as_deref(), Some(USAGE), "{bad}");
        }
    }

    #[test]
    fn a_folder_of_the_machine_is_found_in_a_program() {
        let dir = std::env::temp_dir().join(format!("daruma-told-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("folder");
        let program = dir.join("daruma");
        fs::write(
            &program,
            b"\xFF\0/home/me/daruma/src/a.rs\0/home/me/daruma-old\0",
        )
        .expect("writes");
        let mapped =
            ["/home/me/daruma", "/home/me/.cargo", "/home/me/daruma/src"].map(PathBuf::from);
        let [root, home, same] = mapped;
        let mapped = [
            (root, "/daruma"),
            (home, "/cargo"),
            (same, "/home/me/daruma/src"),
        ];
        let told = tells_of(&program, &mapped);
        fs::remove_dir_all(&dir).expect("removes");
        assert_eq!(told, Ok(vec!["/home/me/daruma/".to_string()]));
    }

    #[test]
    fn sums_are_those_of_the_tools_and_tell_what_differs() {
        let dir = std::env::temp_dir().join(format!("daruma-dist-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("folder");
        let mut all = Vec::new();
        for content in ["abc", "abc", "abd"] {
            fs::write(dir.join("a.deb"), content).expect("writes");
            all.push(sums(&dir, &["a.deb".to_string()]).expect("sums"));
        }
        fs::remove_dir_all(&dir).expect("removes");
        assert_eq!(
            all[0],
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.deb\n"
        );
        assert_eq!(same(&all[0], &all[1]), Ok(()));
        let told = same(&all[1], &all[2]).unwrap_err();
        assert!(
            told.contains("ba7816bf") && told.matches("a.deb").count() == 2,
            "{told}"
        );
        assert!(same(&all[0], "").is_err());
    }

    #[test]
    fn every_part_of_the_program_has_a_licence_and_a_line_in_the_bill() {
        let graph = graph::Graph::read(&crate::root(), TARGET_DEFAULT).expect("graph");
        let licences = licences::text(&graph).expect("licences");
        let bill = sbom::json(&graph, TARGET_DEFAULT, "1000000000").expect("bill");
        let bill: serde_json::Value = serde_json::from_str(&bill).expect("JSON");
        let components = bill["components"].as_array().expect("components");
        assert_eq!(bill["metadata"]["timestamp"], "2001-09-09T01:46:40Z");
        for name in ["ring", "zstd-sys", "clap", "rustls"] {
            assert!(licences.contains(&format!("\n{name} ")), "{name}");
            let component = components.iter().find(|c| c["name"] == name).expect(name);
            let checksum = component["hashes"][0]["content"].as_str();
            assert_eq!(checksum.map(str::len), Some(64), "{name}");
        }
        // What only tests need is in neither.
        assert!(!components.iter().any(|c| c["name"] == "proptest"));
    }
}
