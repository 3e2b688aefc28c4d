//! The one table of product messages: number, severity and text, as `sys.messages` shows them.
//!
//! Theory: texts keep the product's placeholders (`%.*ls`, `%d`, `%I64d`); [`error`] fills them in order. Code
//! that raises an error names only the number and its arguments, so wording can be checked in one place.
//!
//! Invariant: numbers grow from line to line (test), so look-up is a binary search.

use crate::error::SqlError;
use std::fmt::Display;

/// One line of `sys.messages`.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub number: i32,
    pub severity: u8,
    pub text: &'static str,
}

const fn m(number: i32, severity: u8, text: &'static str) -> Message {
    Message {
        number,
        severity,
        text,
    }
}

/// Longest message text a client is shown.
const MESSAGE_CHARS_MAX: usize = 2_047;

/// All messages, by number.
pub fn all() -> &'static [Message] {
    MESSAGES
}

/// The message with this number, if the table has it.
pub fn find(number: i32) -> Option<&'static Message> {
    let at = MESSAGES.binary_search_by_key(&number, |m| m.number).ok()?;
    MESSAGES.get(at)
}

/// The message with its arguments, state 1.
pub fn error(number: i32, args: &[&dyn Display]) -> SqlError {
    error_state(number, 1, args)
}

/// The message with its arguments filled in, in another state than 1.
pub fn error_state(number: i32, state: u8, args: &[&dyn Display]) -> SqlError {
    match find(number) {
        Some(message) => SqlError::new(number, message.severity, state, fill(message.text, args)),
        None => SqlError::new(number, 16, state, format!("Error {number}.")),
    }
}

/// A feature of the product that this server does not have: 40517 is the product's own number for the same answer.
pub fn not_supported(what: &str) -> SqlError {
    error(40517, &[&what])
}

/// Error 304 for a number of processors that the option `max degree of parallelism` cannot have either.
pub fn check_processors(count: i64) -> crate::error::Result<()> {
    match (0..=32_767).contains(&count) {
        true => Ok(()),
        false => Err(error(
            304,
            &[&count, &"maxdop", &"max degree of parallelism"],
        )),
    }
}

/// Replaces the placeholders of `text` by `args` in order.
pub fn fill(text: &str, args: &[&dyn Display]) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let mut args = args.iter();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, spec) = rest.split_at(at);
        out.push_str(before);
        let (len, is_argument) = placeholder(spec);
        match is_argument {
            true => args
                .next()
                .into_iter()
                .for_each(|arg| out.push_str(&arg.to_string())),
            false => out.push('%'),
        }
        rest = spec.get(len..).unwrap_or("");
    }
    out.push_str(rest);
    match out.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => out.get(..end).unwrap_or("").to_string(),
        None => out,
    }
}

/// Length of the placeholder at the start of `spec`, and whether it takes an argument (`%%` takes none).
fn placeholder(spec: &str) -> (usize, bool) {
    const FORMS: [&str; 17] = [
        "%#016I64x",
        "%.*ls",
        "%.*s",
        "%I64d",
        "%S_MSG",
        "%S_PGID",
        "%S_XID",
        "%08x",
        "%03d",
        "%hs",
        "%lc",
        "%ls",
        "%ld",
        "%s",
        "%d",
        "%u",
        "%x",
    ];
    match FORMS.iter().find(|form| spec.starts_with(**form)) {
        Some(form) => (form.len(), true),
        None if spec.starts_with("%%") => (2, false),
        None => (1, false),
    }
}

/// Errors that end the batch and roll the transaction back, whatever XACT_ABORT says: failed conversions of text and
/// lost conflicts.
pub fn aborts_batch(number: i32) -> bool {
    matches!(
        number,
        210 | 217
            | 235
            | 236
            | 241
            | 242
            | 244
            | 245
            | 248
            | 295
            | 296
            | 529
            | 1205
            | 3616
            | 3951
            | 3952
            | 3960
            | 3961
            | 3964
            | 3998
            | 8114
            | 8169
    )
}

/// Errors of name and type resolution: they end the scope (batch or module) they occur in, and only an outer TRY
/// can catch them.
pub fn ends_scope(number: i32) -> bool {
    matches!(
        number,
        102 | 103 | 105..=114 | 116..=139 | 141..=160 | 162..=178 | 180..=188 | 190..=200 | 202..=204 | 206..=209 | 213 | 231 | 257 | 263
            | 402 | 411 | 421 | 426 | 1011 | 1012 | 1013 | 1038 | 1052..=1059 | 2715 | 2716 | 4104 | 4108..=4113
            | 4145 | 4901 | 8116..=8118 | 8120 | 8121 | 8127 | 8133 | 8153..=8158 | 10709 | 11537
    )
}

const MESSAGES: &[Message] = &[
    m(101, 15, "Query not allowed in Waitfor."),
    m(102, 15, "Incorrect syntax near '%.*ls'."),
    m(
        103,
        15,
        "The %S_MSG that starts with '%.*ls' is too long. Maximum length is %d.",
    ),
    m(
        105,
        15,
        "Unclosed quotation mark after the character string '%.*ls'.",
    ),
    m(
        106,
        15,
        "Too many table names in the query. The maximum allowable is %d.",
    ),
    m(
        107,
        15,
        "The column prefix '%.*ls' does not match with a table name or alias name used in the query.",
    ),
    m(
        109,
        15,
        "There are more columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
    ),
    m(
        110,
        15,
        "There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
    ),
    m(
        111,
        15,
        "'%ls' must be the first statement in a query batch.",
    ),
    m(113, 15, "Missing end comment mark '*/'."),
    m(
        116,
        16,
        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    ),
    m(
        117,
        15,
        "The %S_MSG name '%.*ls' contains more than the maximum number of prefixes. The maximum is %d.",
    ),
    m(
        119,
        15,
        "Must pass parameter number %d and subsequent parameters as '@name = value'. After the form '@name = value' has been used, all subsequent parameters must be passed in the form '@name = value'.",
    ),
    m(
        120,
        15,
        "The select list for the INSERT statement contains fewer items than the insert list. The number of SELECT values must match the number of INSERT columns.",
    ),
    m(
        121,
        15,
        "The select list for the INSERT statement contains more items than the insert list. The number of SELECT values must match the number of INSERT columns.",
    ),
    m(122, 15, "The %ls option is allowed only with %ls syntax."),
    m(
        127,
        15,
        "A TOP N or FETCH rowcount value may not be negative.",
    ),
    m(
        128,
        15,
        "The name \"%.*ls\" is not permitted in this context. Valid expressions are constants, constant expressions, and (in some contexts) variables. Column names are not permitted.",
    ),
    m(
        129,
        15,
        "Fillfactor %d is not a valid percentage; fillfactor must be between 1 and 100.",
    ),
    m(
        130,
        15,
        "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.",
    ),
    m(
        131,
        15,
        "The size (%d) given to the %S_MSG '%.*ls' exceeds the maximum allowed for any data type (%d).",
    ),
    m(
        132,
        15,
        "The label '%.*ls' has already been declared. Label names must be unique within a query batch or stored procedure.",
    ),
    m(
        133,
        15,
        "A GOTO statement references the label '%.*ls' but the label has not been declared.",
    ),
    m(
        134,
        15,
        "The variable name '%.*ls' has already been declared. Variable names must be unique within a query batch or stored procedure.",
    ),
    m(
        135,
        15,
        "Cannot use a BREAK statement outside the scope of a WHILE statement.",
    ),
    m(
        136,
        15,
        "Cannot use a CONTINUE statement outside the scope of a WHILE statement.",
    ),
    m(137, 15, "Must declare the scalar variable \"%.*ls\"."),
    m(
        141,
        15,
        "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
    ),
    m(
        147,
        15,
        "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or a select list, and the column being aggregated is an outer reference.",
    ),
    m(
        148,
        15,
        "Incorrect time syntax in time string '%.*ls' used with WAITFOR.",
    ),
    m(154, 15, "%S_MSG is not allowed in %S_MSG."),
    m(155, 15, "'%.*ls' is not a recognized %ls option."),
    m(156, 15, "Incorrect syntax near the keyword '%.*ls'."),
    m(
        157,
        15,
        "An aggregate may not appear in the set list of an UPDATE statement.",
    ),
    m(
        166,
        15,
        "'%ls' does not allow specifying the database name as a prefix to the object name.",
    ),
    m(170, 15, "Line %d: Incorrect syntax near '%.*ls'."),
    m(
        173,
        15,
        "The definition for column '%.*ls' must include a data type.",
    ),
    m(174, 15, "The %.*ls function requires %d argument(s)."),
    m(
        177,
        15,
        "The IDENTITY function can only be used when the SELECT statement has an INTO clause.",
    ),
    m(
        178,
        15,
        "A RETURN statement with a return value cannot be used in this context.",
    ),
    m(
        181,
        15,
        "Cannot use the OUTPUT option in a DECLARE, CREATE AGGREGATE or CREATE FUNCTION statement.",
    ),
    m(
        183,
        15,
        "The scale (%d) for column '%.*ls' must be within the range %d to %d.",
    ),
    m(189, 15, "The %ls function requires %d to %d arguments."),
    m(
        191,
        15,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
    ),
    m(
        193,
        15,
        "The object or column name starting with '%.*ls' is too long. The maximum length is %d characters.",
    ),
    m(195, 15, "'%.*ls' is not a recognized %S_MSG."),
    m(
        199,
        15,
        "An INSERT statement cannot contain a SELECT statement that assigns values to a variable.",
    ),
    m(
        201,
        16,
        "Procedure or function '%.*ls' expects parameter '%.*ls', which was not supplied.",
    ),
    m(
        205,
        16,
        "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions in their target lists.",
    ),
    m(206, 16, "Operand type clash: %ls is incompatible with %ls"),
    m(207, 16, "Invalid column name '%.*ls'."),
    m(208, 16, "Invalid object name '%.*ls'."),
    m(209, 16, "Ambiguous column name '%.*ls'."),
    m(
        213,
        16,
        "Column name or number of supplied values does not match table definition.",
    ),
    m(
        217,
        16,
        "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit %d).",
    ),
    m(
        218,
        16,
        "Could not find the type '%.*ls'. Either it does not exist or you do not have the necessary permission.",
    ),
    m(
        219,
        16,
        "The type '%.*ls' already exists, or you do not have permission to create it.",
    ),
    m(
        226,
        16,
        "%ls statement not allowed within multi-statement transaction.",
    ),
    m(
        227,
        15,
        "\"%.*ls\" is not a valid function, property, or field.",
    ),
    m(
        229,
        14,
        "The %ls permission was denied on the object '%.*ls', database '%.*ls', schema '%.*ls'.",
    ),
    m(
        230,
        14,
        "The %ls permission was denied on the column '%.*ls' of the object '%.*ls', database '%.*ls', schema '%.*ls'.",
    ),
    m(
        239,
        16,
        "Duplicate common table expression name '%.*ls' was specified.",
    ),
    m(
        241,
        16,
        "Conversion failed when converting date and/or time from character string.",
    ),
    m(243, 16, "Type %.*ls is not a defined system type."),
    m(
        252,
        16,
        "Recursive common table expression '%.*ls' does not contain a top-level UNION ALL operator.",
    ),
    m(
        253,
        16,
        "Recursive member of a common table expression '%.*ls' has multiple recursive references.",
    ),
    m(
        257,
        16,
        "Implicit conversion from data type %ls to %ls is not allowed. Use the CONVERT function to run this query.",
    ),
    m(258, 15, "Cannot call methods on %ls."),
    m(
        259,
        16,
        "Ad hoc updates to system catalogs are not allowed.",
    ),
    m(262, 14, "%ls permission denied in database '%.*ls'."),
    m(263, 16, "Must specify table to select from."),
    m(
        264,
        16,
        "The column name '%.*ls' is specified more than once in the SET clause or column list of an INSERT. A column cannot be assigned more than one value in the same clause. Modify the clause to make sure that a column is updated only once. If this statement updates or inserts columns into a view, column aliasing can conceal the duplication in your code.",
    ),
    m(
        266,
        16,
        "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count = %ld, current count = %ld.",
    ),
    m(
        271,
        16,
        "The column \"%.*ls\" cannot be modified because it is either a computed column or is the result of a UNION operator.",
    ),
    m(272, 16, "Cannot update a timestamp column."),
    m(
        273,
        16,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp column, or insert a DEFAULT into the timestamp column.",
    ),
    m(
        290,
        16,
        "Invalid EXECUTE statement using object \"%ls\", method \"%ls\".",
    ),
    m(
        291,
        16,
        "CAST or CONVERT: invalid attributes specified for type '%.*ls'",
    ),
    m(
        297,
        16,
        "The user does not have permission to perform this action.",
    ),
    m(
        300,
        14,
        "%ls permission was denied on object '%.*ls', database '%.*ls'.",
    ),
    m(
        302,
        16,
        "The newsequentialid() built-in function can only be used in a DEFAULT expression for a column of type 'uniqueidentifier' in a CREATE TABLE or ALTER TABLE statement. It cannot be combined with other operators to form a complex scalar expression.",
    ),
    m(
        304,
        16,
        "'%d' is out of range for index option '%.*ls'. See sp_configure option '%ls' for valid values.",
    ),
    m(
        306,
        16,
        "The text, ntext, and image data types cannot be compared or sorted, except when using IS NULL or LIKE operator.",
    ),
    m(
        307,
        16,
        "Index ID %d on table '%.*ls' (specified in the FROM clause) does not exist.",
    ),
    m(
        308,
        16,
        "Index '%.*ls' on table '%.*ls' (specified in the FROM clause) does not exist.",
    ),
    m(
        310,
        15,
        "The value %d specified for the MAXRECURSION option exceeds the allowed maximum of %d.",
    ),
    m(
        318,
        15,
        "The table (and its columns) returned by a table-valued method need to be aliased.",
    ),
    m(
        321,
        15,
        "\"%.*ls\" is not a recognized table hints option. If it is intended as a parameter to a table-valued function or to the CHANGETABLE function, ensure that your database compatibility mode is set to 90.",
    ),
    m(
        331,
        16,
        "The target table '%.*ls' of the OUTPUT INTO clause cannot have any enabled triggers.",
    ),
    m(
        332,
        16,
        "The target table '%.*ls' of the OUTPUT INTO clause cannot be on either side of a (primary key, foreign key) relationship. Found reference constraint '%ls'.",
    ),
    m(
        333,
        16,
        "The target table '%.*ls' of the OUTPUT INTO clause cannot have any enabled check constraints or any enabled rules. Found check constraint or rule '%ls'.",
    ),
    m(
        334,
        16,
        "The target table '%.*ls' of the DML statement cannot have any enabled triggers if the statement contains an OUTPUT clause without INTO clause.",
    ),
    m(
        339,
        16,
        "DEFAULT or NULL are not allowed as explicit identity values.",
    ),
    m(
        346,
        15,
        "The parameter \"%.*ls\" can not be declared READONLY since it is not a table-valued parameter.",
    ),
    m(
        352,
        15,
        "The table-valued parameter \"%.*ls\" must be declared with the READONLY option.",
    ),
    m(
        402,
        16,
        "The data types %s and %s are incompatible in the %s operator.",
    ),
    m(
        404,
        16,
        "The column reference \"inserted.%.*ls\" is not allowed because it refers to a base table that is not being modified in this statement.",
    ),
    m(
        414,
        16,
        "UPDATE is not allowed because the statement updates view \"%.*ls\" which participates in a join and has an INSTEAD OF UPDATE trigger.",
    ),
    m(
        415,
        16,
        "DELETE is not allowed because the statement updates view \"%.*ls\" which participates in a join and has an INSTEAD OF DELETE trigger.",
    ),
    m(
        423,
        16,
        "Xml data type methods are not supported in check constraints. Create a scalar user-defined function to wrap the method invocation. The error occurred at table \"%.*ls\".",
    ),
    m(
        424,
        16,
        "Xml data type methods are not supported in computed column definitions of table variables and return tables of table-valued functions. The error occurred at column \"%.*ls\", table \"%.*ls\", in the %ls statement.",
    ),
    m(
        435,
        16,
        "Xml data type methods are not supported in computed column definitions. Create a scalar user-defined function to wrap the method invocation. The error occurred at column \"%.*ls\", table \"%.*ls\", in the %ls statement.",
    ),
    m(
        443,
        16,
        "Invalid use of a side-effecting operator '%.*ls' within a function.",
    ),
    m(
        444,
        16,
        "Select statements included within a function cannot return data to a client.",
    ),
    m(
        447,
        16,
        "Expression type %ls is invalid for COLLATE clause.",
    ),
    m(448, 16, "Invalid collation '%.*ls'."),
    m(
        451,
        16,
        "Cannot resolve collation conflict between \"%ls\" and \"%ls\" in %ls operator occurring in %ls statement column %d.",
    ),
    m(
        455,
        16,
        "The last statement included within a function must be a return statement.",
    ),
    m(
        460,
        16,
        "DISTINCT operator is not allowed in the recursive part of a recursive common table expression '%.*ls'.",
    ),
    m(
        461,
        16,
        "The TOP or OFFSET operator is not allowed in the recursive part of a recursive common table expression '%.*ls'.",
    ),
    m(
        462,
        16,
        "Outer join is not allowed in the recursive part of a recursive common table expression '%.*ls'.",
    ),
    m(
        466,
        16,
        "UNION operator is not allowed in the recursive part of a recursive common table expression '%.*ls'.",
    ),
    m(
        467,
        16,
        "GROUP BY, HAVING, or aggregate functions are not allowed in the recursive part of a recursive common table expression '%.*ls'.",
    ),
    m(
        468,
        16,
        "Cannot resolve the collation conflict between \"%.*ls\" and \"%.*ls\" in the %ls operation.",
    ),
    m(
        487,
        16,
        "An invalid option was specified for the statement \"%.*ls\".",
    ),
    m(
        493,
        16,
        "The column '%.*ls' that was returned from the nodes() method cannot be used directly. It can only be used with one of the four XML data type methods, exist(), nodes(), query(), and value(), or in IS NULL and IS NOT NULL checks.",
    ),
    m(
        500,
        16,
        "Trying to pass a table-valued parameter with %d column(s) where the corresponding user-defined table type requires %d column(s).",
    ),
    m(
        506,
        16,
        "The invalid escape character \"%.*ls\" was specified in a %ls predicate.",
    ),
    m(
        507,
        16,
        "Invalid argument for SET ROWCOUNT. Must be a non-null non-negative integer.",
    ),
    m(
        511,
        16,
        "Cannot create a row of size %d which is greater than the allowable maximum row size of %d.",
    ),
    m(
        512,
        16,
        "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or when the subquery is used as an expression.",
    ),
    m(
        513,
        16,
        "A column insert or update conflicts with a rule imposed by a previous CREATE RULE statement. The statement was terminated. The conflict occurred in database '%.*ls', table '%.*ls', column '%.*ls'.",
    ),
    m(
        515,
        16,
        "Cannot insert the value NULL into column '%.*ls', table '%.*ls'; column does not allow nulls. %ls fails.",
    ),
    m(
        517,
        16,
        "Adding a value to a '%ls' column caused an overflow.",
    ),
    m(
        530,
        16,
        "The statement terminated. The maximum recursion %d has been exhausted before statement completion.",
    ),
    m(
        544,
        16,
        "Cannot insert explicit value for identity column in table '%.*ls' when IDENTITY_INSERT is set to OFF.",
    ),
    m(
        545,
        16,
        "Explicit value must be specified for identity column in table '%.*ls' either when IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column.",
    ),
    m(
        547,
        16,
        "The %ls statement conflicted with the %ls constraint \"%.*ls\". The conflict occurred in database \"%.*ls\", table \"%.*ls\"%ls%.*ls%ls.",
    ),
    m(
        550,
        16,
        "The attempted insert or update failed because the target view either specifies WITH CHECK OPTION or spans a view that specifies WITH CHECK OPTION and one or more rows resulting from the operation did not qualify under the CHECK OPTION constraint.",
    ),
    m(
        557,
        16,
        "Only functions and some extended stored procedures can be executed from within a function.",
    ),
    m(
        567,
        16,
        "File '%.*ls' either does not exist or is not a recognizable trace file. Or there was an error opening the file.",
    ),
    m(
        574,
        16,
        "%ls statement cannot be used inside a user transaction.",
    ),
    m(
        596,
        21,
        "Cannot continue the execution because the session is in the kill state.",
    ),
    m(
        601,
        12,
        "Could not continue scan with NOLOCK due to data movement.",
    ),
    m(
        605,
        21,
        "Attempt to fetch logical page %S_PGID in database %d failed. It belongs to allocation unit %I64d not to %I64d.",
    ),
    m(
        628,
        16,
        "Cannot issue SAVE TRANSACTION when there is no active transaction.",
    ),
    m(
        650,
        16,
        "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels.",
    ),
    m(
        652,
        16,
        "The index \"%.*ls\" for table \"%.*ls\" (RowsetId %I64d) resides on a read-only filegroup (\"%.*ls\"), which cannot be modified.",
    ),
    m(
        701,
        17,
        "There is insufficient system memory in resource pool '%ls' to run this query.",
    ),
    m(
        802,
        17,
        "There is insufficient memory available in the buffer pool.",
    ),
    m(
        823,
        24,
        "The operating system returned error %ls to SQL Server during a %S_MSG at offset %#016I64x in file '%ls'.",
    ),
    m(
        824,
        24,
        "SQL Server detected a logical consistency-based I/O error: %ls. It occurred during a %S_MSG of page %S_PGID in database ID %d at offset %#016I64x in file '%ls'. Additional messages in the SQL Server error log or operating system error log may provide more detail. This is a severe error condition that threatens database integrity and must be corrected immediately. Complete a full database consistency check (DBCC CHECKDB). This error can be caused by many factors; for more information, see SQL Server Books Online.",
    ),
    m(
        902,
        16,
        "To change the %ls, the database must be in state in which a checkpoint can be executed.",
    ),
    m(
        911,
        16,
        "Database '%.*ls' does not exist. Make sure that the name is entered correctly.",
    ),
    m(
        916,
        14,
        "The server principal \"%.*ls\" is not able to access the database \"%.*ls\" under the current security context.",
    ),
    m(
        922,
        14,
        "Database '%.*ls' is being recovered. Waiting until recovery is finished.",
    ),
    m(
        923,
        14,
        "Database '%.*ls' is in restricted mode. Only the database owner and members of the dbcreator and sysadmin roles can access it.",
    ),
    m(
        924,
        14,
        "Database '%.*ls' is already open and can only have one user at a time.",
    ),
    m(
        925,
        19,
        "Maximum number of databases used for each query has been exceeded. The maximum allowed is %d.",
    ),
    m(
        926,
        14,
        "Database '%.*ls' cannot be opened. It has been marked SUSPECT by recovery. See the SQL Server errorlog for more information.",
    ),
    m(
        927,
        14,
        "Database '%.*ls' cannot be opened. It is in the middle of a restore.",
    ),
    m(
        942,
        14,
        "Database '%.*ls' cannot be opened because it is offline.",
    ),
    m(
        945,
        14,
        "Database '%.*ls' cannot be opened due to inaccessible files or insufficient memory or disk space.  See the SQL Server errorlog for details.",
    ),
    m(
        952,
        16,
        "Database '%.*ls' is in transition. Try the statement later.",
    ),
    m(
        976,
        14,
        "The target database, '%.*ls', is participating in an availability group and is currently not accessible for queries. Either data movement is suspended or the availability replica is not enabled for read access. To allow read-only access to this and other databases in the availability group, enable read access to one or more secondary availability replicas in the group.  For more information, see the ALTER AVAILABILITY GROUP statement in SQL Server Books Online.",
    ),
    m(
        978,
        14,
        "The target database ('%.*ls') is in an availability group and is currently accessible for connections when the application intent is set to read only. For more information about application intent, see SQL Server Books Online.",
    ),
    m(
        979,
        14,
        "The target database ('%.*ls') is in an availability group and currently does not allow read only connections. For more information about application intent, see SQL Server Books Online.",
    ),
    m(
        983,
        14,
        "Unable to access availability database '%.*ls' because the database replica is not in the PRIMARY or SECONDARY role. Connections to an availability database is permitted only when the database replica is in the PRIMARY or SECONDARY role. Try the operation again later.",
    ),
    m(
        1001,
        16,
        "Line %d: Length or precision specification %d is invalid.",
    ),
    m(1002, 16, "Line %d: Specified scale %d is invalid."),
    m(
        1008,
        16,
        "The SELECT item identified by the ORDER BY number %d contains a variable as part of the expression identifying a column position. Variables are only allowed when ordering by an expression referencing a column name.",
    ),
    m(1010, 15, "Invalid escape character '%.*ls'."),
    m(
        1011,
        16,
        "The correlation name '%.*ls' is specified multiple times in a FROM clause.",
    ),
    m(
        1013,
        16,
        "The objects \"%.*ls\" and \"%.*ls\" in the FROM clause have the same exposed names. Use correlation names to distinguish them.",
    ),
    m(
        1020,
        15,
        "Sub-entity lists (such as column or security expressions) cannot be specified for entity-level permissions.",
    ),
    m(1031, 15, "Percent values must be between 0 and 100."),
    m(
        1033,
        15,
        "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also specified.",
    ),
    m(
        1034,
        15,
        "Syntax error: Duplicate specification of the action \"%.*ls\" in the trigger declaration.",
    ),
    m(1035, 15, "Incorrect syntax near '%.*ls', expected '%.*ls'."),
    m(
        1038,
        15,
        "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. For other statements, look for empty alias names. Aliases defined as \"\" or [] are not allowed. Change the alias to a valid name.",
    ),
    m(1039, 15, "Option '%.*ls' is specified more than once."),
    m(1042, 15, "Conflicting %ls optimizer hints specified."),
    m(1047, 15, "Conflicting locking hints specified."),
    m(1052, 15, "Conflicting %ls options \"%ls\" and \"%ls\"."),
    m(
        1054,
        15,
        "Syntax '%ls' is not allowed in schema-bound objects.",
    ),
    m(
        1056,
        15,
        "The number of elements in the select list exceeds the maximum allowed number of %d elements.",
    ),
    m(
        1060,
        15,
        "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.",
    ),
    m(
        1065,
        15,
        "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of INSERT, UPDATE, DELETE or MERGE statements.",
    ),
    m(
        1067,
        15,
        "The SET SHOWPLAN statements must be the only statements in the batch.",
    ),
    m(
        1077,
        16,
        "INSERT into an identity column not allowed on table variables.",
    ),
    m(1080, 15, "The integer value %.*ls is out of range."),
    m(1084, 15, "'%.*ls' is an invalid event type."),
    m(1087, 15, "Must declare the table variable \"%.*ls\"."),
    m(
        1088,
        16,
        "Cannot find the object \"%.*ls\" because it does not exist or you do not have permissions.",
    ),
    m(
        1094,
        15,
        "Cannot specify a schema name as a prefix to the trigger name for database and server level triggers.",
    ),
    m(
        1098,
        15,
        "The specified event type(s) is/are not valid on the specified target object.",
    ),
    m(
        1101,
        17,
        "Could not allocate a new page for database '%.*ls' because of insufficient disk space in filegroup '%.*ls'. Create the necessary space by dropping objects in the filegroup, adding additional files to the filegroup, or setting autogrowth on for existing files in the filegroup.",
    ),
    m(
        1105,
        17,
        "Could not allocate space for object '%.*ls'%.*ls in database '%.*ls' because the '%.*ls' filegroup is full. Create disk space by deleting unneeded files, dropping objects in the filegroup, adding additional files to the filegroup, or setting autogrowth on for existing files in the filegroup.",
    ),
    m(
        1205,
        13,
        "Transaction (Process ID %d) was deadlocked on %.*ls resources with another process and has been chosen as the deadlock victim. Rerun the transaction.",
    ),
    m(1222, 16, "Lock request time out period exceeded."),
    m(
        1412,
        16,
        "The remote copy of database \"%.*ls\" has not been rolled forward to a point in time that is encompassed in the local copy of the database log.",
    ),
    m(
        1464,
        16,
        "Database \"%.*ls\" is not in a recovering state which is required for a mirror database or secondary database.  The remote database must be restored using WITH NORECOVERY.",
    ),
    m(
        1465,
        16,
        "Database \"%.*ls\" database is not in full recovery mode on each of the server instances. The full recovery model is required for a database to participate in database mirroring or in an availability group.",
    ),
    m(
        1466,
        16,
        "Database \"%.*ls\" is read-only on one of the server instances which is incompatible with participating in database mirroring or in an availability group. Set the database to read-write mode, and retry the operation.",
    ),
    m(
        1468,
        16,
        "The operation cannot be performed on database \"%.*ls\" because it is involved in a database mirroring session or an availability group. Some operations are not allowed on a database that is participating in a database mirroring session or in an availability group.",
    ),
    m(
        1505,
        16,
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '%.*ls' and the index name '%.*ls'. The duplicate key value is %ls.",
    ),
    m(
        1701,
        16,
        "Creating or altering table '%.*ls' failed because the minimum row size would be %d, including %d bytes of internal overhead. This exceeds the maximum allowable table row size of %d bytes.",
    ),
    m(
        1702,
        16,
        "CREATE TABLE failed because column '%.*ls' in table '%.*ls' exceeds the maximum of %d columns.",
    ),
    m(
        1711,
        16,
        "Cannot define PRIMARY KEY constraint on column '%.*ls' in table '%.*ls'. The computed column has to be persisted and not nullable.",
    ),
    m(
        1750,
        16,
        "Could not create constraint or index. See previous errors.",
    ),
    m(
        1752,
        16,
        "Column '%.*ls' in table '%.*ls' is invalid for creating a default constraint.",
    ),
    m(
        1753,
        16,
        "Column '%.*ls.%.*ls' is not the same length or scale as referencing column '%.*ls.%.*ls' in foreign key '%.*ls'. Columns participating in a foreign key relationship must be defined with the same length and scale.",
    ),
    m(
        1754,
        16,
        "Defaults cannot be created on columns with an IDENTITY attribute. Table '%.*ls', column '%.*ls'.",
    ),
    m(
        1755,
        16,
        "Defaults cannot be created on columns of data type timestamp. Table '%.*ls', column '%.*ls'.",
    ),
    m(
        1756,
        10,
        "Skipping FOREIGN KEY constraint '%.*ls' definition for temporary table. FOREIGN KEY constraints are not enforced on local or global temporary tables.",
    ),
    m(
        1757,
        16,
        "Column '%.*ls.%.*ls' is not of same collation as referencing column '%.*ls.%.*ls' in foreign key '%.*ls'.",
    ),
    m(
        1763,
        16,
        "Cross-database foreign key references are not supported. Foreign key '%.*ls'.",
    ),
    m(
        1767,
        16,
        "Foreign key '%.*ls' references invalid table '%.*ls'.",
    ),
    m(
        1768,
        16,
        "Foreign key '%.*ls' references object '%.*ls' which is not a user table.",
    ),
    m(
        1769,
        16,
        "Foreign key '%.*ls' references invalid column '%.*ls' in referencing table '%.*ls'.",
    ),
    m(
        1770,
        16,
        "Foreign key '%.*ls' references invalid column '%.*ls' in referenced table '%.*ls'.",
    ),
    m(
        1773,
        16,
        "Foreign key '%.*ls' has implicit reference to object '%.*ls' which does not have a primary key defined on it.",
    ),
    m(
        1774,
        16,
        "The number of columns in the referencing column list for foreign key '%.*ls' does not match those of the primary key in the referenced table '%.*ls'.",
    ),
    m(
        1776,
        16,
        "There are no primary or candidate keys in the referenced table '%.*ls' that match the referencing column list in the foreign key '%.*ls'.",
    ),
    m(
        1778,
        16,
        "Column '%.*ls.%.*ls' is not the same data type as referencing column '%.*ls.%.*ls' in foreign key '%.*ls'.",
    ),
    m(
        1779,
        16,
        "Table '%.*ls' already has a primary key defined on it.",
    ),
    m(1781, 16, "Column already has a DEFAULT bound to it."),
    m(
        1785,
        16,
        "Introducing FOREIGN KEY constraint '%.*ls' on table '%.*ls' may cause cycles or multiple cascade paths. Specify ON DELETE NO ACTION or ON UPDATE NO ACTION, or modify other FOREIGN KEY constraints.",
    ),
    m(
        1787,
        16,
        "Cannot define foreign key constraint '%.*ls' with cascaded DELETE or UPDATE on table '%.*ls' because the table has an INSTEAD OF DELETE or UPDATE TRIGGER defined on it.",
    ),
    m(
        1801,
        16,
        "Database '%.*ls' already exists. Choose a different database name.",
    ),
    m(
        1802,
        16,
        "CREATE DATABASE failed. Some file names listed could not be created. Check related errors.",
    ),
    m(
        1807,
        17,
        "Could not obtain exclusive lock on database '%.*ls'. Retry the operation later.",
    ),
    m(
        1828,
        16,
        "The logical file name \"%.*ls\" is already in use. Choose a different name.",
    ),
    m(
        1834,
        16,
        "The file '%ls' cannot be overwritten.  It is being used by database '%.*ls'.",
    ),
    m(
        1902,
        16,
        "Cannot create more than one clustered index on %S_MSG '%.*ls'. Drop the existing clustered index '%.*ls' before creating another.",
    ),
    m(
        1904,
        16,
        "The %S_MSG '%.*ls' on table '%.*ls' has %d columns in the key list. The maximum limit for %S_MSG key column list is %d.",
    ),
    m(
        1907,
        16,
        "Cannot recreate index '%.*ls'. The new index definition does not match the constraint being enforced by the existing index.",
    ),
    m(
        1909,
        16,
        "Cannot use duplicate column names in %S_MSG. Column name '%.*ls' listed more than once.",
    ),
    m(
        1911,
        16,
        "Column name '%.*ls' does not exist in the target table or view.",
    ),
    m(
        1913,
        16,
        "The operation failed because an index or statistics with name '%.*ls' already exists on %S_MSG '%.*ls'.",
    ),
    m(
        1914,
        16,
        "Index cannot be created on object '%.*ls' because the object is not a user table or view.",
    ),
    m(
        1919,
        16,
        "Column '%.*ls' in table '%.*ls' is of a type that is invalid for use as a key column in an index.",
    ),
    m(1921, 16, "Invalid %S_MSG '%.*ls' specified."),
    m(1924, 16, "Filegroup '%.*ls' is read-only."),
    m(
        1927,
        16,
        "There are already statistics on table '%.*ls' named '%.*ls'.",
    ),
    m(
        1934,
        16,
        "%ls failed because the following SET options have incorrect settings: '%.*ls'. Verify that SET options are correct for use with indexed views and/or indexes on computed columns and/or filtered indexes and/or query notifications and/or XML data type methods and/or spatial index operations.",
    ),
    m(
        1945,
        10,
        "Warning! The maximum key length for a %S_MSG index is %d bytes. The index '%.*ls' has maximum length of %d bytes. For some combination of large values, the insert/update operation will fail.",
    ),
    m(
        1946,
        16,
        "Operation failed. The index entry of length %d bytes for the index '%.*ls' on table '%.*ls' exceeds the maximum length of %d bytes for %S_MSG indexes.",
    ),
    m(
        2010,
        16,
        "Cannot perform alter on '%.*ls' because it is an incompatible object type.",
    ),
    m(
        2020,
        16,
        "The dependencies reported for entity \"%.*ls\" might not include references to all columns.",
    ),
    m(
        2103,
        15,
        "Cannot %S_MSG trigger '%.*ls' because its schema is different from the schema of the target table or view.",
    ),
    m(
        2104,
        14,
        "Cannot %S_MSG the trigger '%.*ls', because you do not have permission.",
    ),
    m(
        2110,
        15,
        "Cannot alter trigger '%.*ls' on '%.*ls' because this trigger does not belong to this object. Specify the correct trigger name or the correct target object name.",
    ),
    m(
        2111,
        16,
        "Cannot create trigger '%.*ls' on %S_MSG '%.*ls' because an INSTEAD OF %s trigger already exists on this object.",
    ),
    m(
        2112,
        16,
        "Cannot create trigger '%.*ls' on view '%.*ls' because the view is defined with CHECK OPTION.",
    ),
    m(
        2113,
        16,
        "Cannot create INSTEAD OF DELETE or INSTEAD OF UPDATE TRIGGER '%.*ls' on table '%.*ls'. This is because the table has a FOREIGN KEY with cascading DELETE or UPDATE.",
    ),
    m(
        2203,
        16,
        "%sOnly 'http://www.w3.org/2001/XMLSchema#decimal?', 'http://www.w3.org/2001/XMLSchema#boolean?' or 'node()*' expressions allowed as predicates, found '%ls'",
    ),
    m(
        2204,
        16,
        "%sOnly 'http://www.w3.org/2001/XMLSchema#boolean?' or 'node()*' expressions allowed in conditions and with logical operators, found '%ls'",
    ),
    m(2205, 16, "%s\"%ls\" was expected."),
    m(
        2206,
        16,
        "%sNamespace prefix 'xml' can only be associated with the URI 'http://www.w3.org/XML/1998/namespace' and this URI cannot be used with other prefixes.",
    ),
    m(
        2207,
        16,
        "%sOnly non-document nodes can be inserted. Found \"%ls\".",
    ),
    m(2209, 16, "%sSyntax error near '%ls'"),
    m(
        2210,
        16,
        "%sHeterogeneous sequences are not allowed: found '%ls' and '%ls'",
    ),
    m(
        2223,
        16,
        "%sSyntax error near '%ls', expected an identifier.",
    ),
    m(2225, 16, "%sA string literal was expected"),
    m(
        2226,
        16,
        "%sThe target of 'insert' must be a single node, found '%ls'",
    ),
    m(
        2227,
        16,
        "%sThe variable '%ls' was not found in the scope in which it was referenced.",
    ),
    m(2229, 16, "%sThe name \"%ls\" does not denote a namespace."),
    m(
        2231,
        16,
        "%sThe name \"%ls\" does not denote a defined type.",
    ),
    m(
        2232,
        16,
        "%sThe name \"%ls:%ls\" does not denote a defined type.",
    ),
    m(
        2234,
        16,
        "%sThe operator \"%ls\" cannot be applied to \"%ls\" and \"%ls\" operands.",
    ),
    m(
        2236,
        16,
        "%sThere are not enough actual arguments in the call to function \"%ls\".",
    ),
    m(2238, 16, "%sToo many arguments in call to function '%ls'"),
    m(
        2240,
        16,
        "%sThe target of 'insert into' must be an element/document node, found '%ls'",
    ),
    m(2241, 16, "%sVariable expected: '$name'"),
    m(
        2248,
        16,
        "%sSyntax error near '%ls', expected 'as', 'into', 'before' or 'after'.",
    ),
    m(
        2249,
        16,
        "%sThe target of 'insert before/after' must be an element/PI/comment/text node, found '%ls'",
    ),
    m(
        2256,
        16,
        "%sSyntax error near '%ls', expected a \"node test\".",
    ),
    m(
        2258,
        16,
        "%sThe position may not be specified when inserting an attribute node, found '%ls'",
    ),
    m(
        2264,
        16,
        "%sOnly non-document nodes may be deleted, found '%ls'",
    ),
    m(2267, 16, "%sExpected end tag '%ls'"),
    m(2271, 16, "%sDuplicate attribute '%ls'"),
    m(2272, 16, "%s'?>' expected"),
    m(2273, 16, "%sUnterminated CDATA section"),
    m(
        2274,
        16,
        "%sUnterminated string constant (started on line %u)",
    ),
    m(2280, 16, "%s<! was not followed by a valid construct"),
    m(2282, 16, "%sInvalid entity reference"),
    m(2285, 16, "%sInvalid numeric entity reference"),
    m(
        2294,
        16,
        "%s'xml' is not allowed as a processing instruction target.",
    ),
    m(2333, 16, "%sInvalid source character 0x%x"),
    m(
        2337,
        16,
        "%sThe target of 'replace' must be at most one node, found '%ls'",
    ),
    m(2340, 16, "%sComment started on line %u has no end"),
    m(2342, 16, "%sInvalid numeric constant."),
    m(2350, 16, "%sInvalid XML element content"),
    m(2351, 16, "%sExpected 'first' or 'last'"),
    m(2355, 16, "%s'else' expected"),
    m(
        2356,
        16,
        "%sThe target of 'replace value of' must be a non-metadata attribute or an element with simple typed content, found '%ls'",
    ),
    m(
        2359,
        16,
        "%sThe target of '%ls' may not be a constructed node",
    ),
    m(2363, 16, "%sXQuery too complex"),
    m(
        2370,
        16,
        "%sNo more tokens expected at the end of the XQuery expression. Found '%ls'.",
    ),
    m(
        2371,
        16,
        "%s'%ls' can only be used within a predicate or XPath selector",
    ),
    m(2373, 16, "%s%ls is not supported with constructed XML"),
    m(2374, 16, "%sA node or set of nodes is required for %ls"),
    m(
        2389,
        16,
        "%s'%ls' requires a singleton (or empty sequence), found operand of type '%ls'",
    ),
    m(2392, 16, "%s'%ls::' is not a valid axis"),
    m(2395, 16, "%sThere is no function '%ls:%ls()'"),
    m(2396, 16, "%sAttribute may not appear outside of an element"),
    m(
        2501,
        16,
        "Cannot find a table or object with the name \"%.*ls\". Check the system catalog.",
    ),
    m(
        2511,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls). Keys out of order on page %S_PGID, slots %d and %d.",
    ),
    m(
        2520,
        16,
        "Could not find database '%.*ls'. The database either does not exist, or was dropped before a statement tried to use it. Verify if the database exists by querying the sys.databases catalog view.",
    ),
    m(2523, 16, "Filegroup %.*ls is invalid."),
    m(
        2526,
        16,
        "Incorrect DBCC statement. Check the documentation for the correct DBCC syntax and options.",
    ),
    m(
        2528,
        10,
        "DBCC execution completed. If DBCC printed error messages, contact your system administrator.",
    ),
    m(
        2533,
        16,
        "Table error: page %S_PGID allocated to object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls) was not seen. The page may be invalid or may have an incorrect alloc unit ID in its header.",
    ),
    m(2536, 10, "DBCC results for '%.*ls'."),
    m(
        2555,
        16,
        "Cannot move all contents of file \"%.*ls\" to other places to complete the emptyfile operation.",
    ),
    m(
        2556,
        16,
        "There is insufficient space in the filegroup to complete the emptyfile operation.",
    ),
    m(
        2557,
        14,
        "User '%.*ls' does not have permission to run DBCC %ls for object '%.*ls'.",
    ),
    m(
        2560,
        16,
        "Parameter %d is incorrect for this DBCC statement.",
    ),
    m(
        2570,
        16,
        "Page %S_PGID, slot %d in object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type \"%.*ls\"). Column \"%.*ls\" value is out of range for data type \"%.*ls\". Update column to a legal value.",
    ),
    m(
        2571,
        14,
        "User '%.*ls' does not have permission to run DBCC %ls.",
    ),
    m(
        2593,
        10,
        "There are %I64d rows in %I64d pages for object \"%.*ls\".",
    ),
    m(
        2601,
        14,
        "Cannot insert duplicate key row in object '%.*ls' with unique index '%.*ls'. The duplicate key value is %ls.",
    ),
    m(
        2627,
        14,
        "Violation of %ls constraint '%.*ls'. Cannot insert duplicate key in object '%.*ls'. The duplicate key value is %ls.",
    ),
    m(
        2628,
        16,
        "String or binary data would be truncated in table '%.*ls', column '%.*ls'. Truncated value: '%.*ls'.",
    ),
    m(2702, 16, "Database '%.*ls' does not exist."),
    m(
        2705,
        16,
        "Column names in each table must be unique. Column name '%.*ls' in table '%.*ls' is specified more than once.",
    ),
    m(
        2714,
        16,
        "There is already an object named '%.*ls' in the database.",
    ),
    m(
        2715,
        16,
        "Column, parameter, or variable #%d: Cannot find data type %.*ls.",
    ),
    m(
        2716,
        16,
        "Column, parameter, or variable #%d: Cannot specify a column width on data type %.*ls.",
    ),
    m(
        2717,
        16,
        "The size (%d) given to the %S_MSG '%.*ls' exceeds the maximum allowed (%d).",
    ),
    m(
        2720,
        16,
        "Cannot schema bind %S_MSG '%.*ls' because it references system object '%.*ls'.",
    ),
    m(2727, 11, "Cannot find index '%.*ls'."),
    m(
        2729,
        16,
        "Column '%.*ls' in %S_MSG '%.*ls' cannot be used in an index or statistics or as a partition key because it is non-deterministic.",
    ),
    m(
        2732,
        16,
        "Error number %ld is invalid. The number must be from 13000 through 2147483647 and it cannot be 50000.",
    ),
    m(
        2738,
        16,
        "A table can only have one timestamp column. Because table '%.*ls' already has one, the column '%.*ls' cannot be added.",
    ),
    m(
        2740,
        16,
        "SET LANGUAGE failed because '%.*ls' is not an official language name or a language alias on this SQL Server.",
    ),
    m(2741, 16, "SET DATEFORMAT date order '%.*ls' is invalid."),
    m(2742, 16, "SET DATEFIRST %d is out of range."),
    m(2743, 16, "SET %ls option requires %S_MSG parameter."),
    m(
        2744,
        16,
        "Multiple identity columns specified for table '%.*ls'. Only one identity column per table is allowed.",
    ),
    m(
        2747,
        16,
        "Too many substitution parameters for RAISERROR. Cannot exceed %d substitution parameters.",
    ),
    m(
        2749,
        16,
        "Identity column '%.*ls' must be of data type int, bigint, smallint, tinyint, or decimal or numeric with a scale of 0, unencrypted, and constrained to be nonnullable.",
    ),
    m(
        2750,
        16,
        "Column or parameter #%d: Specified column precision %d is greater than the maximum precision of %d.",
    ),
    m(
        2751,
        16,
        "Column or parameter #%d: Specified column scale %d is greater than the specified precision of %d.",
    ),
    m(2752, 16, "Identity column '%.*ls' contains invalid SEED."),
    m(
        2753,
        16,
        "Identity column '%.*ls' contains invalid INCREMENT.",
    ),
    m(
        2754,
        16,
        "Error severity levels greater than %d can only be specified by members of the sysadmin role, using the WITH LOG option.",
    ),
    m(
        2755,
        16,
        "SET DEADLOCK_PRIORITY option is invalid. Valid options are {HIGH | NORMAL | LOW | [-10 ... 10] of type integer}.",
    ),
    m(2759, 16, "CREATE SCHEMA failed due to previous errors."),
    m(
        2760,
        16,
        "The specified schema name \"%.*ls\" either does not exist or you do not have permission to use it.",
    ),
    m(
        2767,
        16,
        "Could not locate statistics '%.*ls' in the system catalogs.",
    ),
    m(
        2772,
        16,
        "Cannot access temporary tables from within a function.",
    ),
    m(
        2778,
        16,
        "Only System Administrator can specify %s option for %s command.",
    ),
    m(
        2786,
        16,
        "The data type of substitution parameter %d does not match the expected type of the format specification.",
    ),
    m(2787, 16, "Invalid format specification: '%.*ls'."),
    m(
        2788,
        16,
        "Synonyms are invalid in a schemabound object or a constraint expression.",
    ),
    m(
        2801,
        16,
        "The definition of object '%.*ls' has changed since it was compiled.",
    ),
    m(
        2809,
        18,
        "The request for %S_MSG '%.*ls' failed because '%.*ls' is a %S_MSG object.",
    ),
    m(2812, 16, "Could not find stored procedure '%.*ls'."),
    m(3013, 16, "%hs is terminating abnormally."),
    m(
        3014,
        0,
        "%hs successfully processed %I64d pages in %d.%03d seconds (%d.%03d MB/sec).",
    ),
    m(
        3021,
        16,
        "Cannot perform a backup or restore operation within a transaction.",
    ),
    m(
        3023,
        16,
        "Backup, CHECKALLOC, bulk copy, SELECT INTO, and file manipulation (such as CREATE FILE) operations on a database must be serialized. Reissue the statement after the current backup, CHECKALLOC, or file manipulation operation is completed.",
    ),
    m(
        3031,
        16,
        "Option '%ls' conflicts with option(s) '%ls'. Remove the conflicting option and reissue the statement.",
    ),
    m(
        3032,
        16,
        "One or more of the options (%ls) are not supported for this statement. Review the documentation for supported options.",
    ),
    m(
        3036,
        16,
        "The database \"%ls\" is in warm-standby state (set by executing RESTORE WITH STANDBY) and cannot be backed up until the entire restore sequence is completed.",
    ),
    m(
        3042,
        10,
        "BACKUP WITH CONTINUE_AFTER_ERROR successfully generated a backup of the damaged database. Refer to the SQL Server error log for information about the errors that were encountered.",
    ),
    m(
        3043,
        16,
        "BACKUP '%ls' detected an error on page (%d:%d) in file '%ls'.",
    ),
    m(
        3059,
        16,
        "This BACKUP or RESTORE command is not supported on a database mirror or secondary replica.",
    ),
    m(
        3101,
        16,
        "Exclusive access could not be obtained because the database is in use.",
    ),
    m(
        3102,
        16,
        "RESTORE cannot process database '%ls' because it is in use by this session. It is recommended that the master database be used when performing this operation.",
    ),
    m(
        3108,
        16,
        "To restore the master database, the server must be running in single-user mode. For information on starting in single-user mode, see \"How to: Start an Instance of SQL Server (sqlservr.exe)\" in Books Online.",
    ),
    m(
        3110,
        14,
        "User does not have permission to RESTORE database '%.*ls'.",
    ),
    m(
        3111,
        16,
        "Page %ls is a control page which cannot be restored in isolation. To repair this page, the entire file must be restored.",
    ),
    m(
        3117,
        16,
        "The log or differential backup cannot be restored because no files are ready to rollforward.",
    ),
    m(
        3118,
        16,
        "The database \"%ls\" does not exist. RESTORE can only create a database when restoring either a full backup or a file backup of the primary file.",
    ),
    m(
        3119,
        16,
        "Problems were identified while planning for the RESTORE statement. Previous messages provide details.",
    ),
    m(
        3132,
        16,
        "The media set has %d media families but only %d are provided. All members must be provided.",
    ),
    m(
        3135,
        16,
        "The backup set in file '%ls' was created by %hs and cannot be used for this restore operation.",
    ),
    m(
        3136,
        16,
        "This differential backup cannot be restored because the database has not been restored to the correct earlier state.",
    ),
    m(
        3147,
        16,
        "Backup and restore operations are not allowed on database tempdb.",
    ),
    m(3153, 16, "The database is already fully recovered."),
    m(
        3154,
        16,
        "The backup set holds a backup of a database other than the existing '%ls' database.",
    ),
    m(
        3156,
        16,
        "File '%ls' cannot be restored to '%ls'. Use WITH MOVE to identify a valid location for the file.",
    ),
    m(
        3159,
        16,
        "The tail of the log for the database \"%ls\" has not been backed up. Use BACKUP LOG WITH NORECOVERY to backup the log if it contains work you do not want to lose. Use the WITH REPLACE or WITH STOPAT clause of the RESTORE statement to just overwrite the contents of the log.",
    ),
    m(
        3169,
        16,
        "The database was backed up on a server running version %ls. That version is incompatible with this server, which is running version %ls. Either restore the database on a server that supports the backup, or use a backup that is compatible with this server.",
    ),
    m(
        3182,
        16,
        "The backup set cannot be restored because the database was damaged when the backup occurred. Salvage attempts may exploit WITH CONTINUE_AFTER_ERROR.",
    ),
    m(
        3183,
        16,
        "RESTORE detected an error on page (%d:%d) in database \"%ls\" as read from the backup set.",
    ),
    m(
        3184,
        10,
        "RESTORE WITH CONTINUE_AFTER_ERROR was successful but some damage was encountered. Inconsistencies in the database are possible.",
    ),
    m(
        3201,
        16,
        "Cannot open backup device '%ls'. Operating system error %ls.",
    ),
    m(3202, 16, "Write on \"%ls\" failed: %ls"),
    m(3203, 16, "Read on \"%ls\" failed: %ls"),
    m(
        3205,
        16,
        "Too many backup devices specified for backup or restore; only %d are allowed.",
    ),
    m(
        3206,
        16,
        "Backup device '%.*ls' does not exist. To view existing backup devices, use the sys.backup_devices catalog view. To create a new backup device use either sp_addumpdevice or SQL Server Management Studio.",
    ),
    m(3211, 0, "%d percent processed."),
    m(
        3227,
        16,
        "The backup media on \"%ls\" is part of media family %d which has already been processed on \"%ls\". Ensure that backup devices are correctly specified. For tape devices, ensure that the correct volumes are loaded.",
    ),
    m(
        3231,
        16,
        "The media loaded on \"%ls\" is formatted to support %d media families, but %d media families are expected according to the backup device specification.",
    ),
    m(
        3234,
        16,
        "Logical file '%.*ls' is not part of database '%ls'. Use RESTORE FILELISTONLY to list the logical file names.",
    ),
    m(
        3241,
        16,
        "The media family on device '%ls' is incorrectly formed. SQL Server cannot process this media family.",
    ),
    m(
        3242,
        16,
        "The file on device '%ls' is not a valid Microsoft Tape Format backup set.",
    ),
    m(
        3258,
        16,
        "The volume on the device \"%ls\" is not part of the media set that is currently being processed. Ensure that the backup devices are loaded with the correct media.",
    ),
    m(3262, 0, "The backup set on file %d is valid."),
    m(3279, 16, "Access is denied due to a password failure"),
    m(
        3414,
        21,
        "An error occurred during recovery, preventing the database '%.*ls' (%d:%d) from restarting. Diagnose the recovery errors and fix them, or restore from a known good backup. If errors are not corrected or expected, contact Technical Support.",
    ),
    m(
        3429,
        10,
        "Recovery could not determine the outcome of a cross-database transaction %S_XID, named '%.*ls', in database '%.*ls' (database ID %d:%d). The coordinating database (database ID %d:%d) was unavailable. The transaction was assumed to be committed. If the transaction was not committed, you can retry recovery when the coordinating database is available.",
    ),
    m(3604, 10, "Duplicate key was ignored."),
    m(
        3609,
        16,
        "The transaction ended in the trigger. The batch has been aborted.",
    ),
    m(
        3616,
        16,
        "An error was raised during trigger execution. The batch has been aborted and the user transaction, if any, has been rolled back.",
    ),
    m(3617, 16, "Query was cancelled by the client."),
    m(3621, 0, "The statement has been terminated."),
    m(
        3701,
        11,
        "Cannot %S_MSG the %S_MSG '%.*ls', because it does not exist or you do not have permission.",
    ),
    m(
        3702,
        16,
        "Cannot drop database \"%.*ls\" because it is currently in use.",
    ),
    m(
        3705,
        16,
        "Cannot use DROP %ls with '%.*ls' because '%.*ls' is a %S_MSG. Use %ls.",
    ),
    m(
        3708,
        16,
        "Cannot %S_MSG the %S_MSG '%.*ls' because it is a system %S_MSG.",
    ),
    m(
        3723,
        16,
        "An explicit DROP INDEX is not allowed on index '%.*ls'. It is being used for %ls constraint enforcement.",
    ),
    m(
        3725,
        16,
        "The constraint '%.*ls' is being referenced by table '%.*ls', foreign key constraint '%.*ls'.",
    ),
    m(
        3726,
        16,
        "Could not drop object '%.*ls' because it is referenced by a FOREIGN KEY constraint.",
    ),
    m(3727, 16, "Could not drop constraint. See previous errors."),
    m(3728, 16, "'%.*ls' is not a constraint."),
    m(
        3729,
        16,
        "Cannot %ls '%.*ls' because it is being referenced by object '%.*ls'.",
    ),
    m(
        3732,
        16,
        "Cannot drop type '%.*ls' because it is being referenced by object '%.*ls'. There may be other objects that reference this type.",
    ),
    m(
        3733,
        16,
        "Constraint '%.*ls' does not belong to table '%.*ls'.",
    ),
    m(
        3740,
        16,
        "Cannot drop the %S_MSG '%.*ls' because at least part of the table resides on a read-only filegroup.",
    ),
    m(
        3752,
        16,
        "The database '%.*ls' is currently joined to an availability group.  Before you can drop the database, you need to remove it from the availability group.",
    ),
    m(
        3853,
        16,
        "Attribute (%ls) of row (%ls) in sys.%ls does not have a matching row (%ls) in sys.%ls.",
    ),
    m(
        3902,
        16,
        "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.",
    ),
    m(
        3903,
        16,
        "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.",
    ),
    m(
        3906,
        16,
        "Failed to update database \"%.*ls\" because the database is read-only.",
    ),
    m(
        3915,
        16,
        "Cannot use the ROLLBACK statement within an INSERT-EXEC statement.",
    ),
    m(
        3916,
        16,
        "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN TRANSACTION is used first.",
    ),
    m(
        3930,
        16,
        "The current transaction cannot be committed and cannot support operations that write to the log file. Roll back the transaction.",
    ),
    m(
        3931,
        16,
        "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll back the entire transaction.",
    ),
    m(
        3951,
        16,
        "Transaction failed in database '%.*ls' because the statement was run under snapshot isolation but the transaction did not start in snapshot isolation. You cannot change the isolation level of the transaction to snapshot after the transaction has started unless the transaction was originally started under snapshot isolation level.",
    ),
    m(
        3952,
        16,
        "Snapshot isolation transaction failed accessing database '%.*ls' because snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
    ),
    m(
        3960,
        16,
        "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access table '%.*ls' directly or indirectly in database '%.*ls' to update, delete, or insert the row that has been modified or deleted by another transaction. Retry the transaction or change the isolation level for the update/delete statement.",
    ),
    m(
        3961,
        16,
        "Snapshot isolation transaction failed in database '%.*ls' because the object accessed by the statement has been modified by a DDL statement in another concurrent transaction since the start of this transaction.  It is disallowed because the metadata is not versioned. A concurrent update to metadata can lead to inconsistency if mixed with snapshot isolation.",
    ),
    m(
        3964,
        16,
        "Transaction failed because this DDL statement is not allowed inside a snapshot isolation transaction. Since metadata is not versioned, a metadata change can lead to inconsistency if mixed within snapshot isolation.",
    ),
    m(
        3998,
        16,
        "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
    ),
    m(
        4030,
        16,
        "The medium on device '%ls' expires on %ls and cannot be overwritten.",
    ),
    m(
        4035,
        0,
        "Processed %I64d pages for database '%ls', file '%ls' on file %d.",
    ),
    m(4038, 16, "Cannot find file ID %d on device '%ls'."),
    m(
        4060,
        11,
        "Cannot open database \"%.*ls\" requested by the login. The login failed.",
    ),
    m(4064, 11, "Cannot open user default database. Login failed."),
    m(
        4101,
        15,
        "Aggregates on the right side of an APPLY cannot reference columns from the left side.",
    ),
    m(
        4104,
        16,
        "The multi-part identifier \"%.*ls\" could not be bound.",
    ),
    m(
        4108,
        15,
        "Windowed functions can only appear in the SELECT or ORDER BY clauses.",
    ),
    m(
        4113,
        16,
        "The function '%.*ls' is not a valid windowing function, and cannot be used with the OVER clause.",
    ),
    m(
        4120,
        16,
        "A user-defined function name cannot be prefixed with a database name in this context.",
    ),
    m(
        4121,
        16,
        "Cannot find either column \"%.*ls\" or the user-defined function or aggregate \"%.*ls\", or the name is ambiguous.",
    ),
    m(
        4145,
        15,
        "An expression of non-boolean type specified in a context where a condition is expected, near '%.*ls'.",
    ),
    m(
        4208,
        16,
        "The statement %hs is not allowed while the recovery model is SIMPLE. Use BACKUP DATABASE or change the recovery model using ALTER DATABASE.",
    ),
    m(
        4212,
        16,
        "Cannot back up the log of the master database. Use BACKUP DATABASE instead.",
    ),
    m(
        4214,
        16,
        "BACKUP LOG cannot be performed because there is no current database backup.",
    ),
    m(
        4303,
        16,
        "The roll forward start point is now at log sequence number (LSN) %.*s. Additional roll forward past LSN %.*s is required to complete the restore sequence.",
    ),
    m(
        4305,
        16,
        "The log in this backup set begins at LSN %.*ls, which is too recent to apply to the database. An earlier log backup that includes LSN %.*ls can be restored.",
    ),
    m(
        4326,
        16,
        "The log in this backup set terminates at LSN %.*ls, which is too early to apply to the database. A more recent log backup that includes LSN %.*ls can be restored.",
    ),
    m(
        4330,
        16,
        "This backup set cannot be applied because it is on a recovery path that is inconsistent with the database. The recovery path is the sequence of data and log backups that have brought the database to a particular recovery point. Find a compatible backup to restore, or restore the rest of the database to match a recovery point within this backup set, which will restore the database to a different point in time.  For more information about recovery paths, see SQL Server Books Online.",
    ),
    m(
        4335,
        16,
        "The specified STOPAT time is too early. All or part of the database is already rolled forward beyond that point.",
    ),
    m(
        4338,
        16,
        "The STOPAT clause specifies a point too early to allow this backup set to be restored. Choose a different stop point or use RESTORE DATABASE WITH RECOVERY to recover at the current point.",
    ),
    m(
        4403,
        16,
        "Cannot update the view or function '%.*ls' because it contains aggregates, or a DISTINCT or GROUP BY clause, or PIVOT or UNPIVOT operator.",
    ),
    m(
        4405,
        16,
        "View or function '%.*ls' is not updatable because the modification affects multiple base tables.",
    ),
    m(
        4406,
        16,
        "Update or insert of view or function '%.*ls' failed because it contains a derived or constant field.",
    ),
    m(
        4502,
        16,
        "View or function '%.*ls' has more column names specified than columns defined.",
    ),
    m(
        4506,
        16,
        "Column names in each view or function must be unique. Column name '%.*ls' in view or function '%.*ls' is specified more than once.",
    ),
    m(
        4510,
        16,
        "Could not perform CREATE VIEW because WITH %ls was specified and the view is not updatable.",
    ),
    m(
        4511,
        16,
        "Create View or Function failed because no column name was specified for column %d.",
    ),
    m(
        4512,
        16,
        "Cannot schema bind %S_MSG '%.*ls' because name '%.*ls' is invalid for schema binding. Names must be in two-part format and an object cannot reference itself.",
    ),
    m(
        4513,
        16,
        "Cannot schema bind %S_MSG '%.*ls'. '%.*ls' is not schema bound.",
    ),
    m(
        4514,
        16,
        "CREATE FUNCTION failed because a column name is not specified for column %d.",
    ),
    m(
        4606,
        16,
        "Granted or revoked privilege %ls is not compatible with object.",
    ),
    m(
        4611,
        16,
        "To revoke or deny grantable privileges, specify the CASCADE option.",
    ),
    m(4613, 16, "Grantor does not have GRANT permission."),
    m(4615, 16, "Invalid column name '%.*ls'."),
    m(
        4617,
        16,
        "Cannot grant, deny or revoke permissions to or from special roles.",
    ),
    m(
        4621,
        16,
        "Permissions at the server scope can only be granted when the current database is master",
    ),
    m(
        4624,
        16,
        "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or yourself.",
    ),
    m(
        4701,
        16,
        "Cannot find the object \"%.*ls\" because it does not exist or you do not have permissions.",
    ),
    m(
        4712,
        16,
        "Cannot truncate table '%.*ls' because it is being referenced by a FOREIGN KEY constraint.",
    ),
    m(
        4714,
        16,
        "Cannot truncate '%.*ls' because it is not a table.",
    ),
    m(
        4822,
        16,
        "Cannot bulk load. Invalid number of columns in the format file \"%ls\".",
    ),
    m(
        4823,
        16,
        "Cannot bulk load. Invalid column number in the format file \"%ls\".",
    ),
    m(
        4824,
        16,
        "Cannot bulk load. Invalid data type for column number %d in the format file \"%ls\".",
    ),
    m(
        4825,
        16,
        "Cannot bulk load. Invalid prefix for column number %d in the format file \"%ls\".",
    ),
    m(
        4826,
        16,
        "Cannot bulk load. Invalid column length for column number %d in the format file \"%ls\".",
    ),
    m(
        4827,
        16,
        "Cannot bulk load. Invalid column terminator for column number %d in the format file \"%ls\".",
    ),
    m(
        4828,
        16,
        "Cannot bulk load. Invalid destination table column number for source column %d in the format file \"%ls\".",
    ),
    m(
        4832,
        16,
        "Bulk load: An unexpected end of file was encountered in the data file.",
    ),
    m(
        4834,
        16,
        "You do not have permission to use the bulk load statement.",
    ),
    m(
        4860,
        16,
        "Cannot bulk load. The file \"%ls\" does not exist or you don't have file access rights.",
    ),
    m(
        4861,
        16,
        "Cannot bulk load because the file \"%ls\" could not be opened. Operating system error code %ls.",
    ),
    m(
        4862,
        16,
        "Cannot bulk load because the file \"%ls\" could not be read. Operating system error code %ls.",
    ),
    m(
        4863,
        16,
        "Bulk load data conversion error (truncation) for row %d, column %d (%ls).",
    ),
    m(
        4864,
        16,
        "Bulk load data conversion error (type mismatch or invalid character for the specified codepage) for row %d, column %d (%ls).",
    ),
    m(
        4865,
        16,
        "Cannot bulk load because the maximum number of errors (%d) was exceeded.",
    ),
    m(
        4866,
        16,
        "The bulk load failed. The column is too long in the data file for row %d, column %d. Verify that the field terminator and row terminator are specified correctly.",
    ),
    m(
        4867,
        16,
        "Bulk load data conversion error (overflow) for row %d, column %d (%ls).",
    ),
    m(
        4869,
        16,
        "The bulk load failed. Unexpected NULL value in data file row %d, column %d. The destination column (%ls) is defined as NOT NULL.",
    ),
    m(
        4879,
        16,
        "Bulk load failed due to invalid column value in CSV data file %ls in row %d, column %d.",
    ),
    m(
        4901,
        16,
        "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, or the column being added is an identity or timestamp column, or alternatively if none of the previous conditions are satisfied the table must be empty to allow addition of this column. Column '%.*ls' cannot be added to non-empty table '%.*ls' because it does not satisfy these conditions.",
    ),
    m(
        4902,
        16,
        "Cannot find the object \"%.*ls\" because it does not exist or you do not have permissions.",
    ),
    m(4909, 16, "Cannot alter '%.*ls' because it is not a table."),
    m(4917, 16, "Constraint '%.*ls' does not exist."),
    m(
        4920,
        16,
        "ALTER TABLE failed because trigger '%.*ls' on table '%.*ls' does not exist.",
    ),
    m(
        4922,
        16,
        "%ls %.*ls failed because one or more objects access this column.",
    ),
    m(
        4923,
        16,
        "ALTER TABLE DROP COLUMN failed because '%.*ls' is the only data column in table '%.*ls'. A table must have at least one data column.",
    ),
    m(
        4924,
        16,
        "%ls failed because column '%.*ls' does not exist in table '%.*ls'.",
    ),
    m(
        4927,
        16,
        "Cannot alter column '%.*ls' to be data type %.*ls.",
    ),
    m(4928, 16, "Cannot alter column '%.*ls' because it is '%ls'."),
    m(
        4936,
        16,
        "Computed column '%.*ls' in table '%.*ls' cannot be persisted because the column is non-deterministic.",
    ),
    m(5001, 16, "User must be in the master database."),
    m(
        5004,
        16,
        "To use ALTER DATABASE, the database must be in a writable state in which a checkpoint can be executed.",
    ),
    m(
        5009,
        16,
        "One or more files listed in the statement could not be found or could not be initialized.",
    ),
    m(
        5011,
        14,
        "User does not have permission to alter database '%.*ls', the database does not exist, or the database is not in a state that allows access checks.",
    ),
    m(
        5020,
        16,
        "The primary data or log file cannot be removed from a database.",
    ),
    m(
        5030,
        16,
        "The database could not be exclusively locked to perform the operation.",
    ),
    m(
        5031,
        16,
        "Cannot remove the file '%.*ls' because it is the only file in the DEFAULT filegroup.",
    ),
    m(
        5039,
        16,
        "MODIFY FILE failed. Specified size is less than or equal to current size.",
    ),
    m(
        5040,
        16,
        "MODIFY FILE failed. Size is greater than MAXSIZE.",
    ),
    m(5041, 16, "MODIFY FILE failed. File '%.*ls' does not exist."),
    m(
        5042,
        16,
        "The %S_MSG '%.*ls' cannot be removed because it is not empty.",
    ),
    m(
        5047,
        16,
        "Cannot change the READONLY property of the PRIMARY filegroup.",
    ),
    m(
        5052,
        16,
        "%ls is not permitted while a database is in the %ls state.",
    ),
    m(
        5055,
        16,
        "Cannot add, remove, or modify file '%.*ls'. The file is read-only.",
    ),
    m(
        5058,
        16,
        "Option '%.*ls' cannot be set in database '%.*ls'.",
    ),
    m(
        5061,
        16,
        "ALTER DATABASE failed because a lock could not be placed on database '%.*ls'. Try again later.",
    ),
    m(
        5064,
        16,
        "Changes to the state or options of database '%.*ls' cannot be made at this time. The database is in single-user mode, and a user is currently connected to it.",
    ),
    m(5069, 16, "ALTER DATABASE statement failed."),
    m(
        5070,
        16,
        "Database state cannot be changed while other users are using the database '%.*ls'",
    ),
    m(
        5074,
        16,
        "The %S_MSG '%.*ls' is dependent on %S_MSG '%.*ls'.",
    ),
    m(
        5105,
        16,
        "A file activation error occurred. The physical file name '%.*ls' may be incorrect. Diagnose and correct additional errors, and retry the operation.",
    ),
    m(
        5118,
        16,
        "The file \"%ls\" is compressed but does not reside in a read-only database or filegroup. The file must be decompressed.",
    ),
    m(
        5120,
        16,
        "Unable to open the physical file \"%.*ls\". Operating system error %d: \"%ls\".",
    ),
    m(
        5123,
        16,
        "CREATE FILE encountered operating system error %ls while attempting to open or create the physical file '%.*ls'.",
    ),
    m(
        5133,
        16,
        "Directory lookup for the file \"%.*ls\" failed with the operating system error %ls.",
    ),
    m(
        5170,
        16,
        "Cannot create file '%ls' because it already exists. Change the file path or the file name, and retry the operation.",
    ),
    m(5171, 16, "%.*ls is not a primary database file."),
    m(
        5239,
        16,
        "Unable to process object ID %ld (object '%.*ls') because this DBCC command does not support objects of this type.",
    ),
    m(
        5302,
        16,
        "Mutator '%.*ls' on '%.*ls' cannot be called on a null value.",
    ),
    m(
        5324,
        15,
        "In a MERGE statement, a '%S_MSG' clause with a search condition cannot appear after a '%S_MSG' clause with no search condition.",
    ),
    m(
        5373,
        16,
        "All the input parameters should be of the same type. Supported types are tinyint, smallint, int, bigint, decimal and numeric.",
    ),
    m(5701, 10, "Changed database context to '%.*ls'."),
    m(5703, 10, "Changed language setting to %.*ls."),
    m(
        5812,
        14,
        "You do not have permission to run the RECONFIGURE statement.",
    ),
    m(
        6004,
        10,
        "User does not have permission to perform this action.",
    ),
    m(6005, 10, "SHUTDOWN is in progress."),
    m(6006, 10, "Server shut down by %ls from login %.*ls."),
    m(6101, 16, "Session ID %d is not valid."),
    m(
        6102,
        14,
        "User does not have permission to use the KILL statement.",
    ),
    m(6104, 16, "Cannot use KILL to kill your own process."),
    m(6106, 16, "Process ID %d is not an active process ID."),
    m(6107, 14, "Only user processes can be killed."),
    m(
        6305,
        16,
        "XQuery data manipulation expression required in XML data type method.",
    ),
    m(
        6306,
        16,
        "Invalid XQuery expression passed to XML data type method.",
    ),
    m(
        6308,
        16,
        "XML well-formedness check: Duplicate attribute '%.*ls'. Rewrite your XQuery so it returns well-formed XML.",
    ),
    m(
        6314,
        16,
        "Collection specified does not exist in metadata : '%.*ls'",
    ),
    m(
        6335,
        16,
        "XML datatype instance has too many levels of nested nodes. Maximum allowed depth is %d levels.",
    ),
    m(
        6359,
        16,
        "Parsing XML with internal subset DTDs not allowed. Use CONVERT with style option 2 to enable limited internal subset DTD support.",
    ),
    m(
        6401,
        16,
        "Cannot roll back %.*ls. No transaction or savepoint of that name was found.",
    ),
    m(6602, 16, "The error description is '%.*ls'."),
    m(6603, 16, "XML parsing error: %.*ls"),
    m(
        6624,
        16,
        "XML document could not be created because server memory is low. Use sp_xml_removedocument to release XML documents.",
    ),
    m(
        6801,
        16,
        "FOR XML EXPLICIT requires at least three columns, including the tag column, the parent column, and at least one data column.",
    ),
    m(
        6802,
        16,
        "FOR XML EXPLICIT query contains the invalid column name '%.*ls'. Use the TAGNAME!TAGID!ATTRIBUTENAME[!..] format where TAGID is a positive integer.",
    ),
    m(
        6803,
        16,
        "FOR XML AUTO requires at least one table for generating XML tags. Use FOR XML RAW or add a FROM clause with a table name.",
    ),
    m(
        6805,
        16,
        "FOR XML EXPLICIT stack overflow occurred. Circular parent tag relationships are not allowed.",
    ),
    m(
        6806,
        16,
        "Undeclared tag ID %d is used in a FOR XML EXPLICIT query.",
    ),
    m(
        6809,
        16,
        "Unnamed tables cannot be used as XML identifiers as well as unnamed columns cannot be used for attribute names. Name unnamed columns/tables using AS in the SELECT statement.",
    ),
    m(
        6810,
        16,
        "Column name '%ls' is repeated. The same attribute cannot be generated more than once on the same XML tag.",
    ),
    m(
        6829,
        16,
        "FOR XML EXPLICIT and RAW modes currently do not support addressing binary data as URLs in column '%.*ls'. Remove the column, or use the BINARY BASE64 mode, or create the URL directly using the 'dbobject/TABLE[@PK1=\"V1\"]/@COLUMN' syntax.",
    ),
    m(
        6833,
        16,
        "Parent tag ID %d is not among the open tags. FOR XML EXPLICIT requires parent tags to be opened first. Check the ordering of the result set.",
    ),
    m(
        6841,
        16,
        "FOR XML could not serialize the data for node '%.*ls' because it contains a character (%ls) which is not allowed in XML. To retrieve this data using FOR XML, convert it to binary, varbinary or image data type and use the BINARY BASE64 directive.",
    ),
    m(
        6850,
        16,
        "%ls name '%ls' contains an invalid XML identifier as required by FOR XML; '%ls'(%ls) is the first character at fault.",
    ),
    m(
        6852,
        16,
        "Attribute-centric column '%.*ls' must not come after a non-attribute-centric sibling in XML hierarchy in FOR XML PATH.",
    ),
    m(
        6864,
        16,
        "Row tag omission (empty row tag name) cannot be used with attribute-centric FOR XML serialization.",
    ),
    m(
        7116,
        16,
        "Offset %d is not in the range of available LOB data.",
    ),
    m(
        7135,
        16,
        "Deletion length %ld is not in the range of available text, ntext, or image data.",
    ),
    m(
        7202,
        11,
        "Could not find server '%.*ls' in sys.servers. Verify that the correct server name was specified. If necessary, execute the stored procedure sp_addlinkedserver to add the server to sys.servers.",
    ),
    m(
        7862,
        16,
        "An endpoint of the requested type already exists.  Only one endpoint of this type is supported.  Use ALTER ENDPOINT or DROP the existing endpoint and execute the CREATE ENDPOINT statement.",
    ),
    m(
        7863,
        16,
        "The endpoint was not changed.  The ALTER ENDPOINT statement did not contain any values to modify or update.",
    ),
    m(
        7983,
        14,
        "User '%.*ls' does not have permission to run DBCC %ls for database '%.*ls'.",
    ),
    m(
        7999,
        16,
        "Could not find any index named '%.*ls' for table '%.*ls'.",
    ),
    m(
        8009,
        16,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. Parameter %d (\"%.*ls\"): Data type 0x%02X is unknown.",
    ),
    m(
        8101,
        16,
        "An explicit value for the identity column in table '%.*ls' can only be specified when a column list is used and IDENTITY_INSERT is ON.",
    ),
    m(8102, 16, "Cannot update identity column '%.*ls'."),
    m(
        8106,
        16,
        "Table '%.*ls' does not have the identity property. Cannot perform SET operation.",
    ),
    m(
        8107,
        16,
        "IDENTITY_INSERT is already ON for table '%.*ls.%.*ls.%.*ls'. Cannot perform SET operation for table '%.*ls'.",
    ),
    m(
        8108,
        16,
        "Cannot add identity column, using the SELECT INTO statement, to table '%.*ls', which already has column '%.*ls' that inherits the identity property.",
    ),
    m(
        8109,
        16,
        "Attempting to add multiple identity columns to table '%.*ls' using the SELECT INTO statement.",
    ),
    m(
        8110,
        16,
        "Cannot add multiple PRIMARY KEY constraints to table '%.*ls'.",
    ),
    m(
        8111,
        16,
        "Cannot define PRIMARY KEY constraint on nullable column in table '%.*ls'.",
    ),
    m(
        8112,
        16,
        "Cannot add more than one clustered index for constraints on table '%.*ls'.",
    ),
    m(
        8113,
        16,
        "Incorrect use of the XML data type method '%.*ls'. A mutator method is expected in this context.",
    ),
    m(8114, 16, "Error converting data type %ls to %ls."),
    m(
        8115,
        16,
        "Arithmetic overflow error converting %ls to data type %ls.",
    ),
    m(
        8120,
        16,
        "Column '%.*ls.%.*ls' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.",
    ),
    m(
        8121,
        16,
        "Column '%.*ls.%.*ls' is invalid in the HAVING clause because it is not contained in either an aggregate function or the GROUP BY clause.",
    ),
    m(
        8127,
        16,
        "Column \"%.*ls.%.*ls\" is invalid in the ORDER BY clause because it is not contained in either an aggregate function or the GROUP BY clause.",
    ),
    m(8134, 16, "Divide by zero error encountered."),
    m(
        8137,
        16,
        "Incorrect use of the XML data type method '%.*ls'. A non-mutator method is expected in this context.",
    ),
    m(8143, 16, "Parameter '%.*ls' was supplied multiple times."),
    m(
        8144,
        16,
        "Procedure or function %.*ls has too many arguments specified.",
    ),
    m(8145, 16, "%.*ls is not a parameter for procedure %.*ls."),
    m(
        8146,
        16,
        "Procedure %.*ls has no parameters and arguments were supplied.",
    ),
    m(
        8147,
        16,
        "Could not create IDENTITY attribute on nullable column '%.*ls', table '%.*ls'.",
    ),
    m(8152, 16, "String or binary data would be truncated."),
    m(
        8153,
        0,
        "Warning: Null value is eliminated by an aggregate or other SET operation.",
    ),
    m(8154, 15, "The table '%.*ls' is ambiguous."),
    m(
        8155,
        16,
        "No column name was specified for column %d of '%.*ls'.",
    ),
    m(
        8156,
        16,
        "The column '%.*ls' was specified multiple times for '%.*ls'.",
    ),
    m(
        8158,
        16,
        "'%.*ls' has more columns than were specified in the column list.",
    ),
    m(
        8159,
        16,
        "'%.*ls' has fewer columns than were specified in the column list.",
    ),
    m(
        8162,
        16,
        "The formal parameter \"%.*ls\" was not declared as an OUTPUT parameter, but the actual parameter passed in requested output.",
    ),
    m(8164, 16, "An INSERT EXEC statement cannot be nested."),
    m(8171, 16, "Hint '%.*ls' on object '%.*ls' is invalid."),
    m(
        8172,
        16,
        "The argument %d of the XML data type method \"%.*ls\" must be a string literal.",
    ),
    m(
        8178,
        16,
        "The parameterized query '%.*ls' expects the parameter '%.*ls', which was not supplied.",
    ),
    m(
        8179,
        16,
        "Could not find prepared statement with handle %d.",
    ),
    m(8180, 16, "Statement(s) could not be prepared."),
    m(
        8183,
        16,
        "Only UNIQUE or PRIMARY KEY constraints can be created on computed columns, while CHECK, FOREIGN KEY, and NOT NULL constraints require that computed columns be persisted.",
    ),
    m(
        8197,
        16,
        "The object '%.*ls' does not exist or is invalid for this operation.",
    ),
    m(
        8623,
        16,
        "The query processor ran out of internal resources and could not produce a query plan. This is a rare event and only expected for extremely complex queries or queries that reference a very large number of tables or partitions. Please simplify the query. If you believe you have received this message in error, contact Customer Support Services for more information.",
    ),
    m(
        8645,
        17,
        "A timeout occurred while waiting for memory resources to execute the query in resource pool '%ls' (%ld). Rerun the query.",
    ),
    m(
        8672,
        16,
        "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target row matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target table multiple times. Refine the ON clause to ensure a target row matches at most one source row, or use the GROUP BY clause to group the source rows.",
    ),
    m(
        8727,
        16,
        "Input parameter of percentile function is outside of range [0, 1].",
    ),
    m(
        8906,
        16,
        "Page %S_PGID in database ID %d is allocated in the SGAM %S_PGID and PFS %S_PGID, but was not allocated in any IAM. PFS flags '%hs'.",
    ),
    m(
        8910,
        16,
        "Page %S_PGID in database ID %d is allocated to both object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls), and object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls).",
    ),
    m(
        8920,
        16,
        "Cannot perform a %ls operation inside a user transaction. Terminate the transaction and reissue the statement.",
    ),
    m(
        8928,
        16,
        "Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls): Page %S_PGID could not be processed. See other errors for details.",
    ),
    m(
        8931,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls). B-tree level mismatch, page %S_PGID. Level %d does not match level %d from the previous %S_PGID.",
    ),
    m(
        8933,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls). The low key value on page %S_PGID (level %d) is not >= the key value in the parent %S_PGID slot %d.",
    ),
    m(
        8936,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls). B-tree chain linkage mismatch. %S_PGID->next = %S_PGID, but %S_PGID->Prev = %S_PGID.",
    ),
    m(
        8939,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls), page %S_PGID. Test (%.*ls) failed. Values are %ld and %ld.",
    ),
    m(
        8944,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls), page %S_PGID, row %d. Test (%.*ls) failed. Values are %ld and %ld.",
    ),
    m(
        8948,
        16,
        "Database error: Page %S_PGID is marked with the wrong type in PFS page %S_PGID. PFS status 0x%x expected 0x%x.",
    ),
    m(
        8951,
        16,
        "Table error: table '%ls' (ID %d). Data row does not have a matching index row in the index '%ls' (ID %d). Possible missing or invalid keys for the index row matching:",
    ),
    m(
        8952,
        16,
        "Table error: table '%ls' (ID %d). Index row in index '%ls' (ID %d) does not match any data row. Possible extra or invalid keys for:",
    ),
    m(
        8954,
        10,
        "%ls found %d allocation errors and %d consistency errors not associated with any single object.",
    ),
    m(
        8955,
        16,
        "Data row (%d:%d:%d) identified by (%ls) with index values '%ls'.",
    ),
    m(
        8956,
        16,
        "Index row (%d:%d:%d) identified by (%ls) with index values '%ls'.",
    ),
    m(
        8957,
        10,
        "DBCC %ls (%ls) executed by %ls found %d errors and repaired %d errors. Elapsed time: %d hours %d minutes %d seconds.",
    ),
    m(
        8961,
        16,
        "Table error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls). The off-row data node at page %S_PGID, slot %d, text ID %I64d does not match its reference from page %S_PGID, slot %d.",
    ),
    m(
        8970,
        16,
        "Row error: Object ID %d, index ID %d, partition ID %I64d, alloc unit ID %I64d (type %.*ls), page ID %S_PGID, row ID %d. Column '%.*ls' was created NOT NULL, but is NULL in the row.",
    ),
    m(
        8989,
        10,
        "%ls found %d allocation errors and %d consistency errors in database '%ls'.",
    ),
    m(
        8990,
        10,
        "%ls found %d allocation errors and %d consistency errors in table '%ls' (object ID %d).",
    ),
    m(8992, 16, "Check Catalog Msg %d, State %d: %.*ls"),
    m(
        9001,
        21,
        "The log for database '%.*ls' is not available. Check the operating system error log for related error messages. Resolve any errors and restart the database.",
    ),
    m(
        9002,
        17,
        "The transaction log for database '%ls' is full due to '%ls'.",
    ),
    m(
        9004,
        21,
        "An error occurred while processing the log for database '%.*ls'. If possible, restore from backup. If a backup is not available, it might be necessary to rebuild the log.",
    ),
    m(
        9108,
        16,
        "This type of statistics is not supported to be incremental.",
    ),
    m(
        9111,
        16,
        "UPDATE STATISTICS ON PARTITIONS syntax is not supported for non-incremental statistics.",
    ),
    m(9303, 16, "%sSyntax error near '%ls', expected '%ls'."),
    m(
        9308,
        16,
        "%sThe argument of '%ls' must be of a single numeric primitive type or 'http://www.w3.org/2004/07/xpath-datatypes#untypedAtomic'. Found argument of type '%ls'.",
    ),
    m(
        9310,
        16,
        "%sThe 'with' clause of 'replace value of' cannot contain constructed XML.",
    ),
    m(
        9315,
        16,
        "%sOnly constant expressions are supported for the name expression of computed element and attribute constructors.",
    ),
    m(
        9325,
        16,
        "%sComputed processing instruction constructors are not supported.",
    ),
    m(
        9326,
        16,
        "%sComputed comment constructors are not supported.",
    ),
    m(
        9332,
        16,
        "%sSyntax error near '%ls', expected 'where', '(stable) order by' or 'return'.",
    ),
    m(9335, 16, "%sThe XQuery syntax '%ls' is not supported."),
    m(
        9341,
        16,
        "%sSyntax error near '%ls', expected a step expression.",
    ),
    m(
        9342,
        16,
        "%sAn XML instance is only supported as the direct source of an insert using sql:column/sql:variable.",
    ),
    m(
        9344,
        16,
        "%sThe SQL type '%s' is not supported with sql:column() and sql:variable().",
    ),
    m(
        9400,
        16,
        "XML parsing: line %d, character %d, unexpected end of input",
    ),
    m(
        9402,
        16,
        "XML parsing: line %d, character %d, unable to switch the encoding",
    ),
    m(
        9410,
        16,
        "XML parsing: line %d, character %d, whitespace expected",
    ),
    m(
        9411,
        16,
        "XML parsing: line %d, character %d, semicolon expected",
    ),
    m(9412, 16, "XML parsing: line %d, character %d, '>' expected"),
    m(
        9413,
        16,
        "XML parsing: line %d, character %d, A string literal was expected",
    ),
    m(
        9414,
        16,
        "XML parsing: line %d, character %d, equal expected",
    ),
    m(
        9415,
        16,
        "XML parsing: line %d, character %d, well formed check: no '<' in attribute value",
    ),
    m(
        9416,
        16,
        "XML parsing: line %d, character %d, hexadecimal digit expected",
    ),
    m(
        9417,
        16,
        "XML parsing: line %d, character %d, decimal digit expected",
    ),
    m(
        9420,
        16,
        "XML parsing: line %d, character %d, illegal xml character",
    ),
    m(
        9421,
        16,
        "XML parsing: line %d, character %d, illegal name character",
    ),
    m(
        9422,
        16,
        "XML parsing: line %d, character %d, incorrect document syntax",
    ),
    m(
        9424,
        16,
        "XML parsing: line %d, character %d, incorrect comment syntax",
    ),
    m(
        9426,
        16,
        "XML parsing: line %d, character %d, incorrect ATTLIST declaration syntax",
    ),
    m(
        9427,
        16,
        "XML parsing: line %d, character %d, incorrect DOCTYPE declaration syntax",
    ),
    m(
        9428,
        16,
        "XML parsing: line %d, character %d, incorrect ELEMENT declaration syntax",
    ),
    m(
        9429,
        16,
        "XML parsing: line %d, character %d, incorrect ENTITY declaration syntax",
    ),
    m(
        9436,
        16,
        "XML parsing: line %d, character %d, end tag does not match start tag",
    ),
    m(
        9437,
        16,
        "XML parsing: line %d, character %d, duplicate attribute",
    ),
    m(
        9438,
        16,
        "XML parsing: line %d, character %d, text/xmldecl not at the beginning of input",
    ),
    m(
        9441,
        16,
        "XML parsing: line %d, character %d, incorrect xml declaration syntax",
    ),
    m(
        9444,
        16,
        "XML parsing: line %d, character %d, well formed check: pes in internal subset",
    ),
    m(
        9446,
        16,
        "XML parsing: line %d, character %d, well formed check: no recursion",
    ),
    m(
        9447,
        16,
        "XML parsing: line %d, character %d, entity content not well formed",
    ),
    m(
        9448,
        16,
        "XML parsing: line %d, character %d, well formed check: undeclared entity",
    ),
    m(
        9450,
        16,
        "XML parsing: line %d, character %d, well formed check: no external entity references",
    ),
    m(
        9455,
        16,
        "XML parsing: line %d, character %d, illegal qualified name character",
    ),
    m(
        9456,
        16,
        "XML parsing: line %d, character %d, multiple colons in qualified name",
    ),
    m(
        9459,
        16,
        "XML parsing: line %d, character %d, undeclared prefix",
    ),
    m(
        9500,
        16,
        "The data type '%.*ls' used in the VALUE method is invalid.",
    ),
    m(
        9501,
        16,
        "XQuery: Unable to resolve sql:variable('%.*ls'). The variable must be declared as a scalar TSQL variable.",
    ),
    m(
        9519,
        16,
        "XQuery: The name supplied to sql:variable('%.*ls') is not a valid SQL variable name. Variable names must start with the '@' symbol followed by at least one character.",
    ),
    m(
        9692,
        16,
        "The %ls protocol transport cannot listen on port %d because it is in use by another process.",
    ),
    m(
        10601,
        16,
        "Cannot specify included columns for a clustered index.",
    ),
    m(
        10609,
        16,
        "Filtered %S_MSG '%.*ls' cannot be created on table '%.*ls' because the column '%.*ls' in the filter expression is a computed column. Rewrite the filter expression so that it does not include this column.",
    ),
    m(
        10611,
        16,
        "Filtered %S_MSG '%.*ls' cannot be created on table '%.*ls' because the column '%.*ls' in the filter expression is compared with a constant of higher data type precedence or of a different collation. Converting a column to the data type of a constant is not supported for filtered %S_MSG. To resolve this error, explicitly convert the constant to the same data type and collation as the column '%.*ls'.",
    ),
    m(
        10618,
        16,
        "Cannot %S_MSG filtered index '%.*ls' on table '%.*ls' because the statement sets the IGNORE_DUP_KEY option to ON. Rewrite the statement so that it does not use the IGNORE_DUP_KEY option.",
    ),
    m(
        10619,
        16,
        "Filtered %S_MSG '%.*ls' cannot be created on table '%.*ls' because the column '%.*ls' in the filter expression is of a CLR data type. Rewrite the filter expression so that it does not include this column.",
    ),
    m(
        10620,
        16,
        "Filtered %S_MSG '%.*ls' cannot be created on table '%.*ls' because the filter expression contains a comparison with a literal NULL value. Rewrite the comparison to use the IS [NOT] NULL comparison operator to test for NULL values.",
    ),
    m(
        10700,
        16,
        "The table-valued parameter \"%.*ls\" is READONLY and cannot be modified.",
    ),
    m(
        10709,
        16,
        "The number of columns for each row in a table value constructor must be the same.",
    ),
    m(
        10711,
        15,
        "An action of type '%S_MSG' is not allowed in the '%S_MSG' clause of a MERGE statement.",
    ),
    m(
        10714,
        15,
        "An action of type '%S_MSG' cannot appear more than once in a '%S_MSG' clause of a MERGE statement.",
    ),
    m(10715, 15, "'%.*ls' is not a valid hint."),
    m(
        10735,
        15,
        "Incorrect WHERE clause for filtered %S_MSG '%.*ls' on table '%.*ls'.",
    ),
    m(
        10738,
        15,
        "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of %d row values.",
    ),
    m(
        10751,
        15,
        "The ORDER BY in WITHIN GROUP clause of '%.*ls' function must have exactly one expression.",
    ),
    m(
        10752,
        15,
        "The function '%.*ls' may not have a window frame.",
    ),
    m(
        10754,
        15,
        "The function '%.*ls' must have a WITHIN GROUP clause.",
    ),
    m(
        10756,
        15,
        "Window frame with ROWS or RANGE must have an ORDER BY clause.",
    ),
    m(
        10757,
        15,
        "The function '%.*ls' may not have a WITHIN GROUP clause.",
    ),
    m(
        10758,
        15,
        "The function '%.*ls' may not have ORDER BY in OVER clause.",
    ),
    m(
        10790,
        15,
        "The option '%.*ls' can be specified only for hash indexes.",
    ),
    m(
        10796,
        16,
        "The SCHEMABINDING option is supported only for natively compiled modules, and is required for those modules.",
    ),
    m(
        11431,
        16,
        "The %ls option is not permitted as the %ls option is not turned 'ON'.",
    ),
    m(
        11438,
        16,
        "The %ls option cannot be set to '%ls' when the %ls option is set to '%ls'.",
    ),
    m(
        11_535,
        16,
        "EXECUTE statement failed because its WITH RESULT SETS clause specified %d result set(s), and the statement tried to send more result sets than this.",
    ),
    m(
        11_536,
        16,
        "EXECUTE statement failed because its WITH RESULT SETS clause specified %d result set(s), but the statement only sent %d result set(s) at run time.",
    ),
    m(
        11_537,
        16,
        "EXECUTE statement failed because its WITH RESULT SETS clause specified %d column(s) for result set number %d, but the statement sent %d column(s) at run time.",
    ),
    m(
        11_538,
        16,
        "EXECUTE statement failed because its WITH RESULT SETS clause specified type '%ls' for column #%d in result set #%d, and the corresponding type sent at run time was '%ls'; there is no conversion between the two types.",
    ),
    m(
        11_553,
        16,
        "EXECUTE statement failed because its WITH RESULT SETS clause specified a non-nullable type for column #%d in result set #%d, and the corresponding value sent at run time was null.",
    ),
    m(
        11700,
        16,
        "The increment for sequence object '%.*ls' cannot be zero.",
    ),
    m(
        11701,
        16,
        "The absolute value of the increment for sequence object '%.*ls' must be less than or equal to the difference between the minimum and maximum value of the sequence object.",
    ),
    m(
        11702,
        16,
        "The sequence object '%.*ls' must be of data type int, bigint, smallint, tinyint, or decimal or numeric with a scale of 0, or any user-defined data type that is based on one of the above integer data types.",
    ),
    m(
        11703,
        16,
        "The start value for sequence object '%.*ls' must be between the minimum and maximum value of the sequence object.",
    ),
    m(
        11705,
        16,
        "The minimum value for sequence object '%.*ls' must be less than its maximum value.",
    ),
    m(
        11706,
        16,
        "The cache size for sequence object '%.*ls' must be greater than 0.",
    ),
    m(
        11710,
        16,
        "Argument '%ls' cannot be used in a CREATE SEQUENCE statement.",
    ),
    m(
        11711,
        16,
        "Argument '%ls' cannot be used in an ALTER SEQUENCE statement.",
    ),
    m(
        11719,
        15,
        "NEXT VALUE FOR function is not allowed in check constraints, default objects, computed columns, views, user-defined functions, user-defined aggregates, user-defined table types, sub-queries, common table expressions, derived tables or return statements.",
    ),
    m(
        11720,
        15,
        "NEXT VALUE FOR function is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP BY, HAVING, or ORDER BY clauses.",
    ),
    m(
        11721,
        15,
        "NEXT VALUE FOR function cannot be used directly in a statement that uses a DISTINCT, UNION, UNION ALL, EXCEPT or INTERSECT operator.",
    ),
    m(
        11722,
        15,
        "NEXT VALUE FOR function is not allowed in the WHEN MATCHED clause, the WHEN NOT MATCHED clause, or the WHEN NOT MATCHED BY SOURCE clause of a merge statement.",
    ),
    m(
        11723,
        15,
        "NEXT VALUE FOR function cannot be used directly in a statement that contains an ORDER BY clause unless the OVER clause is specified.",
    ),
    m(
        11724,
        15,
        "An expression that contains a NEXT VALUE FOR function cannot be passed as an argument to a table-valued function.",
    ),
    m(
        11725,
        15,
        "An expression that contains a NEXT VALUE FOR function cannot be passed as an argument to an aggregate.",
    ),
    m(11726, 16, "Object '%.*ls' is not a sequence object."),
    m(
        11728,
        16,
        "The sequence object '%.*ls' has reached its minimum or maximum value. Restart the sequence object to allow new values to be generated.",
    ),
    m(
        11732,
        16,
        "The requested range for sequence object '%.*ls' exceeds the maximum or minimum limit. Retry with a smaller range.",
    ),
    m(
        11739,
        15,
        "NEXT VALUE FOR function cannot be used if ROWCOUNT option has been set, or the query contains TOP or OFFSET.",
    ),
    m(
        11740,
        15,
        "NEXT VALUE FOR function cannot be used in a default constraint if ROWCOUNT option has been set, or the query contains TOP or OFFSET.",
    ),
    m(
        11741,
        15,
        "NEXT VALUE FOR function cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL and NULLIF.",
    ),
    m(
        11742,
        15,
        "NEXT VALUE FOR function can only be used with MERGE if it is defined within a default constraint on the target table for insert actions.",
    ),
    m(
        12120,
        16,
        "Accelerated Database Recovery cannot be enabled until the Persistent Version Store is cleaned of previous versions. Please use the procedure sys.sp_persistent_version_cleanup '%.*ls' to clean the Persistent Version Store.",
    ),
    m(
        12122,
        16,
        "Accelerated Database Recovery cannot be enabled/disabled on system databases.",
    ),
    m(12123, 10, "[DbId:%d] ADR enabled for the database."),
    m(12124, 10, "[DbId:%d] ADR disabled for the database."),
    m(
        12125,
        16,
        "Accelerated Database Recovery has already been enabled on the database, '%.*ls'. To change the persistent version store filegroup, please disable Accelerated Database Recovery and ensure that the persistent version store is drained before retrying the command.",
    ),
    // 12126 to 12128 and 12135 have no cause here (COMPAT.md); clients may ask sys.messages for them.
    m(
        12126,
        16,
        "Accelerated Database Recovery cannot be enabled while database mirroring is enabled.",
    ),
    m(
        12127,
        16,
        "Accelerated Database Recovery cannot be disabled as it is not enabled using DDL.",
    ),
    m(
        12128,
        16,
        "Accelerated Database Recovery cannot be enabled on Express edition.",
    ),
    m(
        12129,
        16,
        "The internal tables required for Accelerated Database Recovery feature that stores versions of data rows are not created for the database '%.*ls'. Accelerated Database Recovery feature can't be enabled on this database.",
    ),
    m(
        12133,
        16,
        "Optimized Locking cannot be enabled for the database as Accelerated Database Recovery is not enabled for the database.",
    ),
    m(
        12134,
        16,
        "Optimized Locking is enabled for this database. Please disable Optimized Locking first and then disable Accelerated Database Recovery.",
    ),
    m(
        12135,
        16,
        "The Metadata needed for Optimized Locking is not populated yet. Please retry the operation.",
    ),
    // Of our own: back-pressure of the version store.
    m(
        12190,
        17,
        "The version store of database '%.*ls' has reached its limit of %I64d MB (%ls). %ls",
    ),
    m(
        13601,
        16,
        "Property '%.*ls' cannot be generated in JSON output due to a conflict with another column name or alias. Use different names and aliases for each column in SELECT list.",
    ),
    m(
        13603,
        16,
        "Property '%.*ls' cannot be generated in JSON output due to invalid character in the column name or alias. Column name or alias that contains '..', starts or ends with '.' is not allowed in query that has FOR JSON clause.",
    ),
    m(
        13604,
        16,
        "FOR JSON AUTO requires at least one table for generating JSON objects. Use FOR JSON PATH or add a FROM clause with a table name.",
    ),
    m(
        13605,
        16,
        "Column expressions and data sources without names or aliases cannot be formatted as JSON text using FOR JSON clause. Add alias to the unnamed column or table.",
    ),
    m(
        13607,
        16,
        "JSON path is not properly formatted. Unexpected character '%lc' is found at position %d.",
    ),
    m(
        13608,
        16,
        "Property cannot be found on the specified JSON path.",
    ),
    m(
        13609,
        16,
        "JSON text is not properly formatted. Unexpected character '%lc' is found at position %d.",
    ),
    m(
        13611,
        16,
        "Value referenced by JSON path is not an array or object and cannot be opened with OPENJSON.",
    ),
    m(
        13618,
        16,
        "AS JSON option can be specified only for column of nvarchar(max) type in WITH clause.",
    ),
    m(
        13619,
        16,
        "Unsupported JSON path found in argument %d of %.*ls.",
    ),
    m(
        13620,
        16,
        "ROOT option and WITHOUT_ARRAY_WRAPPER option cannot be used together in FOR JSON. Remove one of these options.",
    ),
    m(
        13623,
        16,
        "Scalar value cannot be found in the specified JSON path.",
    ),
    m(
        13624,
        16,
        "Object or array cannot be found in the specified JSON path.",
    ),
    m(
        13625,
        16,
        "String value in the specified JSON path would be truncated.",
    ),
    m(
        15002,
        16,
        "The procedure '%s' cannot be executed within a transaction.",
    ),
    m(
        15007,
        16,
        "'%s' is not a valid login or you do not have permission.",
    ),
    m(
        15009,
        16,
        "The object '%s' does not exist in database '%s' or is invalid for this operation.",
    ),
    m(
        15010,
        16,
        "The database '%s' does not exist. Supply a valid database name. To see available databases, use sys.databases.",
    ),
    m(
        15015,
        16,
        "The server '%s' does not exist. Use sp_helpserver to show available servers.",
    ),
    m(
        15021,
        16,
        "Invalid value given for parameter %s. Specify a valid parameter value.",
    ),
    m(
        15023,
        16,
        "User, group, or role '%s' already exists in the current database.",
    ),
    m(15025, 16, "The server principal '%s' already exists."),
    m(
        15028,
        16,
        "The server principal or credential '%ls' already exists.",
    ),
    m(15033, 16, "'%s' is not a valid official language name."),
    m(
        15040,
        16,
        "User-defined error messages must have an ID greater than 50000.",
    ),
    m(
        15041,
        16,
        "User-defined error messages must have a severity level between 1 and 25.",
    ),
    m(
        15042,
        10,
        "The @with_log parameter is ignored for messages that are not us_english version.",
    ),
    m(
        15043,
        16,
        "You must specify 'REPLACE' to overwrite an existing message.",
    ),
    m(
        15063,
        16,
        "The login already has an account under a different user name.",
    ),
    m(
        15071,
        16,
        "Usage: sp_addmessage <msgnum>,<severity>,<msgtext> [,<language> [,FALSE | TRUE [,REPLACE]]]",
    ),
    m(
        15097,
        16,
        "The size associated with an extended property cannot be more than 7,500 bytes.",
    ),
    m(
        15110,
        16,
        "The proposed new database owner is already a user or aliased in the database.",
    ),
    m(
        15116,
        16,
        "Password validation failed. The password does not meet the operating system policy requirements because it is too short.",
    ),
    m(
        15117,
        16,
        "Password validation failed. The password does not meet the operating system policy requirements because it is too long.",
    ),
    m(
        15118,
        16,
        "Password validation failed. The password does not meet the operating system policy requirements because it is not complex enough.",
    ),
    m(
        15122,
        16,
        "The CHECK_EXPIRATION option cannot be used when CHECK_POLICY is OFF.",
    ),
    m(
        15123,
        16,
        "The configuration option '%s' does not exist, or it may be an advanced option.",
    ),
    m(15124, 16, "The configuration option '%s' is not unique."),
    m(15125, 16, "Trigger '%s' is not a trigger for '%s'."),
    m(
        15128,
        16,
        "The CHECK_POLICY and CHECK_EXPIRATION options cannot be turned OFF when MUST_CHANGE is ON.",
    ),
    m(
        15129,
        16,
        "'%d' is not a valid value for configuration option '%s'.",
    ),
    m(
        15135,
        16,
        "Object is invalid. Extended properties are not permitted on '%s', or the object does not exist.",
    ),
    m(
        15138,
        16,
        "The database principal owns a %S_MSG in the database, and cannot be dropped.",
    ),
    m(
        15144,
        16,
        "The role has members. It must be empty before it can be dropped.",
    ),
    m(15150, 16, "Cannot %S_MSG the %S_MSG '%.*ls'."),
    m(
        15151,
        16,
        "Cannot %S_MSG the %S_MSG '%.*ls', because it does not exist or you do not have permission.",
    ),
    m(
        15165,
        16,
        "Could not find object '%ls' or you do not have permission.",
    ),
    m(
        15174,
        16,
        "Login '%.*ls' owns one or more database(s). Change the owner of the database(s) before dropping the login.",
    ),
    m(15176, 16, "The only valid @parameter value is 'WITH_LOG'."),
    m(
        15177,
        16,
        "Usage: sp_dropmessage <msg number> [,<language> | 'ALL']",
    ),
    m(
        15178,
        16,
        "Cannot drop a message with an ID less than 50,000.",
    ),
    m(
        15179,
        16,
        "The message number %d or specified language version does not exist.",
    ),
    m(
        15196,
        16,
        "The current security context is non-revertible. The \"Revert\" statement failed.",
    ),
    m(
        15199,
        16,
        "The current security context cannot be reverted. Please switch to the original database where '%ls' was called and try it again.",
    ),
    m(
        15208,
        16,
        "The certificate, asymmetric key, or private key file is not valid or does not exist; or you do not have permissions for it.",
    ),
    m(
        15212,
        16,
        "Invalid certificate subject. The certificate subject must have between 1 and %d characters.",
    ),
    m(
        15213,
        10,
        "Warning: The certificate you created has an invalid validity period; its expiration date precedes its start date.",
    ),
    m(
        15214,
        10,
        "Warning: The certificate you created is expired.",
    ),
    m(
        15215,
        10,
        "Warning: The certificate you created is not yet valid; its start date is in the future.",
    ),
    m(
        15217,
        16,
        "Property cannot be updated or deleted. Property '%.*ls' does not exist for '%.*ls'.",
    ),
    m(
        15225,
        11,
        "No item by the name of '%s' could be found in the current database '%s', given that @itemtype was input as '%s'.",
    ),
    m(
        15232,
        16,
        "A certificate with name '%s' already exists or this certificate already has been added to the database.",
    ),
    m(
        15233,
        16,
        "Property cannot be added. Property '%.*ls' already exists for '%.*ls'.",
    ),
    m(
        15240,
        16,
        "Cannot write into file '%s'. Verify that you have write permissions, that the file path is valid, and that the file does not already exist.",
    ),
    m(
        15247,
        16,
        "User does not have permission to perform this action.",
    ),
    m(
        15248,
        11,
        "Either the parameter @objname is ambiguous or the claimed @objtype (%s) is wrong.",
    ),
    m(15249, 11, "Error: Explicit @objtype '%s' is unrecognized."),
    m(
        15250,
        11,
        "The database name component of the object qualifier must be the name of the current database.",
    ),
    m(
        15271,
        16,
        "Invalid @with_log parameter value. Valid values are 'true' or 'false'.",
    ),
    m(
        15277,
        16,
        "The only valid @parameter_value values are 'true' or 'false'.",
    ),
    m(
        15279,
        16,
        "You must add the us_english version of this message before you can add the '%s' version.",
    ),
    m(
        15280,
        16,
        "All localized versions of this message must be dropped before the us_english version can be dropped.",
    ),
    m(
        15284,
        16,
        "The database principal has granted or denied permissions to objects in the database and cannot be dropped.",
    ),
    m(
        15297,
        16,
        "The certificate, asymmetric key, or private key data is invalid.",
    ),
    m(
        15304,
        16,
        "The severity level of the '%s' version of this message must be the same as the severity level (%d) of the us_english version.",
    ),
    m(
        15313,
        16,
        "The key is not encrypted using the specified decryptor.",
    ),
    m(
        15335,
        11,
        "Error: The new name '%s' is already in use as a %s name and would cause a duplicate that is not permitted.",
    ),
    m(
        15336,
        16,
        "Object '%s' cannot be renamed because the object participates in enforced dependencies.",
    ),
    m(15348, 16, "Cannot transfer a schemabound object."),
    m(
        15352,
        16,
        "The %S_MSG cannot be dropped because one or more entities are either signed or encrypted using it.",
    ),
    m(
        15388,
        11,
        "There is no user table matching the input name '%s' in the current database or you do not have permission to access the table.",
    ),
    m(15405, 16, "Cannot use the special principal '%.*ls'."),
    m(
        15406,
        16,
        "Cannot execute as the server principal because the principal \"%.*ls\" does not exist, this type of principal cannot be impersonated, or you do not have permission.",
    ),
    m(15409, 11, "'%s' is not a role."),
    m(
        15410,
        11,
        "User or role '%.*ls' does not exist in this database.",
    ),
    m(15413, 16, "Cannot make a role a member of itself."),
    m(15419, 16, "Supplied parameter sid should be binary(16)."),
    m(15433, 16, "Supplied parameter sid is in use."),
    m(
        15434,
        16,
        "Could not drop login '%.*ls' as the user is currently logged in.",
    ),
    m(
        15457,
        10,
        "Configuration option '%ls' changed from %ld to %ld. Run the RECONFIGURE statement to install.",
    ),
    m(
        15459,
        0,
        "In the current database, the specified object references the following:",
    ),
    m(
        15460,
        0,
        "In the current database, the specified object is referenced by the following:",
    ),
    m(
        15461,
        0,
        "Object does not reference any object, and no objects reference it.",
    ),
    m(15465, 16, "The private key password is invalid."),
    m(15466, 16, "An error occurred during decryption."),
    m(
        15477,
        10,
        "Caution: Changing any part of an object name could break scripts and stored procedures.",
    ),
    m(
        15517,
        16,
        "Cannot execute as the database principal because the principal \"%.*ls\" does not exist, this type of principal cannot be impersonated, or you do not have permission.",
    ),
    m(
        15533,
        16,
        "Invalid data type is supplied in the '%ls' statement.",
    ),
    m(
        15539,
        16,
        "User '%.*ls' cannot be dropped, it can only be disabled. The user is already disabled in the current database.",
    ),
    m(
        15556,
        16,
        "Cannot decrypt or encrypt using the specified %S_MSG, either because it has no private key or because the password provided for the private key is incorrect.",
    ),
    m(
        15578,
        16,
        "There is already a master key in the database. Please drop it before performing this statement.",
    ),
    m(
        15580,
        16,
        "Cannot drop %S_MSG because %S_MSG '%.*s' is encrypted by it.",
    ),
    m(
        15581,
        16,
        "Please create a master key in the database or open the master key in the session before performing this operation.",
    ),
    m(
        15591,
        16,
        "The current security context cannot be reverted using this statement. A cookie may or may not be needed with 'Revert' statement depending on how the context was set with 'Execute As' statement.",
    ),
    m(
        15600,
        15,
        "An invalid parameter or option was specified for procedure '%s'.",
    ),
    m(16902, 16, "%ls: The value of the parameter %ls is invalid."),
    m(
        16903,
        16,
        "The \"%ls\" procedure was called with an incorrect number of parameters.",
    ),
    m(16905, 16, "The cursor is already open."),
    m(
        16909,
        16,
        "%ls: The cursor identifier value provided (%ls) is not valid.",
    ),
    m(
        16911,
        16,
        "%hs: The fetch type %hs cannot be used with forward only cursors.",
    ),
    m(16915, 16, "A cursor with the name '%.*ls' already exists."),
    m(16916, 16, "A cursor with the name '%.*ls' does not exist."),
    m(16917, 16, "Cursor is not open."),
    m(
        16924,
        16,
        "Cursorfetch: The number of variables declared in the INTO list must match that of selected columns.",
    ),
    m(
        16925,
        16,
        "The fetch type %hs cannot be used with dynamic cursors.",
    ),
    m(16929, 16, "The cursor is READ ONLY."),
    m(16931, 16, "There are no rows in the current fetch buffer."),
    m(
        16932,
        16,
        "The cursor has a FOR UPDATE list and the requested column to be updated is not in this list.",
    ),
    m(
        16933,
        16,
        "The cursor does not include the table being modified or the table is not updatable through the cursor.",
    ),
    m(
        16934,
        10,
        "Optimistic concurrency check failed. The row was modified outside of this cursor.",
    ),
    m(
        16937,
        16,
        "A server cursor cannot be opened on the given statement or statements. Use a default result set or client cursor.",
    ),
    m(
        16943,
        16,
        "Could not complete cursor operation because the table schema changed after the cursor was declared.",
    ),
    m(16947, 16, "No rows were updated or deleted."),
    m(
        16948,
        16,
        "The variable '%.*ls' is not a cursor variable, but it is used in a place where a cursor variable is expected.",
    ),
    m(
        16949,
        16,
        "The variable '%.*ls' is a cursor variable, but it is used in a place where a cursor variable is not expected.",
    ),
    m(
        16950,
        16,
        "The variable '%.*ls' does not currently have a cursor allocated to it.",
    ),
    m(
        16951,
        16,
        "The variable '%.*ls' cannot be used as a parameter because a CURSOR OUTPUT parameter must not have a cursor allocated to it before execution of the procedure.",
    ),
    m(16954, 10, "Executing SQL directly; no cursor."),
    m(16955, 16, "Could not create an acceptable cursor."),
    m(
        16957,
        16,
        "FOR UPDATE cannot be specified on a READ ONLY cursor.",
    ),
    m(17137, 10, "Starting up database '%.*ls'."),
    m(
        17892,
        14,
        "Logon failed for login '%.*ls' due to trigger execution.",
    ),
    m(
        18054,
        16,
        "Error %d, severity %d, state %d was raised, but no message with that error number was found in sys.messages. If error is larger than 50000, make sure the user-defined message is added using sp_addmessage.",
    ),
    m(
        18264,
        10,
        "Database backed up. Database: %s, creation date(time): %s(%s), pages dumped: %d, first LSN: %s, last LSN: %s, number of dump devices: %d, device information: (%s). This is an informational message only. No user action is required.",
    ),
    m(
        18265,
        10,
        "Log was backed up. Database: %s, creation date(time): %s(%s), first LSN: %s, last LSN: %s, number of dump devices: %d, device information: (%s). This is an informational message only. No user action is required.",
    ),
    m(
        18267,
        10,
        "Database was restored: Database: %s, creation date(time): %s(%s), first LSN: %s, last LSN: %s, number of dump devices: %d, device information: (%s). Informational message. No user action required.",
    ),
    m(
        18268,
        10,
        "Log was restored. Database: %s, creation date(time): %s(%s), first LSN: %s, last LSN: %s, number of dump devices: %d, device information: (%s). This is an informational message. No user action is required.",
    ),
    m(
        18270,
        10,
        "Database differential changes were backed up. Database: %s, creation date(time): %s(%s), pages dumped: %d, first LSN: %s, last LSN: %s, full backup LSN: %s, number of dump devices: %d, device information: (%s). This is an informational message. No user action is required.",
    ),
    m(18456, 14, "Login failed for user '%.*ls'.%.*ls%.*ls"),
    m(
        18486,
        14,
        "Login failed for user '%.*ls' because the account is currently locked out. The system administrator can unlock it.",
    ),
    m(
        18487,
        14,
        "Login failed for user '%.*ls'.  Reason: The password of the account has expired.",
    ),
    m(
        18488,
        14,
        "Login failed for user '%.*ls'.  Reason: The password of the account must be changed.",
    ),
    m(
        19452,
        16,
        "The availability group listener (network name) with Windows Server Failover Clustering resource ID '%s', DNS name '%s', port %d failed to start with a permanent error: %d. Verify port numbers, DNS names and other related network configuration, then retry the operation.",
    ),
    m(25601, 17, "The extended event engine is out of memory."),
    m(
        25623,
        16,
        "The %S_MSG name, \"%.*ls\", is invalid, or the object could not be found",
    ),
    m(
        25625,
        16,
        "The %S_MSG, \"%.*ls\", already exists in the event session. Object cannot be added to the event session.",
    ),
    m(
        25629,
        16,
        "For %S_MSG, \"%.*ls\", the customizable attribute, \"%ls\", does not exist.",
    ),
    m(
        25631,
        16,
        "The %S_MSG, \"%.*ls\", already exists.  Choose a unique name for the event session.",
    ),
    m(
        25632,
        16,
        "The specified buffer size is less than the minimum size.",
    ),
    m(
        25633,
        16,
        "The buffer size specified exceeds the maximum size.",
    ),
    m(
        25640,
        16,
        "Maximum event size is smaller than configured event session memory. Specify a larger value for maximum event size, or specify 0.",
    ),
    m(
        25641,
        16,
        "For %S_MSG, \"%.*ls\", the parameter \"%ls\" passed is invalid.  %ls",
    ),
    m(
        25642,
        16,
        "Mandatory customizable attributes are missing for %S_MSG, \"%.*ls\".",
    ),
    m(
        25650,
        16,
        "For %S_MSG, \"%.*ls\" the customizable attribute, \"%ls\", was specified multiple times.",
    ),
    m(
        25651,
        16,
        "For %S_MSG, \"%.*ls\", the value specified for customizable attribute, \"%ls\", did not match the expected type, \"%ls\".",
    ),
    m(
        25653,
        16,
        "The %S_MSG, \"%.*ls\", does not exist in the event session. Object cannot be dropped from the event session.",
    ),
    m(
        25702,
        16,
        "The event session option, \"%.*ls\", is set more than once. Remove the duplicate session option and re-issue the statement.",
    ),
    m(
        25703,
        16,
        "The event session option, \"%.*ls\", has an invalid value. Correct the value and re-issue the statement.",
    ),
    m(25704, 16, "The event session has already been stopped."),
    m(25705, 16, "The event session has already been started."),
    m(25706, 16, "The %S_MSG, \"%.*ls\", could not be found."),
    m(
        25707,
        16,
        "Event session option \"%.*ls\" cannot be changed while the session is running. Stop the event session before changing this session option.",
    ),
    m(25711, 16, "Failed to parse an event predicate."),
    m(
        25713,
        16,
        "The value specified for %S_MSG, \"%.*ls\", %S_MSG, \"%.*ls\", is invalid.",
    ),
    m(
        25715,
        16,
        "The predicate on event \"%ls\" is invalid. Operator '%ls' is not defined for type \"%ls\", %S_MSG: \"%.*ls\".",
    ),
    m(
        25716,
        16,
        "The predicate on event, \"%.*ls\", exceeds the maximum length of %d characters.",
    ),
    m(
        25718,
        16,
        "The log file name \"%s\" is invalid.  Verify that the file exists and that the SQL Server service account has access to it.",
    ),
    m(
        25719,
        16,
        "Initial file name and initial offset must be specified as a pair. Please correct the parameters and retry your query.",
    ),
    m(
        25722,
        16,
        "The offset %d is invalid for log file \"%s\". Specify an offset that exists in the log file and retry your query.",
    ),
    m(
        33111,
        16,
        "Cannot find server %S_MSG with thumbprint '%.*ls'.",
    ),
    m(
        33233,
        16,
        "You can only create a user with a password in a contained database.",
    ),
    m(
        35221,
        16,
        "Could not process the operation.  Always On Availability Groups replica manager is disabled on this instance of SQL Server.  Enable Always On Availability Groups, by using the SQL Server Configuration Manager.  Then, restart the SQL Server service, and retry the currently attempted operation. For information about how to enable and disable Always On Availability Groups, see SQL Server Books Online.",
    ),
    m(
        35223,
        16,
        "Cannot add %d availability replica(s) to availability group '%.*ls'.  The availability group already contains %d replica(s), and the maximum number of replicas supported in an availability group is %d.",
    ),
    m(
        35228,
        16,
        "The attempt to set the failure condition level for availability group '%.*ls' failed.  The specified level value is out of the valid range [%u, %u].  Reenter the command specifying a valid failure condition level value.",
    ),
    m(
        35229,
        16,
        "The attempt to set the health check timeout value for availability group '%.*ls' failed.  The specified time-out value is less than %u milliseconds.  Reenter the command specifying a valid health check timeout value.",
    ),
    m(
        35230,
        16,
        "The specified computer name is either an empty string or is longer than %d Unicode characters.  Reenter the command specifying a valid computer name.",
    ),
    m(
        35232,
        16,
        "The specified endpoint URL '%.*ls' is invalid.  Reenter the command specifying the correct URL.  For information about specifying the endpoint URL for an availability replica, see SQL Server Books Online.",
    ),
    m(
        35233,
        16,
        "Cannot create an availability group containing %d availability replica(s). The maximum number of availability replicas in an availability group %ls is %d. Reenter your CREATE AVAILABILITY GROUP command specifying fewer availability replicas.",
    ),
    m(
        35234,
        16,
        "Database name '%ls' was specified more than once.  Reenter the command, specifying each database name only once.",
    ),
    m(
        35235,
        16,
        "The system name '%ls' was specified more than once in the REPLICA ON clause of this command.  Reenter the command, specifying a different instance of SQL Server for each replica.",
    ),
    m(
        35236,
        15,
        "The endpoint URL was not specified for the availability replica hosted by server instance '%.*ls'.  Reenter the command, specifying the endpoint URL of this instance of SQL Server.",
    ),
    m(
        35237,
        16,
        "None of the specified replicas for availability group %.*ls maps to the instance of SQL Server to which you are connected.  Reenter the command, specifying this server instance to host one of the replicas.  This replica will be the initial primary replica.",
    ),
    m(
        35238,
        16,
        "Database '%.*ls' cannot be added to availability group '%.*ls'.  The database does not exist on this SQL Server instance.  Verify that the database name is correct and that the database exists, then retry the operation.",
    ),
    m(
        35240,
        16,
        "Database '%.*ls' cannot be joined to or unjoined from availability group '%.*ls'.  This operation is not supported on the primary replica of the availability group.",
    ),
    m(
        35242,
        16,
        "Cannot complete this ALTER DATABASE <database-name> SET HADR operation on database '%.*ls'.  The database is not joined to an availability group.  After the database has joined the availability group, retry the command.",
    ),
    m(
        35244,
        16,
        "Database '%.*ls' cannot be added to availability group '%.*ls'.  The database is currently joined to another availability group.  Verify that the database name is correct and that the database is not joined to an availability group, then retry the operation.",
    ),
    m(
        35249,
        16,
        "An attempt to add or join a system database, '%.*ls', to an availability group failed.  Specify only user databases for this operation.",
    ),
    m(
        35250,
        16,
        "The connection to the primary replica is not active.  The command cannot be processed.",
    ),
    m(
        35251,
        16,
        "This command can be run only on the primary replica.  Connect to the primary replica, and retry the command.",
    ),
    m(
        35280,
        16,
        "Database '%.*ls' cannot be added to availability group '%.*ls'.  The database is already joined to the specified availability group.  Verify that the database name is correct and that the database is not joined to an availability group, then retry the operation.",
    ),
    m(
        35281,
        16,
        "Database '%.*ls' cannot be removed from availability group '%.*ls'.  The database is not joined to the specified availability group.  Verify that the database name and the availability group name are correct, then retry the operation.",
    ),
    m(
        35282,
        16,
        "Availability replica '%.*ls' cannot be added to availability group '%.*ls'.  The availability group already contains an availability replica with the specified name.  Verify that the availability replica name and the availability group name are correct, then retry the operation.",
    ),
    m(
        35283,
        16,
        "Availability replica '%.*ls' cannot be removed from availability group '%.*ls'.  The availability group does not contain an availability replica with the specified name.  Verify that the availability replica name is correct, then retry the operation.",
    ),
    m(
        35284,
        16,
        "Availability replica '%.*ls' cannot be removed from availability group '%.*ls', because this replica is on the local instance of SQL Server.  If the local availability replica is a secondary replica, connect to the server instance that is currently hosting the primary replica, and re-run the command.",
    ),
    m(
        40517,
        16,
        "Keyword or statement option '%.*ls' is not supported in this version of SQL Server.",
    ),
    m(
        41042,
        16,
        "The availability group '%.*ls' already exists.  This error could be caused by a previous failed CREATE AVAILABILITY GROUP or DROP AVAILABILITY GROUP operation.  If the availability group name you specified is correct, try dropping the availability group and then retry CREATE AVAILABILITY GROUP operation.",
    ),
    m(
        41122,
        16,
        "Cannot failover availability group '%.*ls' to this instance of SQL Server.  The local availability replica is already the primary replica of the availability group.  To failover this availability group to another instance of SQL Server, run the failover command on that instance of SQL Server.  If local instance of SQL Server is intended to host the primary replica of the availability group, then no action is required.",
    ),
    m(
        41142,
        16,
        "The availability replica for availability group '%.*ls' on this instance of SQL Server cannot become the primary replica. One or more databases are not synchronized or have not joined the availability group. If the availability replica uses the asynchronous-commit mode, consider performing a forced manual failover (with possible data loss). Otherwise, once all local secondary databases are joined and synchronized, you can perform a planned manual failover to this secondary replica (without data loss). For more information, see SQL Server Books Online.",
    ),
    m(
        47104,
        16,
        "This operation cannot be performed on the availability group '%.*ls' because it has EXTERNAL cluster type. Use the cluster management tools to perform the operation.",
    ),
    m(
        47106,
        16,
        "Cannot join availability group '%.*ls'. Download configuration timeout. Please check primary configuration, network connectivity and firewall setup, then retry the operation.",
    ),
    m(
        47116,
        16,
        "The external lease cannot be set on availability group '%.*ls'.  External Lease updates are not enabled for this availability group.",
    ),
    m(
        49930,
        10,
        "Parallel redo is %ls for database '%.*ls' with worker pool size [%d].",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow() {
        for pair in MESSAGES.windows(2) {
            let [a, b] = pair else { continue };
            assert!(a.number < b.number, "{} before {}", a.number, b.number);
        }
    }

    #[test]
    fn arguments_fill_placeholders_in_order() {
        let e = error(208, &[&"dbo.nope"]);
        assert_eq!(e.message, "Invalid object name 'dbo.nope'.");
        assert_eq!((e.number, e.class, e.state), (208, 16, 1));
        let e = error(266, &[&1, &0]);
        assert!(
            e.message
                .ends_with("Previous count = 1, current count = 0.")
        );
        assert_eq!(fill("100%% of %d", &[&3]), "100% of 3");
    }
}
