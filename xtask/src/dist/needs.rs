//! Tools that a release needs, looked for before minutes are spent on building.

use std::path::Path;
use std::process::Command;

/// `Err` names everything that is missing and how to install it.
pub fn check(target: &str) -> Result<(), String> {
    let mut missing = Vec::new();
    if !has_std(target) {
        missing.push(format!(
            "the standard library for {target}: rustup target add {target}"
        ));
    }
    if let Some((compiler, package)) = compiler_for(target)
        && std::env::var_os(format!("CC_{}", target.replace('-', "_"))).is_none()
        && !is_there(compiler)
    {
        missing.push(format!("{compiler}: apt-get install {package}"));
    }
    let objcopy_package = match is_arm64_elsewhere(target) {
        true => "binutils-aarch64-linux-gnu",
        false => "binutils",
    };
    for (tool, package) in [
        (objcopy(target), objcopy_package),
        ("tar", "tar"),
        ("gzip", "gzip"),
        ("git", "git"),
    ] {
        if !is_there(tool) {
            missing.push(format!("{tool}: apt-get install {package}"));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "a release for {target} needs\n  {}",
            missing.join("\n  ")
        )),
    }
}

/// The C compiler for the parts that are in C or assembler, and Debian's package of it.
fn compiler_for(target: &str) -> Option<(&'static str, &'static str)> {
    match target {
        "x86_64-unknown-linux-musl" => Some(("musl-gcc", "musl-tools")),
        _ if is_arm64_elsewhere(target) => Some((ARM64_COMPILER, "gcc-aarch64-linux-gnu")),
        "aarch64-unknown-linux-musl" => Some(("musl-gcc", "musl-tools")),
        _ => Some(("cc", "gcc")),
    }
}

/// The compiler of Debian for Arm64 on another machine. Its headers are glibc's and its libraries are not linked: what is in C here
/// asks both for the same, and Rust brings musl itself.
const ARM64_COMPILER: &str = "aarch64-linux-gnu-gcc";

fn is_arm64_elsewhere(target: &str) -> bool {
    target.starts_with("aarch64-") && std::env::consts::ARCH != "aarch64"
}

/// What runs a program of this target here: nothing at all where it runs by itself, and otherwise an emulator. `Err` says how to get one.
pub fn runner(target: &str) -> Result<&'static str, String> {
    let is_own = target.starts_with(&format!("{}-", std::env::consts::ARCH));
    match (is_own, is_arm64_elsewhere(target)) {
        (true, _) => Ok(""),
        (false, true) if is_there(ARM64_EMULATOR) => Ok(ARM64_EMULATOR),
        (false, true) => Err(format!(
            "the program does not run here without {ARM64_EMULATOR}: apt-get install qemu-user-static"
        )),
        (false, false) => Err("the program does not run on this machine".to_string()),
    }
}

/// Of Debian.
const ARM64_EMULATOR: &str = "qemu-aarch64-static";

/// What takes a program of this target apart.
pub fn objcopy(target: &str) -> &'static str {
    match is_arm64_elsewhere(target) {
        true => "aarch64-linux-gnu-objcopy",
        false => "objcopy",
    }
}

/// Variables that name compiler and linker for a target of another machine, where the environment names none.
pub fn cross_variables(target: &str) -> Vec<(String, &'static str)> {
    if !is_arm64_elsewhere(target) {
        return Vec::new();
    }
    let target = target.replace('-', "_");
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase());
    let mut variables = vec![
        (format!("CC_{target}"), ARM64_COMPILER),
        (linker, ARM64_COMPILER),
    ];
    variables.retain(|(name, _)| std::env::var_os(name).is_none());
    variables
}

fn has_std(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    told.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_string();
        output.status.success() && Path::new(&folder).is_dir()
    })
}

/// Is there a program of this name?
pub fn is_there(tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(tool).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_has_tools_of_its_own() {
        let arm64 = "aarch64-unknown-linux-musl";
        let is_elsewhere = std::env::consts::ARCH != "aarch64";
        assert_eq!(objcopy(arm64) != "objcopy", is_elsewhere);
        assert_eq!(cross_variables(arm64).is_empty(), !is_elsewhere);
        assert!(cross_variables("x86_64-unknown-linux-musl").is_empty());
        let own = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        assert_eq!(runner(&own), Ok(""));
        assert!(runner("sparc-unknown-linux-gnu").is_err());
    }

    #[test]
    fn what_is_missing_is_told_with_how_to_get_it() {
        let told = check("sparc-unknown-linux-gnu").unwrap_err();
        assert!(
            told.contains("rustup target add sparc-unknown-linux-gnu"),
            "{told}"
        );
    }
}
