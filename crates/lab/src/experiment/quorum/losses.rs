//! Which losses are survived: clusters of two nodes and more, with and without a witness, lose nodes by SIGKILL.
//!
//! Theory: which member is lost matters only by whether it has a vote just then, so each kind is lost once. After a loss that is survived the
//! votes must be those that the rules give to what is left, and the next loss comes when they are. After each path everything is
//! started again.
//!
//! A busy machine keeps a node from answering for longer than it takes to be given up; the votes are then others than the loss was chosen by.
//! So a path that ends otherwise than expected is played again, and the report says so.

use super::bed::Bed;
use super::published::{Path, ROWS, Row, SHARE_PATHS, Who};
use super::seen::{Seen, Votes};
use crate::experiment::{Lab, LabError};
use crate::report::{Section, Table, Verdict};
use serde::Serialize;
use serde_json::json;
use std::time::Instant;

const CLUSTER: &str = "LAB";
/// A path that ended otherwise than expected is played again, so many times in all.
const TRIES_MAX: u32 = 3;

/// What was lost, and what became of the cluster.
#[derive(Clone, Debug, Serialize)]
struct Loss {
    lost: Vec<String>,
    before: Votes,
    after: Votes,
    survived: bool,
    /// Votes are as the rules say, or there is no quorum where none was expected.
    as_expected: bool,
}

/// A path as it went.
#[derive(Clone, Debug, Serialize)]
struct Played {
    losses: Vec<Loss>,
    tries: u32,
}

impl Played {
    fn survived(&self) -> bool {
        self.losses.iter().all(|l| l.survived)
    }

    fn is_as_expected(&self) -> bool {
        self.losses.iter().all(|l| l.as_expected)
    }
}

/// Plays the rows of up to so many nodes, and a share that goes beside two.
pub fn play(lab: &mut Lab, nodes_max: usize, until: Instant) -> Result<(), LabError> {
    let mut bed = Bed::new(lab, CLUSTER, until)?;
    let mut table = Table::new(
        "Survived?",
        &["Cluster", "One loss", "Then another", "Two at once", ""],
    );
    let mut details = losses_table();
    let mut kept = Vec::new();
    for row in ROWS.iter().filter(|r| r.nodes <= nodes_max) {
        arrange(lab, &mut bed, row)?;
        let mut all = Vec::new();
        for path in row.paths {
            let played = play_path(lab, &mut bed, row, path)?;
            list(&mut details, &row.name(), &played);
            all.push(played);
        }
        let cells = cells(&all);
        let as_expected = all.iter().all(Played::is_as_expected);
        let matches = as_expected && cells == row.published;
        judge(lab, row, &cells, matches);
        let mark = if matches { "matches" } else { "missed" };
        let name = row.name();
        let observed = [&name[..]].into_iter().chain(cells).chain([mark]);
        table.measured(observed.map(String::from).collect());
        let published = [&name[..]].into_iter().chain(row.published);
        table.published(&published.chain([""]).collect::<Vec<_>>());
        kept.push(json!({
            "cluster": name, "published": row.published, "observed": cells, "paths": all, "matches": matches,
        }));
        if row.nodes == 2 && row.witness {
            play_share(lab, &mut bed, row)?;
        }
    }
    table.note = "Losses of nodes, by SIGKILL. 50/50: it depends on which one. Of two nodes nobody is left after two losses, so there is \
                  nothing to be asked."
        .into();
    lab.report.keep("losses", json!(kept));
    let mut section = Section {
        title: "Losses of nodes".into(),
        ..Section::default()
    };
    section.text("Each kind of loss is played: with a vote, without one; one after the other, and at once. A loss is survived if the rest agrees to something new.");
    section.table(table);
    section.table(details);
    lab.publish(section);
    Ok(())
}

/// A share that goes beside these two nodes, in each order.
fn play_share(lab: &mut Lab, bed: &mut Bed, row: &Row) -> Result<(), LabError> {
    let paths = match lab.quick {
        true => &SHARE_PATHS[..2],
        false => &SHARE_PATHS,
    };
    let mut table = losses_table();
    let mut kept = Vec::new();
    for path in paths {
        let played = play_path(lab, bed, row, path)?;
        list(&mut table, &row.name(), &played);
        let names: Vec<String> = played.losses.iter().map(|l| l.lost.join(" and ")).collect();
        lab.report.figure(
            format!("Lost: {}", names.join(", then ")),
            survival(played.survived()),
            format!("expected: {}", survival(path.survives)),
            Verdict::of(played.is_as_expected()),
        );
        kept.push(json!({"expected": path.survives, "played": played}));
    }
    lab.report.keep("share", json!(kept));
    let mut section = Section {
        title: "Two nodes and a share that goes".into(),
        ..Section::default()
    };
    section.text("Votes follow a loss only while there is a quorum, so the order matters: the share and then the node without a vote is survived, a node and then the share never is.");
    section.table(table);
    lab.publish(section);
    Ok(())
}

/// As many nodes as the row has, and its witness.
fn arrange(lab: &Lab, bed: &mut Bed, row: &Row) -> Result<(), LabError> {
    lab.step(row.name());
    // What the last row has lost is back first: without a quorum nobody joins.
    start_all(bed)?;
    bed.has_quorum(lab, true)?;
    for number in bed.count()..row.nodes {
        bed.add(lab, &format!("NODE{}", number + 1))?;
    }
    let share = bed.share().to_string_lossy().into_owned();
    let place = if row.witness { &share } else { "none" };
    bed.tell(lab, &["set-witness", place])
}

/// Plays a path, again if it ended otherwise than expected.
fn play_path(lab: &mut Lab, bed: &mut Bed, row: &Row, path: &Path) -> Result<Played, LabError> {
    let mut tries = 1;
    loop {
        let losses = try_path(lab, bed, row, path)?;
        let played = Played { losses, tries };
        if played.is_as_expected() || tries >= TRIES_MAX {
            return Ok(played);
        }
        lab.notice(format!(
            "{}, {}: played again, as it ended otherwise than expected.",
            row.name(),
            described(&played)
        ));
        tries += 1;
    }
}

fn try_path(lab: &Lab, bed: &mut Bed, row: &Row, path: &Path) -> Result<Vec<Loss>, LabError> {
    heal(lab, bed, row)?;
    let mut losses = Vec::new();
    for (at, kinds) in path.losses.iter().enumerate() {
        let survives = path.survives || at + 1 < path.losses.len();
        let loss = lose(lab, bed, kinds, survives)?;
        let goes_on = loss.survived;
        losses.push(loss);
        if !goes_on {
            break;
        }
    }
    Ok(losses)
}

fn start_all(bed: &mut Bed) -> Result<(), LabError> {
    bed.share_on()?;
    (0..bed.count()).try_for_each(|node| bed.start(node))
}

/// Everything runs, and the votes are those of a whole cluster.
fn heal(lab: &Lab, bed: &mut Bed, row: &Row) -> Result<(), LabError> {
    lab.step(format!("{}: all of them up", row.name()));
    start_all(bed)?;
    let votes = Votes::after(row.nodes, row.witness);
    let (seen, is_whole) = bed.await_steady(lab, |seen| {
        seen.quorum
            && seen.leader.is_some()
            && seen.up() == row.nodes
            && seen.has_witness() == row.witness
            && seen.votes() == votes
    })?;
    match is_whole {
        true => Ok(()),
        false => Err(LabError::Unexpected(format!(
            "{} did not come back: votes {} where {} were expected, {} up",
            row.name(),
            seen.votes().text(),
            votes.text(),
            seen.up()
        ))),
    }
}

fn lose(lab: &Lab, bed: &mut Bed, kinds: &[Who], survives: bool) -> Result<Loss, LabError> {
    let seen = bed.look().unwrap_or_default();
    let share = kinds.contains(&Who::Share);
    let (victims, names) = choose(bed, &seen, kinds);
    let lost = match share {
        true => [names.clone(), vec!["the share".into()]].concat(),
        false => names.clone(),
    };
    lab.step(format!("losing {}", lost.join(" and ")));
    let at_once = bed.lose(&victims, share)?;
    let up = seen.up().saturating_sub(victims.len());
    let wanted = Votes::after(up, seen.has_witness() && !share);
    let is_known_down = |seen: &Seen| {
        let is_down = |name: &String| seen.node(name).is_some_and(|n| !n.is_up());
        names.iter().all(is_down)
    };
    let mut as_expected = at_once && victims.len() + usize::from(share) == kinds.len();
    if survives {
        let follows = |seen: &Seen| seen.quorum && is_known_down(seen) && seen.votes() == wanted;
        as_expected &= bed.await_steady(lab, follows)?.1;
    }
    let survived = bed.has_quorum(lab, survives && as_expected)?;
    let (after, _) = bed.await_steady(lab, |seen| seen.quorum == survived)?;
    Ok(Loss {
        lost,
        before: seen.votes(),
        after: after.votes(),
        survived,
        as_expected: as_expected && survived == survives,
    })
}

/// Nodes of these kinds, the leader first.
fn choose(bed: &Bed, seen: &Seen, kinds: &[Who]) -> (Vec<usize>, Vec<String>) {
    let mut nodes: Vec<_> = seen.nodes.iter().filter(|n| n.is_up()).collect();
    nodes.sort_by_key(|n| seen.leader.as_ref() != Some(&n.name));
    let mut names: Vec<String> = Vec::new();
    for kind in kinds.iter().filter(|k| **k != Who::Share) {
        let has_vote = u8::from(*kind == Who::Voter);
        let mut fits = nodes.iter().filter(|n| n.dynamic_weight == has_vote);
        let found = fits.find(|n| !names.contains(&n.name));
        names.extend(found.map(|n| n.name.clone()));
    }
    let places = names.iter().filter_map(|n| bed.place(n)).collect();
    (places, names)
}

/// What the paths of a row say together.
fn cells(all: &[Played]) -> [&'static str; 3] {
    let one = all.iter().filter_map(|p| p.losses.first());
    let one = one.filter(|l| l.lost.len() == 1).map(|l| l.survived);
    let then = all.iter().filter_map(|p| p.losses.get(1));
    let then = then.map(|l| l.survived);
    let both = all.iter().filter_map(|p| p.losses.first());
    let both = both.filter(|l| l.lost.len() == 2).map(|l| l.survived);
    [word(one), word(then), word(both)]
}

fn word(survived: impl Iterator<Item = bool>) -> &'static str {
    let (mut some, mut none) = (false, true);
    let mut all = true;
    for one in survived {
        some |= one;
        all &= one;
        none &= !one;
    }
    match (some && all, none) {
        (true, _) => "yes",
        (_, true) => "no",
        _ => "50/50",
    }
}

fn judge(lab: &mut Lab, row: &Row, cells: &[&str; 3], matches: bool) {
    lab.report.figure(
        format!("{}: one, then another, two at once", row.name()),
        cells.join(", "),
        format!("published: {}", row.published.join(", ")),
        Verdict::of(matches),
    );
}

const fn survival(survived: bool) -> &'static str {
    if survived { "survived" } else { "no quorum" }
}

fn described(played: &Played) -> String {
    let losses = played.losses.iter().map(|l| {
        let (lost, after) = (l.lost.join(" and "), l.after.text());
        format!("{lost} lost: {}, votes {after}", survival(l.survived))
    });
    losses.collect::<Vec<_>>().join("; ")
}

fn losses_table() -> Table {
    let columns = ["Cluster", "Lost", "Votes before", "Votes after", "", ""];
    let mut table = Table::new("Losses as they were played", &columns);
    table.note = "Votes: of nodes + of the witness. Where there is no quorum they stay as they were, as nobody may change them.".into();
    table
}

fn list(table: &mut Table, cluster: &str, played: &Played) {
    for (at, loss) in played.losses.iter().enumerate() {
        let name = if at == 0 { cluster } else { "    then" };
        let mark = match (loss.as_expected, played.tries) {
            (false, _) => "missed".into(),
            (true, 1) => String::new(),
            (true, tries) => format!("at attempt {tries}"),
        };
        table.measured(vec![
            name.into(),
            loss.lost.join(" and "),
            loss.before.text(),
            loss.after.text(),
            survival(loss.survived).into(),
            mark,
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(lost: &[&str], survived: bool) -> Loss {
        Loss {
            lost: lost.iter().map(|l| (*l).to_string()).collect(),
            before: Votes::default(),
            after: Votes::default(),
            survived,
            as_expected: true,
        }
    }

    #[test]
    fn a_row_says_what_its_paths_say_together() {
        let played = |losses: Vec<Loss>| Played { losses, tries: 1 };
        let three = [
            played(vec![loss(&["A"], true), loss(&["B"], true)]),
            played(vec![loss(&["A"], true), loss(&["C"], false)]),
            played(vec![loss(&["A", "B"], false)]),
        ];
        assert_eq!(cells(&three), ["yes", "50/50", "no"]);
        let two = [
            played(vec![loss(&["A"], true)]),
            played(vec![loss(&["B"], false)]),
        ];
        assert_eq!(cells(&two), ["50/50", "no", "no"]);
    }
}
