//! Objects that a statement reads and changes, gathered while it is planned, and whether the session may.
//!
//! Theory: every object that a name resolves to is noted, with the columns that are read of it. A change is asked for the
//! right to change of what its plan writes through: views, the outermost first, and the table. So no other name for them (a
//! derived table, a common table expression) avoids it. One of these that belongs to the owner of the one before it is not
//! asked for, whatever else the statement does with it. The plan tells which columns of the table are set. Columns are looked
//! at only where one has a permission of its own.

use super::rights::DBO;
use super::{Execution, Securable, owner_of};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{ColumnDef, Object, ObjectKind, SchemaId, names_equal};
use std::sync::Arc;

/// An object that the statement being planned reads or changes.
pub(super) struct Need {
    database: DatabaseId,
    object: Arc<Object>,
    /// Its owner is that of the module or view that names it.
    chained: bool,
    /// Named by a view, not by the statement.
    within_view: bool,
    /// Ids of the columns that are read.
    columns: Vec<i32>,
}

/// Which columns of an object a permission is asked for.
#[derive(Clone)]
pub(crate) enum Columns {
    All,
    /// None of them in particular when the list is empty.
    Listed(Vec<i32>),
}

/// Database and id of an object.
pub(crate) type ObjectKey = (DatabaseId, i32);

impl Need {
    fn key(&self) -> ObjectKey {
        (self.database, self.object.id)
    }
}

impl Target {
    fn key(&self) -> ObjectKey {
        (self.database, self.object.id)
    }
}

/// Object that a statement changes.
pub(super) struct ChangedObject {
    /// The table or view that it names; `None` for common table expressions, derived and temporary tables.
    pub(super) named: Option<ObjectKey>,
    /// The table of OUTPUT INTO.
    pub(super) into: Option<ObjectKey>,
    /// Several of a MERGE.
    pub(super) permissions: Vec<&'static str>,
    /// Names of the columns that UPDATE sets.
    pub(super) sets: Vec<String>,
    pub(super) reads: Reads,
}

/// What the plan of a change writes to, whatever the statement calls it.
pub(crate) struct Written {
    /// Views, the outermost first, and the table; nothing for a temporary table or a variable.
    pub(crate) through: Vec<ObjectKey>,
    /// Ids of the columns of the last of them that UPDATE sets; none where only variables are set.
    pub(crate) sets: Vec<i32>,
}

/// An object of which the right to change is asked.
struct Target {
    database: DatabaseId,
    object: Arc<Object>,
    /// Columns for UPDATE.
    sets: Columns,
    reads: Reads,
}

/// Extent of a statement's reading of the table that it changes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reads {
    Nothing,
    /// The columns noted while it was planned.
    Noted,
    /// OUTPUT and assignments to variables are not noted.
    All,
}

impl Execution<'_> {
    /// Plans a statement and checks that it may be run.
    pub(crate) fn with_access<T>(
        &self,
        statement: Option<&daruma_syntax::ast::StatementKind>,
        prepare: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.with_access_to_change(statement, prepare, |_| None)
    }

    /// The same for a change; `written` tells what the plan writes to.
    pub(crate) fn with_access_to_change<T>(
        &self,
        statement: Option<&daruma_syntax::ast::StatementKind>,
        prepare: impl FnOnce() -> Result<T>,
        written: impl FnOnce(&T) -> Option<Written>,
    ) -> Result<T> {
        if self.is_unlimited() {
            return prepare();
        }
        // The database itself must be open to the session, whatever is read.
        self.state.rights(self.current_database())?;
        let outer = self.state.access.needs.take();
        let planned = prepare();
        let needs = self.state.access.needs.replace(outer);
        let planned = planned?;
        let changed = statement.and_then(|s| self.changed_object(s));
        self.check_needs(&needs, changed.as_ref(), written(&planned).as_ref())?;
        Ok(planned)
    }

    /// What a change that is not planned says that it writes to.
    pub(crate) fn written_by_name(
        &self,
        statement: &daruma_syntax::ast::StatementKind,
    ) -> Option<Written> {
        let changed = self.changed_object(statement)?;
        let (database, id) = changed.named?;
        let catalog = self.state.catalog(database).ok()?;
        let sets = match column_ids(catalog.object(id)?, &changed.sets) {
            Columns::Listed(ids) => ids,
            Columns::All => Vec::new(),
        };
        Some(Written {
            through: vec![(database, id)],
            sets,
        })
    }

    /// Binds what is not run: nothing is asked for it.
    pub(crate) fn unasked<T>(&self, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        let outer = self.state.access.needs.take();
        let bound = bind();
        self.state.access.needs.replace(outer);
        bound
    }

    /// Binds the text of a definition that is to be in this schema.
    pub(crate) fn with_text_in<T>(
        &self,
        database: DatabaseId,
        schema: SchemaId,
        bind: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let texts = &self.state.access.texts;
        texts.borrow_mut().push((database, schema));
        let bound = bind();
        texts.borrow_mut().pop();
        bound
    }

    /// Called for every object that a name resolves to.
    pub(crate) fn note_use(&self, database: DatabaseId, object: &Arc<Object>) -> Result<()> {
        // Who may write to a table may do what its definition does.
        if self.is_unlimited() || self.state.access.stored.get() > 0 {
            return Ok(());
        }
        let chained = self.is_chained(database, object)?;
        self.state.access.needs.borrow_mut().push(Need {
            database,
            object: object.clone(),
            chained,
            within_view: !self.state.access.views.borrow().is_empty(),
            columns: Vec::new(),
        });
        Ok(())
    }

    /// Called for every column of an object that a name resolves to.
    pub(crate) fn note_column_use(&self, database: DatabaseId, object: i32, column: i32) {
        if self.is_unlimited() {
            return;
        }
        let mut needs = self.state.access.needs.borrow_mut();
        let of_object =
            |n: &&mut Need| !n.chained && n.database == database && n.object.id == object;
        for need in needs.iter_mut().filter(of_object) {
            // No right is asked for on names in the text of a view of the same owner.
            let in_chain = self.is_chained(database, &need.object).unwrap_or(false);
            if !in_chain && !need.columns.contains(&column) {
                need.columns.push(column);
            }
        }
    }

    /// Does whatever names the object belong to its owner?
    pub(crate) fn is_chained(&self, database: DatabaseId, object: &Object) -> Result<bool> {
        let view = self.state.access.views.borrow().last().copied();
        let outer = match view {
            Some(view) => Some(view),
            None => self.module_owner()?,
        };
        self.is_chained_to(outer, database, object)
    }

    /// The same of what somebody of this database and owner names.
    fn is_chained_to(
        &self,
        outer: Option<(DatabaseId, i32)>,
        database: DatabaseId,
        object: &Object,
    ) -> Result<bool> {
        let catalog = self.state.catalog(database)?;
        let Some((from, outer)) = outer else {
            return Ok(false);
        };
        let owner = owner_of(&catalog, object.schema_id);
        if from == database {
            return Ok(outer == owner);
        }
        if !self.state.is_same_owner((from, outer), (database, owner)) {
            return Ok(false);
        }
        // Who may not enter the database is told so.
        self.state.rights(database).map(|_| true)
    }

    /// Database and owner of the running procedure or trigger; one of definitions has no owner.
    fn module_owner(&self) -> Result<Option<(DatabaseId, i32)>> {
        let module = {
            let frames = self.state.frames.borrow();
            frames
                .last()
                .filter(|f| f.kind.is_module() && f.event.is_none())
                .map(|f| (f.home, f.schema_id))
        };
        let Some((database, schema)) = module else {
            return Ok(None);
        };
        let catalog = self.state.catalog(database)?;
        Ok(Some((database, owner_of(&catalog, schema))))
    }

    pub(crate) fn enter_view_of(&self, database: DatabaseId, object: &Object) {
        let catalog = self.state.catalog(database);
        let owner = catalog.map_or(DBO, |c| owner_of(&c, object.schema_id));
        self.state.access.views.borrow_mut().push((database, owner));
        let text = (database, object.schema_id);
        self.state.access.texts.borrow_mut().push(text);
    }

    pub(crate) fn leave_view_of(&self) {
        self.state.access.views.borrow_mut().pop();
        self.state.access.texts.borrow_mut().pop();
    }

    /// Binds an expression of a table's definition, whose names were asked for when it was made.
    pub(crate) fn enter_stored_text(&self) {
        let stored = &self.state.access.stored;
        stored.set(stored.get() + 1);
    }

    pub(crate) fn leave_stored_text(&self) {
        let stored = &self.state.access.stored;
        stored.set(stored.get().saturating_sub(1));
    }

    fn check_needs(
        &self,
        needs: &[Need],
        changed: Option<&ChangedObject>,
        written: Option<&Written>,
    ) -> Result<()> {
        let shows_plan = self.state.settings.borrow().shows_plans();
        let mut targets = self.targets(changed, written)?;
        let permissions = changed.map_or(&[][..], |c| c.permissions.as_slice());
        let mut into = changed.and_then(|c| c.into);
        for need in needs {
            if shows_plan {
                self.needs_in(need.database, "SHOWPLAN")?;
            }
            if need.chained {
                continue;
            }
            let at = targets.iter().position(|t| t.key() == need.key());
            match at.map(|at| targets.remove(at)) {
                Some(target) => self.check_target(&target, permissions, Some(need))?,
                None if into.take_if(|o| *o == need.key()).is_some() => {
                    self.check_object(need.database, &need.object, "INSERT")?
                }
                None => {
                    let read = Columns::Listed(need.columns.clone());
                    let use_of = match need.object.type_code() {
                        "FN" => "EXECUTE",
                        _ => "SELECT",
                    };
                    self.check_columns(need.database, &need.object, use_of, read)?
                }
            }
        }
        // None is passed by because no name was seen to mean it.
        let mut left = targets.iter();
        left.try_for_each(|target| self.check_target(target, permissions, None))
    }

    /// Objects of which the right to change is asked: what the plan writes through, without what belongs to the owner of whatever
    /// names it there.
    fn targets(
        &self,
        changed: Option<&ChangedObject>,
        written: Option<&Written>,
    ) -> Result<Vec<Target>> {
        let (Some(changed), Some(written)) = (changed, written) else {
            return Ok(Vec::new());
        };
        let mut outer = self.module_owner()?;
        let mut targets = Vec::new();
        for (place, (database, id)) in written.through.iter().enumerate() {
            let catalog = self.state.catalog(*database)?;
            // It may have gone since the statement was planned, which starts anew then.
            let gone = || messages::error(2801, &[id]);
            let object = catalog.object(*id).ok_or_else(gone)?;
            if !self.is_chained_to(outer, *database, object)? {
                let is_last = place + 1 == written.through.len();
                targets.push(Target {
                    database: *database,
                    object: object.clone(),
                    sets: match is_last {
                        true if written.sets.is_empty() => Columns::All,
                        true => Columns::Listed(written.sets.clone()),
                        // Names are the view's own only where the statement names it.
                        false if changed.named == Some((*database, *id)) => {
                            column_ids(object, &changed.sets)
                        }
                        false => Columns::All,
                    },
                    reads: match changed.reads {
                        // The text of the view above it reads it, which that of an INSERT does for nobody.
                        Reads::Nothing if place > 0 && changed.permissions != ["INSERT"] => {
                            Reads::Noted
                        }
                        reads => reads,
                    },
                });
            }
            outer = Some((*database, owner_of(&catalog, object.schema_id)));
        }
        Ok(targets)
    }

    /// `need` has the columns that are read of it; all may be where there is none.
    fn check_target(
        &self,
        target: &Target,
        permissions: &[&str],
        need: Option<&Need>,
    ) -> Result<()> {
        let check = |permission, columns| {
            self.check_columns(target.database, &target.object, permission, columns)
        };
        for permission in permissions {
            match *permission {
                "UPDATE" => check("UPDATE", target.sets.clone())?,
                other => self.check_object(target.database, &target.object, other)?,
            }
        }
        match (target.reads, need) {
            (Reads::Nothing, _) => Ok(()),
            (Reads::Noted, Some(need)) => check("SELECT", Columns::Listed(need.columns.clone())),
            (Reads::Noted, None) | (Reads::All, _) => check("SELECT", Columns::All),
        }
    }

    /// Errors 229 and, where columns have permissions of their own, 230 for each column that is refused.
    pub(crate) fn check_columns(
        &self,
        database: DatabaseId,
        object: &Object,
        permission: &str,
        columns: Columns,
    ) -> Result<()> {
        let rights = self.state.rights(database)?;
        if !rights.has_column_entries(permission, object.id) {
            return self.check_object(database, object, permission);
        }
        let catalog = self.state.catalog(database)?;
        let on = Securable::of(object);
        let all = columns_of(object);
        let may = |id: i32| rights.may_column(&catalog, permission, on, id);
        let wanted: Vec<&ColumnDef> = match &columns {
            Columns::Listed(ids) if ids.is_empty() => {
                return match all.iter().any(|c| may(c.id)) {
                    true => Ok(()),
                    false => self.check_object(database, object, permission),
                };
            }
            Columns::Listed(ids) => all.iter().filter(|c| ids.contains(&c.id)).collect(),
            Columns::All => all.iter().collect(),
        };
        let refused = wanted.into_iter().filter(|c| !may(c.id));
        let errors = refused.map(|c| self.column_refusal(database, object, permission, &c.name));
        match errors.reduce(SqlError::followed) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Plans the query of a module that binds what it names: whoever defines it needs REFERENCES on that, whoever owns it.
    pub(crate) fn with_references<T>(&self, prepare: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_unlimited() {
            return prepare();
        }
        let outer = self.state.access.needs.take();
        let planned = prepare();
        let needs = self.state.access.needs.replace(outer);
        let planned = planned?;
        for need in needs.iter().filter(|n| !n.within_view) {
            let columns = Columns::Listed(need.columns.clone());
            self.check_columns(need.database, &need.object, "REFERENCES", columns)
                .map_err(|e| e.followed(messages::error_state(1088, 18, &[&need.object.name])))?;
        }
        Ok(planned)
    }

    /// For a foreign key; `None`: not all columns are named, or they are not there.
    pub(crate) fn check_references(
        &self,
        database: DatabaseId,
        object: &Object,
        columns: Option<Vec<i32>>,
    ) -> Result<()> {
        let columns = match columns {
            Some(ids) if !ids.is_empty() => Columns::Listed(ids),
            _ => Columns::All,
        };
        self.check_columns(database, object, "REFERENCES", columns)
    }

    fn column_refusal(
        &self,
        database: DatabaseId,
        object: &Object,
        permission: &str,
        column: &str,
    ) -> SqlError {
        let catalog = self.state.catalog(database).ok();
        let schema = catalog.and_then(|c| c.schema(object.schema_id).map(|s| s.name.clone()));
        let schema = schema.unwrap_or_default();
        let database = self.database_text(database);
        messages::error(
            230,
            &[&permission, &column, &object.name, &database, &schema],
        )
    }

    /// Error 229 unless the session has the permission on the object.
    pub(crate) fn check_object(
        &self,
        database: DatabaseId,
        object: &Object,
        permission: &str,
    ) -> Result<()> {
        let rights = self.state.rights(database)?;
        let catalog = self.state.catalog(database)?;
        if rights.may(&catalog, permission, Securable::of(object)) {
            return Ok(());
        }
        let name = self.state.instance.database(database);
        let name = name.map_or(String::new(), |d| d.name());
        let schema = catalog.schema(object.schema_id);
        let schema = schema.map_or(String::new(), |s| s.name.clone());
        Err(messages::error_state(
            229,
            5,
            &[&permission, &object.name, &name, &schema],
        ))
    }

    /// Error 229 unless the session may execute the procedure.
    pub(crate) fn check_execute(&self, database: DatabaseId, object: &Arc<Object>) -> Result<()> {
        match self.is_unlimited() || self.is_chained(database, object)? {
            true => Ok(()),
            false => self.check_object(database, object, "EXECUTE"),
        }
    }
}

/// Columns of a table or view.
pub(crate) fn columns_of(object: &Object) -> &[ColumnDef] {
    match &object.kind {
        ObjectKind::Table(def) => &def.columns,
        ObjectKind::View(module) => &module.columns,
        _ => &[],
    }
}

/// All of them when a name is not the object's own: it is that of a common table expression.
fn column_ids(object: &Object, names: &[String]) -> Columns {
    let id = |name: &String| {
        let column = columns_of(object)
            .iter()
            .find(|c| names_equal(&c.name, name));
        column.map(|c| c.id)
    };
    match names.iter().map(id).collect::<Option<Vec<i32>>>() {
        Some(ids) if !ids.is_empty() => Columns::Listed(ids),
        _ => Columns::All,
    }
}
