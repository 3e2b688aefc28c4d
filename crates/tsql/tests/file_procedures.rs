//! xp_delete_file and its kin: which files go, and which stay.

mod common;

use common::{Client, Server, errors};
use daruma_base::{Disk, OpenMode};
use std::path::Path;

/// A server with the database `d` and these backups of it.
fn server_with_backups(paths: &[&str]) -> (Server, Client) {
    let server = Server::new();
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    for path in paths {
        back_up(&mut client, path);
    }
    (server, client)
}

fn back_up(client: &mut Client, path: &str) {
    let out = client.run(&format!("BACKUP DATABASE d TO DISK = '{path}'"));
    assert!(out.contains("BACKUP DATABASE successfully"), "{out}");
}

fn is_there(server: &Server, path: &str) -> bool {
    server.disk.exists(Path::new(path)).expect("exists")
}

fn write(server: &Server, path: &str, bytes: &[u8]) {
    let file = server
        .disk
        .open(Path::new(path), OpenMode::CreateNew)
        .expect("open");
    file.write_at(bytes, 0).expect("write");
}

/// Deletes backups with the extension that are older than an hour from now, in the folder alone or also below.
const OLD: &str = "DECLARE @t datetime = DATEADD(hour, 1, GETDATE())
    EXEC master.dbo.xp_delete_file 0, N'/b', N'bak', @t, ";

#[test]
fn old_backups_of_the_extension_go() {
    let (server, mut client) = server_with_backups(&["/b/one.bak", "/b/two.BAK", "/b/three.trn"]);
    assert_eq!(client.run(&format!("{OLD} 0")), "");
    assert!(!is_there(&server, "/b/one.bak"));
    assert!(!is_there(&server, "/b/two.BAK"));
    assert!(is_there(&server, "/b/three.trn"));
}

#[test]
fn backups_after_the_moment_stay() {
    let (server, mut client) = server_with_backups(&["/b/one.bak"]);
    let text = "DECLARE @t datetime = DATEADD(hour, -1, GETDATE())
        EXEC xp_delete_file 0, N'/b', N'bak', @t, 0";
    assert_eq!(client.run(text), "");
    assert!(is_there(&server, "/b/one.bak"));
}

#[test]
fn folders_below_are_gone_into_when_asked() {
    let (server, mut client) = server_with_backups(&["/b/low/one.bak", "/b/low/lower/two.bak"]);
    client.run(&format!("{OLD} 0"));
    assert!(is_there(&server, "/b/low/one.bak"));
    client.run(&format!("{OLD} 1"));
    assert!(!is_there(&server, "/b/low/one.bak"));
    assert!(is_there(&server, "/b/low/lower/two.bak"));
}

#[test]
fn what_is_no_backup_stays() {
    let (server, mut client) = server_with_backups(&["/b/one.bak"]);
    write(&server, "/b/letter.bak", b"Dear reader, this is no backup.");
    write(&server, "/b/empty.bak", b"");
    assert_eq!(client.run(&format!("{OLD} 0")), "");
    assert!(is_there(&server, "/b/letter.bak"));
    assert!(is_there(&server, "/b/empty.bak"));
    assert!(!is_there(&server, "/b/one.bak"));
}

#[test]
fn a_damaged_backup_stays() {
    let (server, mut client) = server_with_backups(&["/b/one.bak"]);
    let file = server
        .disk
        .open(Path::new("/b/one.bak"), OpenMode::ReadWrite)
        .expect("open");
    let len = file.len().expect("len");
    file.write_at(&vec![0; (len - 4) as usize], 4)
        .expect("write");
    drop(file);
    assert_eq!(client.run(&format!("{OLD} 0")), "");
    assert!(is_there(&server, "/b/one.bak"));
}

#[test]
fn files_of_databases_stay() {
    let (server, mut client) = server_with_backups(&[]);
    client.run("EXEC xp_delete_file 0, N'/data/d.mdf'");
    client.run("EXEC xp_delete_file 0, N'/data', N'mdf'");
    assert!(is_there(&server, "/data/d.mdf"));
    assert_eq!(
        client.scalar("SELECT COUNT(*) FROM d.sys.schemas WHERE name = 'dbo'"),
        "1"
    );
}

#[test]
fn one_file_is_deleted_by_its_name() {
    let (server, mut client) = server_with_backups(&["/b/one.bak", "/b/two.bak"]);
    assert_eq!(client.run("EXEC xp_delete_file 0, N'/b/one.bak'"), "");
    assert!(!is_there(&server, "/b/one.bak"));
    assert!(is_there(&server, "/b/two.bak"));
}

#[test]
fn a_backup_that_another_was_appended_to_is_as_old_as_the_last() {
    let (server, mut client) = server_with_backups(&["/b/one.bak"]);
    client.run("SELECT GETDATE() AS t INTO tempdb.dbo.moment");
    client.run("WAITFOR DELAY '00:00:01'");
    back_up(&mut client, "/b/one.bak");
    let text = "DECLARE @t datetime = (SELECT t FROM tempdb.dbo.moment)
        EXEC xp_delete_file 0, N'/b', N'bak', @t";
    assert_eq!(client.run(text), "");
    assert!(is_there(&server, "/b/one.bak"));
}

#[test]
fn only_administrators_see_and_change_files() {
    let (server, _client) = server_with_backups(&["/b/one.bak"]);
    server.set_up(&["CREATE LOGIN low WITH PASSWORD = 'Pass-word-1', CHECK_POLICY = OFF"]);
    let mut low = server.connect_as("low", "");
    for text in [
        "EXEC xp_delete_file 0, N'/b/one.bak'",
        "EXEC xp_create_subdir N'/b/low'",
        "EXEC xp_dirtree N'/b'",
        "EXEC xp_fileexist N'/b/one.bak'",
        "EXEC xp_fixeddrives",
    ] {
        let out = low.run(text);
        assert!(out.starts_with("Msg 229,"), "{text}: {out}");
    }
    let out = low.run("SELECT * FROM sys.dm_os_file_exists(N'/b/one.bak')");
    assert!(out.contains("Msg 300,"), "{out}");
    assert!(is_there(&server, "/b/one.bak"));
}

#[test]
fn what_is_on_disk_is_told() {
    let (server, mut client) = server_with_backups(&["/b/one.bak", "/b/low/two.bak"]);
    let tree = client.run("EXEC xp_dirtree N'/b', 0, 1");
    assert_eq!(
        tree,
        "subdirectory | depth | file\nlow | 1 | 0\ntwo.bak | 2 | 1\none.bak | 1 | 1\n(3 rows affected)\n"
    );
    let tree = client.run("EXEC xp_dirtree N'/b', 1");
    assert_eq!(tree, "subdirectory | depth\nlow | 1\n(1 row affected)\n");
    let text = "DECLARE @n int EXEC xp_fileexist N'/b/one.bak', @n OUTPUT SELECT @n";
    assert_eq!(client.scalar(text), "1");
    let text = "DECLARE @n int EXEC xp_fileexist N'/b/low', @n OUTPUT SELECT @n";
    assert_eq!(client.scalar(text), "0");
    let out = client.run("EXEC xp_fileexist N'/b/low'");
    assert!(out.contains("0 | 1 | 1"), "{out}");
    let text = "SELECT file_exists, file_is_a_directory, parent_directory_exists FROM sys.dm_os_file_exists(N'/b/none')";
    assert!(client.run(text).contains("0 | 0 | 1"));
    drop(server);
}

#[test]
fn paths_that_lead_nowhere_and_reports_are_refused() {
    let (_server, mut client) = server_with_backups(&[]);
    for text in [
        "EXEC xp_create_subdir N''",
        "DECLARE @p nvarchar(20) = N'/b/a' + NCHAR(0) + N'b' EXEC xp_create_subdir @p",
        "EXEC xp_create_subdir N'/data/log/mine'",
        "EXEC xp_create_subdir N'/data/log/mine/../../log/more'",
        "EXEC xp_delete_file 2, N'/b'",
    ] {
        let out = client.run(text);
        assert!(out.starts_with("Msg 22048,"), "{text}: {out}");
    }
    let out = client.run("EXEC xp_delete_file 1, N'/b', N'txt'");
    assert!(out.starts_with("Msg 40517,"), "{out}");
}

#[test]
fn an_unset_date_and_paths_of_windows_delete_nothing() {
    let (server, mut client) = server_with_backups(&["/b/one.bak"]);
    for text in [
        "DECLARE @t datetime EXEC xp_delete_file 0, N'/b', N'bak', @t, 1",
        "EXEC xp_delete_file 0, N'/b'",
        r"DECLARE @t datetime = DATEADD(hour, 1, GETDATE()) EXEC xp_delete_file 0, N'D:\b\', N'bak', @t, 1",
        r"EXEC xp_create_subdir N'D:\b\new'",
    ] {
        assert_eq!(errors(&client.run(text)), [22_048], "{text}");
    }
    let text = r"SELECT file_exists + file_is_a_directory + parent_directory_exists FROM sys.dm_os_file_exists(N'D:\b\one.bak')";
    assert_eq!(client.scalar(text), "0");
    assert!(is_there(&server, "/b/one.bak"));
}

#[test]
fn names_that_msdb_alone_has_are_users_elsewhere() {
    let (_server, mut client) = server_with_backups(&[]);
    client.run("USE d");
    client.run("CREATE PROCEDURE dbo.sp_start_job AS SELECT 7 AS n");
    assert_eq!(client.scalar("EXEC dbo.sp_start_job"), "7");
    assert_eq!(errors(&client.run("EXEC dbo.sp_add_job N'x'")), [2812]);
    client.run("USE msdb");
    client.run("CREATE PROCEDURE dbo.sp_start_job AS SELECT 8 AS n");
    assert_eq!(errors(&client.run("EXEC dbo.sp_start_job N'x'")), [40_517]);
}
