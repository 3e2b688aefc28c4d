//! What people make here: baselines, rules of alerts, settings.

use super::session::Session;
use super::{Failure, State, api, ask};
use crate::compare;
use crate::figures::index;
use crate::repository::keep::Rule;
use crate::repository::purge;
use axum::extract::{Path, State as With};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// `GET /api/baselines`.
pub async fn baselines(With(state): With<Arc<State>>) -> Result<Json<Value>, Failure> {
    let rows = ask(move || Ok(state.shared.repository.baselines()?)).await?;
    Ok(Json(json!(rows)))
}

/// A stretch to be kept under a name.
#[derive(Clone, Debug, Deserialize)]
pub struct NewBaseline {
    server: i16,
    name: String,
    from: String,
    to: String,
}

/// `POST /api/baselines`.
pub async fn make_baseline(
    With(state): With<Arc<State>>,
    Extension(session): Extension<Session>,
    Json(new): Json<NewBaseline>,
) -> Result<Json<Value>, Failure> {
    let (from, to) = api::stretch(&new.from, &new.to)?;
    if state.shared.server(new.server).is_none() {
        return Err(Failure::bad("This server is not watched."));
    }
    let name = new.name.trim().to_string();
    if name.is_empty() {
        return Err(Failure::bad("A baseline needs a name."));
    }
    let id = ask(move || {
        let stretch = state.shared.repository.stretch(new.server, from, to)?;
        if stretch.rows.is_empty() {
            return Err(Failure::bad("There are no samples in this stretch."));
        }
        let summary = compare::summary(&stretch, from, to);
        let repository = &state.shared.repository;
        Ok(repository.make_baseline(new.server, &name, &session.login, &summary)?)
    })
    .await?;
    Ok(Json(json!({"id": id})))
}

/// `DELETE /api/baselines/{id}`.
pub async fn drop_baseline(
    With(state): With<Arc<State>>,
    Path(id): Path<i64>,
) -> Result<Json<Value>, Failure> {
    ask(move || Ok(state.shared.repository.drop_baseline(id)?)).await?;
    Ok(Json(json!({"ok": true})))
}

/// `GET /api/alerts`.
pub async fn alerts(With(state): With<Arc<State>>) -> Result<Json<Value>, Failure> {
    let rows = ask(move || Ok(state.shared.repository.alerts()?)).await?;
    Ok(Json(json!(rows)))
}

/// `GET /api/rules`.
pub async fn rules(With(state): With<Arc<State>>) -> Result<Json<Value>, Failure> {
    let rows = ask(move || Ok(state.shared.repository.rules()?)).await?;
    Ok(Json(json!(rows)))
}

/// `POST /api/rules`: a new rule, or another text of one with a number.
pub async fn put_rule(
    With(state): With<Arc<State>>,
    Json(rule): Json<Rule>,
) -> Result<Json<Value>, Failure> {
    let sound = index(&rule.figure).is_some()
        && !rule.name.trim().is_empty()
        && rule.above.is_finite()
        && (0..=86_400).contains(&rule.for_s)
        && rule.id >= 0;
    if !sound {
        return Err(Failure::bad(
            "A rule needs a name, a figure, a number and a time of up to a day.",
        ));
    }
    ask(move || {
        state.shared.repository.put_rule(&rule)?;
        state.shared.alerts.refresh();
        Ok(())
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}

/// `DELETE /api/rules/{id}`.
pub async fn drop_rule(
    With(state): With<Arc<State>>,
    Path(id): Path<i64>,
) -> Result<Json<Value>, Failure> {
    ask(move || {
        state.shared.repository.drop_rule(id)?;
        state.shared.alerts.refresh();
        Ok(())
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}

/// `GET /api/settings`: what is kept for how long, and what the purge did.
pub async fn settings(With(state): With<Arc<State>>) -> Result<Json<Value>, Failure> {
    let answer = ask(move || {
        let repository = &state.shared.repository;
        let error = state.shared.purge_error.lock().clone();
        Ok(json!({
            "keep_days": purge::retention(repository)?,
            "purge_runs": repository.purge_runs()?,
            "purge_error": error,
            "masks": state.shared.masks,
        }))
    })
    .await?;
    Ok(Json(answer))
}

/// How long a table is kept.
#[derive(Clone, Debug, Deserialize)]
pub struct NewSetting {
    table: String,
    days: i64,
}

/// `POST /api/settings`.
pub async fn put_setting(
    With(state): With<Arc<State>>,
    Json(new): Json<NewSetting>,
) -> Result<Json<Value>, Failure> {
    if !(1..=36_500).contains(&new.days) {
        return Err(Failure::bad("Between a day and a hundred years."));
    }
    ask(move || {
        let repository = &state.shared.repository;
        if !purge::retention(repository)?.contains_key(&new.table) {
            return Err(Failure::bad("There is no such table."));
        }
        Ok(repository.keep_days(&new.table, new.days)?)
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}
