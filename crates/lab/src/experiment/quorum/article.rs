//! The article's two scenarios, step by step: the share and the second node go, with that node's vote and without.
//!
//! | verdict | means |
//! |---|---|
//! | matches | every cell is what the article says |
//! | differs | it is what this cluster is known to do otherwise, for the reason that is given |
//! | missed | it is neither |

use super::bed::Bed;
use super::published::{Act, STEPS, Shown, Step};
use super::seen::Seen;
use super::sit;
use crate::experiment::{Lab, LabError};
use crate::report::{Section, Table, Verdict};
use serde_json::json;
use std::time::Instant;

const CLUSTER: &str = "ASTCL-DUO";
const BATMAN: &str = "Batman";
const ROBIN: &str = "Robin";

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Matches,
    Differs(&'static str),
    Missed,
}

impl Found {
    fn of(step: &Step, shown: Option<Shown>, windows_rules: bool) -> Found {
        match (shown, step.why(windows_rules)) {
            (Some(shown), _) if shown == step.published => Found::Matches,
            (Some(shown), Some(why)) if shown == step.expected(windows_rules) => {
                Found::Differs(why)
            }
            _ => Found::Missed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Found::Matches => "matches",
            Found::Differs(_) => "differs",
            Found::Missed => "missed",
        }
    }

    const fn verdict(self) -> Verdict {
        match self {
            Found::Matches => Verdict::Good,
            Found::Differs(_) => Verdict::Plain,
            Found::Missed => Verdict::Bad,
        }
    }
}

/// Plays all steps.
pub fn play(
    lab: &mut Lab,
    windows_rules: bool,
    sit_s: u64,
    until: Instant,
) -> Result<(), LabError> {
    let mut bed = Bed::new(lab, CLUSTER, until)?;
    let mut kept = Vec::new();
    for step in &STEPS {
        act(lab, &mut bed, step.act, windows_rules)?;
        lab.step(step.name);
        let expected = step.expected(windows_rules);
        let (seen, goes_on) = observe(lab, &bed, expected)?;
        if goes_on && step.act == Act::ShareOff {
            sit(lab, &bed, sit_s)?;
        }
        let goes_on = goes_on && bed.has_quorum(lab, true)?;
        let shown = shown(&seen, goes_on);
        let found = Found::of(step, shown, windows_rules);
        kept.push(json!({
            "step": step.name, "published": step.published, "observed": shown, "seen": seen, "verdict": found.word(),
        }));
        lab.report.figure(
            step.name,
            found.word(),
            format!("published: the cluster {}", state(step.published.goes_on)),
            found.verdict(),
        );
        lab.publish(section(step, &seen, goes_on, found));
    }
    lab.report.keep("article", json!(kept));
    Ok(())
}

fn act(lab: &Lab, bed: &mut Bed, act: Act, windows_rules: bool) -> Result<(), LabError> {
    let robin = bed.place(ROBIN);
    match act {
        Act::Begin => {
            bed.add(lab, BATMAN)?;
            bed.add(lab, ROBIN)?;
            if windows_rules {
                bed.tell(lab, &["windows-rules", "on"])?;
            }
            let share = bed.share();
            bed.tell(lab, &["set-witness", &share.to_string_lossy()])
        }
        Act::StopRobin => robin.map_or(Ok(()), |robin| bed.stop(robin)),
        Act::ShareOff => bed.share_off(),
        Act::Again => {
            bed.share_on()?;
            if let Some(robin) = robin {
                bed.start(robin)?;
            }
            bed.tell(lab, &["node-weight", ROBIN, "0"])
        }
    }
}

/// What the cluster shows when it has come to rest, and whether it can agree on anything.
fn observe(lab: &Lab, bed: &Bed, expected: Shown) -> Result<(Seen, bool), LabError> {
    let (_, is_as_expected) = bed.await_steady(lab, |seen| {
        seen.quorum == expected.goes_on && shown(seen, expected.goes_on) == Some(expected)
    })?;
    let goes_on = bed.has_quorum(lab, expected.goes_on && is_as_expected)?;
    let (seen, _) = bed.await_steady(lab, |seen| seen.quorum == goes_on)?;
    Ok((seen, goes_on))
}

/// `None`: what the article has all the time is not so.
fn shown(seen: &Seen, goes_on: bool) -> Option<Shown> {
    let (batman, robin) = (seen.node(BATMAN)?, seen.node(ROBIN)?);
    let is_steady = seen.dynamic_quorum
        && batman.is_up()
        && (batman.dynamic_weight, batman.node_weight) == (1, 1);
    is_steady.then_some(Shown {
        witness_dynamic_weight: seen.witness_dynamic_weight,
        robin_dynamic_weight: robin.dynamic_weight,
        robin_node_weight: robin.node_weight,
        robin_is_up: robin.is_up(),
        goes_on,
    })
}

const fn state(goes_on: bool) -> &'static str {
    if goes_on { "goes on" } else { "shuts down" }
}

fn section(step: &Step, seen: &Seen, goes_on: bool, found: Found) -> Section {
    let mut section = Section {
        title: step.name.to_string(),
        ..Section::default()
    };
    let witness = seen.witness.as_ref().map_or("none", |w| &w.state);
    section.text(format!(
        "Verdict: {}. The cluster {}; the witness: {witness}.",
        found.word(),
        state(goes_on)
    ));
    section.table(cluster_table(step, seen, goes_on));
    section.table(nodes_table(step, seen));
    match found {
        Found::Differs(why) => section.notice(why),
        Found::Missed => {
            section.notice("Neither what the article says nor what was expected here.")
        }
        Found::Matches => {}
    }
    if !goes_on {
        section.text("Without a quorum this is what the node that still runs knew last.");
    }
    section
}

/// An observed row, the published one beside it, and a mark where they differ.
fn pair(table: &mut Table, mut observed: Vec<String>, published: &[String]) {
    let mark = if observed == published { "" } else { "differs" };
    observed.push(mark.into());
    table.measured(observed);
    let cells = published.iter().map(String::as_str).chain([""]);
    table.published(&cells.collect::<Vec<_>>());
}

fn cluster_table(step: &Step, seen: &Seen, goes_on: bool) -> Table {
    let columns = [
        "Name",
        "DynamicQuorum",
        "WitnessDynamicWeight",
        "Cluster",
        "",
    ];
    let mut table = Table::new("Get-Cluster", &columns);
    let row = |name: &str, quorum: bool, weight: u8, goes_on: bool| {
        let quorum = u8::from(quorum).to_string();
        let texts = [name.to_string(), quorum, weight.to_string()];
        texts.into_iter().chain([state(goes_on).into()]).collect()
    };
    let weight = seen.witness_dynamic_weight;
    let observed: Vec<String> = row(&seen.name, seen.dynamic_quorum, weight, goes_on);
    let told = step.published;
    let published: Vec<String> = row(CLUSTER, true, told.witness_dynamic_weight, told.goes_on);
    pair(&mut table, observed, &published);
    table
}

fn nodes_table(step: &Step, seen: &Seen) -> Table {
    let columns = ["NodeName", "DynamicWeight", "NodeWeight", "State", ""];
    let mut table = Table::new("Get-ClusterNode", &columns);
    let told = step.published;
    let up = |is_up: bool| if is_up { "Up" } else { "Down" };
    let robin = (told.robin_dynamic_weight, told.robin_node_weight);
    for (name, (dynamic, node), is_up) in [(BATMAN, (1, 1), true), (ROBIN, robin, told.robin_is_up)]
    {
        let row = |dynamic: u8, node: u8, state: &str| -> Vec<String> {
            vec![
                name.into(),
                dynamic.to_string(),
                node.to_string(),
                state.into(),
            ]
        };
        let observed = seen.node(name).map_or_else(
            || vec![name.into(), "-".into(), "-".into(), "-".into()],
            |n| row(n.dynamic_weight, n.node_weight, &n.state),
        );
        pair(&mut table, observed, &row(dynamic, node, up(is_up)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_difference_is_no_match_and_a_surprise_is_missed() {
        let stopped = &STEPS[1];
        let told = stopped.published;
        assert_eq!(Found::of(stopped, Some(told), true), Found::Matches);
        let ours = stopped.expected(false);
        assert!(matches!(
            Found::of(stopped, Some(ours), false),
            Found::Differs(_)
        ));
        assert_eq!(Found::of(stopped, Some(ours), true), Found::Missed);
        let surprise = Shown {
            goes_on: false,
            ..ours
        };
        assert_eq!(Found::of(stopped, Some(surprise), false), Found::Missed);
        assert_eq!(Found::of(stopped, None, false), Found::Missed);
    }
}
