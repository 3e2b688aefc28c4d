-- What a kept data folder has: rows of every type, what hangs on tables, a backup chain. make.sh runs it; it is never changed for a
-- release that is kept.
CREATE DATABASE upgraded
GO
ALTER DATABASE upgraded SET ACCELERATED_DATABASE_RECOVERY = ON
GO
USE upgraded
SET NOCOUNT ON
GO
CREATE TABLE numbers (id int NOT NULL PRIMARY KEY, c_bit bit, c_tinyint tinyint, c_smallint smallint, c_bigint bigint, c_decimal decimal(38, 10),
 c_numeric numeric(9, 2), c_money money, c_smallmoney smallmoney, c_real real, c_float float, c_computed AS (id * 2) PERSISTED)
CREATE TABLE times (id int NOT NULL PRIMARY KEY, c_date date, c_time time(7), c_datetime datetime, c_datetime2 datetime2(7), c_smalldatetime smalldatetime,
 c_datetimeoffset datetimeoffset(7))
CREATE TABLE texts (id int NOT NULL PRIMARY KEY, c_char char(10), c_varchar varchar(50), c_varchar_max varchar(max), c_nchar nchar(10), c_nvarchar nvarchar(50),
 c_nvarchar_max nvarchar(max), c_german nvarchar(20) COLLATE German_PhoneBook_CI_AS, c_binary binary(8), c_varbinary varbinary(50), c_varbinary_max varbinary(max),
 c_guid uniqueidentifier, c_xml xml)
CREATE TABLE variants (id int NOT NULL PRIMARY KEY, c_variant sql_variant)
GO
INSERT numbers VALUES (1, 1, 255, -32768, 9223372036854775807, 1234567890123456789012345678.0123456789, -9999999.99, 922337203685477.5807, -214748.3648, 1.5, -2.5E+300),
 (2, 0, 0, 32767, -9223372036854775808, -0.0000000001, 0.01, -922337203685477.5808, 214748.3647, -3.25E-30, 0), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
INSERT times VALUES (1, '0001-01-01', '00:00:00', '1753-01-01', '0001-01-01', '1900-01-01', '0001-01-01 00:00:00 +00:00'),
 (2, '9999-12-31', '23:59:59.9999999', '9999-12-31 23:59:59.997', '9999-12-31 23:59:59.9999999', '2079-06-06 23:59', '2026-11-26 12:34:56.7654321 +05:30'),
 (3, NULL, NULL, NULL, NULL, NULL, NULL)
INSERT texts VALUES (1, 'char', 'varchar', REPLICATE(CONVERT(varchar(max), 'long '), 5000), N'ñçhär', N'日本語 😀', REPLICATE(CONVERT(nvarchar(max), N'длинный '), 3000), N'Ärger',
 0x0102, 0xDEADBEEF, CONVERT(varbinary(max), REPLICATE(CONVERT(varchar(max), 'b'), 20000)), '6F9619FF-8B86-D011-B42D-00C04FC964FF', N'<a b="1">text</a>'),
 (2, '', '', '', N'', N'', N'', N'', 0x, 0x, 0x, '00000000-0000-0000-0000-000000000000', N'<e/>'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
INSERT variants VALUES (1, CONVERT(decimal(9, 3), 12.345)), (2, N'text'), (3, CONVERT(datetime2(3), '2026-11-26 01:02:03.456')), (4, 0x0102), (5, CONVERT(uniqueidentifier, '6F9619FF-8B86-D011-B42D-00C04FC964FF')), (6, NULL)
GO
CREATE TABLE parents (id int IDENTITY(10, 5) PRIMARY KEY, name nvarchar(40) NOT NULL UNIQUE, made datetime2 DEFAULT '2026-01-01')
CREATE TABLE children (id bigint IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES parents(id) ON DELETE CASCADE, amount int CHECK (amount > 0))
CREATE INDEX by_amount ON children (amount DESC) INCLUDE (parent) WHERE amount > 10
CREATE TABLE heap (a int, b varchar(30))
CREATE SEQUENCE tickets AS int START WITH 100 INCREMENT BY 10
CREATE TYPE pairs AS TABLE (a int, b int)
GO
INSERT parents (name) VALUES (N'one'), (N'two'), (N'three')
DECLARE @i int = 0
WHILE @i < 500 BEGIN INSERT children (parent, amount) VALUES (10 + 5 * (@i % 3), @i % 40 + 1); SET @i += 1 END
INSERT heap SELECT amount, CONCAT('row ', id) FROM children WHERE id % 5 = 0
DELETE heap WHERE a % 3 = 0
SELECT NEXT VALUE FOR tickets
GO
CREATE VIEW sums AS SELECT p.name, COUNT(*) AS children, SUM(c.amount) AS amount FROM parents p JOIN children c ON c.parent = p.id GROUP BY p.name
GO
CREATE PROCEDURE children_of @name nvarchar(40) AS SELECT COUNT(*) AS n FROM children c JOIN parents p ON p.id = c.parent WHERE p.name = @name
GO
CREATE FUNCTION doubled (@a int) RETURNS int AS BEGIN RETURN @a * 2 END
GO
CREATE TRIGGER heap_log ON heap AFTER INSERT AS UPDATE parents SET made = '2026-02-02' WHERE id = 10
GO
CREATE LOGIN kept WITH PASSWORD = 'Kept-through-1', CHECK_POLICY = OFF
CREATE USER kept FOR LOGIN kept
GRANT SELECT ON numbers TO kept
GO
BACKUP DATABASE upgraded TO DISK = '$(FOLDER)/upgraded.bak' WITH COMPRESSION
GO
INSERT heap VALUES (1000, 'after the full backup')
BACKUP LOG upgraded TO DISK = '$(FOLDER)/upgraded.trn'
INSERT heap VALUES (1001, 'in the log alone')
GO
BEGIN TRAN
UPDATE children SET amount = amount + 1
DELETE numbers
GO
-- Killed with these changes open.
SELECT 'filled'
GO
WAITFOR DELAY '00:01:00'
GO
