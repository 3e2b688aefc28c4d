//! The words which the grammar knows, reserved or not.
//!
//! Theory: each word of a batch is looked up once, by a hash over its upper-case letters, and is a small number from then
//! on. Reserved words cannot be names without quotes and so end a statement; the others are names wherever a name may stand.

/// A word of the grammar, spelled as in the language.
macro_rules! keywords {
    (reserved: $($reserved:ident),* $(,)? ; contextual: $($contextual:ident),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the variants are the words themselves")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Keyword {
            /// A word which the grammar does not know.
            NONE,
            $($reserved,)*
            /// Ends the reserved words.
            RESERVED_END,
            $($contextual,)*
            /// The word NONE, as a value of options.
            NONE_WORD,
        }

        const WORDS: &[(&str, Keyword)] = &[
            $((stringify!($reserved), Keyword::$reserved),)*
            $((stringify!($contextual), Keyword::$contextual),)*
            ("NONE", Keyword::NONE_WORD),
        ];
    };
}

keywords! {
    reserved:
        ADD, ALL, ALTER, AND, ANY, AS, ASC, AUTHORIZATION, BACKUP, BEGIN, BETWEEN, BREAK, BROWSE, BULK, BY,
        CASCADE, CASE, CHECK, CHECKPOINT, CLOSE, CLUSTERED, COALESCE, COLLATE, COLUMN, COMMIT, COMPUTE,
        CONSTRAINT, CONTAINS, CONTAINSTABLE, CONTINUE, CONVERT, CREATE, CROSS, CURRENT, CURRENT_DATE,
        CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER, CURSOR, DATABASE, DBCC, DEALLOCATE, DECLARE, DEFAULT,
        DELETE, DENY, DESC, DISTINCT, DISTRIBUTED, DOUBLE, DROP, DUMP, ELSE, END, ERRLVL, ESCAPE, EXCEPT, EXEC,
        EXECUTE, EXISTS, EXIT, EXTERNAL, FETCH, FILE, FILLFACTOR, FOR, FOREIGN, FREETEXT, FREETEXTTABLE, FROM,
        FULL, FUNCTION, GOTO, GRANT, GROUP, HAVING, HOLDLOCK, IDENTITY, IDENTITYCOL, IDENTITY_INSERT, IF, IN,
        INDEX, INNER, INSERT, INTERSECT, INTO, IS, JOIN, KEY, KILL, LEFT, LIKE, LINENO, LOAD, MERGE, NATIONAL,
        NOCHECK, NONCLUSTERED, NOT, NULL, NULLIF, OF, OFF, OFFSETS, ON, OPEN, OPENDATASOURCE, OPENQUERY,
        OPENROWSET, OPENXML, OPTION, OR, ORDER, OUTER, OVER, PERCENT, PIVOT, PLAN, PRIMARY, PRINT, PROC,
        PROCEDURE, PUBLIC, RAISERROR, READ, READTEXT, RECONFIGURE, REFERENCES, REPLICATION, RESTORE, RESTRICT,
        RETURN, REVERT, REVOKE, RIGHT, ROLLBACK, ROWCOUNT, ROWGUIDCOL, RULE, SAVE, SCHEMA, SELECT,
        SEMANTICKEYPHRASETABLE, SEMANTICSIMILARITYDETAILSTABLE, SEMANTICSIMILARITYTABLE, SESSION_USER, SET,
        SETUSER, SHUTDOWN, SOME, STATISTICS, SYSTEM_USER, TABLE, TABLESAMPLE, TEXTSIZE, THEN, TO, TOP, TRAN,
        TRANSACTION, TRIGGER, TRUNCATE, TRY_CONVERT, TSEQUAL, UNION, UNIQUE, UNPIVOT, UPDATE, UPDATETEXT, USE,
        USER, VALUES, VARYING, VIEW, WAITFOR, WHEN, WHERE, WHILE, WITH, WRITETEXT,
    ;
    contextual:
        ACTIVE, BEGIN_DIALOG, BINARY, DECRYPTION, EXPIRY_DATE, FORCE, PRIVATE, REGENERATE, START_DATE, SUBJECT,
        FILETABLE, CONVERSATION, DIALOG, SEND, RECEIVE, GET, ABORT, ABSENT, ABSOLUTE, ACCELERATED_DATABASE_RECOVERY, ACTION, AFTER, AGGREGATE, ALLOWED,
        ALLOW_SNAPSHOT_ISOLATION, ALL_SPARSE_COLUMNS, ALWAYS, APPEND, APPLICATION, APPLY, ASSEMBLY, ASYMMETRIC,
        AT, ATOMIC, ATTACH, ATTACH_REBUILD_LOG, AUDIT, AUTO, AUTOGROW_ALL_FILES, AUTOGROW_SINGLE_FILE,
        AVAILABILITY, BASE64, BINDING, BOTH, BROKER, BULK_LOGGED, CACHE, CALL, CALLED, CALLER, CAST, CATALOG,
        CATCH, CERTIFICATE, CHANGE_TRACKING, CHAR, CHARACTER, CHECKSUM, CLEAR, COLLECTION, COLUMNSTORE,
        COLUMN_SET, COMMITTED, COMPATIBILITY_LEVEL, CONFIGURATION, CONNECTION, CONTAINED, CONTAINMENT, CONTENT,
        CONTRACT, COOKIE, CREDENTIAL, CRYPTOGRAPHIC, CUBE, CYCLE, DATA, DATABASE_DEFAULT, DATABASE_SNAPSHOT,
        DAYS, DELAY, DELAYED_DURABILITY, DEPENDENTS, DISABLE, DISABLED, DISK, DOCUMENT, DROP_EXISTING, DYNAMIC,
        EDGE, EMERGENCY, ENABLE, ENCRYPTED, ENCRYPTION, ENDPOINT, ENFORCED, EVENT, EXPLICIT, FAILOVER,
        FASTFIRSTROW, FAST_FORWARD, FILEGROUP, FILEGROWTH, FILELISTONLY, FILENAME, FILESTREAM, FILESTREAM_ON,
        FIRST, FN, FOLLOWING, FORCED, FORCESCAN, FORCESEEK, FORCE_FAILOVER_ALLOW_DATA_LOSS, FORMAT,
        FORWARD_ONLY, FULLTEXT, GB, GENERATED, GLOBAL, GOVERNOR, GROUPING, HADR, HASH, HASHED, HEADERONLY,
        HIDDEN, HINT, HOURS, IGNORE, IGNORE_CONSTRAINTS, IGNORE_DUP_KEY, IGNORE_TRIGGERS, IIF, IMMEDIATE,
        INCLUDE, INCREMENT, INLINE, INPUT, INSENSITIVE, INSTEAD, ISOLATION, JOB, JSON, KB, KEEPDEFAULTS,
        KEEPIDENTITY, KEYS, KEYSET, LABEL, LABELONLY, LANGUAGE, LAST, LEADING, LEVEL, LIBRARY, LIST, LISTENER,
        LOCAL, LOG, LOGIN, LOOP, MARK, MASKED, MASTER, MATCHED, MAX, MAXSIZE, MAXVALUE, MB, MEMBER, MESSAGE,
        MINUTES, MINVALUE, MIRROR, MODIFY, MOVE, MULTI_USER, MUST_CHANGE, NAME, NATIVE_COMPILATION, NEWNAME,
        NEXT, NO, NODE, NOEXPAND, NOLOCK, NORESET, NOTIFICATION, NOWAIT, NO_WAIT, NULLS, OBJECT, OFFLINE,
        OFFSET, OJ, OLD_PASSWORD, ONLINE, ONLY, OPTIMISTIC, OPTIMIZE, OUT, OUTPUT, OVERRIDE, OWNER, PAD_INDEX,
        PAGE, PAGE_VERIFY, PAGLOCK, PARSE, PARTITION, PARTITIONS, PASSWORD, PATH, PAUSE, PERIOD, PERSISTED,
        PERSISTENT_VERSION_STORE_FILEGROUP, POLICY, POOL, PRECEDING, PRECISION, PRIOR, PRIORITY, PROPERTY,
        PROVIDER, QUERY, QUEUE, RANGE, RAW, READCOMMITTED, READCOMMITTEDLOCK, READONLY, READPAST,
        READUNCOMMITTED, READWRITE, READ_COMMITTED_SNAPSHOT, READ_ONLY, READ_WRITE, READ_WRITE_FILEGROUPS,
        REBUILD, RECOMPILE, RECOVERY, REGEXP_LIKE, RELATIVE, REMOTE, REMOVE, REORGANIZE, REPEATABLE,
        REPEATABLEREAD, REPLICA, RESAMPLE, RESOURCE, RESPECT, RESTART, RESTRICTED_USER, RESULT, RESUME, RETURNS,
        REWINDONLY, ROLE, ROLLUP, ROUTE, ROW, ROWLOCK, ROWS, SAFETY, SAMPLE, SCHEMABINDING, SCHEME, SCOPED,
        SCROLL, SCROLL_LOCKS, SEARCH, SECONDARY, SECONDS, SECURITY, SELECTIVE, SELF, SEQUENCE, SERIALIZABLE,
        SERVER, SERVICE, SESSION, SETERROR, SETS, SIMPLE, SINGLE_BLOB, SINGLE_CLOB, SINGLE_NCLOB, SINGLE_USER,
        SIZE, SNAPSHOT, SORT_IN_TEMPDB, SOURCE, SPARSE, SPATIAL, SPECIFICATION, START, STATE, STATIC,
        STATISTICS_NORECOMPUTE, STATS, STATUSONLY, STOPLIST, SUBSCRIPTION, SUSPEND, SWITCH, SYMMETRIC, SYNONYM,
        SYSTEM, SYSTEM_TIME, TABLOCK, TABLOCKX, TAPE, TARGET, TARGET_RECOVERY_TIME, TB, TEXT, TEXTIMAGE_ON,
        THROW, TIES, TIME, TIMEOUT, TORN_PAGE_DETECTION, TRAILING, TRANSFER, TRIM, TRY, TRY_CAST, TRY_PARSE,
        TYPE, TYPE_WARNING, UNBOUNDED, UNCOMMITTED, UNDEFINED, UNKNOWN, UNLIMITED, UNLOCK, UPDLOCK, URL, USING,
        VALUE, VERIFYONLY, VIEW_METADATA, VIRTUAL_DEVICE, WINDOW, WINDOWS, WITHIN, WITHOUT, WORK, WORKLOAD,
        XLOCK, XML, XMLNAMESPACES, XSINIL, ZONE,
}

const SLOTS: usize = 2048;
const WORD_BYTES_MAX: usize = 40;

/// Open addressing: a slot holds the position of a word in `WORDS` plus one.
static TABLE: [u16; SLOTS] = build_table();

const fn hash_step(hash: u32, byte: u8) -> u32 {
    (hash ^ byte.to_ascii_uppercase() as u32).wrapping_mul(0x0100_0193)
}

const fn slot_of(hash: u32) -> usize {
    (hash ^ (hash >> 15)) as usize % SLOTS
}

const fn build_table() -> [u16; SLOTS] {
    let mut table = [0; SLOTS];
    let mut at = 0;
    while at < WORDS.len() {
        let word = WORDS[at].0.as_bytes();
        let mut hash = 0x811c_9dc5;
        let mut byte = 0;
        while byte < word.len() {
            hash = hash_step(hash, word[byte]);
            byte += 1;
        }
        let mut slot = slot_of(hash);
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = at as u16 + 1;
        at += 1;
    }
    table
}

impl Keyword {
    /// The keyword spelled like this in any case.
    pub(crate) fn find(word: &str) -> Keyword {
        if word.len() > WORD_BYTES_MAX {
            return Keyword::NONE;
        }
        let mut slot = slot_of(word.bytes().fold(0x811c_9dc5, hash_step));
        loop {
            match TABLE[slot] {
                0 => return Keyword::NONE,
                entry => {
                    let (text, keyword) = WORDS[entry as usize - 1];
                    if text.eq_ignore_ascii_case(word) {
                        return keyword;
                    }
                }
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    pub(crate) fn is_reserved(self) -> bool {
        self != Keyword::NONE && (self as u16) < Keyword::RESERVED_END as u16
    }
}
