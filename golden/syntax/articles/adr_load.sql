-- Accelerated recovery, load: pairs of updates, file sizes, rollback and recovery.

update AW2019_150.Sales.SalesOrderDetail
  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber
    , OrderQty = OrderQty + 1
	, UnitPrice = UnitPrice + 1
	, UnitPriceDiscount = UnitPriceDiscount + 1
update AW2019_150.Sales.SalesOrderDetail
  set CarrierTrackingNumber = substring( CarrierTrackingNumber, 2, 100)
    , OrderQty = OrderQty - 1
	, UnitPrice = UnitPrice - 1
	, UnitPriceDiscount = UnitPriceDiscount - 1
update AW2019_150_AR.Sales.SalesOrderDetail
  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber
    , OrderQty = OrderQty + 1
	, UnitPrice = UnitPrice + 1
	, UnitPriceDiscount = UnitPriceDiscount + 1
update AW2019_150_AR.Sales.SalesOrderDetail
  set CarrierTrackingNumber = substring( CarrierTrackingNumber, 2, 100)
    , OrderQty = OrderQty - 1
	, UnitPrice = UnitPrice - 1
	, UnitPriceDiscount = UnitPriceDiscount - 1
update AW2019_160.Sales.SalesOrderDetail
  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber
    , OrderQty = OrderQty + 1
	, UnitPrice = UnitPrice + 1
	, UnitPriceDiscount = UnitPriceDiscount + 1
update AW2019_160.Sales.SalesOrderDetail
  set CarrierTrackingNumber = substring( CarrierTrackingNumber, 2, 100)
    , OrderQty = OrderQty - 1
	, UnitPrice = UnitPrice - 1
	, UnitPriceDiscount = UnitPriceDiscount - 1
update AW2019_160_AR.Sales.SalesOrderDetail
  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber
    , OrderQty = OrderQty + 1
	, UnitPrice = UnitPrice + 1
	, UnitPriceDiscount = UnitPriceDiscount + 1
update AW2019_160_AR.Sales.SalesOrderDetail
  set CarrierTrackingNumber = substring( CarrierTrackingNumber, 2, 100)
    , OrderQty = OrderQty - 1
	, UnitPrice = UnitPrice - 1
	, UnitPriceDiscount = UnitPriceDiscount - 1
GO

create table #TempTable ( ID integer identity
                        , FileName varchar(128)
						, FileSize integer constraint PK_TempTableID primary key(ID)
						);

Insert into #TempTable(FileName, FileSize )
exec SP_MSforeachdb @command1 = 
            'use [?];
                select substring(physical_name, 69,100) as FileName
				     , size as FileSize from sys.database_files'
select FileName,FileSize from #TempTable where FileName like '%AW2019%' order by ID

GO

exec sys.sp_persistent_version_cleanup
GO

begin transaction

update AW2019_150.Sales.SalesOrderDetail
  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber
    , OrderQty = OrderQty + 1
	, UnitPrice = UnitPrice + 1
	, UnitPriceDiscount = UnitPriceDiscount + 1
update AW2019_150.Sales.SalesOrderDetail
  set CarrierTrackingNumber = substring( CarrierTrackingNumber, 2, 100)
    , OrderQty = OrderQty - 1
	, UnitPrice = UnitPrice - 1
	, UnitPriceDiscount = UnitPriceDiscount - 1
go 50

rollback

GO

shutdown with nowait
GO

drop table if exists #ErrLogs 
  
CREATE TABLE #ErrLogs                                
 (                                  
  ID INT IDENTITY PRIMARY KEY NOT NULL,  
  LogDate  varchar(100),    
  Processinfo varchar(200),  
 Text  varchar(Max)   
 )  
  
 insert into  #ErrLogs exec master.sys.xp_readerrorlog

select * from #ErrLogs where Text like 'Recovery completed%AW2019%'

GO
