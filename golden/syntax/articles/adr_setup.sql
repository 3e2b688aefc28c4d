-- Accelerated recovery, setup: four copies of one backup, recovery model, level, version store filegroup.

USE [master]
RESTORE DATABASE [AW2019_150] FROM  DISK = N'c:\Backups\AdventureWorks2019.bak' WITH  FILE = 1
,  MOVE N'AdventureWorks2019' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\AW2019_150.mdf'
,  MOVE N'AdventureWorks2019_log' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\LOGS\AW2019_150_log.ldf'
GO

RESTORE DATABASE [AW2019_150_AR] FROM  DISK = N'c:\Backups\AdventureWorks2019.bak' WITH  FILE = 1
,  MOVE N'AdventureWorks2019' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\AW2019_150_AR.mdf'
,  MOVE N'AdventureWorks2019_log' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\LOGS\AW2019_150_AR_log.ldf'
GO

RESTORE DATABASE [AW2019_160] FROM  DISK = N'c:\Backups\AdventureWorks2019.bak' WITH  FILE = 1
,  MOVE N'AdventureWorks2019' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\AW2019_160.mdf'
,  MOVE N'AdventureWorks2019_log' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\LOGS\AW2019_160_log.ldf'
GO

RESTORE DATABASE [AW2019_160_AR] FROM  DISK = N'c:\Backups\AdventureWorks2019.bak' WITH  FILE = 1
,  MOVE N'AdventureWorks2019' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\AW2019_160_AR.mdf'
,  MOVE N'AdventureWorks2019_log' TO N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\LOGS\AW2019_160_AR_log.ldf'
GO

Use [master]
GO
ALTER DATABASE [AW2019_150] SET RECOVERY FULL WITH NO_WAIT
ALTER DATABASE [AW2019_150_AR] SET RECOVERY FULL WITH NO_WAIT
ALTER DATABASE [AW2019_160] SET RECOVERY FULL WITH NO_WAIT
ALTER DATABASE [AW2019_160_AR] SET RECOVERY FULL WITH NO_WAIT

GO

ALTER DATABASE [AW2019_160] SET COMPATIBILITY_LEVEL = 160
ALTER DATABASE [AW2019_160_AR] SET COMPATIBILITY_LEVEL = 160

GO

ALTER DATABASE [AW2019_150_AR] ADD FILEGROUP [VS_AW2019_150_AR];
GO
ALTER DATABASE [AW2019_150_AR] ADD FILE ( NAME = N'VS_AW2019_150_AR'
, FILENAME = N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\VS_AW2019_150_AR.ndf'
, SIZE = 65536KB , FILEGROWTH = 65536KB )
TO FILEGROUP [VS_AW2019_150_AR];
GO

ALTER DATABASE [AW2019_160_AR] ADD FILEGROUP [VS_AW2019_160_AR];
GO
ALTER DATABASE [AW2019_160_AR] ADD FILE ( NAME = N'VS_AW2019_160_AR'
, FILENAME = N'C:\Program Files\Microsoft SQL Server\MSSQL16.MSSQLSERVER\MSSQL\DATA\VS_AW2019_160_AR.ndf'
, SIZE = 65536KB , FILEGROWTH = 65536KB )
TO FILEGROUP [VS_AW2019_160_AR];

GO

alter table AW2019_150.Sales.SalesOrderDetail disable trigger iduSalesOrderDetail
alter table AW2019_150_AR.Sales.SalesOrderDetail disable trigger iduSalesOrderDetail
alter table AW2019_160.Sales.SalesOrderDetail disable trigger iduSalesOrderDetail
alter table AW2019_160_AR.Sales.SalesOrderDetail disable trigger iduSalesOrderDetail

GO

USE [AW2019_150_AR]
GO
checkpoint
ALTER DATABASE [AW2019_150_AR] SET ACCELERATED_DATABASE_RECOVERY = ON

USE [AW2019_160_AR]
GO
checkpoint
ALTER DATABASE [AW2019_160_AR] SET ACCELERATED_DATABASE_RECOVERY = ON

GO

select name
     , compatibility_level
	 , recovery_model
	 , is_accelerated_database_recovery_on as is_ADR_on
from sys.databases where name like 'AW2019%' order by name

GO
