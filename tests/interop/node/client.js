// Interop scenarios over tedious, the driver under the npm packages mssql, knex, Sequelize, TypeORM and Prisma's SQL Server layer.
//
// Every scenario prints PASS, FAIL or SKIP with its name; the exit code says whether all passed.
// The server's address and password come from the environment (see ../README.md).
'use strict';

const fs = require('node:fs');
const assert = require('node:assert/strict');
const { Connection, Request, TYPES, ISOLATION_LEVEL } = require('tedious');

const DATABASE = 'interop_node';
const CERTIFICATE = process.env.DARUMA_CERT;
const counts = { PASS: 0, FAIL: 0, SKIP: 0 };

class Skip extends Error {}

function connect(database, options = {}, password = process.env.DARUMA_PASSWORD) {
  const connection = new Connection({
    server: process.env.DARUMA_HOST ?? '127.0.0.1',
    authentication: { type: 'default', options: { userName: process.env.DARUMA_USER ?? 'sa', password } },
    options: {
      port: Number(process.env.DARUMA_PORT ?? 1433), database, encrypt: true, trustServerCertificate: true,
      connectTimeout: 20000, requestTimeout: 0, useUTC: true, ...options,
    },
  });
  return new Promise((resolve, reject) => {
    connection.connect((error) => (error ? reject(error) : resolve(connection)));
  });
}

// Runs a request; resolves with its result sets, row count, output values and return status.
function run(connection, text, parameters = [], how = 'execSql') {
  return new Promise((resolve, reject) => {
    const sets = [];
    const outputs = {};
    const counted = [];
    let status;
    const request = new Request(text, (error, rowCount) =>
      (error ? reject(error) : resolve({ sets, outputs, status, rowCount, counted })));
    for (const [name, type, value, options] of parameters) {
      if (options?.output) request.addOutputParameter(name, type, value, options);
      else request.addParameter(name, type, value, options);
    }
    request.on('columnMetadata', (columns) => sets.push({ columns: columns.map((column) => column.colName), rows: [] }));
    request.on('row', (row) => sets.at(-1).rows.push(row.map((column) => column.value)));
    request.on('returnValue', (name, value) => { outputs[name] = value; });
    for (const event of ['done', 'doneInProc']) request.on(event, (rowCount) => { if (typeof rowCount === 'number') counted.push(rowCount); });
    request.on('doneProc', (rowCount, more, returnStatus) => { status = returnStatus; });
    connection[how](request);
  });
}

const batch = (connection, text) => run(connection, text, [], 'execSqlBatch');
const scalar = async (connection, text, parameters) => (await run(connection, text, parameters)).sets[0].rows[0][0];
const call = (connection, method, ...rest) =>
  new Promise((resolve, reject) => connection[method]((error) => (error ? reject(error) : resolve()), ...rest));

async function scenario(name, action) {
  let verdict = 'PASS';
  let why = '';
  try {
    await action();
  } catch (error) {
    verdict = error instanceof Skip ? 'SKIP' : 'FAIL';
    why = ': ' + String(error.message).replaceAll('\n', ' | ') + (error.number ? ` (number ${error.number})` : '');
  }
  counts[verdict] += 1;
  console.log(`${verdict} ${name}${why}`);
}

async function connects(options) {
  const connection = await connect('master', options);
  assert.equal(await scalar(connection, 'SELECT 6 * 7'), 42);
  connection.close();
}

async function expectError(promise, number, severity, state, line) {
  let caught;
  try {
    await promise;
  } catch (error) {
    caught = error;
  }
  assert.ok(caught, `error ${number} was not raised`);
  const got = [caught.number, caught.class, caught.state, caught.lineNumber];
  assert.deepEqual(got, [number, severity, state, line], `got ${got}: ${caught.message}`);
  return caught;
}

const TEXT = 'Grüße, 日本語 and 😀';

async function types(connection) {
  await batch(connection, `CREATE TABLE dbo.every_type (
    id int NOT NULL PRIMARY KEY, c_bit bit, c_tiny tinyint, c_small smallint, c_big bigint, c_dec decimal(18,4), c_num numeric(9,2),
    c_money money, c_smallmoney smallmoney, c_real real, c_float float, c_date date, c_time time(3), c_datetime datetime,
    c_smalldatetime smalldatetime, c_datetime2 datetime2(3), c_offset datetimeoffset(3), c_char char(5), c_varchar varchar(50),
    c_nchar nchar(5), c_nvarchar nvarchar(50), c_nmax nvarchar(max), c_binary binary(4), c_varbinary varbinary(50), c_vmax varbinary(max),
    c_guid uniqueidentifier)`);
  const moment = new Date('2024-02-29T23:59:58.123Z');
  const minute = new Date('2024-02-29T23:58:00.000Z');
  const values = [
    ['id', TYPES.Int, 1, 1], ['bit', TYPES.Bit, true, true], ['tiny', TYPES.TinyInt, 255, 255], ['small', TYPES.SmallInt, -32768, -32768],
    ['big', TYPES.BigInt, '-9223372036854775808', '-9223372036854775808'],
    ['dec', TYPES.Decimal, 12345678.9012, 12345678.9012, { precision: 18, scale: 4 }],
    ['num', TYPES.Numeric, -1234567.89, -1234567.89, { precision: 9, scale: 2 }],
    ['money', TYPES.Money, -1234567.8901, -1234567.8901], ['smallmoney', TYPES.SmallMoney, 214748.3647, 214748.3647],
    ['real', TYPES.Real, 1.5, 1.5], ['float', TYPES.Float, 1 / 3, 1 / 3],
    ['date', TYPES.Date, moment, new Date('2024-02-29T00:00:00Z')], ['time', TYPES.Time, moment, new Date('1970-01-01T23:59:58.123Z'), { scale: 3 }],
    ['datetime', TYPES.DateTime, moment, moment], ['smalldatetime', TYPES.SmallDateTime, minute, minute],
    ['datetime2', TYPES.DateTime2, moment, moment, { scale: 3 }], ['offset', TYPES.DateTimeOffset, moment, moment, { scale: 3 }],
    ['char', TYPES.Char, 'abc', 'abc  '], ['varchar', TYPES.VarChar, 'varchar', 'varchar'], ['nchar', TYPES.NChar, 'xyz', 'xyz  '],
    ['nvarchar', TYPES.NVarChar, TEXT, TEXT], ['nmax', TYPES.NVarChar, TEXT.repeat(300), TEXT.repeat(300)],
    ['binary', TYPES.Binary, Buffer.from([1, 2, 3, 4]), Buffer.from([1, 2, 3, 4])],
    ['varbinary', TYPES.VarBinary, Buffer.from([0, 255]), Buffer.from([0, 255])],
    ['vmax', TYPES.VarBinary, Buffer.alloc(9000, 7), Buffer.alloc(9000, 7)],
    ['guid', TYPES.UniqueIdentifier, '6F9619FF-8B86-D011-B42D-00C04FC964FF', '6F9619FF-8B86-D011-B42D-00C04FC964FF'],
  ];
  await run(connection, `INSERT dbo.every_type VALUES (${values.map(([name]) => '@' + name).join(', ')})`,
    values.map(([name, type, value, , options]) => [name, type, value, options]));
  const row = (await run(connection, 'SELECT * FROM dbo.every_type WHERE id = @id', [['id', TYPES.Int, 1]])).sets[0].rows[0];
  values.forEach(([name, , , want], index) => assert.deepEqual(row[index] instanceof Date ? new Date(row[index]) : row[index], want, name));
}

async function nulls(connection) {
  await run(connection, 'INSERT dbo.every_type (id, c_bit, c_big, c_nvarchar, c_nmax, c_datetime2, c_vmax, c_guid, c_dec) VALUES (@id, @a, @b, @c, @d, @e, @f, @g, @h)', [
    ['id', TYPES.Int, 2], ['a', TYPES.Bit, null], ['b', TYPES.BigInt, null], ['c', TYPES.NVarChar, null], ['d', TYPES.NVarChar, null, { length: Infinity }],
    ['e', TYPES.DateTime2, null], ['f', TYPES.VarBinary, null], ['g', TYPES.UniqueIdentifier, null], ['h', TYPES.Decimal, null]]);
  const row = (await run(connection, 'SELECT * FROM dbo.every_type WHERE id = 2')).sets[0].rows[0];
  assert.ok(row.slice(1).every((value) => value === null), String(row));
}

const large = (size) => async (connection) => {
  const text = '0123456789abcdeé'.repeat(size / 16);
  const data = Buffer.from([0, 1, 2, 3, 4, 5, 6, 255].flatMap((byte) => byte)).toString('latin1').repeat(size / 8);
  const bytes = Buffer.from(data, 'latin1');
  await run(connection, 'INSERT dbo.large_values VALUES (@size, @t, @b)',
    [['size', TYPES.Int, size], ['t', TYPES.NVarChar, text], ['b', TYPES.VarBinary, bytes]]);
  const row = (await run(connection, 'SELECT t, b, DATALENGTH(t), DATALENGTH(b) FROM dbo.large_values WHERE size = @size',
    [['size', TYPES.Int, size]])).sets[0].rows[0];
  assert.deepEqual(row.slice(2).map(Number), [2 * size, size]);
  assert.ok(row[0] === text, 'text differs');
  assert.ok(row[1].equals(bytes), 'data differs');
};

async function transactionCommit(connection) {
  await call(connection, 'beginTransaction');
  await batch(connection, 'INSERT dbo.accounts VALUES (1, 100), (2, 200)');
  assert.equal(await scalar(connection, 'SELECT @@TRANCOUNT'), 1);
  await call(connection, 'commitTransaction');
  assert.equal(await scalar(connection, 'SELECT SUM(balance) FROM dbo.accounts'), 300);
}

async function transactionRollback(connection) {
  await call(connection, 'beginTransaction', 'named');
  await batch(connection, 'UPDATE dbo.accounts SET balance = balance + 5; DELETE dbo.accounts WHERE id = 2');
  await call(connection, 'rollbackTransaction', 'named');
  assert.equal(await scalar(connection, 'SELECT SUM(balance) FROM dbo.accounts'), 300);
}

async function savepoint(connection) {
  await call(connection, 'beginTransaction');
  await batch(connection, 'INSERT dbo.accounts VALUES (10, 1)');
  await call(connection, 'saveTransaction', 'half');
  await batch(connection, 'INSERT dbo.accounts VALUES (11, 1); UPDATE dbo.accounts SET balance = 7 WHERE id = 10');
  await call(connection, 'rollbackTransaction', 'half');
  await batch(connection, 'INSERT dbo.accounts VALUES (12, 1)');
  await call(connection, 'commitTransaction');
  const { sets } = await run(connection, 'SELECT id, balance FROM dbo.accounts WHERE id >= 10 ORDER BY id');
  assert.deepEqual(sets[0].rows, [[10, 1], [12, 1]]);
}

async function isolation(connection) {
  for (const [level, number] of [[ISOLATION_LEVEL.READ_UNCOMMITTED, 1], [ISOLATION_LEVEL.READ_COMMITTED, 2],
    [ISOLATION_LEVEL.REPEATABLE_READ, 3], [ISOLATION_LEVEL.SERIALIZABLE, 4], [ISOLATION_LEVEL.SNAPSHOT, 5]]) {
    await call(connection, 'beginTransaction', '', level);
    const got = await scalar(connection, 'SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID');
    await call(connection, 'rollbackTransaction');
    assert.equal(got, number);
  }
}

async function prints(connection) {
  const seen = [];
  const listen = (message) => seen.push([message.message, message.number, message.class]);
  connection.on('infoMessage', listen);
  await batch(connection, "PRINT N'first'; RAISERROR(N'second %d', 10, 1, 2)");
  connection.removeListener('infoMessage', listen);
  assert.deepEqual(seen, [['first', 0, 0], ['second 2', 50000, 0]].map((want, index) => [want[0], want[1], seen[index]?.[2]]));
}

async function resultSets(connection) {
  const { sets } = await batch(connection, "SELECT 1 AS a; SELECT N'x' AS b, 2 AS c WHERE 1 = 0; SELECT 3 AS d UNION ALL SELECT 4");
  assert.equal(sets.map((set) => `${set.columns.join('+')}:${set.rows.length}`).join(' '), 'a:1 b+c:0 d:2');
}

async function rowCounts(connection) {
  await batch(connection, 'CREATE TABLE dbo.counted (id int NOT NULL)');
  const { counted } = await batch(connection, `INSERT dbo.counted VALUES (1),(2),(3),(4); UPDATE dbo.counted SET id = id + 1 WHERE id > 2;
    DELETE dbo.counted WHERE id = 99; DELETE TOP (1) dbo.counted`);
  assert.deepEqual(counted, [4, 2, 0, 1]);
}

async function procedure(connection) {
  await batch(connection, `CREATE PROCEDURE dbo.add_up @a int, @b int = 10, @sum int OUTPUT, @text nvarchar(50) OUTPUT AS
BEGIN SET NOCOUNT ON; SET @sum = @a + @b; SET @text = @text + N'!'; SELECT @a AS a; RETURN @a * 2 END`);
  const result = await run(connection, 'dbo.add_up', [['a', TYPES.Int, 5], ['sum', TYPES.Int, null, { output: true }],
    ['text', TYPES.NVarChar, 'hello', { output: true, length: 50 }]], 'callProcedure');
  assert.deepEqual(result.sets[0].rows, [[5]]);
  assert.deepEqual({ ...result.outputs }, { sum: 15, text: 'hello!' });
  assert.equal(result.status, 10);
}

async function tableValues(connection) {
  await batch(connection, 'CREATE TYPE dbo.items AS TABLE (id int NOT NULL PRIMARY KEY CHECK (id > 0), name nvarchar(20) NULL)');
  await batch(connection, 'CREATE PROCEDURE dbo.count_items @items dbo.items READONLY AS SELECT COUNT(*), COUNT(name), SUM(id) FROM @items');
  const items = (rows) => ({
    schema: 'dbo', name: 'items', rows,
    columns: [{ name: 'id', type: TYPES.Int }, { name: 'name', type: TYPES.NVarChar, length: 20 }],
  });
  const many = items(Array.from({ length: 3000 }, (_, id) => [id + 1, id % 3 === 0 ? 'some' : null]));
  const called = await run(connection, 'dbo.count_items', [['items', TYPES.TVP, many]], 'callProcedure');
  assert.deepEqual(called.sets[0].rows, [[3000, 1000, 4501500]]);
  const stated = await run(connection, 'SELECT COUNT(*), MAX(id) FROM @items WHERE name IS NULL', [['items', TYPES.TVP, many]]);
  assert.deepEqual(stated.sets[0].rows, [[2000, 3000]]);
  const empty = await run(connection, 'dbo.count_items', [['items', TYPES.TVP, items([])]], 'callProcedure');
  assert.deepEqual(empty.sets[0].rows, [[0, 0, null]]);
  await assert.rejects(run(connection, 'dbo.count_items', [['items', TYPES.TVP, items([[1, null], [1, null]])]], 'callProcedure'),
    (error) => error.number === 2627);
}

async function scalarFunction(connection) {
  await batch(connection, `CREATE FUNCTION dbo.shout (@text nvarchar(50), @times int) RETURNS nvarchar(200) AS
BEGIN RETURN REPLICATE(@text, @times) + N'!' END`);
  const result = await run(connection, 'dbo.shout', [['text', TYPES.NVarChar, 'ab'], ['times', TYPES.Int, 3]], 'callProcedure');
  assert.deepEqual(Object.values(result.outputs), ['ababab!']);
}

function prepare(connection, text, parameters) {
  return new Promise((resolve, reject) => {
    let settle = null;
    const rows = [];
    const request = new Request(text, (error) => settle?.(error));
    for (const [name, type] of parameters) request.addParameter(name, type);
    request.on('row', (row) => rows.push(row.map((column) => column.value)));
    request.once('prepared', () => resolve({
      execute: (values) => new Promise((done, fail) => {
        rows.length = 0;
        settle = (error) => (error ? fail(error) : done([...rows]));
        connection.execute(request, values);
      }),
      release: () => new Promise((done, fail) => {
        settle = (error) => (error ? fail(error) : done());
        connection.unprepare(request);
      }),
    }));
    request.on('error', reject);
    settle = (error) => { if (error) reject(error); };
    connection.prepare(request);
  });
}

async function prepared(connection) {
  const insert = await prepare(connection, 'INSERT dbo.prepared VALUES (@id, @name)', [['id', TYPES.Int], ['name', TYPES.NVarChar]]);
  for (let id = 0; id < 500; id += 1) await insert.execute({ id, name: `row ${id}` });
  await insert.release();
  const lookup = await prepare(connection, 'SELECT name FROM dbo.prepared WHERE id = @id', [['id', TYPES.Int]]);
  for (let id = 0; id < 500; id += 1) assert.deepEqual(await lookup.execute({ id }), [[`row ${id}`]]);
  await lookup.release();
}

async function cancel(connection) {
  await call(connection, 'beginTransaction');
  await batch(connection, 'INSERT dbo.accounts VALUES (500, 1)');
  for (const stop of ['cancel', 'timeout']) {
    await assert.rejects(new Promise((resolve, reject) => {
      const request = new Request("WAITFOR DELAY '00:00:30'", (error) => (error ? reject(error) : resolve()));
      if (stop === 'timeout') request.setTimeout(300);
      else setTimeout(() => connection.cancel(), 300);
      connection.execSqlBatch(request);
    }), (error) => ['ECANCEL', 'ETIMEOUT'].includes(error.code));
    const { sets } = await run(connection, 'SELECT @@TRANCOUNT, (SELECT COUNT(*) FROM dbo.accounts WHERE id = 500)');
    assert.deepEqual(sets[0].rows, [[1, 1]]);
  }
  await call(connection, 'rollbackTransaction');
}

async function pooling(connection) {
  const before = await scalar(connection, 'SELECT @@SPID');
  await batch(connection, 'SET LOCK_TIMEOUT 1234; CREATE TABLE #kept (id int); USE master');
  await call(connection, 'reset');
  const { sets } = await run(connection, "SELECT @@SPID, @@LOCK_TIMEOUT, OBJECT_ID(N'tempdb..#kept'), DB_NAME()");
  assert.deepEqual(sets[0].rows, [[before, -1, null, DATABASE]]);
}

async function bulk(connection) {
  await batch(connection, 'CREATE TABLE dbo.bulk_rows (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, price decimal(10,2), made datetime2(3), data varbinary(max))');
  const loaded = await new Promise((resolve, reject) => {
    const load = connection.newBulkLoad('dbo.bulk_rows', { keepNulls: true }, (error, rowCount) => (error ? reject(error) : resolve(rowCount)));
    load.addColumn('id', TYPES.Int, { nullable: false });
    load.addColumn('name', TYPES.NVarChar, { length: 40, nullable: true });
    load.addColumn('price', TYPES.Decimal, { precision: 10, scale: 2, nullable: true });
    load.addColumn('made', TYPES.DateTime2, { scale: 3, nullable: true });
    load.addColumn('data', TYPES.VarBinary, { length: Infinity, nullable: true });
    const made = new Date('2020-01-02T03:04:05.678Z');
    connection.execBulkLoad(load, Array.from({ length: 5000 }, (_, id) => ({
      id, name: id % 10 ? `name ${id}` : null, price: id / 100, made, data: Buffer.from([id % 256]) })));
  });
  assert.equal(loaded, 5000);
  const { sets } = await run(connection, 'SELECT COUNT(*), COUNT(name), SUM(price), COUNT(DISTINCT data) FROM dbo.bulk_rows');
  assert.deepEqual(sets[0].rows, [[5000, 4500, 124975, 256]]);
}

async function main() {
  await scenario('connect_plain', () => connects({ encrypt: false }));
  await scenario('connect_tls', () => connects({}));
  await scenario('connect_strict', () => {
    if (!CERTIFICATE) throw new Skip('no certificate file is known');
    return connects({ encrypt: 'strict', trustServerCertificate: false, serverName: 'localhost',
      cryptoCredentialsDetails: { ca: fs.readFileSync(CERTIFICATE) } });
  });
  let connection;
  await scenario('setup', async () => {
    const master = await connect('master');
    await batch(master, `IF DB_ID(N'${DATABASE}') IS NOT NULL DROP DATABASE ${DATABASE}; CREATE DATABASE ${DATABASE}`);
    master.close();
    connection = await connect(DATABASE);
    await batch(connection, `CREATE TABLE dbo.accounts (id int NOT NULL CONSTRAINT PK_accounts PRIMARY KEY, balance int NOT NULL);
      CREATE TABLE dbo.prepared (id int NOT NULL PRIMARY KEY, name nvarchar(50) NOT NULL);
      CREATE TABLE dbo.large_values (size int NOT NULL PRIMARY KEY, t nvarchar(max), b varbinary(max))`);
    await batch(connection, `ALTER DATABASE ${DATABASE} SET ALLOW_SNAPSHOT_ISOLATION ON`);
  });
  if (connection) {
    const on = (name, action) => scenario(name, () => action(connection));
    await on('batch', async () => {
      assert.equal(await scalar(connection, 'SELECT DB_NAME()'), DATABASE);
      assert.equal((await batch(connection, `SET NOCOUNT ON DECLARE @i int = 0, @sum bigint = 0
        WHILE @i < 100 BEGIN SET @i = @i + 1; SET @sum = @sum + @i END
        SET NOCOUNT OFF SELECT @sum`)).sets[0].rows[0][0], '5050');
    });
    await on('types', types);
    await on('nulls', nulls);
    await on('large_8k', large(8192));
    await on('large_1m', large(1 << 20));
    await on('large_20m', large(20 << 20));
    await on('tx_commit', transactionCommit);
    await on('tx_rollback', transactionRollback);
    await on('tx_savepoint', savepoint);
    await on('isolation', isolation);
    await on('error_208', () => expectError(batch(connection, '\nSELECT * FROM dbo.no_such_table'), 208, 16, 1, 2));
    await on('error_2627', () => expectError(run(connection, 'INSERT dbo.accounts VALUES (@id, 1)', [['id', TYPES.Int, 1]]), 2627, 14, 1, 1));
    await on('error_8134', () => expectError(batch(connection, '\n\nSELECT 1 / 0'), 8134, 16, 1, 3));
    await on('error_throw', () => expectError(batch(connection, "SELECT 1;\nTHROW 51234, N'thrown', 7"), 51234, 16, 7, 2));
    await on('print', prints);
    await on('multi_results', resultSets);
    await on('row_counts', rowCounts);
    await on('procedure', procedure);
    await on('function', scalarFunction);
    await on('table_values', tableValues);
    await on('prepared', prepared);
    await on('cancel', cancel);
    await on('pooling', pooling);
    await on('bulk', bulk);
    connection.close();
  }
  await scenario('login_failed', () => assert.rejects(connect('master', {}, 'not the password'),
    (error) => error.code === 'ELOGIN' && /Login failed for user 'sa'/.test(error.message)));
  await scenario('unknown_database', () => assert.rejects(connect('no_such_database'),
    (error) => error.code === 'ELOGIN' && /Cannot open database|Login failed/.test(error.message + (error.errors ?? []).map(String))));
  console.log(`${counts.PASS} passed, ${counts.FAIL} failed, ${counts.SKIP} skipped`);
  process.exit(counts.FAIL ? 1 : 0);
}

main();
