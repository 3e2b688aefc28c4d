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
    for (tool, package) in [
        ("objcopy", "binutils"),
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
        "aarch64-unknown-linux-musl" => Some(("aarch64-linux-musl-gcc", "musl-tools:arm64")),
        "aarch64-unknown-linux-gnu" => Some(("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")),
        _ => Some(("cc", "gcc")),
    }
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
    fn what_is_missing_is_told_with_how_to_get_it() {
        let told = check("sparc-unknown-linux-gnu").unwrap_err();
        assert!(
            told.contains("rustup target add sparc-unknown-linux-gnu"),
            "{told}"
        );
    }
}
