//! Volumes and what lies on them: the room of the files of databases, and what is at a path.

use super::databases::files_of;
use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::sysprocs::{Found, look_at, path_of};
use daruma_value::Value;
use std::path::Path;

pub(super) const VIEWS: &[View] = &[
    View::function("dm_os_volume_stats", (2, 2), VOLUME, volume),
    View::function("dm_os_file_exists", (1, 1), FILE_EXISTS, file_exists),
    View::sys("dm_os_enumerate_fixed_drives", DRIVES, drives),
];

const VOLUME: &str = "
    database_id int?; file_id int?; volume_mount_point nvarchar(512)?; volume_id nvarchar(512)?;
    logical_volume_name nvarchar(512)?; file_system_type nvarchar(512)?; total_bytes bigint?; available_bytes bigint?;
    supports_compression tinyint? = 0; supports_alternate_streams tinyint? = 0; supports_sparse_files tinyint?;
    is_read_only tinyint?; is_compressed tinyint? = 0; incurs_seek_penalty tinyint?";

/// The volume of one file of one database.
fn volume(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (database, file) = (source.integer_argument(0), source.integer_argument(1));
    let all = source.databases_with_files()?;
    let Some(entry) = all.iter().find(|d| Some(i64::from(d.id().0)) == database) else {
        return Ok(());
    };
    let wanted = files_of(entry)
        .into_iter()
        .filter(|line| Some(i64::from(line.id)) == file);
    for line in wanted {
        let ask = source.instance()?.volume_space.get();
        let space = ask.and_then(|ask| ask(Path::new(&line.path)));
        if let Some(space) = space {
            rows.add()
                .set("database_id", database)
                .set("file_id", file)
                .set(
                    "volume_mount_point",
                    space.mount_point.display().to_string(),
                )
                .set("total_bytes", space.total_bytes)
                .set("available_bytes", space.available_bytes);
        }
    }
    Ok(())
}

const FILE_EXISTS: &str = "file_exists int; file_is_a_directory int; parent_directory_exists int";

/// What is at a path. A relative one begins in the folder of backups.
fn file_exists(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let Some(Value::Str(path)) = source.arguments.first() else {
        return Ok(());
    };
    let instance = source.instance()?;
    // What is no path of this system leads to nothing.
    let found = path_of(path, instance.backup_dir()).map_or_else(
        |_| Found::default(),
        |path| look_at(instance.env().disk.as_ref(), &path),
    );
    rows.add()
        .set("file_exists", found.is_file)
        .set("file_is_a_directory", found.is_folder)
        .set("parent_directory_exists", found.parent_is_there);
    Ok(())
}

const DRIVES: &str = "
    fixed_drive_path nvarchar(256)?; drive_type int? = 3; drive_type_desc nvarchar(256)? = DRIVE_FIXED;
    free_space_in_bytes bigint?";

/// The volume of the data folder.
fn drives(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let ask = instance.volume_space.get();
    if let Some(space) = ask.and_then(|ask| ask(instance.data_dir())) {
        rows.add()
            .set("fixed_drive_path", space.mount_point.display().to_string())
            .set("free_space_in_bytes", space.available_bytes);
    }
    Ok(())
}
