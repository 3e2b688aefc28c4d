//! Texts for people.

/// What `:help` shows.
pub const COMMANDS: &str = r"
GO [n]                run the batch, n times
:r FILE               run the lines of a file
:setvar NAME [VALUE]  set or remove a variable; $(NAME) stands for its text
:listvar              show the variables
:out FILE             send results to a file, stdout or stderr
:error FILE           send errors to a file, stdout or stderr
:on error exit        stop at the first error (or: ignore)
:connect SERVER [-l SECONDS] [-U LOGIN [-P PASSWORD]]
:list, :reset         show or throw away the batch typed so far
:exit, :exit(QUERY)   leave; with a query its first value is the exit code
:quit                 leave
Also, with : or \ in front:
:format NAME          table, csv, json or list (one value on a line)
:timing               show how long each batch takes
:semicolon            let a semicolon at the end of a line run the batch
:tables [PATTERN]     tables, views and procedures by name; also \d
Keys: Tab completes, Up and Ctrl-R find earlier batches, Ctrl-C cancels, Ctrl-D leaves.
";

/// Objects whose name holds `pattern`, or all.
pub fn tables_query(pattern: &str) -> String {
    let pattern = pattern.trim().replace('\'', "''");
    let condition = if pattern.is_empty() {
        String::new()
    } else {
        format!(" AND o.name LIKE N'%{pattern}%'")
    };
    format!(
        "SELECT s.name AS [schema], o.name AS [name], o.type_desc AS [type] FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id WHERE o.type IN ('U', 'V', 'P', 'FN', 'IF', 'TF'){condition} ORDER BY s.name, o.name"
    )
}

/// What `daruma sql --help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  daruma sql -S localhost -U sa -P secret -C
      the interactive shell; type a batch, then GO
  daruma sql -C -d AdventureWorks2019 -Q \"SELECT COUNT(*) FROM Sales.SalesOrderDetail\"
      one query (SQLCMDSERVER, SQLCMDUSER and SQLCMDPASSWORD save the flags)
  daruma sql -C -i schema.sql -v db=Shop -b
      a script; $(db) stands for Shop; stop with exit code 1 at the first error
  daruma sql -C -Q \"SELECT * FROM sys.databases\" --format csv > databases.csv
      results for other programs: csv or json
  echo 'SELECT @@VERSION' | daruma sql -C -h -1 -W
      a script from standard input; no header, no padding

Exit code: 0; 1 if the connection failed or, with -b, if a batch failed; :exit(QUERY) sets it.";
