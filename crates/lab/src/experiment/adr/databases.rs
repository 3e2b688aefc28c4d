//! The four databases, their files, and the sums that must not change.

use super::super::{Lab, LabError};
use crate::figures;
use crate::report::{Section, Table};
use crate::sql::{Ask, bracketed, quoted};
use daruma_client::client::Client;

const ALL: [(&str, u32, bool); 4] = [
    ("AW2019_150", 150, false),
    ("AW2019_150_AR", 150, true),
    ("AW2019_160", 160, false),
    ("AW2019_160_AR", 160, true),
];

/// How the version store gets its filegroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    NoFilegroup,
    /// Made, but the ON statement does not name it.
    AsPrinted,
    AsMeant,
}

impl Variant {
    /// As reports name it.
    pub const fn title(self) -> &'static str {
        match self {
            Variant::NoFilegroup => "no version store filegroup",
            Variant::AsPrinted => "version store filegroup as printed (not named by ON)",
            Variant::AsMeant => "version store filegroup",
        }
    }

    /// As `results.json` names it.
    pub const fn key(self) -> &'static str {
        match self {
            Variant::NoFilegroup => "no_filegroup",
            Variant::AsPrinted => "as_printed",
            Variant::AsMeant => "as_meant",
        }
    }
}

/// One of the four databases.
#[derive(Clone, Debug)]
pub struct Database {
    pub name: &'static str,
    pub accelerated: bool,
    /// Sums of the table after loading.
    pub sums: String,
}

/// The four databases of one variant.
#[derive(Clone, Debug)]
pub struct Set {
    pub variant: Variant,
    pub databases: Vec<Database>,
    /// Sizes behind the restore: setting up makes some logs grow.
    restored: Vec<FileSize>,
}

impl Set {
    /// Level 150 and 160: the place of the database without and of the one with the option.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let ar = |at: usize| self.databases.get(at).is_some_and(|d| d.accelerated);
        (1..self.databases.len())
            .filter(|at| ar(*at))
            .map(|at| (at - 1, at))
            .collect()
    }

    /// These sizes, with those behind the restore where the restore made the file.
    pub fn at_first(&self, mut sizes: Vec<FileSize>) -> Vec<FileSize> {
        for size in &mut sizes {
            let same = |r: &&FileSize| r.database == size.database && r.file == size.file;
            size.pages = self
                .restored
                .iter()
                .find(same)
                .map_or(size.pages, |r| r.pages);
        }
        sizes
    }
}

/// Makes the databases as the article does, for as much of it as the server supports.
pub fn create(lab: &mut Lab, variant: Variant) -> Result<Set, LabError> {
    let accelerated = lab.accelerated_recovery()?;
    let chosen: Vec<_> = ALL
        .into_iter()
        .filter(|(_, _, ar)| accelerated || !ar)
        .collect();
    let names: Vec<&'static str> = chosen.iter().map(|(name, _, _)| *name).collect();
    lab.create_samples(&names)?;
    let folder = lab.data_folder()?;
    let mut statements = String::new();
    let mut client = lab.client("master")?;
    let restored = sizes_of(&mut client, &names)?;
    for (name, level, ar) in &chosen {
        lab.step(format!("setting up {name}"));
        for statement in setup(name, *level, *ar, variant, &folder) {
            client.execute(&statement)?;
            statements.push_str(&statement);
            statements.push_str(";\n");
        }
    }
    client.execute("USE master")?;
    let mut databases = Vec::new();
    for (name, _, accelerated) in chosen {
        databases.push(Database {
            name,
            accelerated,
            sums: sums(&mut client, name)?,
        });
    }
    lab.publish(overview(&mut client, variant, statements)?);
    Ok(Set {
        variant,
        databases,
        restored,
    })
}

fn setup(name: &str, level: u32, ar: bool, variant: Variant, folder: &str) -> Vec<String> {
    let database = bracketed(name);
    let mut statements = vec![
        format!("ALTER DATABASE {database} SET RECOVERY FULL WITH NO_WAIT"),
        format!("ALTER DATABASE {database} SET COMPATIBILITY_LEVEL = {level}"),
        format!(
            "ALTER TABLE {database}.Sales.SalesOrderDetail DISABLE TRIGGER iduSalesOrderDetail"
        ),
    ];
    if !ar {
        return statements;
    }
    let store = format!("VS_{name}");
    if variant != Variant::NoFilegroup {
        statements.push(format!("ALTER DATABASE {database} ADD FILEGROUP [{store}]"));
        let file = quoted(&format!("{folder}{store}.ndf"));
        statements.push(format!(
            "ALTER DATABASE {database} ADD FILE (NAME = N'{store}', FILENAME = {file}, SIZE = 65536KB, \
             FILEGROWTH = 65536KB) TO FILEGROUP [{store}]"
        ));
    }
    // The article found that a checkpoint before it makes switching quicker.
    statements.push(format!("USE {database}"));
    statements.push("CHECKPOINT".into());
    statements.push("USE master".into());
    let clause = if variant == Variant::AsMeant {
        format!(" (PERSISTENT_VERSION_STORE_FILEGROUP = [{store}])")
    } else {
        String::new()
    };
    statements.push(format!(
        "ALTER DATABASE {database} SET ACCELERATED_DATABASE_RECOVERY = ON{clause}"
    ));
    statements
}

fn overview(client: &mut Client, variant: Variant, code: String) -> Result<Section, LabError> {
    let mut section = Section {
        title: format!("Databases: {}", variant.title()),
        ..Section::default()
    };
    let mut table = Table::new(
        "",
        &[
            "Database",
            "Compatibility level",
            "Recovery model",
            "ADR on",
        ],
    );
    let rows = client.table(
        "SELECT name, compatibility_level, recovery_model_desc, \
         CAST(is_accelerated_database_recovery_on AS int) FROM sys.databases WHERE name LIKE N'AW2019%' ORDER BY name",
    )?;
    rows.into_iter().for_each(|row| table.measured(row));
    section.table(table);
    section.code(code);
    Ok(section)
}

/// Count and sums of the order lines, in one line.
pub fn sums(client: &mut Client, database: &str) -> Result<String, LabError> {
    let rows = client.table(&format!(
        "SELECT COUNT_BIG(*), SUM(CAST(OrderQty AS bigint)), SUM(UnitPrice), SUM(UnitPriceDiscount), \
         SUM(CAST(LEN(CarrierTrackingNumber) AS bigint)), SUM(CAST(ProductID AS bigint)) FROM {}.Sales.SalesOrderDetail",
        bracketed(database)
    ))?;
    Ok(rows.into_iter().flatten().collect::<Vec<_>>().join(" / "))
}

/// Compares the sums of every database with those after loading.
pub fn check_sums(lab: &mut Lab, set: &Set, when: &str) -> Result<(), LabError> {
    lab.step(format!("checking sums {when}"));
    let mut client = lab.client("master")?;
    for database in &set.databases {
        let found = sums(&mut client, database.name)?;
        let what = format!("{}: sums of SalesOrderDetail {when}", database.name);
        lab.report.check(what, database.sums.clone(), found);
    }
    Ok(())
}

/// A file and its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSize {
    pub database: &'static str,
    pub file: String,
    pub is_log: bool,
    pub pages: u64,
}

/// Sizes in pages of all files of the set, database by database, in the order of their ids.
pub fn file_sizes(client: &mut Client, set: &Set) -> Result<Vec<FileSize>, LabError> {
    let names: Vec<&str> = set.databases.iter().map(|d| d.name).collect();
    sizes_of(client, &names)
}

fn sizes_of(client: &mut Client, names: &[&'static str]) -> Result<Vec<FileSize>, LabError> {
    let mut sizes = Vec::new();
    for database in names {
        let rows = client.table(&format!(
            "SELECT physical_name, type_desc, size FROM {}.sys.database_files ORDER BY file_id",
            bracketed(database)
        ))?;
        for row in rows {
            let [path, kind, pages] = row.as_slice() else {
                continue;
            };
            sizes.push(FileSize {
                database,
                file: path.rsplit(['/', '\\']).next().unwrap_or(path).to_string(),
                is_log: kind == "LOG",
                pages: pages.parse().unwrap_or(0),
            });
        }
    }
    Ok(sizes)
}

/// A number of pages with commas between thousands.
pub fn pages(count: u64) -> String {
    figures::grouped(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_as_large_as_it_was_restored() {
        let size = |file: &str, pages| FileSize {
            database: "d",
            file: file.into(),
            is_log: false,
            pages,
        };
        let set = Set {
            variant: Variant::AsMeant,
            databases: Vec::new(),
            restored: vec![size("d_log.ldf", 9_216)],
        };
        let found = vec![size("d_log.ldf", 17_408), size("VS_d.ndf", 8_192)];
        let pages: Vec<u64> = set.at_first(found).iter().map(|f| f.pages).collect();
        assert_eq!(pages, [9_216, 8_192]);
    }

    #[test]
    fn the_filegroup_is_named_only_as_meant() {
        let on = |variant| setup("AW2019_150_AR", 150, true, variant, "/d/").pop();
        let plain = "ALTER DATABASE [AW2019_150_AR] SET ACCELERATED_DATABASE_RECOVERY = ON";
        assert_eq!(on(Variant::NoFilegroup).as_deref(), Some(plain));
        assert_eq!(on(Variant::AsPrinted).as_deref(), Some(plain));
        let meant = on(Variant::AsMeant).unwrap_or_default();
        assert!(meant.ends_with("(PERSISTENT_VERSION_STORE_FILEGROUP = [VS_AW2019_150_AR])"));
    }

    #[test]
    fn databases_without_the_option_are_left_as_they_are() {
        let statements = setup("AW2019_160", 160, false, Variant::AsMeant, "/d/");
        assert!(
            statements
                .iter()
                .all(|s| !s.contains("ACCELERATED") && !s.contains("FILEGROUP"))
        );
    }
}
