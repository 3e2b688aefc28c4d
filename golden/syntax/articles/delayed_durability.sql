-- Delayed durability of a purge procedure.
ALTER DATABASE dbname SET DELAYED_DURABILITY = ALLOWED;
GO
BEGIN TRANSACTION [DelayedDurabilityOnTransactionName]
COMMIT TRANSACTION [DelayedDurabilityOnTransactionName] WITH (DELAYED_DURABILITY = On  )
GO
BEGIN TRANSACTION [DelayedDurabilityOn]
	EXEC sp_executesql
		@DynamicSQL
		,@SQLParams
		,@Timestamp = @Timestamp
		,@CounterID = @CounterID
	SET @DeleteRowCount = @@rowcount
	SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
 
	SET @CountersTableRowID = @CountersTableRowID + 1
COMMIT TRANSACTION [DelayedDurabilityOn] WITH (DELAYED_DURABILITY = On  )
GO
BEGIN TRANSACTION [DelayedDurabilityOn2]
	EXEC (@DynamicSQL)
	SET @DeleteRowCount = @@rowcount
	SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
COMMIT TRANSACTION [DelayedDurabilityOn2] WITH (DELAYED_DURABILITY = On  )
GO
BEGIN TRANSACTION [DelayedDurabilityOn3]
	EXEC sp_executesql
		@DynamicSQL
		,@SQLParams
		,@Timestamp = @Timestamp
	SET @DeleteRowCount = @@rowcount
	SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
 
	SET @TimestampsTableRowID = @TimestampsTableRowID + 1
COMMIT TRANSACTION [DelayedDurabilityOn3] WITH (DELAYED_DURABILITY = On  )
GO
BEGIN TRANSACTION [DelayedDurabilityOn4]
	EXEC sp_executesql
		@DynamicSQL
		,@SQLParams
		,@PurgeBeforeTimestamp = @PurgeBeforeTimestamp
		,@DeleteRowCountTotal = @DeleteRowCountTotal
		,@CategoryID = @CategoryID
	SET @CategoryTableRowID = @CategoryTableRowID + 1
COMMIT TRANSACTION [DelayedDurabilityOn4] WITH (DELAYED_DURABILITY = On  )
GO
