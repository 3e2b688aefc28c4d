-- AdventureWorks2019 for Daruma: schema, keys, indexes, views, procedures and one trigger.
--
-- Batches are separated by GO. The database exists already and is the current one.
--
-- How the data files map to the tables:
--  * Everything above the line "-- LOAD DATA HERE" runs first: schemas, alias types, and tables with their
--    primary keys, defaults and checks. Then the files are loaded, then the rest of this script runs.
--  * The tables appear in an order in which every parent precedes its children; load the files in this order.
--  * Schema.Table.csv.gz has a header line with column names. Insert by name.
--  * Skip the columns that schema.tsv marks "computed:"; the table computes them.
--  * Columns that are not in the file (rowguid of Person.Person, Sales.SalesOrderHeader and Sales.SalesOrderDetail)
--    get their default.
--  * Identity values come from the file: SET IDENTITY_INSERT ... ON, or KEEPIDENTITY for a bulk load.
--  * An empty field without quotes is NULL. Fields for varbinary columns are 0x and hexadecimal digits.
--
-- Differences from the original (see README.md): xml is nvarchar(max), geography is varbinary(max), hierarchyid is
-- varbinary(892), the level in the organisation is a plain column, and objects that need XML are not created.

CREATE SCHEMA HumanResources AUTHORIZATION dbo;
GO
CREATE SCHEMA Person AUTHORIZATION dbo;
GO
CREATE SCHEMA Production AUTHORIZATION dbo;
GO
CREATE SCHEMA Purchasing AUTHORIZATION dbo;
GO
CREATE SCHEMA Sales AUTHORIZATION dbo;
GO

CREATE TYPE dbo.AccountNumber FROM nvarchar(15) NULL;
CREATE TYPE dbo.Flag FROM bit NOT NULL;
CREATE TYPE dbo.Name FROM nvarchar(50) NULL;
CREATE TYPE dbo.NameStyle FROM bit NOT NULL;
CREATE TYPE dbo.OrderNumber FROM nvarchar(25) NULL;
CREATE TYPE dbo.Phone FROM nvarchar(25) NULL;
GO

-- ---------------------------------------------------------------------------------------------- tables

CREATE TABLE dbo.ErrorLog (
    ErrorLogID      int IDENTITY(1,1) NOT NULL,
    ErrorTime       datetime NOT NULL CONSTRAINT DF_ErrorLog_ErrorTime DEFAULT (GETDATE()),
    UserName        sysname NOT NULL,
    ErrorNumber     int NOT NULL,
    ErrorSeverity   int NULL,
    ErrorState      int NULL,
    ErrorProcedure  nvarchar(126) NULL,
    ErrorLine       int NULL,
    ErrorMessage    nvarchar(4000) NOT NULL,
    CONSTRAINT PK_ErrorLog_ErrorLogID PRIMARY KEY CLUSTERED (ErrorLogID)
);
GO

CREATE TABLE Person.CountryRegion (
    CountryRegionCode nvarchar(3) NOT NULL,
    Name              dbo.Name NOT NULL,
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_CountryRegion_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_CountryRegion_CountryRegionCode PRIMARY KEY CLUSTERED (CountryRegionCode)
);
GO

CREATE TABLE Sales.SalesTerritory (
    TerritoryID       int IDENTITY(1,1) NOT NULL,
    Name              dbo.Name NOT NULL,
    CountryRegionCode nvarchar(3) NOT NULL,
    [Group]           nvarchar(50) NOT NULL,
    SalesYTD          money NOT NULL CONSTRAINT DF_SalesTerritory_SalesYTD DEFAULT (0.00),
    SalesLastYear     money NOT NULL CONSTRAINT DF_SalesTerritory_SalesLastYear DEFAULT (0.00),
    CostYTD           money NOT NULL CONSTRAINT DF_SalesTerritory_CostYTD DEFAULT (0.00),
    CostLastYear      money NOT NULL CONSTRAINT DF_SalesTerritory_CostLastYear DEFAULT (0.00),
    rowguid           uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesTerritory_rowguid DEFAULT (NEWID()),
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_SalesTerritory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesTerritory_TerritoryID PRIMARY KEY CLUSTERED (TerritoryID),
    CONSTRAINT CK_SalesTerritory_SalesYTD CHECK (SalesYTD >= 0.00),
    CONSTRAINT CK_SalesTerritory_SalesLastYear CHECK (SalesLastYear >= 0.00),
    CONSTRAINT CK_SalesTerritory_CostYTD CHECK (CostYTD >= 0.00),
    CONSTRAINT CK_SalesTerritory_CostLastYear CHECK (CostLastYear >= 0.00)
);
GO

CREATE TABLE Person.StateProvince (
    StateProvinceID         int IDENTITY(1,1) NOT NULL,
    StateProvinceCode       nchar(3) NOT NULL,
    CountryRegionCode       nvarchar(3) NOT NULL,
    IsOnlyStateProvinceFlag dbo.Flag NOT NULL CONSTRAINT DF_StateProvince_IsOnlyStateProvinceFlag DEFAULT (1),
    Name                    dbo.Name NOT NULL,
    TerritoryID             int NOT NULL,
    rowguid                 uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_StateProvince_rowguid DEFAULT (NEWID()),
    ModifiedDate            datetime NOT NULL CONSTRAINT DF_StateProvince_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_StateProvince_StateProvinceID PRIMARY KEY CLUSTERED (StateProvinceID)
);
GO

CREATE TABLE Person.Address (
    AddressID       int IDENTITY(1,1) NOT FOR REPLICATION NOT NULL,
    AddressLine1    nvarchar(60) NOT NULL,
    AddressLine2    nvarchar(60) NULL,
    City            nvarchar(30) NOT NULL,
    StateProvinceID int NOT NULL,
    PostalCode      nvarchar(15) NOT NULL,
    SpatialLocation varbinary(max) NULL,
    rowguid         uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Address_rowguid DEFAULT (NEWID()),
    ModifiedDate    datetime NOT NULL CONSTRAINT DF_Address_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Address_AddressID PRIMARY KEY CLUSTERED (AddressID)
);
GO

CREATE TABLE Person.AddressType (
    AddressTypeID int IDENTITY(1,1) NOT NULL,
    Name          dbo.Name NOT NULL,
    rowguid       uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_AddressType_rowguid DEFAULT (NEWID()),
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_AddressType_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_AddressType_AddressTypeID PRIMARY KEY CLUSTERED (AddressTypeID)
);
GO

CREATE TABLE Person.BusinessEntity (
    BusinessEntityID int IDENTITY(1,1) NOT FOR REPLICATION NOT NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_BusinessEntity_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_BusinessEntity_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_BusinessEntity_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID)
);
GO

CREATE TABLE Person.ContactType (
    ContactTypeID int IDENTITY(1,1) NOT NULL,
    Name          dbo.Name NOT NULL,
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_ContactType_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ContactType_ContactTypeID PRIMARY KEY CLUSTERED (ContactTypeID)
);
GO

CREATE TABLE Person.PhoneNumberType (
    PhoneNumberTypeID int IDENTITY(1,1) NOT NULL,
    Name              dbo.Name NOT NULL,
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_PhoneNumberType_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_PhoneNumberType_PhoneNumberTypeID PRIMARY KEY CLUSTERED (PhoneNumberTypeID)
);
GO

CREATE TABLE Person.Person (
    BusinessEntityID      int NOT NULL,
    PersonType            nchar(2) NOT NULL,
    NameStyle             dbo.NameStyle NOT NULL CONSTRAINT DF_Person_NameStyle DEFAULT (0),
    Title                 nvarchar(8) NULL,
    FirstName             dbo.Name NOT NULL,
    MiddleName            dbo.Name NULL,
    LastName              dbo.Name NOT NULL,
    Suffix                nvarchar(10) NULL,
    EmailPromotion        int NOT NULL CONSTRAINT DF_Person_EmailPromotion DEFAULT (0),
    AdditionalContactInfo nvarchar(max) NULL,
    Demographics          nvarchar(max) NULL,
    rowguid               uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Person_rowguid DEFAULT (NEWID()),
    ModifiedDate          datetime NOT NULL CONSTRAINT DF_Person_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Person_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID),
    CONSTRAINT CK_Person_EmailPromotion CHECK (EmailPromotion BETWEEN 0 AND 2),
    CONSTRAINT CK_Person_PersonType CHECK (PersonType IS NULL OR UPPER(PersonType) IN ('SC', 'VC', 'IN', 'EM', 'SP', 'GC'))
);
GO

CREATE TABLE Person.BusinessEntityAddress (
    BusinessEntityID int NOT NULL,
    AddressID        int NOT NULL,
    AddressTypeID    int NOT NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_BusinessEntityAddress_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_BusinessEntityAddress_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_BusinessEntityAddress_BusinessEntityID_AddressID_AddressTypeID
        PRIMARY KEY CLUSTERED (BusinessEntityID, AddressID, AddressTypeID)
);
GO

CREATE TABLE Person.BusinessEntityContact (
    BusinessEntityID int NOT NULL,
    PersonID         int NOT NULL,
    ContactTypeID    int NOT NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_BusinessEntityContact_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_BusinessEntityContact_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_BusinessEntityContact_BusinessEntityID_PersonID_ContactTypeID
        PRIMARY KEY CLUSTERED (BusinessEntityID, PersonID, ContactTypeID)
);
GO

CREATE TABLE Person.EmailAddress (
    BusinessEntityID int NOT NULL,
    EmailAddressID   int IDENTITY(1,1) NOT NULL,
    EmailAddress     nvarchar(50) NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_EmailAddress_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_EmailAddress_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_EmailAddress_BusinessEntityID_EmailAddressID PRIMARY KEY CLUSTERED (BusinessEntityID, EmailAddressID)
);
GO

CREATE TABLE Person.PersonPhone (
    BusinessEntityID  int NOT NULL,
    PhoneNumber       dbo.Phone NOT NULL,
    PhoneNumberTypeID int NOT NULL,
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_PersonPhone_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_PersonPhone_BusinessEntityID_PhoneNumber_PhoneNumberTypeID
        PRIMARY KEY CLUSTERED (BusinessEntityID, PhoneNumber, PhoneNumberTypeID)
);
GO

CREATE TABLE HumanResources.Department (
    DepartmentID smallint IDENTITY(1,1) NOT NULL,
    Name         dbo.Name NOT NULL,
    GroupName    dbo.Name NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_Department_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Department_DepartmentID PRIMARY KEY CLUSTERED (DepartmentID)
);
GO

CREATE TABLE HumanResources.Shift (
    ShiftID      tinyint IDENTITY(1,1) NOT NULL,
    Name         dbo.Name NOT NULL,
    StartTime    time NOT NULL,
    EndTime      time NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_Shift_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Shift_ShiftID PRIMARY KEY CLUSTERED (ShiftID)
);
GO

CREATE TABLE HumanResources.Employee (
    BusinessEntityID  int NOT NULL,
    NationalIDNumber  nvarchar(15) NOT NULL,
    LoginID           nvarchar(256) NOT NULL,
    OrganizationNode  varbinary(892) NULL,
    OrganizationLevel smallint NULL,
    JobTitle          nvarchar(50) NOT NULL,
    BirthDate         date NOT NULL,
    MaritalStatus     nchar(1) NOT NULL,
    Gender            nchar(1) NOT NULL,
    HireDate          date NOT NULL,
    SalariedFlag      dbo.Flag NOT NULL CONSTRAINT DF_Employee_SalariedFlag DEFAULT (1),
    VacationHours     smallint NOT NULL CONSTRAINT DF_Employee_VacationHours DEFAULT (0),
    SickLeaveHours    smallint NOT NULL CONSTRAINT DF_Employee_SickLeaveHours DEFAULT (0),
    CurrentFlag       dbo.Flag NOT NULL CONSTRAINT DF_Employee_CurrentFlag DEFAULT (1),
    rowguid           uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Employee_rowguid DEFAULT (NEWID()),
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_Employee_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Employee_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID),
    CONSTRAINT CK_Employee_BirthDate CHECK (BirthDate BETWEEN '1930-01-01' AND DATEADD(YEAR, -18, GETDATE())),
    CONSTRAINT CK_Employee_MaritalStatus CHECK (UPPER(MaritalStatus) IN ('M', 'S')),
    CONSTRAINT CK_Employee_HireDate CHECK (HireDate BETWEEN '1996-07-01' AND DATEADD(DAY, 1, GETDATE())),
    CONSTRAINT CK_Employee_Gender CHECK (UPPER(Gender) IN ('M', 'F')),
    CONSTRAINT CK_Employee_VacationHours CHECK (VacationHours BETWEEN -40 AND 240),
    CONSTRAINT CK_Employee_SickLeaveHours CHECK (SickLeaveHours BETWEEN 0 AND 120)
);
GO

CREATE TABLE HumanResources.EmployeeDepartmentHistory (
    BusinessEntityID int NOT NULL,
    DepartmentID     smallint NOT NULL,
    ShiftID          tinyint NOT NULL,
    StartDate        date NOT NULL,
    EndDate          date NULL,
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_EmployeeDepartmentHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_EmployeeDepartmentHistory_BusinessEntityID_StartDate_DepartmentID
        PRIMARY KEY CLUSTERED (BusinessEntityID, StartDate, DepartmentID, ShiftID),
    CONSTRAINT CK_EmployeeDepartmentHistory_EndDate CHECK (EndDate >= StartDate OR EndDate IS NULL)
);
GO

CREATE TABLE HumanResources.EmployeePayHistory (
    BusinessEntityID int NOT NULL,
    RateChangeDate   datetime NOT NULL,
    Rate             money NOT NULL,
    PayFrequency     tinyint NOT NULL,
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_EmployeePayHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_EmployeePayHistory_BusinessEntityID_RateChangeDate PRIMARY KEY CLUSTERED (BusinessEntityID, RateChangeDate),
    CONSTRAINT CK_EmployeePayHistory_PayFrequency CHECK (PayFrequency IN (1, 2)),
    CONSTRAINT CK_EmployeePayHistory_Rate CHECK (Rate BETWEEN 6.50 AND 200.00)
);
GO

CREATE TABLE Production.UnitMeasure (
    UnitMeasureCode nchar(3) NOT NULL,
    Name            dbo.Name NOT NULL,
    ModifiedDate    datetime NOT NULL CONSTRAINT DF_UnitMeasure_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_UnitMeasure_UnitMeasureCode PRIMARY KEY CLUSTERED (UnitMeasureCode)
);
GO

CREATE TABLE Production.ProductCategory (
    ProductCategoryID int IDENTITY(1,1) NOT NULL,
    Name              dbo.Name NOT NULL,
    rowguid           uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ProductCategory_rowguid DEFAULT (NEWID()),
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_ProductCategory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductCategory_ProductCategoryID PRIMARY KEY CLUSTERED (ProductCategoryID)
);
GO

CREATE TABLE Production.ProductSubcategory (
    ProductSubcategoryID int IDENTITY(1,1) NOT NULL,
    ProductCategoryID    int NOT NULL,
    Name                 dbo.Name NOT NULL,
    rowguid              uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ProductSubcategory_rowguid DEFAULT (NEWID()),
    ModifiedDate         datetime NOT NULL CONSTRAINT DF_ProductSubcategory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductSubcategory_ProductSubcategoryID PRIMARY KEY CLUSTERED (ProductSubcategoryID)
);
GO

CREATE TABLE Production.ProductModel (
    ProductModelID     int IDENTITY(1,1) NOT NULL,
    Name               dbo.Name NOT NULL,
    CatalogDescription nvarchar(max) NULL,
    Instructions       nvarchar(max) NULL,
    rowguid            uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ProductModel_rowguid DEFAULT (NEWID()),
    ModifiedDate       datetime NOT NULL CONSTRAINT DF_ProductModel_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductModel_ProductModelID PRIMARY KEY CLUSTERED (ProductModelID)
);
GO

CREATE TABLE Production.Product (
    ProductID             int IDENTITY(1,1) NOT NULL,
    Name                  dbo.Name NOT NULL,
    ProductNumber         nvarchar(25) NOT NULL,
    MakeFlag              dbo.Flag NOT NULL CONSTRAINT DF_Product_MakeFlag DEFAULT (1),
    FinishedGoodsFlag     dbo.Flag NOT NULL CONSTRAINT DF_Product_FinishedGoodsFlag DEFAULT (1),
    Color                 nvarchar(15) NULL,
    SafetyStockLevel      smallint NOT NULL,
    ReorderPoint          smallint NOT NULL,
    StandardCost          money NOT NULL,
    ListPrice             money NOT NULL,
    Size                  nvarchar(5) NULL,
    SizeUnitMeasureCode   nchar(3) NULL,
    WeightUnitMeasureCode nchar(3) NULL,
    Weight                decimal(8, 2) NULL,
    DaysToManufacture     int NOT NULL,
    ProductLine           nchar(2) NULL,
    Class                 nchar(2) NULL,
    Style                 nchar(2) NULL,
    ProductSubcategoryID  int NULL,
    ProductModelID        int NULL,
    SellStartDate         datetime NOT NULL,
    SellEndDate           datetime NULL,
    DiscontinuedDate      datetime NULL,
    rowguid               uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Product_rowguid DEFAULT (NEWID()),
    ModifiedDate          datetime NOT NULL CONSTRAINT DF_Product_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Product_ProductID PRIMARY KEY CLUSTERED (ProductID),
    CONSTRAINT CK_Product_SafetyStockLevel CHECK (SafetyStockLevel > 0),
    CONSTRAINT CK_Product_ReorderPoint CHECK (ReorderPoint > 0),
    CONSTRAINT CK_Product_StandardCost CHECK (StandardCost >= 0.00),
    CONSTRAINT CK_Product_ListPrice CHECK (ListPrice >= 0.00),
    CONSTRAINT CK_Product_Weight CHECK (Weight > 0.00),
    CONSTRAINT CK_Product_DaysToManufacture CHECK (DaysToManufacture >= 0),
    CONSTRAINT CK_Product_ProductLine CHECK (UPPER(ProductLine) IN ('S', 'T', 'M', 'R') OR ProductLine IS NULL),
    CONSTRAINT CK_Product_Class CHECK (UPPER(Class) IN ('L', 'M', 'H') OR Class IS NULL),
    CONSTRAINT CK_Product_Style CHECK (UPPER(Style) IN ('W', 'M', 'U') OR Style IS NULL),
    CONSTRAINT CK_Product_SellEndDate CHECK (SellEndDate >= SellStartDate OR SellEndDate IS NULL)
);
GO

CREATE TABLE Production.BillOfMaterials (
    BillOfMaterialsID int IDENTITY(1,1) NOT NULL,
    ProductAssemblyID int NULL,
    ComponentID       int NOT NULL,
    StartDate         datetime NOT NULL CONSTRAINT DF_BillOfMaterials_StartDate DEFAULT (GETDATE()),
    EndDate           datetime NULL,
    UnitMeasureCode   nchar(3) NOT NULL,
    BOMLevel          smallint NOT NULL,
    PerAssemblyQty    decimal(8, 2) NOT NULL CONSTRAINT DF_BillOfMaterials_PerAssemblyQty DEFAULT (1.00),
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_BillOfMaterials_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_BillOfMaterials_BillOfMaterialsID PRIMARY KEY NONCLUSTERED (BillOfMaterialsID),
    CONSTRAINT CK_BillOfMaterials_EndDate CHECK (EndDate > StartDate OR EndDate IS NULL),
    CONSTRAINT CK_BillOfMaterials_ProductAssemblyID CHECK (ProductAssemblyID <> ComponentID),
    CONSTRAINT CK_BillOfMaterials_BOMLevel CHECK (
        (ProductAssemblyID IS NULL AND BOMLevel = 0 AND PerAssemblyQty = 1.00)
        OR (ProductAssemblyID IS NOT NULL AND BOMLevel >= 1)),
    CONSTRAINT CK_BillOfMaterials_PerAssemblyQty CHECK (PerAssemblyQty >= 1.00)
);
GO

CREATE TABLE Production.Culture (
    CultureID    nchar(6) NOT NULL,
    Name         dbo.Name NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_Culture_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Culture_CultureID PRIMARY KEY CLUSTERED (CultureID)
);
GO

CREATE TABLE Production.Location (
    LocationID   smallint IDENTITY(1,1) NOT NULL,
    Name         dbo.Name NOT NULL,
    CostRate     smallmoney NOT NULL CONSTRAINT DF_Location_CostRate DEFAULT (0.00),
    Availability decimal(8, 2) NOT NULL CONSTRAINT DF_Location_Availability DEFAULT (0.00),
    ModifiedDate datetime NOT NULL CONSTRAINT DF_Location_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Location_LocationID PRIMARY KEY CLUSTERED (LocationID),
    CONSTRAINT CK_Location_CostRate CHECK (CostRate >= 0.00),
    CONSTRAINT CK_Location_Availability CHECK (Availability >= 0.00)
);
GO

CREATE TABLE Production.ProductCostHistory (
    ProductID    int NOT NULL,
    StartDate    datetime NOT NULL,
    EndDate      datetime NULL,
    StandardCost money NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_ProductCostHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductCostHistory_ProductID_StartDate PRIMARY KEY CLUSTERED (ProductID, StartDate),
    CONSTRAINT CK_ProductCostHistory_EndDate CHECK (EndDate >= StartDate OR EndDate IS NULL),
    CONSTRAINT CK_ProductCostHistory_StandardCost CHECK (StandardCost >= 0.00)
);
GO

CREATE TABLE Production.ProductDescription (
    ProductDescriptionID int IDENTITY(1,1) NOT NULL,
    Description          nvarchar(400) NOT NULL,
    rowguid              uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ProductDescription_rowguid DEFAULT (NEWID()),
    ModifiedDate         datetime NOT NULL CONSTRAINT DF_ProductDescription_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductDescription_ProductDescriptionID PRIMARY KEY CLUSTERED (ProductDescriptionID)
);
GO

CREATE TABLE Production.ProductInventory (
    ProductID    int NOT NULL,
    LocationID   smallint NOT NULL,
    Shelf        nvarchar(10) NOT NULL,
    Bin          tinyint NOT NULL,
    Quantity     smallint NOT NULL CONSTRAINT DF_ProductInventory_Quantity DEFAULT (0),
    rowguid      uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ProductInventory_rowguid DEFAULT (NEWID()),
    ModifiedDate datetime NOT NULL CONSTRAINT DF_ProductInventory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductInventory_ProductID_LocationID PRIMARY KEY CLUSTERED (ProductID, LocationID),
    CONSTRAINT CK_ProductInventory_Shelf CHECK (Shelf LIKE '[A-Za-z]' OR Shelf = 'N/A'),
    CONSTRAINT CK_ProductInventory_Bin CHECK (Bin BETWEEN 0 AND 100)
);
GO

CREATE TABLE Production.ProductListPriceHistory (
    ProductID    int NOT NULL,
    StartDate    datetime NOT NULL,
    EndDate      datetime NULL,
    ListPrice    money NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_ProductListPriceHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductListPriceHistory_ProductID_StartDate PRIMARY KEY CLUSTERED (ProductID, StartDate),
    CONSTRAINT CK_ProductListPriceHistory_EndDate CHECK (EndDate >= StartDate OR EndDate IS NULL),
    CONSTRAINT CK_ProductListPriceHistory_ListPrice CHECK (ListPrice > 0.00)
);
GO

CREATE TABLE Production.ProductModelProductDescriptionCulture (
    ProductModelID       int NOT NULL,
    ProductDescriptionID int NOT NULL,
    CultureID            nchar(6) NOT NULL,
    ModifiedDate         datetime NOT NULL CONSTRAINT DF_ProductModelProductDescriptionCulture_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductModelProductDescriptionCulture_ProductModelID_ProductDescriptionID_CultureID
        PRIMARY KEY CLUSTERED (ProductModelID, ProductDescriptionID, CultureID)
);
GO

-- The photographs are not part of the sample; ProductPhotoID has no parent table here.
CREATE TABLE Production.ProductProductPhoto (
    ProductID      int NOT NULL,
    ProductPhotoID int NOT NULL,
    [Primary]      dbo.Flag NOT NULL CONSTRAINT DF_ProductProductPhoto_Primary DEFAULT (0),
    ModifiedDate   datetime NOT NULL CONSTRAINT DF_ProductProductPhoto_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductProductPhoto_ProductID_ProductPhotoID PRIMARY KEY NONCLUSTERED (ProductID, ProductPhotoID)
);
GO

CREATE TABLE Production.ProductReview (
    ProductReviewID int IDENTITY(1,1) NOT NULL,
    ProductID       int NOT NULL,
    ReviewerName    dbo.Name NOT NULL,
    ReviewDate      datetime NOT NULL CONSTRAINT DF_ProductReview_ReviewDate DEFAULT (GETDATE()),
    EmailAddress    nvarchar(50) NOT NULL,
    Rating          int NOT NULL,
    Comments        nvarchar(3850) NULL,
    ModifiedDate    datetime NOT NULL CONSTRAINT DF_ProductReview_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductReview_ProductReviewID PRIMARY KEY CLUSTERED (ProductReviewID),
    CONSTRAINT CK_ProductReview_Rating CHECK (Rating BETWEEN 1 AND 5)
);
GO

CREATE TABLE Production.ScrapReason (
    ScrapReasonID smallint IDENTITY(1,1) NOT NULL,
    Name          dbo.Name NOT NULL,
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_ScrapReason_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ScrapReason_ScrapReasonID PRIMARY KEY CLUSTERED (ScrapReasonID)
);
GO

CREATE TABLE Production.TransactionHistory (
    TransactionID        int IDENTITY(100000,1) NOT NULL,
    ProductID            int NOT NULL,
    ReferenceOrderID     int NOT NULL,
    ReferenceOrderLineID int NOT NULL CONSTRAINT DF_TransactionHistory_ReferenceOrderLineID DEFAULT (0),
    TransactionDate      datetime NOT NULL CONSTRAINT DF_TransactionHistory_TransactionDate DEFAULT (GETDATE()),
    TransactionType      nchar(1) NOT NULL,
    Quantity             int NOT NULL,
    ActualCost           money NOT NULL,
    ModifiedDate         datetime NOT NULL CONSTRAINT DF_TransactionHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_TransactionHistory_TransactionID PRIMARY KEY CLUSTERED (TransactionID),
    CONSTRAINT CK_TransactionHistory_TransactionType CHECK (UPPER(TransactionType) IN ('W', 'S', 'P'))
);
GO

CREATE TABLE Production.TransactionHistoryArchive (
    TransactionID        int NOT NULL,
    ProductID            int NOT NULL,
    ReferenceOrderID     int NOT NULL,
    ReferenceOrderLineID int NOT NULL CONSTRAINT DF_TransactionHistoryArchive_ReferenceOrderLineID DEFAULT (0),
    TransactionDate      datetime NOT NULL CONSTRAINT DF_TransactionHistoryArchive_TransactionDate DEFAULT (GETDATE()),
    TransactionType      nchar(1) NOT NULL,
    Quantity             int NOT NULL,
    ActualCost           money NOT NULL,
    ModifiedDate         datetime NOT NULL CONSTRAINT DF_TransactionHistoryArchive_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_TransactionHistoryArchive_TransactionID PRIMARY KEY CLUSTERED (TransactionID),
    CONSTRAINT CK_TransactionHistoryArchive_TransactionType CHECK (UPPER(TransactionType) IN ('W', 'S', 'P'))
);
GO

CREATE TABLE Production.WorkOrder (
    WorkOrderID   int IDENTITY(1,1) NOT NULL,
    ProductID     int NOT NULL,
    OrderQty      int NOT NULL,
    StockedQty    AS ISNULL(OrderQty - ScrappedQty, 0),
    ScrappedQty   smallint NOT NULL,
    StartDate     datetime NOT NULL,
    EndDate       datetime NULL,
    DueDate       datetime NOT NULL,
    ScrapReasonID smallint NULL,
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_WorkOrder_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_WorkOrder_WorkOrderID PRIMARY KEY CLUSTERED (WorkOrderID),
    CONSTRAINT CK_WorkOrder_OrderQty CHECK (OrderQty > 0),
    CONSTRAINT CK_WorkOrder_ScrappedQty CHECK (ScrappedQty >= 0),
    CONSTRAINT CK_WorkOrder_EndDate CHECK (EndDate >= StartDate OR EndDate IS NULL)
);
GO

CREATE TABLE Production.WorkOrderRouting (
    WorkOrderID        int NOT NULL,
    ProductID          int NOT NULL,
    OperationSequence  smallint NOT NULL,
    LocationID         smallint NOT NULL,
    ScheduledStartDate datetime NOT NULL,
    ScheduledEndDate   datetime NOT NULL,
    ActualStartDate    datetime NULL,
    ActualEndDate      datetime NULL,
    ActualResourceHrs  decimal(9, 4) NULL,
    PlannedCost        money NOT NULL,
    ActualCost         money NULL,
    ModifiedDate       datetime NOT NULL CONSTRAINT DF_WorkOrderRouting_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_WorkOrderRouting_WorkOrderID_ProductID_OperationSequence
        PRIMARY KEY CLUSTERED (WorkOrderID, ProductID, OperationSequence),
    CONSTRAINT CK_WorkOrderRouting_ScheduledEndDate CHECK (ScheduledEndDate >= ScheduledStartDate),
    CONSTRAINT CK_WorkOrderRouting_ActualEndDate CHECK (
        ActualEndDate >= ActualStartDate OR ActualEndDate IS NULL OR ActualStartDate IS NULL),
    CONSTRAINT CK_WorkOrderRouting_ActualResourceHrs CHECK (ActualResourceHrs >= 0.0000),
    CONSTRAINT CK_WorkOrderRouting_PlannedCost CHECK (PlannedCost > 0.00),
    CONSTRAINT CK_WorkOrderRouting_ActualCost CHECK (ActualCost > 0.00)
);
GO

CREATE TABLE Purchasing.ShipMethod (
    ShipMethodID int IDENTITY(1,1) NOT NULL,
    Name         dbo.Name NOT NULL,
    ShipBase     money NOT NULL CONSTRAINT DF_ShipMethod_ShipBase DEFAULT (0.00),
    ShipRate     money NOT NULL CONSTRAINT DF_ShipMethod_ShipRate DEFAULT (0.00),
    rowguid      uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_ShipMethod_rowguid DEFAULT (NEWID()),
    ModifiedDate datetime NOT NULL CONSTRAINT DF_ShipMethod_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ShipMethod_ShipMethodID PRIMARY KEY CLUSTERED (ShipMethodID),
    CONSTRAINT CK_ShipMethod_ShipBase CHECK (ShipBase > 0.00),
    CONSTRAINT CK_ShipMethod_ShipRate CHECK (ShipRate > 0.00)
);
GO

CREATE TABLE Purchasing.Vendor (
    BusinessEntityID        int NOT NULL,
    AccountNumber           dbo.AccountNumber NOT NULL,
    Name                    dbo.Name NOT NULL,
    CreditRating            tinyint NOT NULL,
    PreferredVendorStatus   dbo.Flag NOT NULL CONSTRAINT DF_Vendor_PreferredVendorStatus DEFAULT (1),
    ActiveFlag              dbo.Flag NOT NULL CONSTRAINT DF_Vendor_ActiveFlag DEFAULT (1),
    PurchasingWebServiceURL nvarchar(1024) NULL,
    ModifiedDate            datetime NOT NULL CONSTRAINT DF_Vendor_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Vendor_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID),
    CONSTRAINT CK_Vendor_CreditRating CHECK (CreditRating BETWEEN 1 AND 5)
);
GO

CREATE TABLE Purchasing.ProductVendor (
    ProductID        int NOT NULL,
    BusinessEntityID int NOT NULL,
    AverageLeadTime  int NOT NULL,
    StandardPrice    money NOT NULL,
    LastReceiptCost  money NULL,
    LastReceiptDate  datetime NULL,
    MinOrderQty      int NOT NULL,
    MaxOrderQty      int NOT NULL,
    OnOrderQty       int NULL,
    UnitMeasureCode  nchar(3) NOT NULL,
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_ProductVendor_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ProductVendor_ProductID_BusinessEntityID PRIMARY KEY CLUSTERED (ProductID, BusinessEntityID),
    CONSTRAINT CK_ProductVendor_AverageLeadTime CHECK (AverageLeadTime >= 1),
    CONSTRAINT CK_ProductVendor_StandardPrice CHECK (StandardPrice > 0.00),
    CONSTRAINT CK_ProductVendor_LastReceiptCost CHECK (LastReceiptCost > 0.00),
    CONSTRAINT CK_ProductVendor_MinOrderQty CHECK (MinOrderQty >= 1),
    CONSTRAINT CK_ProductVendor_MaxOrderQty CHECK (MaxOrderQty >= 1),
    CONSTRAINT CK_ProductVendor_OnOrderQty CHECK (OnOrderQty >= 0)
);
GO

CREATE TABLE Purchasing.PurchaseOrderHeader (
    PurchaseOrderID int IDENTITY(1,1) NOT NULL,
    RevisionNumber  tinyint NOT NULL CONSTRAINT DF_PurchaseOrderHeader_RevisionNumber DEFAULT (0),
    Status          tinyint NOT NULL CONSTRAINT DF_PurchaseOrderHeader_Status DEFAULT (1),
    EmployeeID      int NOT NULL,
    VendorID        int NOT NULL,
    ShipMethodID    int NOT NULL,
    OrderDate       datetime NOT NULL CONSTRAINT DF_PurchaseOrderHeader_OrderDate DEFAULT (GETDATE()),
    ShipDate        datetime NULL,
    SubTotal        money NOT NULL CONSTRAINT DF_PurchaseOrderHeader_SubTotal DEFAULT (0.00),
    TaxAmt          money NOT NULL CONSTRAINT DF_PurchaseOrderHeader_TaxAmt DEFAULT (0.00),
    Freight         money NOT NULL CONSTRAINT DF_PurchaseOrderHeader_Freight DEFAULT (0.00),
    TotalDue        AS ISNULL(SubTotal + TaxAmt + Freight, 0) PERSISTED NOT NULL,
    ModifiedDate    datetime NOT NULL CONSTRAINT DF_PurchaseOrderHeader_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_PurchaseOrderHeader_PurchaseOrderID PRIMARY KEY CLUSTERED (PurchaseOrderID),
    CONSTRAINT CK_PurchaseOrderHeader_Status CHECK (Status BETWEEN 1 AND 4),
    CONSTRAINT CK_PurchaseOrderHeader_ShipDate CHECK (ShipDate >= OrderDate OR ShipDate IS NULL),
    CONSTRAINT CK_PurchaseOrderHeader_SubTotal CHECK (SubTotal >= 0.00),
    CONSTRAINT CK_PurchaseOrderHeader_TaxAmt CHECK (TaxAmt >= 0.00),
    CONSTRAINT CK_PurchaseOrderHeader_Freight CHECK (Freight >= 0.00)
);
GO

CREATE TABLE Purchasing.PurchaseOrderDetail (
    PurchaseOrderID       int NOT NULL,
    PurchaseOrderDetailID int IDENTITY(1,1) NOT NULL,
    DueDate               datetime NOT NULL,
    OrderQty              smallint NOT NULL,
    ProductID             int NOT NULL,
    UnitPrice             money NOT NULL,
    LineTotal             AS ISNULL(OrderQty * UnitPrice, 0.00),
    ReceivedQty           decimal(8, 2) NOT NULL,
    RejectedQty           decimal(8, 2) NOT NULL,
    StockedQty            AS ISNULL(ReceivedQty - RejectedQty, 0.00),
    ModifiedDate          datetime NOT NULL CONSTRAINT DF_PurchaseOrderDetail_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_PurchaseOrderDetail_PurchaseOrderID_PurchaseOrderDetailID
        PRIMARY KEY CLUSTERED (PurchaseOrderID, PurchaseOrderDetailID),
    CONSTRAINT CK_PurchaseOrderDetail_OrderQty CHECK (OrderQty > 0),
    CONSTRAINT CK_PurchaseOrderDetail_UnitPrice CHECK (UnitPrice >= 0.00),
    CONSTRAINT CK_PurchaseOrderDetail_ReceivedQty CHECK (ReceivedQty >= 0.00),
    CONSTRAINT CK_PurchaseOrderDetail_RejectedQty CHECK (RejectedQty >= 0.00)
);
GO

CREATE TABLE Sales.Currency (
    CurrencyCode nchar(3) NOT NULL,
    Name         dbo.Name NOT NULL,
    ModifiedDate datetime NOT NULL CONSTRAINT DF_Currency_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Currency_CurrencyCode PRIMARY KEY CLUSTERED (CurrencyCode)
);
GO

CREATE TABLE Sales.CountryRegionCurrency (
    CountryRegionCode nvarchar(3) NOT NULL,
    CurrencyCode      nchar(3) NOT NULL,
    ModifiedDate      datetime NOT NULL CONSTRAINT DF_CountryRegionCurrency_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_CountryRegionCurrency_CountryRegionCode_CurrencyCode PRIMARY KEY CLUSTERED (CountryRegionCode, CurrencyCode)
);
GO

CREATE TABLE Sales.CurrencyRate (
    CurrencyRateID   int IDENTITY(1,1) NOT NULL,
    CurrencyRateDate datetime NOT NULL,
    FromCurrencyCode nchar(3) NOT NULL,
    ToCurrencyCode   nchar(3) NOT NULL,
    AverageRate      money NOT NULL,
    EndOfDayRate     money NOT NULL,
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_CurrencyRate_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_CurrencyRate_CurrencyRateID PRIMARY KEY CLUSTERED (CurrencyRateID)
);
GO

CREATE TABLE Sales.SalesPerson (
    BusinessEntityID int NOT NULL,
    TerritoryID      int NULL,
    SalesQuota       money NULL,
    Bonus            money NOT NULL CONSTRAINT DF_SalesPerson_Bonus DEFAULT (0.00),
    CommissionPct    smallmoney NOT NULL CONSTRAINT DF_SalesPerson_CommissionPct DEFAULT (0.00),
    SalesYTD         money NOT NULL CONSTRAINT DF_SalesPerson_SalesYTD DEFAULT (0.00),
    SalesLastYear    money NOT NULL CONSTRAINT DF_SalesPerson_SalesLastYear DEFAULT (0.00),
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesPerson_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_SalesPerson_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesPerson_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID),
    CONSTRAINT CK_SalesPerson_SalesQuota CHECK (SalesQuota > 0.00),
    CONSTRAINT CK_SalesPerson_Bonus CHECK (Bonus >= 0.00),
    CONSTRAINT CK_SalesPerson_CommissionPct CHECK (CommissionPct >= 0.00),
    CONSTRAINT CK_SalesPerson_SalesYTD CHECK (SalesYTD >= 0.00),
    CONSTRAINT CK_SalesPerson_SalesLastYear CHECK (SalesLastYear >= 0.00)
);
GO

CREATE TABLE Sales.SalesPersonQuotaHistory (
    BusinessEntityID int NOT NULL,
    QuotaDate        datetime NOT NULL,
    SalesQuota       money NOT NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesPersonQuotaHistory_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_SalesPersonQuotaHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesPersonQuotaHistory_BusinessEntityID_QuotaDate PRIMARY KEY CLUSTERED (BusinessEntityID, QuotaDate),
    CONSTRAINT CK_SalesPersonQuotaHistory_SalesQuota CHECK (SalesQuota > 0.00)
);
GO

CREATE TABLE Sales.SalesReason (
    SalesReasonID int IDENTITY(1,1) NOT NULL,
    Name          dbo.Name NOT NULL,
    ReasonType    dbo.Name NOT NULL,
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_SalesReason_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesReason_SalesReasonID PRIMARY KEY CLUSTERED (SalesReasonID)
);
GO

CREATE TABLE Sales.SalesTaxRate (
    SalesTaxRateID  int IDENTITY(1,1) NOT NULL,
    StateProvinceID int NOT NULL,
    TaxType         tinyint NOT NULL,
    TaxRate         smallmoney NOT NULL CONSTRAINT DF_SalesTaxRate_TaxRate DEFAULT (0.00),
    Name            dbo.Name NOT NULL,
    rowguid         uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesTaxRate_rowguid DEFAULT (NEWID()),
    ModifiedDate    datetime NOT NULL CONSTRAINT DF_SalesTaxRate_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesTaxRate_SalesTaxRateID PRIMARY KEY CLUSTERED (SalesTaxRateID),
    CONSTRAINT CK_SalesTaxRate_TaxType CHECK (TaxType BETWEEN 1 AND 3)
);
GO

CREATE TABLE Sales.SalesTerritoryHistory (
    BusinessEntityID int NOT NULL,
    TerritoryID      int NOT NULL,
    StartDate        datetime NOT NULL,
    EndDate          datetime NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesTerritoryHistory_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_SalesTerritoryHistory_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesTerritoryHistory_BusinessEntityID_StartDate_TerritoryID
        PRIMARY KEY CLUSTERED (BusinessEntityID, StartDate, TerritoryID),
    CONSTRAINT CK_SalesTerritoryHistory_EndDate CHECK (EndDate >= StartDate OR EndDate IS NULL)
);
GO

CREATE TABLE Sales.Store (
    BusinessEntityID int NOT NULL,
    Name             dbo.Name NOT NULL,
    SalesPersonID    int NULL,
    Demographics     nvarchar(max) NULL,
    rowguid          uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Store_rowguid DEFAULT (NEWID()),
    ModifiedDate     datetime NOT NULL CONSTRAINT DF_Store_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Store_BusinessEntityID PRIMARY KEY CLUSTERED (BusinessEntityID)
);
GO

CREATE TABLE Sales.Customer (
    CustomerID    int IDENTITY(1,1) NOT FOR REPLICATION NOT NULL,
    PersonID      int NULL,
    StoreID       int NULL,
    TerritoryID   int NULL,
    AccountNumber AS ISNULL('AW' + RIGHT('00000000' + CONVERT(varchar(8), CustomerID), 8), ''),
    rowguid       uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_Customer_rowguid DEFAULT (NEWID()),
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_Customer_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_Customer_CustomerID PRIMARY KEY CLUSTERED (CustomerID)
);
GO

CREATE TABLE Sales.ShoppingCartItem (
    ShoppingCartItemID int IDENTITY(1,1) NOT NULL,
    ShoppingCartID     nvarchar(50) NOT NULL,
    Quantity           int NOT NULL CONSTRAINT DF_ShoppingCartItem_Quantity DEFAULT (1),
    ProductID          int NOT NULL,
    DateCreated        datetime NOT NULL CONSTRAINT DF_ShoppingCartItem_DateCreated DEFAULT (GETDATE()),
    ModifiedDate       datetime NOT NULL CONSTRAINT DF_ShoppingCartItem_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_ShoppingCartItem_ShoppingCartItemID PRIMARY KEY CLUSTERED (ShoppingCartItemID),
    CONSTRAINT CK_ShoppingCartItem_Quantity CHECK (Quantity >= 1)
);
GO

CREATE TABLE Sales.SpecialOffer (
    SpecialOfferID int IDENTITY(1,1) NOT NULL,
    Description    nvarchar(255) NOT NULL,
    DiscountPct    smallmoney NOT NULL CONSTRAINT DF_SpecialOffer_DiscountPct DEFAULT (0.00),
    Type           nvarchar(50) NOT NULL,
    Category       nvarchar(50) NOT NULL,
    StartDate      datetime NOT NULL,
    EndDate        datetime NOT NULL,
    MinQty         int NOT NULL CONSTRAINT DF_SpecialOffer_MinQty DEFAULT (0),
    MaxQty         int NULL,
    rowguid        uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SpecialOffer_rowguid DEFAULT (NEWID()),
    ModifiedDate   datetime NOT NULL CONSTRAINT DF_SpecialOffer_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SpecialOffer_SpecialOfferID PRIMARY KEY CLUSTERED (SpecialOfferID),
    CONSTRAINT CK_SpecialOffer_EndDate CHECK (EndDate >= StartDate),
    CONSTRAINT CK_SpecialOffer_DiscountPct CHECK (DiscountPct >= 0.00),
    CONSTRAINT CK_SpecialOffer_MinQty CHECK (MinQty >= 0),
    CONSTRAINT CK_SpecialOffer_MaxQty CHECK (MaxQty >= 0)
);
GO

CREATE TABLE Sales.SpecialOfferProduct (
    SpecialOfferID int NOT NULL,
    ProductID      int NOT NULL,
    rowguid        uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SpecialOfferProduct_rowguid DEFAULT (NEWID()),
    ModifiedDate   datetime NOT NULL CONSTRAINT DF_SpecialOfferProduct_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SpecialOfferProduct_SpecialOfferID_ProductID PRIMARY KEY CLUSTERED (SpecialOfferID, ProductID)
);
GO

-- The credit cards are not part of the sample; CreditCardID has no parent table here.
CREATE TABLE Sales.SalesOrderHeader (
    SalesOrderID           int IDENTITY(1,1) NOT FOR REPLICATION NOT NULL,
    RevisionNumber         tinyint NOT NULL CONSTRAINT DF_SalesOrderHeader_RevisionNumber DEFAULT (0),
    OrderDate              datetime NOT NULL CONSTRAINT DF_SalesOrderHeader_OrderDate DEFAULT (GETDATE()),
    DueDate                datetime NOT NULL,
    ShipDate               datetime NULL,
    Status                 tinyint NOT NULL CONSTRAINT DF_SalesOrderHeader_Status DEFAULT (1),
    OnlineOrderFlag        dbo.Flag NOT NULL CONSTRAINT DF_SalesOrderHeader_OnlineOrderFlag DEFAULT (1),
    SalesOrderNumber       AS ISNULL(N'SO' + CONVERT(nvarchar(23), SalesOrderID), N'*** ERROR ***'),
    PurchaseOrderNumber    dbo.OrderNumber NULL,
    AccountNumber          dbo.AccountNumber NULL,
    CustomerID             int NOT NULL,
    SalesPersonID          int NULL,
    TerritoryID            int NULL,
    BillToAddressID        int NOT NULL,
    ShipToAddressID        int NOT NULL,
    ShipMethodID           int NOT NULL,
    CreditCardID           int NULL,
    CreditCardApprovalCode varchar(15) NULL,
    CurrencyRateID         int NULL,
    SubTotal               money NOT NULL CONSTRAINT DF_SalesOrderHeader_SubTotal DEFAULT (0.00),
    TaxAmt                 money NOT NULL CONSTRAINT DF_SalesOrderHeader_TaxAmt DEFAULT (0.00),
    Freight                money NOT NULL CONSTRAINT DF_SalesOrderHeader_Freight DEFAULT (0.00),
    TotalDue               AS ISNULL(SubTotal + TaxAmt + Freight, 0),
    Comment                nvarchar(128) NULL,
    rowguid                uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesOrderHeader_rowguid DEFAULT (NEWID()),
    ModifiedDate           datetime NOT NULL CONSTRAINT DF_SalesOrderHeader_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesOrderHeader_SalesOrderID PRIMARY KEY CLUSTERED (SalesOrderID),
    CONSTRAINT CK_SalesOrderHeader_Status CHECK (Status BETWEEN 0 AND 8),
    CONSTRAINT CK_SalesOrderHeader_DueDate CHECK (DueDate >= OrderDate),
    CONSTRAINT CK_SalesOrderHeader_ShipDate CHECK (ShipDate >= OrderDate OR ShipDate IS NULL),
    CONSTRAINT CK_SalesOrderHeader_SubTotal CHECK (SubTotal >= 0.00),
    CONSTRAINT CK_SalesOrderHeader_TaxAmt CHECK (TaxAmt >= 0.00),
    CONSTRAINT CK_SalesOrderHeader_Freight CHECK (Freight >= 0.00)
);
GO

CREATE TABLE Sales.SalesOrderDetail (
    SalesOrderID          int NOT NULL,
    SalesOrderDetailID    int IDENTITY(1,1) NOT NULL,
    CarrierTrackingNumber nvarchar(25) NULL,
    OrderQty              smallint NOT NULL,
    ProductID             int NOT NULL,
    SpecialOfferID        int NOT NULL,
    UnitPrice             money NOT NULL,
    UnitPriceDiscount     money NOT NULL CONSTRAINT DF_SalesOrderDetail_UnitPriceDiscount DEFAULT (0.0),
    LineTotal             AS ISNULL(UnitPrice * (1.0 - UnitPriceDiscount) * OrderQty, 0.0),
    rowguid               uniqueidentifier ROWGUIDCOL NOT NULL CONSTRAINT DF_SalesOrderDetail_rowguid DEFAULT (NEWID()),
    ModifiedDate          datetime NOT NULL CONSTRAINT DF_SalesOrderDetail_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesOrderDetail_SalesOrderID_SalesOrderDetailID PRIMARY KEY CLUSTERED (SalesOrderID, SalesOrderDetailID),
    CONSTRAINT CK_SalesOrderDetail_OrderQty CHECK (OrderQty > 0),
    CONSTRAINT CK_SalesOrderDetail_UnitPrice CHECK (UnitPrice >= 0.00),
    CONSTRAINT CK_SalesOrderDetail_UnitPriceDiscount CHECK (UnitPriceDiscount >= 0.00)
);
GO

CREATE TABLE Sales.SalesOrderHeaderSalesReason (
    SalesOrderID  int NOT NULL,
    SalesReasonID int NOT NULL,
    ModifiedDate  datetime NOT NULL CONSTRAINT DF_SalesOrderHeaderSalesReason_ModifiedDate DEFAULT (GETDATE()),
    CONSTRAINT PK_SalesOrderHeaderSalesReason_SalesOrderID_SalesReasonID PRIMARY KEY CLUSTERED (SalesOrderID, SalesReasonID)
);
GO

-- LOAD DATA HERE

-- --------------------------------------------------------------------------------------------- indexes

CREATE UNIQUE INDEX AK_Address_rowguid ON Person.Address (rowguid);
CREATE UNIQUE INDEX IX_Address_AddressLine1_AddressLine2_City_StateProvinceID_PostalCode
    ON Person.Address (AddressLine1, AddressLine2, City, StateProvinceID, PostalCode);
CREATE INDEX IX_Address_StateProvinceID ON Person.Address (StateProvinceID);
CREATE UNIQUE INDEX AK_AddressType_rowguid ON Person.AddressType (rowguid);
CREATE UNIQUE INDEX AK_AddressType_Name ON Person.AddressType (Name);
CREATE UNIQUE INDEX AK_BusinessEntity_rowguid ON Person.BusinessEntity (rowguid);
CREATE UNIQUE INDEX AK_BusinessEntityAddress_rowguid ON Person.BusinessEntityAddress (rowguid);
CREATE INDEX IX_BusinessEntityAddress_AddressID ON Person.BusinessEntityAddress (AddressID);
CREATE INDEX IX_BusinessEntityAddress_AddressTypeID ON Person.BusinessEntityAddress (AddressTypeID);
CREATE UNIQUE INDEX AK_BusinessEntityContact_rowguid ON Person.BusinessEntityContact (rowguid);
CREATE INDEX IX_BusinessEntityContact_PersonID ON Person.BusinessEntityContact (PersonID);
CREATE INDEX IX_BusinessEntityContact_ContactTypeID ON Person.BusinessEntityContact (ContactTypeID);
CREATE UNIQUE INDEX AK_ContactType_Name ON Person.ContactType (Name);
CREATE UNIQUE INDEX AK_CountryRegion_Name ON Person.CountryRegion (Name);
CREATE INDEX IX_EmailAddress_EmailAddress ON Person.EmailAddress (EmailAddress);
CREATE INDEX IX_Person_LastName_FirstName_MiddleName ON Person.Person (LastName, FirstName, MiddleName);
CREATE UNIQUE INDEX AK_Person_rowguid ON Person.Person (rowguid);
CREATE INDEX IX_PersonPhone_PhoneNumber ON Person.PersonPhone (PhoneNumber);
CREATE UNIQUE INDEX AK_StateProvince_Name ON Person.StateProvince (Name);
CREATE UNIQUE INDEX AK_StateProvince_StateProvinceCode_CountryRegionCode
    ON Person.StateProvince (StateProvinceCode, CountryRegionCode);
CREATE UNIQUE INDEX AK_StateProvince_rowguid ON Person.StateProvince (rowguid);
GO

CREATE UNIQUE INDEX AK_Department_Name ON HumanResources.Department (Name);
CREATE INDEX IX_Employee_OrganizationNode ON HumanResources.Employee (OrganizationNode);
CREATE INDEX IX_Employee_OrganizationLevel_OrganizationNode ON HumanResources.Employee (OrganizationLevel, OrganizationNode);
CREATE UNIQUE INDEX AK_Employee_LoginID ON HumanResources.Employee (LoginID);
CREATE UNIQUE INDEX AK_Employee_NationalIDNumber ON HumanResources.Employee (NationalIDNumber);
CREATE UNIQUE INDEX AK_Employee_rowguid ON HumanResources.Employee (rowguid);
CREATE INDEX IX_EmployeeDepartmentHistory_DepartmentID ON HumanResources.EmployeeDepartmentHistory (DepartmentID);
CREATE INDEX IX_EmployeeDepartmentHistory_ShiftID ON HumanResources.EmployeeDepartmentHistory (ShiftID);
CREATE UNIQUE INDEX AK_Shift_Name ON HumanResources.Shift (Name);
CREATE UNIQUE INDEX AK_Shift_StartTime_EndTime ON HumanResources.Shift (StartTime, EndTime);
GO

CREATE UNIQUE CLUSTERED INDEX AK_BillOfMaterials_ProductAssemblyID_ComponentID_StartDate
    ON Production.BillOfMaterials (ProductAssemblyID, ComponentID, StartDate);
CREATE INDEX IX_BillOfMaterials_UnitMeasureCode ON Production.BillOfMaterials (UnitMeasureCode);
CREATE UNIQUE INDEX AK_Culture_Name ON Production.Culture (Name);
CREATE UNIQUE INDEX AK_Location_Name ON Production.Location (Name);
CREATE UNIQUE INDEX AK_Product_ProductNumber ON Production.Product (ProductNumber);
CREATE UNIQUE INDEX AK_Product_Name ON Production.Product (Name);
CREATE UNIQUE INDEX AK_Product_rowguid ON Production.Product (rowguid);
CREATE UNIQUE INDEX AK_ProductCategory_Name ON Production.ProductCategory (Name);
CREATE UNIQUE INDEX AK_ProductCategory_rowguid ON Production.ProductCategory (rowguid);
CREATE UNIQUE INDEX AK_ProductDescription_rowguid ON Production.ProductDescription (rowguid);
CREATE UNIQUE INDEX AK_ProductModel_Name ON Production.ProductModel (Name);
CREATE UNIQUE INDEX AK_ProductModel_rowguid ON Production.ProductModel (rowguid);
CREATE INDEX IX_ProductReview_ProductID_Name ON Production.ProductReview (ProductID, ReviewerName) INCLUDE (Comments);
CREATE UNIQUE INDEX AK_ProductSubcategory_Name ON Production.ProductSubcategory (Name);
CREATE UNIQUE INDEX AK_ProductSubcategory_rowguid ON Production.ProductSubcategory (rowguid);
CREATE UNIQUE INDEX AK_ScrapReason_Name ON Production.ScrapReason (Name);
CREATE INDEX IX_TransactionHistory_ProductID ON Production.TransactionHistory (ProductID);
CREATE INDEX IX_TransactionHistory_ReferenceOrderID_ReferenceOrderLineID
    ON Production.TransactionHistory (ReferenceOrderID, ReferenceOrderLineID);
CREATE INDEX IX_TransactionHistoryArchive_ProductID ON Production.TransactionHistoryArchive (ProductID);
CREATE INDEX IX_TransactionHistoryArchive_ReferenceOrderID_ReferenceOrderLineID
    ON Production.TransactionHistoryArchive (ReferenceOrderID, ReferenceOrderLineID);
CREATE UNIQUE INDEX AK_UnitMeasure_Name ON Production.UnitMeasure (Name);
CREATE INDEX IX_WorkOrder_ScrapReasonID ON Production.WorkOrder (ScrapReasonID);
CREATE INDEX IX_WorkOrder_ProductID ON Production.WorkOrder (ProductID);
CREATE INDEX IX_WorkOrderRouting_ProductID ON Production.WorkOrderRouting (ProductID);
GO

CREATE INDEX IX_ProductVendor_UnitMeasureCode ON Purchasing.ProductVendor (UnitMeasureCode);
CREATE INDEX IX_ProductVendor_BusinessEntityID ON Purchasing.ProductVendor (BusinessEntityID);
CREATE INDEX IX_PurchaseOrderDetail_ProductID ON Purchasing.PurchaseOrderDetail (ProductID);
CREATE INDEX IX_PurchaseOrderHeader_VendorID ON Purchasing.PurchaseOrderHeader (VendorID);
CREATE INDEX IX_PurchaseOrderHeader_EmployeeID ON Purchasing.PurchaseOrderHeader (EmployeeID);
CREATE UNIQUE INDEX AK_ShipMethod_Name ON Purchasing.ShipMethod (Name);
CREATE UNIQUE INDEX AK_ShipMethod_rowguid ON Purchasing.ShipMethod (rowguid);
CREATE UNIQUE INDEX AK_Vendor_AccountNumber ON Purchasing.Vendor (AccountNumber);
GO

CREATE INDEX IX_CountryRegionCurrency_CurrencyCode ON Sales.CountryRegionCurrency (CurrencyCode);
CREATE UNIQUE INDEX AK_Currency_Name ON Sales.Currency (Name);
CREATE UNIQUE INDEX AK_CurrencyRate_CurrencyRateDate_FromCurrencyCode_ToCurrencyCode
    ON Sales.CurrencyRate (CurrencyRateDate, FromCurrencyCode, ToCurrencyCode);
CREATE UNIQUE INDEX AK_Customer_rowguid ON Sales.Customer (rowguid);
CREATE UNIQUE INDEX AK_Customer_AccountNumber ON Sales.Customer (AccountNumber);
CREATE INDEX IX_Customer_TerritoryID ON Sales.Customer (TerritoryID);
CREATE UNIQUE INDEX AK_SalesOrderDetail_rowguid ON Sales.SalesOrderDetail (rowguid);
CREATE INDEX IX_SalesOrderDetail_ProductID ON Sales.SalesOrderDetail (ProductID);
CREATE UNIQUE INDEX AK_SalesOrderHeader_rowguid ON Sales.SalesOrderHeader (rowguid);
CREATE UNIQUE INDEX AK_SalesOrderHeader_SalesOrderNumber ON Sales.SalesOrderHeader (SalesOrderNumber);
CREATE INDEX IX_SalesOrderHeader_CustomerID ON Sales.SalesOrderHeader (CustomerID);
CREATE INDEX IX_SalesOrderHeader_SalesPersonID ON Sales.SalesOrderHeader (SalesPersonID);
CREATE UNIQUE INDEX AK_SalesPerson_rowguid ON Sales.SalesPerson (rowguid);
CREATE UNIQUE INDEX AK_SalesPersonQuotaHistory_rowguid ON Sales.SalesPersonQuotaHistory (rowguid);
CREATE UNIQUE INDEX AK_SalesTaxRate_StateProvinceID_TaxType ON Sales.SalesTaxRate (StateProvinceID, TaxType);
CREATE UNIQUE INDEX AK_SalesTaxRate_rowguid ON Sales.SalesTaxRate (rowguid);
CREATE UNIQUE INDEX AK_SalesTerritory_Name ON Sales.SalesTerritory (Name);
CREATE UNIQUE INDEX AK_SalesTerritory_rowguid ON Sales.SalesTerritory (rowguid);
CREATE UNIQUE INDEX AK_SalesTerritoryHistory_rowguid ON Sales.SalesTerritoryHistory (rowguid);
CREATE INDEX IX_ShoppingCartItem_ShoppingCartID_ProductID ON Sales.ShoppingCartItem (ShoppingCartID, ProductID);
CREATE UNIQUE INDEX AK_SpecialOffer_rowguid ON Sales.SpecialOffer (rowguid);
CREATE UNIQUE INDEX AK_SpecialOfferProduct_rowguid ON Sales.SpecialOfferProduct (rowguid);
CREATE INDEX IX_SpecialOfferProduct_ProductID ON Sales.SpecialOfferProduct (ProductID);
CREATE UNIQUE INDEX AK_Store_rowguid ON Sales.Store (rowguid);
CREATE INDEX IX_Store_SalesPersonID ON Sales.Store (SalesPersonID);
GO

-- ---------------------------------------------------------------------------------------- foreign keys

ALTER TABLE Sales.SalesTerritory ADD CONSTRAINT FK_SalesTerritory_CountryRegion_CountryRegionCode
    FOREIGN KEY (CountryRegionCode) REFERENCES Person.CountryRegion (CountryRegionCode);
ALTER TABLE Person.StateProvince ADD
    CONSTRAINT FK_StateProvince_CountryRegion_CountryRegionCode
        FOREIGN KEY (CountryRegionCode) REFERENCES Person.CountryRegion (CountryRegionCode),
    CONSTRAINT FK_StateProvince_SalesTerritory_TerritoryID
        FOREIGN KEY (TerritoryID) REFERENCES Sales.SalesTerritory (TerritoryID);
ALTER TABLE Person.Address ADD CONSTRAINT FK_Address_StateProvince_StateProvinceID
    FOREIGN KEY (StateProvinceID) REFERENCES Person.StateProvince (StateProvinceID);
ALTER TABLE Person.Person ADD CONSTRAINT FK_Person_BusinessEntity_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES Person.BusinessEntity (BusinessEntityID);
ALTER TABLE Person.BusinessEntityAddress ADD
    CONSTRAINT FK_BusinessEntityAddress_Address_AddressID
        FOREIGN KEY (AddressID) REFERENCES Person.Address (AddressID),
    CONSTRAINT FK_BusinessEntityAddress_AddressType_AddressTypeID
        FOREIGN KEY (AddressTypeID) REFERENCES Person.AddressType (AddressTypeID),
    CONSTRAINT FK_BusinessEntityAddress_BusinessEntity_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Person.BusinessEntity (BusinessEntityID);
ALTER TABLE Person.BusinessEntityContact ADD
    CONSTRAINT FK_BusinessEntityContact_Person_PersonID
        FOREIGN KEY (PersonID) REFERENCES Person.Person (BusinessEntityID),
    CONSTRAINT FK_BusinessEntityContact_ContactType_ContactTypeID
        FOREIGN KEY (ContactTypeID) REFERENCES Person.ContactType (ContactTypeID),
    CONSTRAINT FK_BusinessEntityContact_BusinessEntity_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Person.BusinessEntity (BusinessEntityID);
ALTER TABLE Person.EmailAddress ADD CONSTRAINT FK_EmailAddress_Person_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES Person.Person (BusinessEntityID);
ALTER TABLE Person.PersonPhone ADD
    CONSTRAINT FK_PersonPhone_Person_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Person.Person (BusinessEntityID),
    CONSTRAINT FK_PersonPhone_PhoneNumberType_PhoneNumberTypeID
        FOREIGN KEY (PhoneNumberTypeID) REFERENCES Person.PhoneNumberType (PhoneNumberTypeID);
GO

ALTER TABLE HumanResources.Employee ADD CONSTRAINT FK_Employee_Person_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES Person.Person (BusinessEntityID);
ALTER TABLE HumanResources.EmployeeDepartmentHistory ADD
    CONSTRAINT FK_EmployeeDepartmentHistory_Department_DepartmentID
        FOREIGN KEY (DepartmentID) REFERENCES HumanResources.Department (DepartmentID),
    CONSTRAINT FK_EmployeeDepartmentHistory_Employee_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES HumanResources.Employee (BusinessEntityID),
    CONSTRAINT FK_EmployeeDepartmentHistory_Shift_ShiftID
        FOREIGN KEY (ShiftID) REFERENCES HumanResources.Shift (ShiftID);
ALTER TABLE HumanResources.EmployeePayHistory ADD CONSTRAINT FK_EmployeePayHistory_Employee_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES HumanResources.Employee (BusinessEntityID);
GO

ALTER TABLE Production.ProductSubcategory ADD CONSTRAINT FK_ProductSubcategory_ProductCategory_ProductCategoryID
    FOREIGN KEY (ProductCategoryID) REFERENCES Production.ProductCategory (ProductCategoryID);
ALTER TABLE Production.Product ADD
    CONSTRAINT FK_Product_UnitMeasure_SizeUnitMeasureCode
        FOREIGN KEY (SizeUnitMeasureCode) REFERENCES Production.UnitMeasure (UnitMeasureCode),
    CONSTRAINT FK_Product_UnitMeasure_WeightUnitMeasureCode
        FOREIGN KEY (WeightUnitMeasureCode) REFERENCES Production.UnitMeasure (UnitMeasureCode),
    CONSTRAINT FK_Product_ProductModel_ProductModelID
        FOREIGN KEY (ProductModelID) REFERENCES Production.ProductModel (ProductModelID),
    CONSTRAINT FK_Product_ProductSubcategory_ProductSubcategoryID
        FOREIGN KEY (ProductSubcategoryID) REFERENCES Production.ProductSubcategory (ProductSubcategoryID);
ALTER TABLE Production.BillOfMaterials ADD
    CONSTRAINT FK_BillOfMaterials_Product_ProductAssemblyID
        FOREIGN KEY (ProductAssemblyID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_BillOfMaterials_Product_ComponentID
        FOREIGN KEY (ComponentID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_BillOfMaterials_UnitMeasure_UnitMeasureCode
        FOREIGN KEY (UnitMeasureCode) REFERENCES Production.UnitMeasure (UnitMeasureCode);
ALTER TABLE Production.ProductCostHistory ADD CONSTRAINT FK_ProductCostHistory_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.ProductInventory ADD
    CONSTRAINT FK_ProductInventory_Location_LocationID
        FOREIGN KEY (LocationID) REFERENCES Production.Location (LocationID),
    CONSTRAINT FK_ProductInventory_Product_ProductID
        FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.ProductListPriceHistory ADD CONSTRAINT FK_ProductListPriceHistory_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.ProductModelProductDescriptionCulture ADD
    CONSTRAINT FK_ProductModelProductDescriptionCulture_ProductDescription_ProductDescriptionID
        FOREIGN KEY (ProductDescriptionID) REFERENCES Production.ProductDescription (ProductDescriptionID),
    CONSTRAINT FK_ProductModelProductDescriptionCulture_Culture_CultureID
        FOREIGN KEY (CultureID) REFERENCES Production.Culture (CultureID),
    CONSTRAINT FK_ProductModelProductDescriptionCulture_ProductModel_ProductModelID
        FOREIGN KEY (ProductModelID) REFERENCES Production.ProductModel (ProductModelID);
ALTER TABLE Production.ProductProductPhoto ADD CONSTRAINT FK_ProductProductPhoto_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.ProductReview ADD CONSTRAINT FK_ProductReview_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.TransactionHistory ADD CONSTRAINT FK_TransactionHistory_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Production.WorkOrder ADD
    CONSTRAINT FK_WorkOrder_Product_ProductID
        FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_WorkOrder_ScrapReason_ScrapReasonID
        FOREIGN KEY (ScrapReasonID) REFERENCES Production.ScrapReason (ScrapReasonID);
ALTER TABLE Production.WorkOrderRouting ADD
    CONSTRAINT FK_WorkOrderRouting_Location_LocationID
        FOREIGN KEY (LocationID) REFERENCES Production.Location (LocationID),
    CONSTRAINT FK_WorkOrderRouting_WorkOrder_WorkOrderID
        FOREIGN KEY (WorkOrderID) REFERENCES Production.WorkOrder (WorkOrderID);
GO

ALTER TABLE Purchasing.Vendor ADD CONSTRAINT FK_Vendor_BusinessEntity_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES Person.BusinessEntity (BusinessEntityID);
ALTER TABLE Purchasing.ProductVendor ADD
    CONSTRAINT FK_ProductVendor_Product_ProductID
        FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_ProductVendor_UnitMeasure_UnitMeasureCode
        FOREIGN KEY (UnitMeasureCode) REFERENCES Production.UnitMeasure (UnitMeasureCode),
    CONSTRAINT FK_ProductVendor_Vendor_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Purchasing.Vendor (BusinessEntityID);
ALTER TABLE Purchasing.PurchaseOrderHeader ADD
    CONSTRAINT FK_PurchaseOrderHeader_Employee_EmployeeID
        FOREIGN KEY (EmployeeID) REFERENCES HumanResources.Employee (BusinessEntityID),
    CONSTRAINT FK_PurchaseOrderHeader_Vendor_VendorID
        FOREIGN KEY (VendorID) REFERENCES Purchasing.Vendor (BusinessEntityID),
    CONSTRAINT FK_PurchaseOrderHeader_ShipMethod_ShipMethodID
        FOREIGN KEY (ShipMethodID) REFERENCES Purchasing.ShipMethod (ShipMethodID);
ALTER TABLE Purchasing.PurchaseOrderDetail ADD
    CONSTRAINT FK_PurchaseOrderDetail_Product_ProductID
        FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_PurchaseOrderDetail_PurchaseOrderHeader_PurchaseOrderID
        FOREIGN KEY (PurchaseOrderID) REFERENCES Purchasing.PurchaseOrderHeader (PurchaseOrderID);
GO

ALTER TABLE Sales.CountryRegionCurrency ADD
    CONSTRAINT FK_CountryRegionCurrency_CountryRegion_CountryRegionCode
        FOREIGN KEY (CountryRegionCode) REFERENCES Person.CountryRegion (CountryRegionCode),
    CONSTRAINT FK_CountryRegionCurrency_Currency_CurrencyCode
        FOREIGN KEY (CurrencyCode) REFERENCES Sales.Currency (CurrencyCode);
ALTER TABLE Sales.CurrencyRate ADD
    CONSTRAINT FK_CurrencyRate_Currency_FromCurrencyCode
        FOREIGN KEY (FromCurrencyCode) REFERENCES Sales.Currency (CurrencyCode),
    CONSTRAINT FK_CurrencyRate_Currency_ToCurrencyCode
        FOREIGN KEY (ToCurrencyCode) REFERENCES Sales.Currency (CurrencyCode);
ALTER TABLE Sales.SalesPerson ADD
    CONSTRAINT FK_SalesPerson_Employee_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES HumanResources.Employee (BusinessEntityID),
    CONSTRAINT FK_SalesPerson_SalesTerritory_TerritoryID
        FOREIGN KEY (TerritoryID) REFERENCES Sales.SalesTerritory (TerritoryID);
ALTER TABLE Sales.SalesPersonQuotaHistory ADD CONSTRAINT FK_SalesPersonQuotaHistory_SalesPerson_BusinessEntityID
    FOREIGN KEY (BusinessEntityID) REFERENCES Sales.SalesPerson (BusinessEntityID);
ALTER TABLE Sales.SalesTaxRate ADD CONSTRAINT FK_SalesTaxRate_StateProvince_StateProvinceID
    FOREIGN KEY (StateProvinceID) REFERENCES Person.StateProvince (StateProvinceID);
ALTER TABLE Sales.SalesTerritoryHistory ADD
    CONSTRAINT FK_SalesTerritoryHistory_SalesPerson_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Sales.SalesPerson (BusinessEntityID),
    CONSTRAINT FK_SalesTerritoryHistory_SalesTerritory_TerritoryID
        FOREIGN KEY (TerritoryID) REFERENCES Sales.SalesTerritory (TerritoryID);
ALTER TABLE Sales.Store ADD
    CONSTRAINT FK_Store_BusinessEntity_BusinessEntityID
        FOREIGN KEY (BusinessEntityID) REFERENCES Person.BusinessEntity (BusinessEntityID),
    CONSTRAINT FK_Store_SalesPerson_SalesPersonID
        FOREIGN KEY (SalesPersonID) REFERENCES Sales.SalesPerson (BusinessEntityID);
ALTER TABLE Sales.Customer ADD
    CONSTRAINT FK_Customer_Person_PersonID
        FOREIGN KEY (PersonID) REFERENCES Person.Person (BusinessEntityID),
    CONSTRAINT FK_Customer_Store_StoreID
        FOREIGN KEY (StoreID) REFERENCES Sales.Store (BusinessEntityID),
    CONSTRAINT FK_Customer_SalesTerritory_TerritoryID
        FOREIGN KEY (TerritoryID) REFERENCES Sales.SalesTerritory (TerritoryID);
ALTER TABLE Sales.ShoppingCartItem ADD CONSTRAINT FK_ShoppingCartItem_Product_ProductID
    FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID);
ALTER TABLE Sales.SpecialOfferProduct ADD
    CONSTRAINT FK_SpecialOfferProduct_Product_ProductID
        FOREIGN KEY (ProductID) REFERENCES Production.Product (ProductID),
    CONSTRAINT FK_SpecialOfferProduct_SpecialOffer_SpecialOfferID
        FOREIGN KEY (SpecialOfferID) REFERENCES Sales.SpecialOffer (SpecialOfferID);
ALTER TABLE Sales.SalesOrderHeader ADD
    CONSTRAINT FK_SalesOrderHeader_Address_BillToAddressID
        FOREIGN KEY (BillToAddressID) REFERENCES Person.Address (AddressID),
    CONSTRAINT FK_SalesOrderHeader_Address_ShipToAddressID
        FOREIGN KEY (ShipToAddressID) REFERENCES Person.Address (AddressID),
    CONSTRAINT FK_SalesOrderHeader_CurrencyRate_CurrencyRateID
        FOREIGN KEY (CurrencyRateID) REFERENCES Sales.CurrencyRate (CurrencyRateID),
    CONSTRAINT FK_SalesOrderHeader_Customer_CustomerID
        FOREIGN KEY (CustomerID) REFERENCES Sales.Customer (CustomerID),
    CONSTRAINT FK_SalesOrderHeader_SalesPerson_SalesPersonID
        FOREIGN KEY (SalesPersonID) REFERENCES Sales.SalesPerson (BusinessEntityID),
    CONSTRAINT FK_SalesOrderHeader_ShipMethod_ShipMethodID
        FOREIGN KEY (ShipMethodID) REFERENCES Purchasing.ShipMethod (ShipMethodID),
    CONSTRAINT FK_SalesOrderHeader_SalesTerritory_TerritoryID
        FOREIGN KEY (TerritoryID) REFERENCES Sales.SalesTerritory (TerritoryID);
ALTER TABLE Sales.SalesOrderDetail ADD
    CONSTRAINT FK_SalesOrderDetail_SalesOrderHeader_SalesOrderID
        FOREIGN KEY (SalesOrderID) REFERENCES Sales.SalesOrderHeader (SalesOrderID) ON DELETE CASCADE,
    CONSTRAINT FK_SalesOrderDetail_SpecialOfferProduct_SpecialOfferIDProductID
        FOREIGN KEY (SpecialOfferID, ProductID) REFERENCES Sales.SpecialOfferProduct (SpecialOfferID, ProductID);
ALTER TABLE Sales.SalesOrderHeaderSalesReason ADD
    CONSTRAINT FK_SalesOrderHeaderSalesReason_SalesReason_SalesReasonID
        FOREIGN KEY (SalesReasonID) REFERENCES Sales.SalesReason (SalesReasonID),
    CONSTRAINT FK_SalesOrderHeaderSalesReason_SalesOrderHeader_SalesOrderID
        FOREIGN KEY (SalesOrderID) REFERENCES Sales.SalesOrderHeader (SalesOrderID) ON DELETE CASCADE;
GO

-- ----------------------------------------------------------------------------------------------- views

CREATE VIEW Person.vStateProvinceCountryRegion
AS
SELECT sp.StateProvinceID, sp.StateProvinceCode, sp.IsOnlyStateProvinceFlag, sp.Name AS StateProvinceName,
       sp.TerritoryID, cr.CountryRegionCode, cr.Name AS CountryRegionName
FROM Person.StateProvince AS sp
     INNER JOIN Person.CountryRegion AS cr ON cr.CountryRegionCode = sp.CountryRegionCode;
GO

CREATE VIEW HumanResources.vEmployee
AS
SELECT e.BusinessEntityID, p.Title, p.FirstName, p.MiddleName, p.LastName, p.Suffix, e.JobTitle,
       ph.PhoneNumber, pt.Name AS PhoneNumberType, em.EmailAddress, p.EmailPromotion,
       a.AddressLine1, a.AddressLine2, a.City, sp.Name AS StateProvinceName, a.PostalCode,
       cr.Name AS CountryRegionName, p.AdditionalContactInfo
FROM HumanResources.Employee AS e
     INNER JOIN Person.Person AS p ON p.BusinessEntityID = e.BusinessEntityID
     INNER JOIN Person.BusinessEntityAddress AS bea ON bea.BusinessEntityID = e.BusinessEntityID
     INNER JOIN Person.Address AS a ON a.AddressID = bea.AddressID
     INNER JOIN Person.StateProvince AS sp ON sp.StateProvinceID = a.StateProvinceID
     INNER JOIN Person.CountryRegion AS cr ON cr.CountryRegionCode = sp.CountryRegionCode
     LEFT OUTER JOIN Person.PersonPhone AS ph ON ph.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PhoneNumberType AS pt ON pt.PhoneNumberTypeID = ph.PhoneNumberTypeID
     LEFT OUTER JOIN Person.EmailAddress AS em ON em.BusinessEntityID = p.BusinessEntityID;
GO

CREATE VIEW HumanResources.vEmployeeDepartment
AS
SELECT e.BusinessEntityID, p.Title, p.FirstName, p.MiddleName, p.LastName, p.Suffix, e.JobTitle,
       d.Name AS Department, d.GroupName, h.StartDate
FROM HumanResources.Employee AS e
     INNER JOIN Person.Person AS p ON p.BusinessEntityID = e.BusinessEntityID
     INNER JOIN HumanResources.EmployeeDepartmentHistory AS h ON h.BusinessEntityID = e.BusinessEntityID
     INNER JOIN HumanResources.Department AS d ON d.DepartmentID = h.DepartmentID
WHERE h.EndDate IS NULL;
GO

CREATE VIEW Sales.vSalesPerson
AS
SELECT s.BusinessEntityID, p.Title, p.FirstName, p.MiddleName, p.LastName, p.Suffix, e.JobTitle,
       ph.PhoneNumber, pt.Name AS PhoneNumberType, em.EmailAddress, p.EmailPromotion,
       a.AddressLine1, a.AddressLine2, a.City, sp.Name AS StateProvinceName, a.PostalCode,
       cr.Name AS CountryRegionName, st.Name AS TerritoryName, st.[Group] AS TerritoryGroup,
       s.SalesQuota, s.SalesYTD, s.SalesLastYear
FROM Sales.SalesPerson AS s
     INNER JOIN HumanResources.Employee AS e ON e.BusinessEntityID = s.BusinessEntityID
     INNER JOIN Person.Person AS p ON p.BusinessEntityID = s.BusinessEntityID
     INNER JOIN Person.BusinessEntityAddress AS bea ON bea.BusinessEntityID = s.BusinessEntityID
     INNER JOIN Person.Address AS a ON a.AddressID = bea.AddressID
     INNER JOIN Person.StateProvince AS sp ON sp.StateProvinceID = a.StateProvinceID
     INNER JOIN Person.CountryRegion AS cr ON cr.CountryRegionCode = sp.CountryRegionCode
     LEFT OUTER JOIN Sales.SalesTerritory AS st ON st.TerritoryID = s.TerritoryID
     LEFT OUTER JOIN Person.EmailAddress AS em ON em.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PersonPhone AS ph ON ph.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PhoneNumberType AS pt ON pt.PhoneNumberTypeID = ph.PhoneNumberTypeID;
GO

CREATE VIEW Sales.vIndividualCustomer
AS
SELECT p.BusinessEntityID, p.Title, p.FirstName, p.MiddleName, p.LastName, p.Suffix,
       ph.PhoneNumber, pt.Name AS PhoneNumberType, em.EmailAddress, p.EmailPromotion,
       at.Name AS AddressType, a.AddressLine1, a.AddressLine2, a.City, sp.Name AS StateProvinceName, a.PostalCode,
       cr.Name AS CountryRegionName, p.Demographics
FROM Person.Person AS p
     INNER JOIN Person.BusinessEntityAddress AS bea ON bea.BusinessEntityID = p.BusinessEntityID
     INNER JOIN Person.Address AS a ON a.AddressID = bea.AddressID
     INNER JOIN Person.StateProvince AS sp ON sp.StateProvinceID = a.StateProvinceID
     INNER JOIN Person.CountryRegion AS cr ON cr.CountryRegionCode = sp.CountryRegionCode
     INNER JOIN Person.AddressType AS at ON at.AddressTypeID = bea.AddressTypeID
     INNER JOIN Sales.Customer AS c ON c.PersonID = p.BusinessEntityID
     LEFT OUTER JOIN Person.EmailAddress AS em ON em.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PersonPhone AS ph ON ph.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PhoneNumberType AS pt ON pt.PhoneNumberTypeID = ph.PhoneNumberTypeID
WHERE c.StoreID IS NULL;
GO

CREATE VIEW Sales.vStoreWithAddresses
AS
SELECT s.BusinessEntityID, s.Name, at.Name AS AddressType, a.AddressLine1, a.AddressLine2, a.City,
       sp.Name AS StateProvinceName, a.PostalCode, cr.Name AS CountryRegionName
FROM Sales.Store AS s
     INNER JOIN Person.BusinessEntityAddress AS bea ON bea.BusinessEntityID = s.BusinessEntityID
     INNER JOIN Person.Address AS a ON a.AddressID = bea.AddressID
     INNER JOIN Person.StateProvince AS sp ON sp.StateProvinceID = a.StateProvinceID
     INNER JOIN Person.CountryRegion AS cr ON cr.CountryRegionCode = sp.CountryRegionCode
     INNER JOIN Person.AddressType AS at ON at.AddressTypeID = bea.AddressTypeID;
GO

-- A plain view here; the original is materialised by a unique clustered index.
CREATE VIEW Production.vProductAndDescription
AS
SELECT p.ProductID, p.Name, m.Name AS ProductModel, c.CultureID, d.Description
FROM Production.Product AS p
     INNER JOIN Production.ProductModel AS m ON m.ProductModelID = p.ProductModelID
     INNER JOIN Production.ProductModelProductDescriptionCulture AS c ON c.ProductModelID = m.ProductModelID
     INNER JOIN Production.ProductDescription AS d ON d.ProductDescriptionID = c.ProductDescriptionID;
GO

CREATE VIEW Purchasing.vVendorWithContacts
AS
SELECT v.BusinessEntityID, v.Name, ct.Name AS ContactType, p.Title, p.FirstName, p.MiddleName, p.LastName, p.Suffix,
       ph.PhoneNumber, pt.Name AS PhoneNumberType, em.EmailAddress, p.EmailPromotion
FROM Purchasing.Vendor AS v
     INNER JOIN Person.BusinessEntityContact AS bec ON bec.BusinessEntityID = v.BusinessEntityID
     INNER JOIN Person.ContactType AS ct ON ct.ContactTypeID = bec.ContactTypeID
     INNER JOIN Person.Person AS p ON p.BusinessEntityID = bec.PersonID
     LEFT OUTER JOIN Person.EmailAddress AS em ON em.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PersonPhone AS ph ON ph.BusinessEntityID = p.BusinessEntityID
     LEFT OUTER JOIN Person.PhoneNumberType AS pt ON pt.PhoneNumberTypeID = ph.PhoneNumberTypeID;
GO

-- ------------------------------------------------------------------------------------------ procedures

-- Prints what the surrounding CATCH block has caught.
CREATE PROCEDURE dbo.uspPrintError
AS
BEGIN
    SET NOCOUNT ON;
    PRINT 'Error ' + CONVERT(varchar(50), ERROR_NUMBER())
        + ', Severity ' + CONVERT(varchar(5), ERROR_SEVERITY())
        + ', State ' + CONVERT(varchar(5), ERROR_STATE())
        + ', Procedure ' + ISNULL(ERROR_PROCEDURE(), '-')
        + ', Line ' + CONVERT(varchar(5), ERROR_LINE());
    PRINT ERROR_MESSAGE();
END;
GO

-- Writes what the surrounding CATCH block has caught to dbo.ErrorLog and returns the new key, or 0 where nothing was written.
CREATE PROCEDURE dbo.uspLogError
    @ErrorLogID int = 0 OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET @ErrorLogID = 0;
    BEGIN TRY
        IF ERROR_NUMBER() IS NULL
            RETURN;
        IF XACT_STATE() = -1
        BEGIN
            PRINT 'Cannot log error since the current transaction is in an uncommittable state. '
                + 'Rollback the transaction before executing uspLogError in order to successfully log error information.';
            RETURN;
        END;
        INSERT INTO dbo.ErrorLog
            (UserName, ErrorNumber, ErrorSeverity, ErrorState, ErrorProcedure, ErrorLine, ErrorMessage)
        VALUES
            (CONVERT(sysname, CURRENT_USER), ERROR_NUMBER(), ERROR_SEVERITY(), ERROR_STATE(),
             ERROR_PROCEDURE(), ERROR_LINE(), ERROR_MESSAGE());
        SET @ErrorLogID = @@IDENTITY;
    END TRY
    BEGIN CATCH
        PRINT 'An error occurred in stored procedure uspLogError: ';
        EXECUTE dbo.uspPrintError;
        RETURN -1;
    END CATCH;
END;
GO

-- The parts of a product on a day, level by level.
CREATE PROCEDURE dbo.uspGetBillOfMaterials
    @StartProductID int,
    @CheckDate datetime
AS
BEGIN
    SET NOCOUNT ON;
    WITH parts (ProductAssemblyID, ComponentID, ComponentDesc, PerAssemblyQty, StandardCost, ListPrice, BOMLevel, RecursionLevel) AS
    (
        SELECT b.ProductAssemblyID, b.ComponentID, p.Name, b.PerAssemblyQty, p.StandardCost, p.ListPrice, b.BOMLevel, 0
        FROM Production.BillOfMaterials AS b
             INNER JOIN Production.Product AS p ON p.ProductID = b.ComponentID
        WHERE b.ProductAssemblyID = @StartProductID
          AND @CheckDate >= b.StartDate
          AND @CheckDate <= ISNULL(b.EndDate, @CheckDate)
        UNION ALL
        SELECT b.ProductAssemblyID, b.ComponentID, p.Name, b.PerAssemblyQty, p.StandardCost, p.ListPrice, b.BOMLevel,
               parts.RecursionLevel + 1
        FROM parts
             INNER JOIN Production.BillOfMaterials AS b ON b.ProductAssemblyID = parts.ComponentID
             INNER JOIN Production.Product AS p ON p.ProductID = b.ComponentID
        WHERE @CheckDate >= b.StartDate
          AND @CheckDate <= ISNULL(b.EndDate, @CheckDate)
    )
    SELECT ProductAssemblyID, ComponentID, ComponentDesc, SUM(PerAssemblyQty) AS TotalQuantity,
           StandardCost, ListPrice, BOMLevel, RecursionLevel
    FROM parts
    GROUP BY ComponentID, ComponentDesc, ProductAssemblyID, BOMLevel, RecursionLevel, StandardCost, ListPrice
    ORDER BY BOMLevel, ProductAssemblyID, ComponentID
    OPTION (MAXRECURSION 25);
END;
GO

-- The products that use a part on a day, directly or through another part.
CREATE PROCEDURE dbo.uspGetWhereUsedProductID
    @StartProductID int,
    @CheckDate datetime
AS
BEGIN
    SET NOCOUNT ON;
    WITH users (ProductAssemblyID, ComponentID, ComponentDesc, PerAssemblyQty, StandardCost, ListPrice, BOMLevel, RecursionLevel) AS
    (
        SELECT b.ProductAssemblyID, b.ComponentID, p.Name, b.PerAssemblyQty, p.StandardCost, p.ListPrice, b.BOMLevel, 0
        FROM Production.BillOfMaterials AS b
             INNER JOIN Production.Product AS p ON p.ProductID = b.ProductAssemblyID
        WHERE b.ComponentID = @StartProductID
          AND @CheckDate >= b.StartDate
          AND @CheckDate <= ISNULL(b.EndDate, @CheckDate)
        UNION ALL
        SELECT b.ProductAssemblyID, b.ComponentID, p.Name, b.PerAssemblyQty, p.StandardCost, p.ListPrice, b.BOMLevel,
               users.RecursionLevel + 1
        FROM users
             INNER JOIN Production.BillOfMaterials AS b ON b.ComponentID = users.ProductAssemblyID
             INNER JOIN Production.Product AS p ON p.ProductID = b.ProductAssemblyID
        WHERE @CheckDate >= b.StartDate
          AND @CheckDate <= ISNULL(b.EndDate, @CheckDate)
    )
    SELECT ProductAssemblyID, ComponentID, ComponentDesc, SUM(PerAssemblyQty) AS TotalQuantity,
           StandardCost, ListPrice, BOMLevel, RecursionLevel
    FROM users
    GROUP BY ComponentID, ComponentDesc, ProductAssemblyID, BOMLevel, RecursionLevel, StandardCost, ListPrice
    ORDER BY BOMLevel, ProductAssemblyID, ComponentID
    OPTION (MAXRECURSION 25);
END;
GO

CREATE PROCEDURE HumanResources.uspUpdateEmployeePersonalInfo
    @BusinessEntityID int,
    @NationalIDNumber nvarchar(15),
    @BirthDate datetime,
    @MaritalStatus nchar(1),
    @Gender nchar(1)
AS
BEGIN
    SET NOCOUNT ON;
    BEGIN TRY
        UPDATE HumanResources.Employee
        SET NationalIDNumber = @NationalIDNumber,
            BirthDate = @BirthDate,
            MaritalStatus = @MaritalStatus,
            Gender = @Gender
        WHERE BusinessEntityID = @BusinessEntityID;
    END TRY
    BEGIN CATCH
        EXECUTE dbo.uspLogError;
    END CATCH;
END;
GO

CREATE PROCEDURE HumanResources.uspUpdateEmployeeHireInfo
    @BusinessEntityID int,
    @JobTitle nvarchar(50),
    @HireDate datetime,
    @RateChangeDate datetime,
    @Rate money,
    @PayFrequency tinyint,
    @CurrentFlag dbo.Flag
AS
BEGIN
    SET NOCOUNT ON;
    BEGIN TRY
        BEGIN TRANSACTION;
        UPDATE HumanResources.Employee
        SET JobTitle = @JobTitle, HireDate = @HireDate, CurrentFlag = @CurrentFlag
        WHERE BusinessEntityID = @BusinessEntityID;
        INSERT INTO HumanResources.EmployeePayHistory (BusinessEntityID, RateChangeDate, Rate, PayFrequency)
        VALUES (@BusinessEntityID, @RateChangeDate, @Rate, @PayFrequency);
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        EXECUTE dbo.uspLogError;
    END CATCH;
END;
GO

-- --------------------------------------------------------------------------------------------- trigger

-- Records every sale in the transaction history and keeps the order's subtotal equal to the sum of its lines.
-- The original also keeps a running total inside Person.Demographics with XML methods; that part is left out.
CREATE TRIGGER Sales.iduSalesOrderDetail ON Sales.SalesOrderDetail
AFTER INSERT, DELETE, UPDATE
AS
BEGIN
    DECLARE @Count int;
    SET @Count = @@ROWCOUNT;
    IF @Count = 0
        RETURN;
    SET NOCOUNT ON;
    BEGIN TRY
        IF UPDATE(ProductID) OR UPDATE(OrderQty) OR UPDATE(UnitPrice) OR UPDATE(UnitPriceDiscount)
            INSERT INTO Production.TransactionHistory
                (ProductID, ReferenceOrderID, ReferenceOrderLineID, TransactionType, TransactionDate, Quantity, ActualCost)
            SELECT i.ProductID, i.SalesOrderID, i.SalesOrderDetailID, 'S', GETDATE(), i.OrderQty, i.UnitPrice
            FROM inserted AS i
                 INNER JOIN Sales.SalesOrderHeader AS h ON h.SalesOrderID = i.SalesOrderID;

        UPDATE Sales.SalesOrderHeader
        SET SubTotal = ISNULL((SELECT SUM(d.LineTotal)
                               FROM Sales.SalesOrderDetail AS d
                               WHERE d.SalesOrderID = Sales.SalesOrderHeader.SalesOrderID), 0)
        WHERE SalesOrderID IN (SELECT SalesOrderID FROM inserted UNION SELECT SalesOrderID FROM deleted);
    END TRY
    BEGIN CATCH
        EXECUTE dbo.uspPrintError;
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        EXECUTE dbo.uspLogError;
    END CATCH;
END;
GO
