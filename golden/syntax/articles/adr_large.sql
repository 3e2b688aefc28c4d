-- Accelerated recovery on a large instance.
ALTER DATABASE testrecovery SET ACCELERATED_DATABASE_RECOVERY = ON;
GO
begin tran
insert into t11
select top 2000000 newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid()
from sys.columns a cross join sys.columns b cross join sys.columns c
--rollback is what is measured here
rollback
GO
ALTER DATABASE TestRecovery ADD FILEGROUP [VersionStoreFG];
GO
ALTER DATABASE TestRecovery ADD FILE ( NAME = N'VersionStoreFG'
, FILENAME = N'E:\SQLDATA\MSSQL\VersionStore.ndf'
, SIZE = 8192KB , FILEGROWTH = 65536KB )
TO FILEGROUP [VersionStoreFG];
GO
ALTER DATABASE TestRecovery SET ACCELERATED_DATABASE_RECOVERY = ON
(PERSISTENT_VERSION_STORE_FILEGROUP = [VersionStoreFG]);
GO
