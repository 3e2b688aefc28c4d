//! Thresholds: a figure above a value for some time raises an alert; below it, the alert is over.
//!
//! Theory: rules are rows of the repository, read again every ten seconds; figures are those of the newest tick, so that the
//! repository may be slow without an alert coming late. An address that is told by webhook is told once when it is raised and once when
//! it is over.

use crate::figures::{FIGURES, Kind, index};
use crate::monitor::Shared;
use crate::page::serve::Teller;
use crate::repository::keep::Rule;
use crate::sampler::live::{Server, State};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

const RULES_EVERY_MS: i64 = 10_000;
/// The rule that every monitor has: a server that does not answer.
const DOWN: i64 = -1;
const DOWN_FOR_MS: i64 = 10_000;

#[derive(Debug, Default)]
struct Broken {
    rules: Vec<Rule>,
    read: i64,
    /// Since when a rule is broken, and whether it was raised, by server and rule.
    broken: BTreeMap<(i16, i64), (i64, bool)>,
}

/// The rules and which of them are broken now.
#[derive(Debug, Default)]
pub struct Alerts {
    state: Mutex<Broken>,
    /// For readers that must not wait for the repository.
    raised: AtomicUsize,
}

impl Alerts {
    /// How many are raised now.
    pub fn raised(&self) -> usize {
        self.raised.load(Ordering::Relaxed)
    }

    /// Reads the rules again at the next look.
    pub fn refresh(&self) {
        self.state.lock().read = 0;
    }

    /// Looks at every server.
    pub fn look(&self, shared: &Shared, at: i64, teller: &Teller) {
        let mut state = self.state.lock();
        if at - state.read >= RULES_EVERY_MS
            && let Ok(rules) = shared.repository.rules()
        {
            state.rules = rules;
            state.read = at;
        }
        let mut rules: Vec<Rule> = state.rules.iter().filter(|r| r.enabled).cloned().collect();
        rules.push(Rule {
            id: DOWN,
            name: "Server does not answer".into(),
            figure: String::new(),
            above: 0.0,
            for_s: DOWN_FOR_MS / 1_000,
            enabled: true,
        });
        let known = |rule: i64| rules.iter().any(|r| r.id == rule);
        state.broken.retain(|(_, rule), _| known(*rule));
        for server in &shared.servers {
            for rule in &rules {
                let (value, is_broken) = broken(server, rule);
                step(
                    &mut state, shared, server, rule, at, value, is_broken, teller,
                );
            }
        }
        let raised = state.broken.values().filter(|(_, raised)| *raised).count();
        self.raised.store(raised, Ordering::Relaxed);
    }
}

/// The value of the rule's figure, and whether it is too high. A figure that is absent breaks nothing.
fn broken(server: &Server, rule: &Rule) -> (f64, bool) {
    let live = server.live();
    if rule.id == DOWN {
        let down = matches!(
            live.state(),
            State::Frozen | State::Unreachable | State::Refused
        );
        let for_s = live.last.map_or(0.0, |last| last.elapsed().as_secs_f64());
        return (for_s, down);
    }
    let Some((tick, at)) = live.tick().zip(index(&rule.figure)) else {
        return (f64::NAN, false);
    };
    let value = match FIGURES.get(at).map(|figure| figure.kind) {
        Some(Kind::Counter) => tick.values.at(at).unwrap_or(f64::NAN) * 1_000.0 / tick.dt_ms as f64,
        _ => tick.values.at(at).unwrap_or(f64::NAN),
    };
    (value, value > rule.above)
}

fn step(
    state: &mut Broken,
    shared: &Shared,
    server: &Server,
    rule: &Rule,
    at: i64,
    value: f64,
    is_broken: bool,
    teller: &Teller,
) {
    let key = (server.id, rule.id);
    let since = state.broken.get(&key).copied();
    match (is_broken, since) {
        (true, None) => {
            state.broken.insert(key, (at, false));
        }
        (true, Some((since, false))) if at - since >= rule.for_s * 1_000 => {
            let name = server.live().name.clone();
            let words = match rule.id {
                DOWN => format!("{name}: no answer for {value:.0} s."),
                _ => format!(
                    "{name}: {} is {value:.1}, above {} for {} s.",
                    rule.figure, rule.above, rule.for_s
                ),
            };
            // Not stored now, it is tried again with the next look: an alert is not lost to a slow repository.
            if shared
                .repository
                .raise(server.id, rule, at, value, &words)
                .is_ok()
            {
                state.broken.insert(key, (since, true));
                teller.tell(&json!({"alert": rule.name, "state": "raised", "server": name,
                    "figure": rule.figure, "value": value, "at": crate::sql::utc(at), "words": words,
                    "page": format!("/?server={}&to={}", server.id, at)}));
            }
        }
        (false, Some((_, true))) if shared.repository.clear(server.id, rule.id, at).is_ok() => {
            state.broken.remove(&key);
            let name = server.live().name.clone();
            teller.tell(
                &json!({"alert": rule.name, "state": "cleared", "server": name,
                "at": crate::sql::utc(at)}),
            );
        }
        (false, Some((_, false))) => {
            state.broken.remove(&key);
        }
        _ => {}
    }
}
