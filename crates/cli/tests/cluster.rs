//! `daruma cluster`: servers as processes that are nodes of a cluster.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
const PASSWORD: &str = "Cluster-of-processes-1";
/// What is waited for comes long before; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(300);

/// A server and its process while it runs.
struct Server {
    name: &'static str,
    data: PathBuf,
    /// Of its cluster service.
    address: String,
    sql_address: String,
    process: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    fn new(root: &Path, name: &'static str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Server {
            name,
            data: root.join(name),
            address: listener.local_addr().expect("its address").to_string(),
            sql_address: String::new(),
            process: None,
        }
    }

    fn run(&mut self) {
        let mut process = Command::new(DARUMA)
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", "128M"])
            .args(["--server-name", self.name, "--data"])
            .arg(&self.data)
            .env("MSSQL_SA_PASSWORD", PASSWORD)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let output = process.stderr.take().expect("its output");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready = lines.find(|l| l.starts_with("ready "));
        let address = ready.as_deref().and_then(|l| l.split(' ').nth(1));
        self.sql_address = address.expect("an address").replace(':', ",");
        // Somebody has to read what it says until it ends.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// SIGTERM, and its end.
    fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let pid = process.id().to_string();
        let told = Command::new("kill").arg(pid).status().expect("kill");
        assert!(told.success());
        assert!(process.wait().expect("its end").success());
    }

    fn cluster(&self, arguments: &[&str]) -> Output {
        Command::new(DARUMA)
            .arg("cluster")
            .args(arguments)
            .arg("--data")
            .arg(&self.data)
            .output()
            .expect("the program runs")
    }

    /// A command that must not fail; what it prints.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.cluster(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn sql(&self, text: &str) -> String {
        let output = Command::new(DARUMA)
            .args(["sql", "-S", &self.sql_address, "-U", "sa", "-C", "-h-1"])
            .args(["-W", "-s", "|", "-Q", &format!("SET NOCOUNT ON; {text}")])
            .env("SQLCMDPASSWORD", PASSWORD)
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {error}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .into()
    }

    fn wait_for(&self, text: &str, wanted: &str) {
        let until = Instant::now() + LONG;
        loop {
            let found = self.sql(text);
            if found == wanted {
                return;
            }
            assert!(
                Instant::now() < until,
                "{}: {text}\n{found}\n{wanted}\n{}",
                self.name,
                self.done(&["show"])
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

const CLUSTER: &str =
    "SELECT cluster_name, quorum_type_desc, quorum_state_desc FROM sys.dm_hadr_cluster";
const MEMBERS: &str = "SELECT member_name, member_type_desc, member_state_desc, number_of_quorum_votes FROM sys.dm_hadr_cluster_members";
const NODES: &str = "SELECT COUNT(*) FROM sys.dm_hadr_cluster_members WHERE member_type = 0";
const VOTES: &str =
    "SELECT ISNULL(SUM(number_of_quorum_votes), 0) FROM sys.dm_hadr_cluster_members";

#[test]
fn two_servers_and_a_share() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let share = root.join("share");
    std::fs::create_dir(&share).expect("a folder");
    let share = share.to_str().expect("a path");
    let (mut alfa, mut bravo) = (Server::new(root, "ALFA"), Server::new(root, "BRAVO"));

    // A server that is no node shows none.
    assert!(!alfa.cluster(&["show"]).status.success());
    let token = alfa.done(&[
        "create",
        "main",
        "--address",
        &alfa.address,
        "--node",
        "ALFA",
    ]);
    assert!(
        !alfa
            .cluster(&["create", "other", "--address", &alfa.address])
            .status
            .success(),
        "it is a node already"
    );
    alfa.run();
    alfa.wait_for(CLUSTER, "main|NODE_MAJORITY|NORMAL_QUORUM");
    let own = ["--address", &bravo.address, "--node", "BRAVO"];
    let nonsense = bravo.cluster(&["join", "nonsense", own[0], own[1], own[2], own[3]]);
    assert!(!nonsense.status.success());
    bravo.done(&["join", token.trim(), own[0], own[1], own[2], own[3]]);
    bravo.run();
    // Two nodes and no witness: one of them has no vote.
    bravo.wait_for(MEMBERS, "ALFA|CLUSTER_NODE|UP|1\nBRAVO|CLUSTER_NODE|UP|0");
    bravo.done(&["set-witness", share]);
    let all =
        format!("ALFA|CLUSTER_NODE|UP|1\nBRAVO|CLUSTER_NODE|UP|1\n{share}|FILE_SHARE_WITNESS|UP|1");
    bravo.wait_for(MEMBERS, &all);
    alfa.wait_for(CLUSTER, "main|NODE_AND_FILE_SHARE_MAJORITY|NORMAL_QUORUM");
    assert!(
        !bravo
            .cluster(&["set-witness", "not/absolute"])
            .status
            .success()
    );
    assert!(
        !bravo
            .cluster(&["node-weight", "CHARLIE", "0"])
            .status
            .success()
    );
    assert!(!bravo.cluster(&["force-quorum"]).status.success());
    let shown = bravo.done(&["show"]);
    assert!(shown.contains("Survives any 1 losses"), "{shown}");

    // The leader is killed: the other leads on with the share.
    alfa.kill();
    bravo.wait_for(
        MEMBERS,
        &format!(
            "ALFA|CLUSTER_NODE|DOWN|1\nBRAVO|CLUSTER_NODE|UP|1\n{share}|FILE_SHARE_WITNESS|UP|1"
        ),
    );
    bravo.done(&["priority", "ALFA"]);
    alfa.run();
    alfa.wait_for(MEMBERS, &all);
    assert!(alfa.done(&["show"]).contains("LowerPriority   ALFA"));

    // One that stops in order gives its vote away, and has it again when it is back.
    bravo.stop();
    alfa.wait_for(VOTES, "1");
    bravo.run();
    bravo.wait_for(MEMBERS, &all);

    // One that leaves for good is no node from then on, and may join again as another.
    bravo.done(&["leave"]);
    alfa.wait_for(NODES, "1");
    assert_eq!(bravo.sql("SELECT COUNT(*) FROM sys.dm_hadr_cluster"), "0");
    assert!(!bravo.cluster(&["leave"]).status.success());
    let alone = alfa.cluster(&["leave"]);
    let why = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(why.contains("no other node may vote"), "{why}");
    bravo.stop();
    bravo.run();
    assert_eq!(bravo.sql("SELECT COUNT(*) FROM sys.dm_hadr_cluster"), "0");
    bravo.stop();
    let token = alfa.done(&["token"]);
    let own = ["--address", &bravo.address, "--node", "BRAVO"];
    bravo.done(&["join", token.trim(), own[0], own[1], own[2], own[3]]);
    bravo.run();
    bravo.wait_for(MEMBERS, &all);

    alfa.done(&["evict", "BRAVO"]);
    alfa.wait_for(NODES, "1");
}

/// Two nodes and a disk: the leader is killed, and the other leads on with it.
#[test]
fn a_leader_is_lost_beside_a_disk() {
    let root = tempfile::tempdir().expect("temporary directory");
    let disk = root.path().join("disk");
    let made = std::fs::File::create_new(&disk).and_then(|f| f.set_len(9 << 20));
    made.expect("a file in the place of a disk");
    let disk = disk.to_str().expect("a path");
    let mut alfa = Server::new(root.path(), "ALFA");
    let mut bravo = Server::new(root.path(), "BRAVO");
    let own = ["--address", &alfa.address, "--node", "ALFA"];
    let token = alfa.done(&["create", "main", own[0], own[1], own[2], own[3]]);
    alfa.run();
    let own = ["--address", &bravo.address, "--node", "BRAVO"];
    bravo.done(&["join", token.trim(), own[0], own[1], own[2], own[3]]);
    bravo.run();
    bravo.wait_for(NODES, "2");
    bravo.done(&["set-witness", "--disk", disk]);
    let all = format!("ALFA|CLUSTER_NODE|UP|1\nBRAVO|CLUSTER_NODE|UP|1\n{disk}|DISK_WITNESS|UP|1");
    bravo.wait_for(MEMBERS, &all);
    alfa.wait_for(CLUSTER, "main|NODE_AND_DISK_MAJORITY|NORMAL_QUORUM");
    let shown = alfa.done(&["show"]);
    assert!(shown.contains(&format!("disk {disk} (Online)")), "{shown}");
    let again = alfa.cluster(&["set-witness", "--disk", disk]);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(why.contains("the witness already"), "{why}");

    alfa.kill();
    bravo.wait_for(
        MEMBERS,
        &all.replace("ALFA|CLUSTER_NODE|UP", "ALFA|CLUSTER_NODE|DOWN"),
    );
    bravo.done(&["priority", "ALFA"]);
    alfa.run();
    alfa.wait_for(MEMBERS, &all);

    alfa.done(&["set-witness", "none"]);
    alfa.wait_for(CLUSTER, "main|NODE_MAJORITY|NORMAL_QUORUM");
    alfa.done(&["set-witness", "--disk", disk]);
    alfa.wait_for(MEMBERS, &all);
}
