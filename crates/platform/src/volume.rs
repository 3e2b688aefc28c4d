//! File systems: where they are mounted and what room they have.

use daruma_base::VolumeSpace;
use rustix::fs::statvfs;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file system that holds a path; `None` where the system does not tell, or nothing is there.
pub fn volume_space(path: &Path) -> Option<VolumeSpace> {
    let path = fs::canonicalize(path).ok()?;
    let figures = statvfs(&path).ok()?;
    Some(VolumeSpace {
        mount_point: mount_point(&path)?,
        total_bytes: figures.f_blocks.saturating_mul(figures.f_frsize),
        available_bytes: figures.f_bavail.saturating_mul(figures.f_frsize),
    })
}

/// The uppermost folder above a path without links that is still of the same device.
fn mount_point(path: &Path) -> Option<PathBuf> {
    let device = fs::metadata(path).ok()?.dev();
    let is_same = |p: &&Path| fs::metadata(p).is_ok_and(|m| m.dev() == device);
    let last = path.ancestors().take_while(is_same).last()?;
    Some(last.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lies_in_a_volume_above_it() {
        let folder = tempfile::tempdir().expect("folder");
        let volume = volume_space(folder.path()).expect("a volume");
        let real = fs::canonicalize(folder.path()).expect("path");
        assert!(real.starts_with(&volume.mount_point));
        assert!(volume.available_bytes <= volume.total_bytes);
        assert_eq!(volume_space(&folder.path().join("nothing")), None);
    }
}
