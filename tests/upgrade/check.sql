-- What a later release must say of the folder, and of the database that it restores from the backups.
SET NOCOUNT ON
SELECT id, c_bit, c_tinyint, c_smallint, c_bigint, c_decimal, c_numeric, c_money, c_smallmoney, c_real, c_float, c_computed FROM numbers ORDER BY id
SELECT * FROM times ORDER BY id
SELECT id, c_char, c_varchar, LEN(c_varchar_max) AS long, CHECKSUM(c_varchar_max) AS its_sum, c_nchar, c_nvarchar, LEN(c_nvarchar_max) AS nlong, RIGHT(c_nvarchar_max, 9) AS its_end, c_german,
 c_binary, c_varbinary, DATALENGTH(c_varbinary_max) AS blong, c_guid, c_xml FROM texts ORDER BY id
SELECT id, c_variant, SQL_VARIANT_PROPERTY(c_variant, 'BaseType') AS its_type FROM variants ORDER BY id
SELECT * FROM sums ORDER BY name
SELECT id, name, made FROM parents ORDER BY id
SELECT COUNT(*) AS n, SUM(amount) AS amount FROM children WHERE amount > 10
SELECT a, b FROM heap WHERE a >= 1000 ORDER BY a
SELECT COUNT(*) AS n FROM heap WHERE a < 1000
EXEC children_of N'two'
SELECT dbo.doubled(21) AS doubled, IDENT_CURRENT('parents') AS parents, (SELECT current_value FROM sys.sequences WHERE name = 'tickets') AS tickets
SELECT name, type_desc FROM sys.objects WHERE is_ms_shipped = 0 AND parent_object_id = 0 ORDER BY name
SELECT name, is_unique, has_filter FROM sys.indexes WHERE object_id = OBJECT_ID('children') ORDER BY index_id
SELECT USER_NAME(grantee_principal_id) AS who, permission_name, OBJECT_NAME(major_id) AS what FROM sys.database_permissions WHERE USER_NAME(grantee_principal_id) = 'kept' AND class = 1
GO
