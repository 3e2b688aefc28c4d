//! SERVERPROPERTY, DATABASEPROPERTYEX, CONNECTIONPROPERTY, SESSIONPROPERTY: named properties as sql_variant.

use super::execution::Execution;
use super::functions::text;
use crate::error::Result;
use crate::host::Host;
use crate::instance::{DatabaseEntry, PRODUCT_VERSION, days_left};
use crate::sysviews::Source;
use daruma_storage::{DatabaseState, RecoveryModel};
use daruma_value::{DataType, DateTime, Len, Value, VariantValue};
use std::path::Path;

const FIRST_OF_1900: DateTime = DateTime { days: 0, ticks: 0 };

impl Execution<'_> {
    pub(crate) fn property_function(&self, name: &str, args: &[Value]) -> Result<Option<Value>> {
        Ok(Some(match name {
            "serverproperty" => self.server_property(text(args, 0).unwrap_or_default()),
            "databasepropertyex" => self.database_property(
                text(args, 0).unwrap_or_default(),
                text(args, 1).unwrap_or_default(),
            ),
            "databaseproperty" => match self.database_property(
                text(args, 0).unwrap_or_default(),
                text(args, 1).unwrap_or_default(),
            ) {
                Value::Variant(v) => v.value,
                other => other,
            },
            "loginproperty" => self.login_property(args).unwrap_or(Value::Null),
            "connectionproperty" => self.connection_property(text(args, 0).unwrap_or_default()),
            "sessionproperty" => self.session_property(text(args, 0).unwrap_or_default()),
            _ => return Ok(None),
        }))
    }

    /// LOGINPROPERTY(login, property). `None` for a login that is not there or that one may not know of, and for what no property is.
    /// How passwords are hashed is told to nobody.
    fn login_property(&self, args: &[Value]) -> Option<Value> {
        let login = self.state.logins().get(text(args, 0)?)?;
        let rights = self.state.server_rights();
        let is_own = rights
            .login
            .as_ref()
            .is_some_and(|own| own.sid == login.sid);
        let wide = ["VIEW ANY DEFINITION", "ALTER ANY LOGIN"];
        let may_know = is_own
            || wide.iter().any(|p| rights.has(p))
            || rights.has_on_login(login.id, "VIEW DEFINITION");
        if !may_know {
            return None;
        }
        let instance = &self.state.instance;
        let now = instance.now_utc();
        let failures = instance.logins.failures_of(login.id, now);
        let is_locked = failures.is_locked && login.check_policy;
        let days = login.check_expiration.then(|| days_left(&login, now));
        let source = Source::new(self, self.current_database(), &[]);
        // A time that never was is the first one that the type has.
        let time = |utc: i64| {
            let moment = source.moment(utc).filter(|_| utc != 0);
            let value = moment.and_then(|m| m.to_value(DataType::DateTime));
            variant(
                DataType::DateTime,
                value.unwrap_or(Value::DateTime(FIRST_OF_1900)),
            )
        };
        Some(match text(args, 1)?.to_ascii_lowercase().as_str() {
            "badpasswordcount" => number(i32::try_from(failures.count).unwrap_or(i32::MAX)),
            "badpasswordtime" => time(failures.last_utc),
            "daysuntilexpiration" => number(days?),
            "defaultdatabase" => words(&login.default_database),
            "defaultlanguage" => words(&login.default_language),
            "historylength" => number(0),
            "isexpired" => number(i32::from(days == Some(0))),
            "islocked" => number(i32::from(is_locked)),
            "ismustchange" => number(i32::from(login.must_change)),
            "lockouttime" => time(if is_locked { failures.last_utc } else { 0 }),
            "passwordlastsettime" => time(login.password_set_utc),
            _ => return None,
        })
    }

    fn server_property(&self, name: &str) -> Value {
        let options = self.state.instance.options();
        match name.to_ascii_lowercase().as_str() {
            "productversion" => words(PRODUCT_VERSION),
            "productlevel" => words("RTM"),
            "productmajorversion" => words("16"),
            "productminorversion" => words("0"),
            "productbuild" => words("4100"),
            "productupdatelevel" => words("CU15"),
            "productupdatereference" | "productbuildtype" => Value::Null,
            "resourceversion" => words("16.00.4100"),
            "edition" => words("Developer Edition (64-bit)"),
            "editionid" => big(-2_117_995_310),
            "engineedition" => number(3),
            "machinename" | "servername" | "computernamephysicalnetbios" => {
                words(&options.server_name)
            }
            "instancename" => Value::Null,
            "collation" => words("SQL_Latin1_General_CP1_CI_AS"),
            "collationid" => number(872_468_488),
            "comparisonstyle" => number(196_609),
            "lcid" => number(1_033),
            "sqlcharset" => tiny(1),
            "sqlcharsetname" => words("iso_1"),
            "sqlsortorder" => tiny(52),
            "sqlsortordername" => words("nocase_iso"),
            "isclustered"
            | "isintegratedsecurityonly"
            | "issingleuser"
            | "isfulltextinstalled"
            | "isxtpsupported"
            | "ispolybaseinstalled"
            | "isadvancedanalyticsinstalled"
            | "isbigdatacluster"
            | "islocaldb"
            | "istempdbmetadatamemoryoptimized"
            | "isexternalauthenticationonly"
            | "isexternalgovernanceenabled"
            | "filestreamconfiguredlevel"
            | "filestreameffectivelevel" => number(0),
            "processid" => number(std::process::id() as i32),
            "ishadrenabled" => number(i32::from(self.state.instance.hadr.service().is_enabled())),
            // 1: started and running; 2: not started.
            "hadrmanagerstatus" => match self.state.instance.hadr.service().is_enabled() {
                true => number(1),
                false => number(2),
            },
            "licensetype" => words("DISABLED"),
            "numlicenses" | "filestreamsharename" | "suspendeddatabasecount" => Value::Null,
            "instancedefaultdatapath" => folder(self.state.instance.data_dir()),
            "instancedefaultlogpath" => folder(self.state.instance.log_dir()),
            "instancedefaultbackuppath" => folder(self.state.instance.backup_dir()),
            "errorlogfilename" => words(&self.state.instance.log.path(0).display().to_string()),
            "pathseparator" => words("/"),
            "buildclrversion" => words("v4.0.30319"),
            _ => Value::Null,
        }
    }

    fn database_property(&self, database: &str, property: &str) -> Value {
        let entry = self.state.instance.database_named(database);
        let Some(entry) = entry.filter(|e| self.knows_database(e.id())) else {
            return Value::Null;
        };
        let def = entry.def();
        let settings = entry.open().ok().map(|o| o.storage.settings());
        match property.to_ascii_lowercase().as_str() {
            "status" => words(state_name(&entry)),
            "collation" => words(def.collation.name()),
            "recovery" => words(match settings.map(|s| s.recovery_model) {
                Some(RecoveryModel::Full) => "FULL",
                Some(RecoveryModel::BulkLogged) => "BULK_LOGGED",
                _ => "SIMPLE",
            }),
            "updateability" => words(if settings.is_some_and(|s| s.read_only) {
                "READ_ONLY"
            } else {
                "READ_WRITE"
            }),
            "useraccess" => words(match def.user_access {
                daruma_catalog::UserAccess::Multi => "MULTI_USER",
                daruma_catalog::UserAccess::Single => "SINGLE_USER",
                daruma_catalog::UserAccess::Restricted => "RESTRICTED_USER",
            }),
            "version" => number(957),
            "lcid" => number(def.collation.lcid() as i32),
            "comparisonstyle" => number(196_609),
            "sqlsortorder" => tiny(52),
            "isautocreatestatistics" => {
                number(i32::from(def.option_is_on("AUTO_CREATE_STATISTICS")))
            }
            "isautoupdatestatistics" => {
                number(i32::from(def.option_is_on("AUTO_UPDATE_STATISTICS")))
            }
            "isoptimizedlockingon" => {
                number(i32::from(settings.is_some_and(|s| s.optimized_locking)))
            }
            "lastgoodcheckdbtime" => {
                let source = Source::new(self, self.current_database(), &[]);
                let moment = match entry.last_good_check_utc() {
                    0 => None,
                    utc => source.moment(utc),
                };
                let value = moment.and_then(|m| m.to_value(DataType::DateTime));
                Value::Variant(Box::new(VariantValue {
                    data_type: DataType::DateTime,
                    value: value.unwrap_or(Value::DateTime(FIRST_OF_1900)),
                }))
            }
            "isinstandby" => number(i32::from(def.options.contains_key(crate::session::STANDBY))),
            "isautoclose" => number(i32::from(def.option_is_on("AUTO_CLOSE"))),
            "isautoshrink" => number(i32::from(def.option_is_on("AUTO_SHRINK"))),
            "isrecursivetriggersenabled" => {
                number(i32::from(def.option_is_on("RECURSIVE_TRIGGERS")))
            }
            "islocalcursorsdefault" => {
                number(i32::from(def.option("CURSOR_DEFAULT") == Some("LOCAL")))
            }
            "isclosecursorsoncommitenabled" => {
                number(i32::from(def.option_is_on("CURSOR_CLOSE_ON_COMMIT")))
            }
            "isnullconcat"
            | "isansinullsenabled"
            | "isansipaddingenabled"
            | "isansiwarningsenabled"
            | "isansinulldefault"
            | "isarithmeticabortenabled"
            | "isquotedidentifiersenabled"
            | "isnumericroundabortenabled"
            | "isfulltextenabled"
            | "ispublished"
            | "issubscribed"
            | "ismergepublished"
            | "issyncwithbackup"
            | "isclone"
            | "istornpagedetectionenabled"
            | "isparameterizationforced" => number(0),
            _ => Value::Null,
        }
    }

    fn connection_property(&self, name: &str) -> Value {
        let login = &self.state.entry.login;
        match name.to_ascii_lowercase().as_str() {
            "net_transport" | "physical_net_transport" => {
                words(if login.net_transport.is_empty() {
                    "TCP"
                } else {
                    &login.net_transport
                })
            }
            "protocol_type" => words("TSQL"),
            "auth_scheme" => words("SQL"),
            "client_net_address" => words(&login.client_address),
            "local_net_address" => words("127.0.0.1"),
            "local_tcp_port" => number(1_433),
            _ => Value::Null,
        }
    }

    fn session_property(&self, name: &str) -> Value {
        let s = self.settings();
        let on = match name.to_ascii_uppercase().as_str() {
            "ANSI_NULLS" => s.ansi_nulls,
            "ANSI_PADDING" => s.ansi_padding,
            "ANSI_WARNINGS" => s.ansi_warnings,
            "ARITHABORT" => s.arithabort,
            "CONCAT_NULL_YIELDS_NULL" => s.concat_null_yields_null,
            "NUMERIC_ROUNDABORT" => s.numeric_roundabort,
            "QUOTED_IDENTIFIER" => s.quoted_identifier,
            _ => return Value::Null,
        };
        number(i32::from(on))
    }
}

/// `sys.databases.state_desc`.
pub fn state_name(entry: &DatabaseEntry) -> &'static str {
    match entry.state() {
        DatabaseState::Online => "ONLINE",
        DatabaseState::Restoring => "RESTORING",
        DatabaseState::Recovering => "RECOVERING",
        DatabaseState::Suspect => "SUSPECT",
        DatabaseState::Offline => "OFFLINE",
    }
}

fn variant(data_type: DataType, value: Value) -> Value {
    Value::Variant(Box::new(VariantValue { data_type, value }))
}

/// A folder, with its end.
fn folder(path: &Path) -> Value {
    words(&format!("{}/", path.display()))
}

fn words(text: &str) -> Value {
    variant(DataType::NVarChar(Len(128)), Value::str(text))
}

fn number(n: i32) -> Value {
    variant(DataType::Int, Value::Int(n))
}

fn tiny(n: u8) -> Value {
    variant(DataType::TinyInt, Value::TinyInt(n))
}

fn big(n: i64) -> Value {
    variant(DataType::BigInt, Value::BigInt(n))
}
