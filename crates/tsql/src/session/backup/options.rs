//! Options and devices of BACKUP and RESTORE.

use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use crate::session::Execution;
use daruma_backup::{
    Algorithm, Compression, Device, DiskDevice, Encryption, KEY_FILE_BYTES_MAX, NulDevice, Secret,
    SetReader,
};
use daruma_base::OpenMode;
use daruma_catalog::{DatabaseDef, UserAccess};
use daruma_syntax::ast::{
    BackupDevice, BackupMedium, Expr, NameOrVariable, OptionItem, OptionValue, RestoreMove,
};
use daruma_value::temporal::Moment;
use daruma_value::{DataType, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most devices of a statement.
const DEVICES_MAX: usize = 64;

/// Options of one statement, evaluated.
pub(super) struct Options {
    items: Vec<(String, Setting)>,
}

enum Setting {
    Bare,
    Text(String),
    Moment(Moment),
    List(Vec<(String, String)>),
}

/// State of a database after a step of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Recovery,
    NoRecovery,
    /// Readable, with this undo file.
    Standby(PathBuf),
}

/// Options that are understood; anything else is an error rather than silently ignored.
const KNOWN: &[&str] = &[
    "BLOCKSIZE",
    "BUFFERCOUNT",
    "CHECKSUM",
    "COMPRESSION",
    "CONTINUE_AFTER_ERROR",
    "COPY_ONLY",
    "CREDENTIAL",
    "DESCRIPTION",
    "DIFFERENTIAL",
    "ENCRYPTION",
    "EXPIREDATE",
    "FILE",
    "FORMAT",
    "INIT",
    "LOADHISTORY",
    "MAXTRANSFERSIZE",
    "MEDIADESCRIPTION",
    "MEDIANAME",
    "NAME",
    "NO_CHECKSUM",
    "NO_COMPRESSION",
    "NO_TRUNCATE",
    "NOFORMAT",
    "NOINIT",
    "NORECOVERY",
    "NOREWIND",
    "NOSKIP",
    "NOUNLOAD",
    "RECOVERY",
    "REPLACE",
    "RESTART",
    "RESTRICTED_USER",
    "RETAINDAYS",
    "REWIND",
    "SKIP",
    "STANDBY",
    "STATS",
    "STOPAT",
    "STOP_ON_ERROR",
    "UNLOAD",
];

/// Options of BACKUP and of RESTORE. ENCRYPTION in RESTORE is our own.
const OF_BOTH: &[&str] = &[
    "BLOCKSIZE",
    "BUFFERCOUNT",
    "CHECKSUM",
    "CONTINUE_AFTER_ERROR",
    "CREDENTIAL",
    "ENCRYPTION",
    "MAXTRANSFERSIZE",
    "NO_CHECKSUM",
    "NOREWIND",
    "NOUNLOAD",
    "RESTART",
    "REWIND",
    "STATS",
    "STOP_ON_ERROR",
    "UNLOAD",
];
const OF_BACKUP: &[&str] = &[
    "COMPRESSION",
    "COPY_ONLY",
    "DESCRIPTION",
    "EXPIREDATE",
    "FORMAT",
    "INIT",
    "MEDIADESCRIPTION",
    "MEDIANAME",
    "NAME",
    "NO_COMPRESSION",
    "NOFORMAT",
    "NOINIT",
    "NOSKIP",
    "RETAINDAYS",
    "SKIP",
];
/// Lists of options that a statement takes.
pub(super) const OF_BACKUP_DATABASE: &[&[&str]] = &[OF_BOTH, OF_BACKUP, &["DIFFERENTIAL"]];
/// See [`OF_BACKUP_DATABASE`].
pub(super) const OF_BACKUP_LOG: &[&[&str]] = &[
    OF_BOTH,
    OF_BACKUP,
    &["NO_TRUNCATE", "NORECOVERY", "STANDBY"],
];
/// See [`OF_BACKUP_DATABASE`].
pub(super) const OF_RESTORE: &[&[&str]] = &[
    OF_BOTH,
    &[
        "FILE",
        "NORECOVERY",
        "RECOVERY",
        "REPLACE",
        "RESTRICTED_USER",
        "STANDBY",
        "STOPAT",
    ],
];
/// RESTORE HEADERONLY and its relatives; see [`OF_BACKUP_DATABASE`].
pub(super) const OF_DESCRIPTION: &[&[&str]] = &[OF_BOTH, &["FILE", "LOADHISTORY"]];

impl Options {
    /// Error 3032 for options of other statements: they would be ignored.
    pub fn check(&self, lists: &[&[&str]]) -> Result<()> {
        let fits = |name: &str| lists.iter().any(|list| list.contains(&name));
        let names = self.items.iter().map(|(name, _)| name.as_str());
        let others: Vec<&str> = names.filter(|name| !fits(name)).collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(messages::error(3032, &[&others.join(", ").to_lowercase()])),
        }
    }

    /// Does a backup of the log leave it as it is, to be backed up again?
    pub fn keeps_log(&self) -> bool {
        self.has("COPY_ONLY") || self.has("NO_TRUNCATE")
    }

    /// Reads WITH; an option that is not known here is refused.
    pub fn evaluate(ex: &Execution<'_>, items: &[OptionItem]) -> Result<Options> {
        let mut options = Options { items: Vec::new() };
        for item in items {
            let name = item.name.to_ascii_uppercase();
            if !KNOWN.contains(&name.as_str()) {
                return Err(messages::not_supported(&format!("the option {name}")));
            }
            let setting = match &item.value {
                OptionValue::None => Setting::Bare,
                OptionValue::List(list) => {
                    let list = evaluate_list(ex, list)?;
                    check_entries(&name, &list)?;
                    Setting::List(list)
                }
                OptionValue::Expr(expr) if name == "STOPAT" || name == "EXPIREDATE" => {
                    Setting::Moment(moment(ex, expr)?)
                }
                value => Setting::Text(text_of(ex, value)?),
            };
            options.items.push((name, setting));
        }
        Ok(options)
    }

    fn find(&self, name: &str) -> Option<&Setting> {
        self.items.iter().find(|(n, _)| n == name).map(|(_, s)| s)
    }

    /// RESTRICTED_USER: the database that is restored is open to those alone who keep it.
    pub fn restrict(&self, def: &mut DatabaseDef) {
        if self.has("RESTRICTED_USER") {
            def.user_access = UserAccess::Restricted;
        }
    }

    /// Was the option given, with a value or without?
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The option's value as text, when it was given with one.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.find(name)? {
            Setting::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The option's value as a whole number, when it is one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// The point in time or in the log that STOPAT and its relatives name.
    pub fn moment(&self, name: &str) -> Option<Moment> {
        match self.find(name)? {
            Setting::Moment(moment) => Some(*moment),
            _ => None,
        }
    }

    /// `STATS` alone means every 10 percent.
    pub fn stats(&self) -> Option<u32> {
        self.has("STATS")
            .then(|| self.number("STATS").unwrap_or(10).clamp(1, 100) as u32)
    }

    fn list(&self, name: &str) -> Option<&[(String, String)]> {
        match self.find(name)? {
            Setting::List(list) => Some(list),
            _ => None,
        }
    }

    /// `COMPRESSION [(ALGORITHM = .., LEVEL = ..)]`, `NO_COMPRESSION`, or what the server is configured for.
    pub fn compression(&self, ex: &Execution<'_>) -> Result<Compression> {
        let by_default = ex
            .instance()
            .configuration
            .in_use("backup compression default")
            != 0;
        if self.has("NO_COMPRESSION") || !(self.has("COMPRESSION") || by_default) {
            return Ok(Compression::None);
        }
        let entry = |name: &str| {
            let found = self.entry("COMPRESSION", name);
            found.map(|value| value.to_ascii_uppercase())
        };
        let level = match entry("LEVEL").as_deref() {
            None | Some("LOW") => 1,
            Some("MEDIUM") => 5,
            Some("HIGH") => 12,
            Some(other) => other
                .parse()
                .ok()
                .filter(|n| (1..=19).contains(n))
                .ok_or_else(|| messages::error(102, &[&other]))?,
        };
        match entry("ALGORITHM").as_deref() {
            None | Some("ZSTD") => Ok(Compression::Zstd { level }),
            // The product's older algorithm is a light one too.
            Some("LZ4" | "MS_XPRESS" | "QAT_DEFLATE") => Ok(Compression::Lz4),
            Some(other) => Err(messages::not_supported(&format!("the algorithm {other}"))),
        }
    }

    /// `ENCRYPTION (ALGORITHM = AES_256, PASSWORD = '..' | KEY FILE = 'path')` of a backup.
    pub fn encryption(&self, ex: &Execution<'_>) -> Result<Option<Encryption>> {
        let Some(secret) = self.secret(ex)? else {
            return Ok(None);
        };
        let name = self.entry("ENCRYPTION", "ALGORITHM");
        let algorithm = name.as_deref().and_then(Algorithm::named).ok_or_else(|| {
            let name = name.unwrap_or_default();
            messages::not_supported(&format!("the encryption algorithm '{name}'"))
        })?;
        Ok(Some(Encryption { algorithm, secret }))
    }

    /// Secret that opens a backup: the same option, where the algorithm need not be named.
    pub fn secret(&self, ex: &Execution<'_>) -> Result<Option<Secret>> {
        if !self.has("ENCRYPTION") {
            return Ok(None);
        }
        let of = |name| self.entry("ENCRYPTION", name);
        match (of("PASSWORD"), of("KEY FILE")) {
            (Some(password), None) if !password.is_empty() => Ok(Some(Secret::Password(password))),
            (None, Some(path)) => key_file(ex, &path).map(|k| Some(Secret::KeyFile(k))),
            _ => Err(messages::not_supported(
                "ENCRYPTION with anything but one PASSWORD or one KEY FILE",
            )),
        }
    }

    /// RECOVERY, NORECOVERY or STANDBY: one of them.
    pub fn ending(&self, ex: &Execution<'_>) -> Result<Ending> {
        let words = ["RECOVERY", "NORECOVERY", "STANDBY"];
        let given: Vec<&str> = words.into_iter().filter(|w| self.has(w)).collect();
        match given.as_slice() {
            [] | ["RECOVERY"] => Ok(Ending::Recovery),
            ["NORECOVERY"] => Ok(Ending::NoRecovery),
            ["STANDBY"] => {
                let undo = self.text("STANDBY").unwrap_or_default();
                let undo = crate::ddl::database::local_path(ex, &undo);
                Ok(Ending::Standby(undo))
            }
            [first, rest @ ..] => {
                let (first, rest) = (first.to_lowercase(), rest.join(", ").to_lowercase());
                Err(messages::error(3031, &[&first, &rest]))
            }
        }
    }

    /// CONTINUE_AFTER_ERROR; STOP_ON_ERROR is the default.
    pub fn goes_on(&self) -> bool {
        self.has("CONTINUE_AFTER_ERROR")
    }

    /// The set, read on over damaged pages when CONTINUE_AFTER_ERROR says so.
    pub fn with_damage(&self, set: SetReader) -> SetReader {
        match self.goes_on() {
            true => set.take_damage(),
            false => set,
        }
    }

    fn entry(&self, option: &str, name: &str) -> Option<String> {
        let list = self.list(option)?;
        let found = list.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone())
    }

    /// Is the level of compression left to us?
    pub fn leaves_level(&self) -> bool {
        let named = |name| self.entry("COMPRESSION", name).is_some();
        !named("LEVEL") && !named("ALGORITHM")
    }

    /// Power of two from 512 to 65,536.
    pub fn block_bytes(&self) -> Result<u32> {
        match self.number("BLOCKSIZE") {
            None => Ok(4_096),
            Some(n) if n.is_power_of_two() && (512..=65_536).contains(&n) => Ok(n as u32),
            Some(n) => Err(invalid("BLOCKSIZE", n)),
        }
    }

    /// Multiple of 64 KiB up to 4 MiB.
    pub fn transfer_bytes(&self) -> Result<usize> {
        match self.number("MAXTRANSFERSIZE") {
            None => Ok(1 << 20),
            Some(n) if n > 0 && n.is_multiple_of(65_536) && n <= 4 << 20 => Ok(n as usize),
            Some(n) => Err(invalid("MAXTRANSFERSIZE", n)),
        }
    }

    /// BUFFERCOUNT, at most 1,024; 0 is an error.
    pub fn buffers(&self) -> Result<Option<usize>> {
        match self.number("BUFFERCOUNT") {
            None => Ok(None),
            Some(n) if n > 0 => Ok(Some(n.min(1_024) as usize)),
            Some(n) => Err(invalid("BUFFERCOUNT", n)),
        }
    }
}

/// The content of a key file. One that is too long is read far enough for the error to say so.
fn key_file(ex: &Execution<'_>, path: &str) -> Result<Vec<u8>> {
    let local = crate::ddl::database::local_path(ex, path);
    let read = || {
        let file = ex.instance().env().disk.open(&local, OpenMode::ReadOnly)?;
        let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let mut content = vec![0; len.min(KEY_FILE_BYTES_MAX + 1)];
        file.read_at(&mut content, 0)?;
        Ok(content)
    };
    read().map_err(|e| messages::error(3201, &[&path, &super::system_error(&e)]))
}

pub(super) fn invalid(option: &str, value: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        3010,
        16,
        1,
        format!("Invalid backup value {value} specified for option '{option}'."),
    )
}

fn evaluate_list(ex: &Execution<'_>, list: &[OptionItem]) -> Result<Vec<(String, String)>> {
    let entry = |item: &OptionItem| {
        let value = match &item.value {
            OptionValue::None => String::new(),
            value => text_of(ex, value)?,
        };
        Ok((item.name.to_ascii_uppercase(), value))
    };
    list.iter().map(entry).collect()
}

/// Error 40517 for what stands in the list of an option, and would be ignored there.
fn check_entries(option: &str, list: &[(String, String)]) -> Result<()> {
    let known: &[&str] = match option {
        "COMPRESSION" => &["ALGORITHM", "LEVEL"],
        "ENCRYPTION" => &["ALGORITHM", "KEY FILE", "PASSWORD"],
        _ => &[],
    };
    match list
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()))
    {
        Some((name, _)) => Err(messages::not_supported(&format!("{option} with {name}"))),
        None => Ok(()),
    }
}

pub(super) fn text_of(ex: &Execution<'_>, value: &OptionValue) -> Result<String> {
    match value {
        OptionValue::Expr(expr) => expr_text(ex, expr),
        OptionValue::Word(word) => Ok(word.clone()),
        OptionValue::Name(name) => Ok(name.text.clone()),
        OptionValue::Quantity { amount, unit } => Ok(format!("{amount} {unit}")),
        OptionValue::On => Ok("ON".into()),
        OptionValue::Off => Ok("OFF".into()),
        _ => Err(messages::not_supported("this form of an option")),
    }
}

pub(super) fn expr_text(ex: &Execution<'_>, expr: &Expr) -> Result<String> {
    let (value, from) = ex.evaluate_alone(expr)?;
    Ok(crate::session::convert::to_text(&value, from)?.unwrap_or_default())
}

fn moment(ex: &Execution<'_>, expr: &Expr) -> Result<Moment> {
    let (value, from) = ex.evaluate_alone(expr)?;
    let to = DataType::DateTime2 { scale: 7 };
    let value: Value = crate::session::convert::pass(value, from, to, ex)?;
    Moment::from_value(&value).ok_or_else(|| messages::error(241, &[]))
}

fn variable_text(ex: &Execution<'_>, name: &str) -> Result<String> {
    let value = ex.variable(name)?;
    let from = crate::session::convert::natural_type(&value);
    Ok(crate::session::convert::to_text(&value, from)?.unwrap_or_default())
}

/// The database that a statement names, in words or by a variable.
pub(crate) fn name(ex: &Execution<'_>, name: &NameOrVariable) -> Result<String> {
    match name {
        NameOrVariable::Name(ident) => Ok(ident.text.clone()),
        NameOrVariable::Variable(variable) => variable_text(ex, variable),
    }
}

/// `MOVE 'logical' TO 'path'`, evaluated.
pub(super) fn moves(ex: &Execution<'_>, moves: &[RestoreMove]) -> Result<Vec<(String, String)>> {
    let pair = |m: &RestoreMove| Ok((expr_text(ex, &m.logical)?, expr_text(ex, &m.path)?));
    moves.iter().map(pair).collect()
}

pub(super) fn devices(
    ex: &Execution<'_>,
    devices: &[BackupDevice],
    options: &Options,
) -> Result<Vec<Arc<dyn Device>>> {
    if devices.len() > DEVICES_MAX {
        return Err(messages::error(3205, &[&DEVICES_MAX]));
    }
    devices.iter().map(|d| device(ex, d, options)).collect()
}

fn device(ex: &Execution<'_>, device: &BackupDevice, options: &Options) -> Result<Arc<dyn Device>> {
    match device {
        BackupDevice::Logical(logical) => {
            let logical = name(ex, logical)?;
            Err(messages::error(3206, &[&logical]))
        }
        BackupDevice::Physical {
            medium: BackupMedium::Disk,
            path,
        } => {
            let written = expr_text(ex, path)?;
            if matches!(
                written.to_ascii_uppercase().as_str(),
                "NUL" | "NUL:" | "/DEV/NULL"
            ) {
                return Ok(Arc::new(NulDevice));
            }
            let instance = ex.instance().clone();
            let path = crate::ddl::database::local_path_in(&written, instance.backup_dir());
            let disk = instance.env().disk.clone();
            let gate = move |path: &Path| instance.refuse_owned(path);
            Ok(Arc::new(DiskDevice::new(
                &disk,
                &written,
                &path,
                Arc::new(gate),
            )))
        }
        BackupDevice::Physical {
            medium: BackupMedium::Url,
            path,
        } => {
            let url = expr_text(ex, path)?;
            let name = options.text("CREDENTIAL");
            let credential = super::credentials::for_url(ex, &url, name.as_deref())?;
            let Some(devices) = ex.instance().url_devices.get() else {
                return Err(messages::not_supported("backup to URL"));
            };
            let device = devices.device(&url, credential.as_ref());
            device.map_err(super::sql_error)
        }
        BackupDevice::Physical { medium, .. } => Err(messages::not_supported(match medium {
            BackupMedium::Tape => "backup to tape",
            _ => "this kind of backup device",
        })),
    }
}
