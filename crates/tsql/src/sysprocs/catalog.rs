//! Catalogue procedures of ODBC: tables, columns, keys, statistics, procedures, types.
//!
//! Drivers call them by name with positional or named arguments and read columns by position, so lists and order are
//! the product's.

use super::define::Procedure;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::text("sp_tables", TABLES_PARAMETERS, TABLES),
    Procedure::text("sp_columns", COLUMNS_PARAMETERS, COLUMNS),
    Procedure::text("sp_columns_90", COLUMNS_PARAMETERS, COLUMNS),
    Procedure::text("sp_columns_100", COLUMNS_100_PARAMETERS, COLUMNS_100),
    Procedure::text(
        "sp_pkeys",
        "@table_name sysname; @table_owner sysname = NULL; @table_qualifier sysname = NULL",
        PRIMARY_KEYS,
    ),
    Procedure::text("sp_fkeys", FOREIGN_KEYS_PARAMETERS, FOREIGN_KEYS),
    Procedure::text("sp_statistics", STATISTICS_PARAMETERS, STATISTICS),
    Procedure::text("sp_statistics_100", STATISTICS_PARAMETERS, STATISTICS),
    Procedure::text("sp_special_columns", SPECIAL_PARAMETERS, SPECIAL_COLUMNS),
    Procedure::text("sp_special_columns_90", SPECIAL_PARAMETERS, SPECIAL_COLUMNS),
    Procedure::text(
        "sp_special_columns_100",
        SPECIAL_PARAMETERS,
        SPECIAL_COLUMNS,
    ),
    Procedure::text(
        "sp_stored_procedures",
        PROCEDURES_PARAMETERS,
        STORED_PROCEDURES,
    ),
    Procedure::text(
        "sp_sproc_columns",
        PROCEDURE_COLUMNS_PARAMETERS,
        PROCEDURE_COLUMNS,
    ),
    Procedure::text(
        "sp_sproc_columns_90",
        PROCEDURE_COLUMNS_PARAMETERS,
        PROCEDURE_COLUMNS,
    ),
    Procedure::text(
        "sp_sproc_columns_100",
        PROCEDURE_COLUMNS_PARAMETERS,
        PROCEDURE_COLUMNS_100,
    ),
    Procedure::text(
        "sp_datatype_info",
        "@data_type int = 0; @ODBCVer tinyint = 2",
        DATATYPES_OLD,
    ),
    Procedure::text(
        "sp_datatype_info_90",
        "@data_type int = 0; @ODBCVer tinyint = 2",
        DATATYPES_OLD,
    ),
    Procedure::text(
        "sp_datatype_info_100",
        "@data_type int = 0; @ODBCVer tinyint = 2",
        DATATYPES,
    ),
    Procedure::text("sp_databases", "", DATABASES),
    Procedure::text(
        "sp_table_privileges",
        "@table_name nvarchar(384); @table_owner nvarchar(384) = NULL; @table_qualifier sysname = NULL; @fUsePattern bit = 1",
        TABLE_PRIVILEGES,
    ),
    Procedure::text(
        "sp_column_privileges",
        "@table_name sysname; @table_owner sysname = NULL; @table_qualifier sysname = NULL; @column_name nvarchar(384) = NULL",
        COLUMN_PRIVILEGES,
    ),
];

const TABLES_PARAMETERS: &str = "
    @table_name nvarchar(384) = NULL; @table_owner nvarchar(384) = NULL; @table_qualifier sysname = NULL;
    @table_type varchar(100) = NULL; @fUsePattern bit = 1";

/// Empty strings with a single `%` list databases, schemas or types.
const TABLES: &str = "
IF @table_qualifier = '%' AND @table_owner = '' AND @table_name = ''
    SELECT name AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER, CAST(NULL AS sysname) AS TABLE_NAME,
        CAST(NULL AS varchar(32)) AS TABLE_TYPE, CAST(NULL AS varchar(254)) AS REMARKS
    FROM sys.databases ORDER BY 1
ELSE IF @table_owner = '%' AND @table_qualifier = '' AND @table_name = ''
    SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, name AS TABLE_OWNER, CAST(NULL AS sysname) AS TABLE_NAME,
        CAST(NULL AS varchar(32)) AS TABLE_TYPE, CAST(NULL AS varchar(254)) AS REMARKS
    FROM $.sys.schemas ORDER BY 2
ELSE IF @table_type = '%' AND @table_qualifier = '' AND @table_owner = '' AND @table_name = ''
    SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER, CAST(NULL AS sysname) AS TABLE_NAME,
        CAST(k.kind AS varchar(32)) AS TABLE_TYPE, CAST(NULL AS varchar(254)) AS REMARKS
    FROM (VALUES ('SYSTEM TABLE'), ('TABLE'), ('VIEW')) k (kind) ORDER BY 4
ELSE
    SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, s.name AS TABLE_OWNER, o.name AS TABLE_NAME,
        CAST(CASE WHEN o.type = 'U' THEN 'TABLE' ELSE 'VIEW' END AS varchar(32)) AS TABLE_TYPE, CAST(NULL AS varchar(254)) AS REMARKS
    FROM $.sys.all_objects o JOIN $.sys.schemas s ON s.schema_id = o.schema_id
    WHERE o.type IN ('U', 'V')
        AND (@table_name IS NULL OR (@fUsePattern = 1 AND o.name LIKE @table_name) OR o.name = @table_name)
        AND (@table_owner IS NULL OR (@fUsePattern = 1 AND s.name LIKE @table_owner) OR s.name = @table_owner)
        AND (@table_type IS NULL OR @table_type = '%' OR @table_type LIKE CASE WHEN o.type = 'U' THEN '%''TABLE''%' ELSE '%''VIEW''%' END
            OR @table_type = CASE WHEN o.type = 'U' THEN 'TABLE' ELSE 'VIEW' END)
    ORDER BY 4, 1, 2, 3";

const COLUMNS_PARAMETERS: &str = "
    @table_name nvarchar(384); @table_owner nvarchar(384) = NULL; @table_qualifier sysname = NULL;
    @column_name nvarchar(384) = NULL; @ODBCVer int = 2";
const COLUMNS_100_PARAMETERS: &str = "
    @table_name nvarchar(384); @table_owner nvarchar(384) = NULL; @table_qualifier sysname = NULL;
    @column_name nvarchar(384) = NULL; @NameScope int = 0; @ODBCVer int = 2; @fUsePattern bit = 1";

const COLUMNS: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, c.TABLE_OWNER, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE_OLD AS DATA_TYPE, c.TYPE_NAME,
    c.PRECISION, c.LENGTH, c.SCALE, c.RADIX, c.NULLABLE, c.REMARKS, c.COLUMN_DEF,
    CAST(CASE WHEN c.DATA_TYPE_OLD = -9 THEN -9 ELSE c.SQL_DATA_TYPE END AS smallint) AS SQL_DATA_TYPE, c.SQL_DATETIME_SUB,
    c.CHAR_OCTET_LENGTH, c.ORDINAL_POSITION, c.IS_NULLABLE, c.SS_DATA_TYPE
FROM $.sys.spt_columns_odbc_view c
WHERE (@table_name IS NULL OR c.TABLE_NAME LIKE @table_name) AND (@table_owner IS NULL OR c.TABLE_OWNER LIKE @table_owner)
    AND (@column_name IS NULL OR c.COLUMN_NAME LIKE @column_name)
ORDER BY 2, 3, 17";

const COLUMNS_100: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, c.TABLE_OWNER, c.TABLE_NAME, c.COLUMN_NAME,
    CASE WHEN @ODBCVer >= 3 THEN c.DATA_TYPE ELSE c.DATA_TYPE_2 END AS DATA_TYPE, c.TYPE_NAME, c.PRECISION, c.LENGTH, c.SCALE, c.RADIX,
    c.NULLABLE, c.REMARKS, c.COLUMN_DEF, c.SQL_DATA_TYPE, c.SQL_DATETIME_SUB, c.CHAR_OCTET_LENGTH, c.ORDINAL_POSITION, c.IS_NULLABLE,
    c.SS_IS_SPARSE, c.SS_IS_COLUMN_SET, c.SS_IS_COMPUTED, c.SS_IS_IDENTITY, CAST(NULL AS sysname) AS SS_UDT_CATALOG_NAME,
    CAST(NULL AS sysname) AS SS_UDT_SCHEMA_NAME, CAST(NULL AS nvarchar(4000)) AS SS_UDT_ASSEMBLY_TYPE_NAME,
    CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_CATALOG_NAME, CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_SCHEMA_NAME,
    CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_NAME, c.SS_DATA_TYPE
FROM $.sys.spt_columns_odbc_view c
WHERE (@table_name IS NULL OR (@fUsePattern = 1 AND c.TABLE_NAME LIKE @table_name) OR c.TABLE_NAME = @table_name)
    AND (@table_owner IS NULL OR (@fUsePattern = 1 AND c.TABLE_OWNER LIKE @table_owner) OR c.TABLE_OWNER = @table_owner)
    AND (@column_name IS NULL OR (@fUsePattern = 1 AND c.COLUMN_NAME LIKE @column_name) OR c.COLUMN_NAME = @column_name)
ORDER BY 2, 3, 17";

const PRIMARY_KEYS: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, s.name AS TABLE_OWNER, t.name AS TABLE_NAME, c.name AS COLUMN_NAME,
    CAST(ic.key_ordinal AS smallint) AS KEY_SEQ, k.name AS PK_NAME
FROM $.sys.key_constraints k
    JOIN $.sys.tables t ON t.object_id = k.parent_object_id
    JOIN $.sys.schemas s ON s.schema_id = t.schema_id
    JOIN $.sys.index_columns ic ON ic.object_id = t.object_id AND ic.index_id = k.unique_index_id AND ic.key_ordinal > 0
    JOIN $.sys.columns c ON c.object_id = t.object_id AND c.column_id = ic.column_id
WHERE k.type = 'PK' AND t.name = @table_name AND (@table_owner IS NULL OR s.name = @table_owner)
ORDER BY 1, 2, 3, 5";

const FOREIGN_KEYS_PARAMETERS: &str = "
    @pktable_name sysname = NULL; @pktable_owner sysname = NULL; @pktable_qualifier sysname = NULL;
    @fktable_name sysname = NULL; @fktable_owner sysname = NULL; @fktable_qualifier sysname = NULL";

/// ODBC counts referential actions otherwise than the catalog: 0 cascade, 1 none.
const FOREIGN_KEYS: &str = "
SELECT CAST(@db AS sysname) AS PKTABLE_QUALIFIER, ps.name AS PKTABLE_OWNER, p.name AS PKTABLE_NAME, pc.name AS PKCOLUMN_NAME,
    CAST(@db AS sysname) AS FKTABLE_QUALIFIER, fs.name AS FKTABLE_OWNER, f.name AS FKTABLE_NAME, fc.name AS FKCOLUMN_NAME,
    CAST(k.constraint_column_id AS smallint) AS KEY_SEQ,
    CAST(CASE fk.update_referential_action WHEN 1 THEN 0 WHEN 0 THEN 1 ELSE fk.update_referential_action END AS smallint) AS UPDATE_RULE,
    CAST(CASE fk.delete_referential_action WHEN 1 THEN 0 WHEN 0 THEN 1 ELSE fk.delete_referential_action END AS smallint) AS DELETE_RULE,
    fk.name AS FK_NAME, i.name AS PK_NAME, CAST(7 AS smallint) AS DEFERRABILITY
FROM $.sys.foreign_keys fk
    JOIN $.sys.foreign_key_columns k ON k.constraint_object_id = fk.object_id
    JOIN $.sys.tables f ON f.object_id = fk.parent_object_id
    JOIN $.sys.schemas fs ON fs.schema_id = f.schema_id
    JOIN $.sys.columns fc ON fc.object_id = f.object_id AND fc.column_id = k.parent_column_id
    JOIN $.sys.tables p ON p.object_id = fk.referenced_object_id
    JOIN $.sys.schemas ps ON ps.schema_id = p.schema_id
    JOIN $.sys.columns pc ON pc.object_id = p.object_id AND pc.column_id = k.referenced_column_id
    LEFT JOIN $.sys.indexes i ON i.object_id = p.object_id AND i.index_id = fk.key_index_id
WHERE (@pktable_name IS NULL OR p.name = @pktable_name) AND (@pktable_owner IS NULL OR ps.name = @pktable_owner)
    AND (@fktable_name IS NULL OR f.name = @fktable_name) AND (@fktable_owner IS NULL OR fs.name = @fktable_owner)
ORDER BY 5, 6, 7, 12, 9";

const STATISTICS_PARAMETERS: &str = "
    @table_name sysname; @table_owner sysname = NULL; @table_qualifier sysname = NULL; @index_name sysname = %;
    @is_unique char(1) = N; @accuracy char(1) = Q";

const STATISTICS: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, s.name AS TABLE_OWNER, t.name AS TABLE_NAME, CAST(NULL AS smallint) AS NON_UNIQUE,
    CAST(NULL AS sysname) AS INDEX_QUALIFIER, CAST(NULL AS sysname) AS INDEX_NAME, CAST(0 AS smallint) AS TYPE,
    CAST(NULL AS smallint) AS SEQ_IN_INDEX, CAST(NULL AS sysname) AS COLUMN_NAME, CAST(NULL AS char(1)) AS COLLATION,
    p.rows AS CARDINALITY, p.used AS PAGES, CAST(NULL AS varchar(128)) AS FILTER_CONDITION
FROM $.sys.tables t
    JOIN $.sys.schemas s ON s.schema_id = t.schema_id
    JOIN $.sys.sysindexes p ON p.id = t.object_id AND p.indid < 2
WHERE t.name = @table_name AND (@table_owner IS NULL OR s.name = @table_owner)
UNION ALL
SELECT CAST(@db AS sysname), s.name, t.name, CAST(CASE WHEN i.is_unique = 1 THEN 0 ELSE 1 END AS smallint), t.name, i.name,
    CAST(CASE WHEN i.type = 1 THEN 1 ELSE 3 END AS smallint), CAST(ic.key_ordinal AS smallint), c.name,
    CAST(CASE WHEN ic.is_descending_key = 1 THEN 'D' ELSE 'A' END AS char(1)), p.rows, p.used,
    CAST(NULL AS varchar(128))
FROM $.sys.tables t
    JOIN $.sys.schemas s ON s.schema_id = t.schema_id
    JOIN $.sys.indexes i ON i.object_id = t.object_id AND i.type > 0
    JOIN $.sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id AND ic.key_ordinal > 0
    JOIN $.sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
    JOIN $.sys.sysindexes p ON p.id = i.object_id AND p.indid = i.index_id
WHERE t.name = @table_name AND (@table_owner IS NULL OR s.name = @table_owner) AND i.name LIKE @index_name
    AND (@is_unique <> 'Y' OR i.is_unique = 1)
ORDER BY 4, 7, 6, 8";

const SPECIAL_PARAMETERS: &str = "
    @table_name sysname; @table_owner sysname = NULL; @table_qualifier sysname = NULL; @col_type char(1) = R;
    @scope char(1) = T; @nullable char(1) = U; @ODBCVer int = 2";

/// R: the columns that identify a row (the primary key, else the first unique index); V: those that change with it.
const SPECIAL_COLUMNS: &str = "
IF @col_type = 'V'
    SELECT CAST(NULL AS smallint) AS SCOPE, v.COLUMN_NAME, v.DATA_TYPE, v.TYPE_NAME, v.PRECISION, v.LENGTH, v.SCALE,
        CAST(1 AS smallint) AS PSEUDO_COLUMN
    FROM $.sys.spt_columns_odbc_view v
    WHERE v.TABLE_NAME = @table_name AND (@table_owner IS NULL OR v.TABLE_OWNER = @table_owner) AND v.TYPE_NAME = 'timestamp'
ELSE
    SELECT CAST(0 AS smallint) AS SCOPE, v.COLUMN_NAME, CASE WHEN @ODBCVer >= 3 THEN v.DATA_TYPE ELSE v.DATA_TYPE_2 END AS DATA_TYPE,
        v.TYPE_NAME, v.PRECISION, v.LENGTH, v.SCALE, CAST(1 AS smallint) AS PSEUDO_COLUMN
    FROM $.sys.spt_columns_odbc_view v
        JOIN $.sys.index_columns ic ON ic.object_id = v.object_id AND ic.column_id = v.column_id AND ic.key_ordinal > 0
    WHERE v.TABLE_NAME = @table_name AND (@table_owner IS NULL OR v.TABLE_OWNER = @table_owner)
        AND ic.index_id = (SELECT TOP (1) i.index_id FROM $.sys.indexes i
            WHERE i.object_id = v.object_id AND i.is_unique = 1 AND i.has_filter = 0
            ORDER BY i.is_primary_key DESC, i.index_id)
        AND (@nullable <> 'O' OR v.NULLABLE = 0)
    ORDER BY ic.key_ordinal";

const PROCEDURES_PARAMETERS: &str = "
    @sp_name nvarchar(390) = NULL; @sp_owner nvarchar(384) = NULL; @sp_qualifier sysname = NULL; @fUsePattern bit = 1";

const STORED_PROCEDURES: &str = "
SELECT CAST(@db AS sysname) AS PROCEDURE_QUALIFIER, s.name AS PROCEDURE_OWNER, CAST(o.name + N';1' AS nvarchar(134)) AS PROCEDURE_NAME,
    CAST(-1 AS int) AS NUM_INPUT_PARAMS, CAST(-1 AS int) AS NUM_OUTPUT_PARAMS, CAST(-1 AS int) AS NUM_RESULT_SETS,
    CAST(NULL AS varchar(254)) AS REMARKS, CAST(2 AS smallint) AS PROCEDURE_TYPE
FROM $.sys.all_objects o JOIN $.sys.schemas s ON s.schema_id = o.schema_id
WHERE o.type IN ('P', 'FN', 'TF', 'IF', 'X')
    AND (@sp_name IS NULL OR (@fUsePattern = 1 AND o.name LIKE @sp_name) OR o.name = @sp_name OR o.name + N';1' = @sp_name)
    AND (@sp_owner IS NULL OR (@fUsePattern = 1 AND s.name LIKE @sp_owner) OR s.name = @sp_owner)
ORDER BY 1, 2, 3";

const PROCEDURE_COLUMNS_PARAMETERS: &str = "
    @procedure_name nvarchar(390) = %; @procedure_owner nvarchar(384) = NULL; @procedure_qualifier sysname = NULL;
    @column_name nvarchar(384) = NULL; @ODBCVer int = 2; @fUsePattern bit = 1";

const PROCEDURE_COLUMNS: &str = "
SELECT CAST(@db AS sysname) AS PROCEDURE_QUALIFIER, p.PROCEDURE_OWNER, p.PROCEDURE_NAME, p.COLUMN_NAME, p.COLUMN_TYPE,
    p.DATA_TYPE_OLD AS DATA_TYPE, p.TYPE_NAME, p.PRECISION, p.LENGTH, p.SCALE, p.RADIX, p.NULLABLE, p.REMARKS, p.COLUMN_DEF,
    p.SQL_DATA_TYPE, p.SQL_DATETIME_SUB, p.CHAR_OCTET_LENGTH, p.ORDINAL_POSITION, p.IS_NULLABLE, p.SS_DATA_TYPE
FROM $.sys.spt_sproc_columns_odbc_view p
WHERE ((@fUsePattern = 1 AND p.PROCEDURE_NAME LIKE @procedure_name + N';1') OR p.PROCEDURE_NAME = @procedure_name + N';1'
        OR p.PROCEDURE_NAME LIKE @procedure_name)
    AND (@procedure_owner IS NULL OR p.PROCEDURE_OWNER LIKE @procedure_owner)
    AND (@column_name IS NULL OR p.COLUMN_NAME LIKE @column_name)
ORDER BY 2, 3, 18";

const PROCEDURE_COLUMNS_100: &str = "
SELECT CAST(@db AS sysname) AS PROCEDURE_QUALIFIER, p.PROCEDURE_OWNER, p.PROCEDURE_NAME, p.COLUMN_NAME, p.COLUMN_TYPE,
    CASE WHEN @ODBCVer >= 3 THEN p.DATA_TYPE ELSE p.DATA_TYPE_2 END AS DATA_TYPE, p.TYPE_NAME, p.PRECISION, p.LENGTH, p.SCALE, p.RADIX,
    p.NULLABLE, p.REMARKS, p.COLUMN_DEF, p.SQL_DATA_TYPE, p.SQL_DATETIME_SUB, p.CHAR_OCTET_LENGTH, p.ORDINAL_POSITION, p.IS_NULLABLE,
    CAST(NULL AS sysname) AS SS_TYPE_CATALOG_NAME, CAST(NULL AS sysname) AS SS_TYPE_SCHEMA_NAME, CAST(NULL AS sysname) AS SS_UDT_CATALOG_NAME,
    CAST(NULL AS sysname) AS SS_UDT_SCHEMA_NAME, CAST(NULL AS nvarchar(4000)) AS SS_UDT_ASSEMBLY_TYPE_NAME,
    CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_CATALOG_NAME, CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_SCHEMA_NAME,
    CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_NAME, p.SS_DATA_TYPE
FROM $.sys.spt_sproc_columns_odbc_view p
WHERE ((@fUsePattern = 1 AND p.PROCEDURE_NAME LIKE @procedure_name + N';1') OR p.PROCEDURE_NAME = @procedure_name + N';1'
        OR p.PROCEDURE_NAME LIKE @procedure_name)
    AND (@procedure_owner IS NULL OR p.PROCEDURE_OWNER LIKE @procedure_owner)
    AND (@column_name IS NULL OR p.COLUMN_NAME LIKE @column_name)
ORDER BY 2, 3, 18";

const DATATYPES: &str = "
SELECT TYPE_NAME, CASE WHEN @ODBCVer >= 3 THEN DATA_TYPE ELSE DATA_TYPE_2 END AS DATA_TYPE, PRECISION, LITERAL_PREFIX, LITERAL_SUFFIX,
    CREATE_PARAMS, NULLABLE, CASE_SENSITIVE, SEARCHABLE, UNSIGNED_ATTRIBUTE, MONEY, AUTO_INCREMENT, LOCAL_TYPE_NAME, MINIMUM_SCALE,
    MAXIMUM_SCALE, SQL_DATA_TYPE, SQL_DATETIME_SUB, NUM_PREC_RADIX, INTERVAL_PRECISION, USERTYPE
FROM sys.spt_datatype_info
WHERE @data_type = 0 OR CASE WHEN @ODBCVer >= 3 THEN DATA_TYPE ELSE DATA_TYPE_2 END = @data_type
ORDER BY 2, 12, 11, 20, 1";

const DATATYPES_OLD: &str = "
SELECT TYPE_NAME, DATA_TYPE_OLD AS DATA_TYPE, PRECISION, LITERAL_PREFIX, LITERAL_SUFFIX, CREATE_PARAMS, NULLABLE, CASE_SENSITIVE,
    SEARCHABLE, UNSIGNED_ATTRIBUTE, MONEY, AUTO_INCREMENT, LOCAL_TYPE_NAME, MINIMUM_SCALE, MAXIMUM_SCALE, SQL_DATA_TYPE,
    SQL_DATETIME_SUB, NUM_PREC_RADIX, INTERVAL_PRECISION, USERTYPE
FROM sys.spt_datatype_info
WHERE @data_type = 0 OR DATA_TYPE_OLD = @data_type
ORDER BY 2, 12, 11, 20, 1";

const DATABASES: &str = "
SELECT d.name AS DATABASE_NAME, CAST(SUM(CAST(f.size AS bigint)) * 8 AS int) AS DATABASE_SIZE, CAST(NULL AS varchar(254)) AS REMARKS
FROM sys.databases d JOIN sys.master_files f ON f.database_id = d.database_id
GROUP BY d.name
ORDER BY 1";

/// Rights of a schema's owner on its tables and views, as if dbo had granted them, and the rights that were granted.
const TABLE_PRIVILEGES: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, s.name AS TABLE_OWNER, o.name AS TABLE_NAME, p.GRANTOR, p.GRANTEE,
    CAST(p.privilege AS varchar(32)) AS PRIVILEGE, CAST(p.grantable AS varchar(3)) AS IS_GRANTABLE
FROM $.sys.all_objects o
    JOIN $.sys.schemas s ON s.schema_id = o.schema_id
    CROSS APPLY (
        SELECT CAST('dbo' AS sysname) AS GRANTOR, u.name AS GRANTEE, k.privilege, 'YES' AS grantable
        FROM $.sys.database_principals u
            CROSS JOIN (VALUES ('DELETE'), ('INSERT'), ('REFERENCES'), ('SELECT'), ('UPDATE')) k (privilege)
        WHERE u.principal_id = s.principal_id
        UNION
        SELECT g.name, e.name, d.permission_name, CASE d.state WHEN 'W' THEN 'YES' ELSE 'NO' END
        FROM $.sys.database_permissions d
            JOIN $.sys.database_principals g ON g.principal_id = d.grantor_principal_id
            JOIN $.sys.database_principals e ON e.principal_id = d.grantee_principal_id
        WHERE d.class = 1 AND d.major_id = o.object_id AND d.state IN ('G', 'W')
            AND d.permission_name IN ('DELETE', 'INSERT', 'REFERENCES', 'SELECT', 'UPDATE')) p
WHERE o.type IN ('U', 'V')
    AND ((@fUsePattern = 1 AND o.name LIKE @table_name) OR o.name = @table_name)
    AND (@table_owner IS NULL OR (@fUsePattern = 1 AND s.name LIKE @table_owner) OR s.name = @table_owner)
ORDER BY 2, 3, 6, 5, 4";

/// The same of each column. Permissions that ODBC has no word for count as REFERENCES, as in the product.
const COLUMN_PRIVILEGES: &str = "
SELECT CAST(@db AS sysname) AS TABLE_QUALIFIER, s.name AS TABLE_OWNER, o.name AS TABLE_NAME, c.name AS COLUMN_NAME,
    p.GRANTOR, p.GRANTEE, CAST(p.privilege AS varchar(32)) AS PRIVILEGE, CAST(p.grantable AS varchar(3)) AS IS_GRANTABLE
FROM $.sys.all_objects o
    JOIN $.sys.schemas s ON s.schema_id = o.schema_id
    JOIN $.sys.all_columns c ON c.object_id = o.object_id
    CROSS APPLY (
        SELECT CAST('dbo' AS sysname) AS GRANTOR, u.name AS GRANTEE, k.privilege, 'YES' AS grantable
        FROM $.sys.database_principals u
            CROSS JOIN (VALUES ('INSERT'), ('REFERENCES'), ('SELECT'), ('UPDATE')) k (privilege)
        WHERE u.principal_id = s.principal_id
        UNION
        SELECT g.name, e.name,
            CASE WHEN d.permission_name IN ('DELETE', 'INSERT', 'SELECT', 'UPDATE') THEN d.permission_name ELSE 'REFERENCES' END,
            CASE d.state WHEN 'W' THEN 'YES' ELSE 'NO' END
        FROM $.sys.database_permissions d
            JOIN $.sys.database_principals g ON g.principal_id = d.grantor_principal_id
            JOIN $.sys.database_principals e ON e.principal_id = d.grantee_principal_id
        WHERE d.class = 1 AND d.major_id = o.object_id AND d.minor_id IN (0, c.column_id) AND d.state IN ('G', 'W')) p
WHERE o.type IN ('U', 'V') AND o.name = @table_name AND s.name = ISNULL(@table_owner, N'dbo')
    AND (@column_name IS NULL OR c.name LIKE @column_name)
ORDER BY 4, 7, 6, 5";
