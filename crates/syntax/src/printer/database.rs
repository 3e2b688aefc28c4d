//! Databases, backup and restore.

use super::option::LooseOptions;
use super::{Clause, Commas, Flag, Quote, switch};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

/// Options which the product writes with an equals sign before ON and OFF; the others have a blank.
const WITH_EQUALS: &[&str] = &[
    "QUERY_STORE",
    "CHANGE_TRACKING",
    "LEDGER",
    "NESTED_TRIGGERS",
    "TRANSFORM_NOISE_WORDS",
    "REMOTE_DATA_ARCHIVE",
];

/// Options whose word stands behind a blank.
const WORD_AFTER_BLANK: &[&str] = &[
    "CURSOR_DEFAULT",
    "PARAMETERIZATION",
    "PARTNER",
    "PARTNER SAFETY",
    "WITNESS",
];

/// One option of ALTER DATABASE SET.
struct SetOption<'a>(&'a OptionItem);

impl Display for SetOption<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = &self.0.name;
        let blank = !WITH_EQUALS.contains(&name.as_str());
        match &self.0.value {
            OptionValue::On if blank => write!(f, "{name} ON"),
            OptionValue::Off if blank => write!(f, "{name} OFF"),
            OptionValue::Word(word)
                if WORD_AFTER_BLANK.contains(&name.as_str()) || word.starts_with("CLEAR") =>
            {
                write!(f, "{name} {word}")
            }
            OptionValue::Qualified(value, items) if blank && **value == OptionValue::On => {
                write!(f, "{name} ON ({})", Commas(items))
            }
            _ => self.0.fmt(f),
        }
    }
}

impl Display for CreateDatabase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE DATABASE {}{}",
            self.name,
            Clause("CONTAINMENT =", &self.containment)
        )?;
        for (index, group) in self.filegroups.iter().enumerate() {
            f.write_str(if index == 0 { " ON " } else { ", " })?;
            group.fmt(f)?;
        }
        if !self.log.is_empty() {
            write!(f, " LOG ON {}", Commas(&self.log))?;
        }
        write!(f, "{}", Clause("COLLATE", &self.collation))?;
        f.write_str(match self.attach {
            Some(Attach::Attach) => " FOR ATTACH",
            Some(Attach::RebuildLog) => " FOR ATTACH_REBUILD_LOG",
            None => "",
        })?;
        write!(f, "{}", Clause("AS SNAPSHOT OF", &self.snapshot_of))?;
        if self.options.is_empty() {
            return Ok(());
        }
        let options: Vec<SetOption<'_>> = self.options.iter().map(SetOption).collect();
        write!(f, " WITH {}", Commas(&options))
    }
}

impl Display for FilegroupSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => {
                write!(f, "FILEGROUP {name}{}", Clause("CONTAINS", &self.contains))?;
                write!(f, "{} ", Flag("DEFAULT", self.default))?;
            }
            None => f.write_str("PRIMARY ")?,
        }
        Commas(&self.files).fmt(f)
    }
}

impl Display for FileSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut properties: Vec<String> = Vec::new();
        properties.extend(self.name.iter().map(|name| format!("NAME = {name}")));
        properties.extend(self.new_name.iter().map(|name| format!("NEWNAME = {name}")));
        properties.extend(
            self.file_name
                .iter()
                .map(|path| format!("FILENAME = {}", Quote(path))),
        );
        properties.extend(self.size.iter().map(|size| format!("SIZE = {size}")));
        properties.extend(self.max_size.iter().map(|size| format!("MAXSIZE = {size}")));
        properties.extend(
            self.file_growth
                .iter()
                .map(|size| format!("FILEGROWTH = {size}")),
        );
        properties.extend(self.offline.then(|| "OFFLINE".to_owned()));
        write!(f, "({})", properties.join(", "))
    }
}

impl Display for FileSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FileSize::Kilobytes(count) => write!(f, "{count}KB"),
            FileSize::Megabytes(count) => write!(f, "{count}MB"),
            FileSize::Gigabytes(count) => write!(f, "{count}GB"),
            FileSize::Terabytes(count) => write!(f, "{count}TB"),
            FileSize::Percent(count) => write!(f, "{count}%"),
            FileSize::Unlimited => f.write_str("UNLIMITED"),
        }
    }
}

impl Display for AlterDatabase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER DATABASE ")?;
        match (&self.name, &self.action) {
            (_, AlterDatabaseAction::ScopedConfiguration { .. }) => {}
            (Some(name), _) => write!(f, "{name} ")?,
            (None, _) => f.write_str("CURRENT ")?,
        }
        self.action.fmt(f)
    }
}

impl Display for AlterDatabaseAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterDatabaseAction::Set {
                options,
                termination,
            } => {
                write!(f, "SET {}{}", Commas(options), Clause("WITH", termination))
            }
            AlterDatabaseAction::ModifyName(name) => write!(f, "MODIFY NAME = {name}"),
            AlterDatabaseAction::Collate(collation) => write!(f, "COLLATE {collation}"),
            AlterDatabaseAction::AddFile { files, filegroup } => {
                write!(
                    f,
                    "ADD FILE {}{}",
                    Commas(files),
                    Clause("TO FILEGROUP", filegroup)
                )
            }
            AlterDatabaseAction::AddLogFile(files) => write!(f, "ADD LOG FILE {}", Commas(files)),
            AlterDatabaseAction::RemoveFile(name) => write!(f, "REMOVE FILE {name}"),
            AlterDatabaseAction::ModifyFile(file) => write!(f, "MODIFY FILE {file}"),
            AlterDatabaseAction::AddFilegroup { name, contains } => {
                write!(f, "ADD FILEGROUP {name}{}", Clause("CONTAINS", contains))
            }
            AlterDatabaseAction::RemoveFilegroup(name) => write!(f, "REMOVE FILEGROUP {name}"),
            AlterDatabaseAction::ModifyFilegroup { name, change } => {
                write!(f, "MODIFY FILEGROUP {name} {change}")
            }
            AlterDatabaseAction::ScopedConfiguration {
                secondary,
                clear,
                option,
            } => {
                let verb = if *clear { "CLEAR" } else { "SET" };
                write!(
                    f,
                    "SCOPED CONFIGURATION{} {verb} ",
                    Flag("FOR SECONDARY", *secondary)
                )?;
                match &option.value {
                    OptionValue::Expr(plan) if *clear => write!(f, "{} {plan}", option.name),
                    _ => option.fmt(f),
                }
            }
            AlterDatabaseAction::Modify(options) => write!(f, "MODIFY ({})", Commas(options)),
        }
    }
}

impl Display for FilegroupChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FilegroupChange::Default => f.write_str("DEFAULT"),
            FilegroupChange::ReadOnly => f.write_str("READ_ONLY"),
            FilegroupChange::ReadWrite => f.write_str("READ_WRITE"),
            FilegroupChange::Rename(name) => write!(f, "NAME = {name}"),
            FilegroupChange::AutogrowAllFiles => f.write_str("AUTOGROW_ALL_FILES"),
            FilegroupChange::AutogrowSingleFile => f.write_str("AUTOGROW_SINGLE_FILE"),
        }
    }
}

impl Display for Termination {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Termination::RollbackImmediate => f.write_str("ROLLBACK IMMEDIATE"),
            Termination::RollbackAfter { seconds } => write!(f, "ROLLBACK AFTER {seconds} SECONDS"),
            Termination::NoWait => f.write_str("NO_WAIT"),
        }
    }
}

impl Display for DatabaseOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseOption::AcceleratedDatabaseRecovery {
                on,
                version_store_filegroup,
            } => {
                write!(f, "ACCELERATED_DATABASE_RECOVERY = {}", switch(*on))?;
                match version_store_filegroup {
                    Some(name) => write!(f, " (PERSISTENT_VERSION_STORE_FILEGROUP = {name})"),
                    None => Ok(()),
                }
            }
            DatabaseOption::DelayedDurability(DelayedDurability::Disabled) => {
                f.write_str("DELAYED_DURABILITY = DISABLED")
            }
            DatabaseOption::DelayedDurability(DelayedDurability::Allowed) => {
                f.write_str("DELAYED_DURABILITY = ALLOWED")
            }
            DatabaseOption::DelayedDurability(DelayedDurability::Forced) => {
                f.write_str("DELAYED_DURABILITY = FORCED")
            }
            DatabaseOption::Recovery(RecoveryModel::Full) => f.write_str("RECOVERY FULL"),
            DatabaseOption::Recovery(RecoveryModel::BulkLogged) => {
                f.write_str("RECOVERY BULK_LOGGED")
            }
            DatabaseOption::Recovery(RecoveryModel::Simple) => f.write_str("RECOVERY SIMPLE"),
            DatabaseOption::CompatibilityLevel(level) => write!(f, "COMPATIBILITY_LEVEL = {level}"),
            DatabaseOption::TargetRecoveryTime { seconds } => {
                write!(f, "TARGET_RECOVERY_TIME = {seconds} SECONDS")
            }
            DatabaseOption::ReadCommittedSnapshot(on) => {
                write!(f, "READ_COMMITTED_SNAPSHOT {}", switch(*on))
            }
            DatabaseOption::AllowSnapshotIsolation(on) => {
                write!(f, "ALLOW_SNAPSHOT_ISOLATION {}", switch(*on))
            }
            DatabaseOption::PageVerify(PageVerify::Checksum) => f.write_str("PAGE_VERIFY CHECKSUM"),
            DatabaseOption::PageVerify(PageVerify::TornPageDetection) => {
                f.write_str("PAGE_VERIFY TORN_PAGE_DETECTION")
            }
            DatabaseOption::PageVerify(PageVerify::None) => f.write_str("PAGE_VERIFY NONE"),
            DatabaseOption::UserAccess(UserAccess::Single) => f.write_str("SINGLE_USER"),
            DatabaseOption::UserAccess(UserAccess::Restricted) => f.write_str("RESTRICTED_USER"),
            DatabaseOption::UserAccess(UserAccess::Multi) => f.write_str("MULTI_USER"),
            DatabaseOption::State(DatabaseState::Online) => f.write_str("ONLINE"),
            DatabaseOption::State(DatabaseState::Offline) => f.write_str("OFFLINE"),
            DatabaseOption::State(DatabaseState::Emergency) => f.write_str("EMERGENCY"),
            DatabaseOption::ReadOnly(true) => f.write_str("READ_ONLY"),
            DatabaseOption::ReadOnly(false) => f.write_str("READ_WRITE"),
            DatabaseOption::Hadr(HadrChange::Join(group)) => {
                write!(f, "HADR AVAILABILITY GROUP = {group}")
            }
            DatabaseOption::Hadr(HadrChange::Off) => f.write_str("HADR OFF"),
            DatabaseOption::Hadr(HadrChange::Suspend) => f.write_str("HADR SUSPEND"),
            DatabaseOption::Hadr(HadrChange::Resume) => f.write_str("HADR RESUME"),
            DatabaseOption::Other(option) => SetOption(option).fmt(f),
        }
    }
}

impl Display for DatabasePart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DatabasePart::File(file) => write!(f, "FILE = {file}"),
            DatabasePart::Filegroup(group) => write!(f, "FILEGROUP = {group}"),
            DatabasePart::ReadWriteFilegroups => f.write_str("READ_WRITE_FILEGROUPS"),
            DatabasePart::Page(pages) => write!(f, "PAGE = {pages}"),
        }
    }
}

impl Display for BackupDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            BackupDevice::Logical(name) => name.fmt(f),
            BackupDevice::Physical { medium, path } => {
                let word = match medium {
                    BackupMedium::Disk => "DISK",
                    BackupMedium::Tape => "TAPE",
                    BackupMedium::Url => "URL",
                    BackupMedium::DatabaseSnapshot => "DATABASE_SNAPSHOT",
                    BackupMedium::VirtualDevice => "VIRTUAL_DEVICE",
                };
                write!(f, "{word} = {path}")
            }
        }
    }
}

fn write_parts(f: &mut Formatter<'_>, parts: &[DatabasePart]) -> fmt::Result {
    if parts.is_empty() {
        Ok(())
    } else {
        write!(f, " {}", Commas(parts))
    }
}

/// `AFTER 'time'` belongs to the mark before it and takes no comma.
fn media_options(options: &[OptionItem]) -> Vec<OptionItem> {
    let mut merged: Vec<OptionItem> = Vec::new();
    for option in options {
        match (merged.last_mut(), &option.value) {
            (Some(mark), OptionValue::Expr(time)) if option.name == "AFTER" => {
                mark.value = OptionValue::Word(format!("{} AFTER {time}", mark.value));
            }
            _ => merged.push(option.clone()),
        }
    }
    merged
}

impl Display for Backup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            BackupKind::Database => "BACKUP DATABASE ",
            BackupKind::Log => "BACKUP LOG ",
        })?;
        self.database.fmt(f)?;
        write_parts(f, &self.parts)?;
        if !self.devices.is_empty() {
            write!(f, " TO {}", Commas(&self.devices))?;
        }
        self.mirrors
            .iter()
            .try_for_each(|devices| write!(f, " MIRROR TO {}", Commas(devices)))?;
        LooseOptions(&media_options(&self.options)).fmt(f)
    }
}

impl Display for Restore {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            RestoreKind::Database => "RESTORE DATABASE",
            RestoreKind::Log => "RESTORE LOG",
            RestoreKind::FileListOnly => "RESTORE FILELISTONLY",
            RestoreKind::HeaderOnly => "RESTORE HEADERONLY",
            RestoreKind::LabelOnly => "RESTORE LABELONLY",
            RestoreKind::RewindOnly => "RESTORE REWINDONLY",
            RestoreKind::VerifyOnly => "RESTORE VERIFYONLY",
        })?;
        if let Some(database) = &self.database {
            write!(f, " {database}")?;
        }
        write_parts(f, &self.parts)?;
        if !self.devices.is_empty() {
            write!(f, " FROM {}", Commas(&self.devices))?;
        }
        let moves = self
            .moves
            .iter()
            .map(|item| format!("MOVE {} TO {}", item.logical, item.path));
        let options = media_options(&self.options);
        let words: Vec<String> = moves
            .chain(options.iter().map(ToString::to_string))
            .collect();
        if words.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", words.join(", "))
        }
    }
}
