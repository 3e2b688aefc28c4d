-- A small order system in the manner of a sample database: types, schemas, tables, keys, modules.
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, QUOTED_IDENTIFIER ON
SET NUMERIC_ROUNDABORT OFF
GO
IF DB_ID(N'BicycleOrders') IS NOT NULL
BEGIN
    ALTER DATABASE [BicycleOrders] SET SINGLE_USER WITH ROLLBACK IMMEDIATE
    DROP DATABASE [BicycleOrders]
END
CREATE DATABASE [BicycleOrders]
    ON PRIMARY (NAME = N'BicycleOrders', FILENAME = N'/data/BicycleOrders.mdf', SIZE = 64MB, FILEGROWTH = 64MB)
    LOG ON (NAME = N'BicycleOrders_log', FILENAME = N'/data/BicycleOrders_log.ldf', SIZE = 32MB, MAXSIZE = UNLIMITED)
GO
USE [BicycleOrders]
GO
CREATE TYPE [dbo].[Name] FROM [nvarchar](50) NULL
CREATE TYPE [dbo].[Flag] FROM [bit] NOT NULL
CREATE TYPE [dbo].[OrderNumber] FROM [nvarchar](25) NULL
GO
CREATE SCHEMA [Sales] AUTHORIZATION [dbo]
GO
CREATE SCHEMA [Production]
GO
CREATE TABLE [Production].[Product](
    [ProductID] [int] IDENTITY (1, 1) NOT NULL,
    [Name] [Name] NOT NULL,
    [ProductNumber] [nvarchar](25) NOT NULL,
    [MakeFlag] [Flag] NOT NULL CONSTRAINT [DF_Product_MakeFlag] DEFAULT (1),
    [Color] [nvarchar](15) NULL,
    [ListPrice] [money] NOT NULL,
    [Weight] [decimal](8, 2) NULL,
    [SellStartDate] [datetime] NOT NULL,
    [SellEndDate] [datetime] NULL,
    [rowguid] uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT [DF_Product_rowguid] DEFAULT (NEWID()),
    [ModifiedDate] [datetime] NOT NULL CONSTRAINT [DF_Product_ModifiedDate] DEFAULT (GETDATE()),
    CONSTRAINT [CK_Product_ListPrice] CHECK ([ListPrice] >= 0.00),
    CONSTRAINT [CK_Product_SellEndDate] CHECK (([SellEndDate] >= [SellStartDate]) OR ([SellEndDate] IS NULL)),
    CONSTRAINT [CK_Product_Color] CHECK (UPPER([Color]) IN ('RED', 'BLUE') OR [Color] IS NULL)
) ON [PRIMARY]
GO
CREATE TABLE [Sales].[OrderHeader](
    [OrderID] [int] IDENTITY (1, 1) NOT FOR REPLICATION NOT NULL,
    [RevisionNumber] [tinyint] NOT NULL CONSTRAINT [DF_OrderHeader_RevisionNumber] DEFAULT (0),
    [OrderDate] [datetime] NOT NULL CONSTRAINT [DF_OrderHeader_OrderDate] DEFAULT (GETDATE()),
    [Status] [tinyint] NOT NULL CONSTRAINT [DF_OrderHeader_Status] DEFAULT (1),
    [OrderNumber] AS ISNULL(N'SO' + CONVERT(nvarchar(23), [OrderID]), N'*** ERROR ***'),
    [CustomerID] [int] NOT NULL,
    [SubTotal] [money] NOT NULL CONSTRAINT [DF_OrderHeader_SubTotal] DEFAULT (0.00),
    [TaxAmt] [money] NOT NULL DEFAULT (0.00),
    [Freight] [money] NOT NULL DEFAULT (0.00),
    [TotalDue] AS ISNULL([SubTotal] + [TaxAmt] + [Freight], 0) PERSISTED NOT NULL,
    [Comment] [nvarchar](128) NULL,
    CONSTRAINT [CK_OrderHeader_Status] CHECK ([Status] BETWEEN 0 AND 8)
) ON [PRIMARY];
CREATE TABLE [Sales].[OrderDetail](
    [OrderID] [int] NOT NULL,
    [OrderDetailID] [int] IDENTITY (1, 1) NOT NULL,
    [CarrierTrackingNumber] [nvarchar](25) NULL,
    [OrderQty] [smallint] NOT NULL,
    [ProductID] [int] NOT NULL,
    [UnitPrice] [money] NOT NULL,
    [UnitPriceDiscount] [money] NOT NULL CONSTRAINT [DF_OrderDetail_UnitPriceDiscount] DEFAULT (0.0),
    [LineTotal] AS ISNULL([UnitPrice] * (1.0 - [UnitPriceDiscount]) * [OrderQty], 0.0),
    CONSTRAINT [CK_OrderDetail_OrderQty] CHECK ([OrderQty] > 0)
)
GO
ALTER TABLE [Production].[Product] WITH CHECK ADD
    CONSTRAINT [PK_Product_ProductID] PRIMARY KEY CLUSTERED ([ProductID]) ON [PRIMARY];
ALTER TABLE [Sales].[OrderHeader] WITH CHECK ADD
    CONSTRAINT [PK_OrderHeader_OrderID] PRIMARY KEY CLUSTERED ([OrderID] ASC)
    WITH (PAD_INDEX = OFF, STATISTICS_NORECOMPUTE = OFF, IGNORE_DUP_KEY = OFF, ALLOW_ROW_LOCKS = ON, ALLOW_PAGE_LOCKS = ON) ON [PRIMARY];
ALTER TABLE [Sales].[OrderDetail] WITH CHECK ADD
    CONSTRAINT [PK_OrderDetail] PRIMARY KEY CLUSTERED ([OrderID], [OrderDetailID]),
    CONSTRAINT [FK_OrderDetail_OrderHeader] FOREIGN KEY ([OrderID]) REFERENCES [Sales].[OrderHeader] ([OrderID]) ON DELETE CASCADE,
    CONSTRAINT [FK_OrderDetail_Product] FOREIGN KEY ([ProductID]) REFERENCES [Production].[Product] ([ProductID]);
ALTER TABLE [Sales].[OrderDetail] CHECK CONSTRAINT [FK_OrderDetail_Product]
CREATE UNIQUE INDEX [AK_Product_Name] ON [Production].[Product] ([Name]) ON [PRIMARY];
CREATE INDEX [IX_OrderDetail_ProductID] ON [Sales].[OrderDetail] ([ProductID]) INCLUDE ([OrderQty], [UnitPrice]);
CREATE NONCLUSTERED INDEX [IX_OrderHeader_Open] ON [Sales].[OrderHeader] ([CustomerID] ASC, [OrderDate] DESC) WHERE [Status] < 5 WITH (FILLFACTOR = 90, DROP_EXISTING = OFF)
GO
CREATE FUNCTION [dbo].[ufnLeadingZeros](@Value int)
RETURNS varchar(8)
WITH SCHEMABINDING
AS
BEGIN
    DECLARE @ReturnValue varchar(8);
    SET @ReturnValue = CONVERT(varchar(8), @Value);
    SET @ReturnValue = REPLICATE('0', 8 - DATALENGTH(@ReturnValue)) + @ReturnValue;
    RETURN (@ReturnValue);
END;
GO
CREATE VIEW [Sales].[vOpenOrders] WITH SCHEMABINDING AS
SELECT h.[OrderID], h.[OrderDate], COUNT_BIG(*) AS [Lines], SUM(d.[OrderQty]) AS [Pieces]
FROM [Sales].[OrderHeader] AS h
    INNER JOIN [Sales].[OrderDetail] d ON d.[OrderID] = h.[OrderID]
    LEFT OUTER JOIN [Production].[Product] p ON p.[ProductID] = d.[ProductID] AND p.[SellEndDate] IS NULL
WHERE h.[Status] < 5
GROUP BY h.[OrderID], h.[OrderDate];
GO
CREATE PROCEDURE [dbo].[uspPrintError]
AS
BEGIN
    SET NOCOUNT ON;
    PRINT 'Error ' + CONVERT(varchar(50), ERROR_NUMBER()) +
          ', Severity ' + CONVERT(varchar(5), ERROR_SEVERITY()) +
          ', Procedure ' + ISNULL(ERROR_PROCEDURE(), '-') +
          ', Line ' + CONVERT(varchar(5), ERROR_LINE());
    PRINT ERROR_MESSAGE();
END;
GO
CREATE TRIGGER [Sales].[iduOrderDetail] ON [Sales].[OrderDetail]
AFTER INSERT, DELETE, UPDATE AS
BEGIN
    DECLARE @Count int;
    SET @Count = @@ROWCOUNT;
    IF @Count = 0
        RETURN;
    SET NOCOUNT ON;
    BEGIN TRY
        IF UPDATE([ProductID]) OR UPDATE([OrderQty]) OR UPDATE([UnitPrice])
            UPDATE [Sales].[OrderHeader]
            SET [SubTotal] = (SELECT SUM(d.[LineTotal]) FROM [Sales].[OrderDetail] d WHERE d.[OrderID] = [Sales].[OrderHeader].[OrderID]),
                [RevisionNumber] += 1
            WHERE [Sales].[OrderHeader].[OrderID] IN (SELECT inserted.[OrderID] FROM inserted);
    END TRY
    BEGIN CATCH
        EXECUTE [dbo].[uspPrintError];
        IF @@TRANCOUNT > 0
        BEGIN
            ROLLBACK TRANSACTION;
        END
        EXECUTE [dbo].[uspLogError];
    END CATCH;
END;
GO
CREATE PROCEDURE [Sales].[uspOrderTree] @OrderID int, @CheckDate datetime = NULL, @Lines int OUTPUT
WITH EXECUTE AS CALLER
AS
WITH tree (id, parent, depth) AS (
    SELECT OrderDetailID, CAST(NULL AS int), 0 FROM Sales.OrderDetail WHERE OrderID = @OrderID
    UNION ALL
    SELECT d.OrderDetailID, t.id, t.depth + 1 FROM tree t JOIN Sales.OrderDetail d ON d.OrderDetailID = t.id + 1
    WHERE t.depth < 25
)
SELECT id, parent, depth, ROW_NUMBER() OVER (PARTITION BY depth ORDER BY id) AS n FROM tree ORDER BY depth, id OPTION (MAXRECURSION 25)
SELECT @Lines = @@ROWCOUNT
RETURN 0
GO
EXEC sys.sp_addextendedproperty @name = N'MS_Description', @value = N'Lines of an order.', @level0type = N'SCHEMA',
    @level0name = N'Sales', @level1type = N'TABLE', @level1name = N'OrderDetail';
BULK INSERT [Sales].[OrderDetail] FROM '/data/OrderDetail.csv'
WITH (CHECK_CONSTRAINTS, CODEPAGE = 'ACP', DATAFILETYPE = 'char', FIELDTERMINATOR = '\t', ROWTERMINATOR = '\n', KEEPIDENTITY, TABLOCK)
GO
DECLARE @OrderID int, @Total money, @MESSAGE nvarchar(200)
DECLARE orders CURSOR LOCAL FAST_FORWARD FOR SELECT OrderID, TotalDue FROM Sales.OrderHeader WHERE Status <> 5 ORDER BY OrderID
OPEN orders
FETCH NEXT FROM orders INTO @OrderID, @Total
WHILE @@FETCH_STATUS = 0
BEGIN
    SELECT @MESSAGE = N'Order ' + CAST(@OrderID AS nvarchar(10)) + N': ' + CASE WHEN @Total > $1000 THEN N'large' ELSE N'small' END
    RAISERROR (@MESSAGE, 0, 1) WITH NOWAIT
    FETCH NEXT FROM orders INTO @OrderID, @Total
END
CLOSE orders
DEALLOCATE orders
GO
