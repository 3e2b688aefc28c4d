-- Availability groups and quorum: what the scripts around the compression tests do.
DBCC TRACEON (9592, -1)
GO
DBCC TRACEON (9592,-1); DBCC TRACESTATUS(-1);
GO
ALTER DATABASE CURRENT SET HADR SUSPEND
GO
