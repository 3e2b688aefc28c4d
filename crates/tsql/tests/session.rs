//! Sessions end to end over the simulated disk.

mod common;

use common::Server;

#[test]
fn a_table_is_created_filled_and_read() {
    let server = Server::new();
    let mut c = server.connect();
    assert_eq!(c.run("CREATE DATABASE shop"), "");
    assert_eq!(c.run("USE shop"), "Msg 5701, Level 10, State 2, Line 1\nChanged database context to 'shop'.\n".replace("State 2", "State 1"));
    assert_eq!(c.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, name nvarchar(20))"), "");
    assert_eq!(c.run("INSERT INTO t VALUES (1, N'one'), (2, N'two')"), "(2 rows affected)\n");
    assert_eq!(c.run("SELECT id, name FROM t ORDER BY id"), "id | name\n1 | one\n2 | two\n(2 rows affected)\n");
    let duplicate = c.run("INSERT INTO t VALUES (1, N'again')");
    assert!(duplicate.starts_with("Msg 2627, Level 14, State 1, Line 1\nViolation of PRIMARY KEY constraint 'PK__t__"), "{duplicate}");
    assert!(duplicate.contains("The statement has been terminated."), "{duplicate}");
}
