//! The program `broker`, as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A running `broker serve`. Killed when it is dropped.
pub struct Process {
    child: Child,
    pub addr: String,
}

pub fn broker() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker"));
    command.env_remove("BROKER_ADDR").env_remove("BROKER_LOG");
    command
}

impl Process {
    pub fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_at(data, "127.0.0.1:0", args)
    }

    pub fn start_at(data: &Path, listen: &str, args: &[&str]) -> Self {
        Self::spawn(broker(), data, listen, args, Stdio::piped())
    }

    /// What it says on standard error goes there.
    pub fn start_heard_by(data: &Path, stderr: Stdio) -> Self {
        Self::spawn(broker(), data, "127.0.0.1:0", &[], stderr)
    }

    /// Started by a shell: `$0` and `$@` are the command.
    pub fn start_by(script: &str, data: &Path, args: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_broker")]).env_remove("BROKER_LOG");
        Self::spawn(shell, data, "127.0.0.1:0", args, Stdio::piped())
    }

    fn spawn(mut command: Command, data: &Path, listen: &str, args: &[&str], stderr: Stdio) -> Self {
        let mut child = command
            .args(["serve", "--listen", listen, "--data"])
            .arg(data)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it can be read");
        let Some(addr) = line.trim().strip_prefix("listening on ") else {
            let why = rest(child.stderr.take());
            panic!("the server does not start: {line}{why}");
        };
        Self { child, addr: addr.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM, and what it said on standard error.
    pub fn stop(self) -> (std::process::ExitStatus, String) {
        self.signal("TERM");
        self.wait()
    }

    /// How it has ended, if it has.
    pub fn has_ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("it is a child of this process")
    }

    /// How it ends, and what it said on standard error.
    pub fn wait(mut self) -> (std::process::ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        (status, rest(self.child.stderr.take()))
    }

    pub fn signal(&self, name: &str) {
        let killed = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(killed.expect("kill is there").success());
        while name == "STOP" && !self.is_stopped() {
            sleep(Duration::from_millis(1));
        }
    }

    /// Whether none of its threads runs any more: on a busy machine that takes a while after the signal. Where the system does not
    /// say, nobody knows.
    fn is_stopped(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return true };
        let states = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        states.flatten().all(|stat| stat.contains(") T "))
    }

    /// Runs a command against it.
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, b"")
    }

    /// Runs a command against it, with this on standard input.
    pub fn run_with(&self, args: &[&str], input: &[u8]) -> Output {
        run(&self.addr, args, input)
    }

    /// What a command prints, which has to succeed.
    pub fn output(&self, args: &[&str]) -> String {
        text(&self.run(args))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is left to be read, where it is read here.
fn rest(said: Option<impl Read>) -> String {
    let mut text = String::new();
    said.map(|mut said| said.read_to_string(&mut text).expect("it can be read"));
    text
}

/// Runs a command against a server.
pub fn run(addr: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = broker()
        .args(args)
        .env("BROKER_ADDR", addr)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // A command may end before it has read everything.
    #[allow(clippy::disallowed_methods)] // a test's own thread, not the broker's
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("the feeder does not panic");
    output
}

/// Lines of many lengths, among them empty ones, and bytes that are not text.
pub fn lines(n: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for i in 0..n {
        match i % 17 {
            0 => {}
            1 => text.extend_from_slice(b"\xff\x00\r"),
            k => text.extend_from_slice(format!("line {i} {}", "abcdefghij".repeat(k)).as_bytes()),
        }
        text.push(b'\n');
    }
    text
}

/// What a command printed, which has succeeded.
pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("it prints UTF-8")
}

/// What a command complained of, which has failed.
pub fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).expect("it complains in UTF-8")
}

/// A partition with three segments, stopped cleanly. Gives its directory.
pub fn stopped(dir: &std::path::Path) -> std::path::PathBuf {
    let data = dir.join("data");
    let server = Process::start(&data, &["--segment-bytes", "100", "--index-interval", "3"]);
    server.output(&["topic", "create", "t"]);
    for (key, value) in [("user-1", "hello"), ("user-2", "world"), ("user-3", "!"), ("k", "v"), ("k", "w")] {
        server.output(&["produce", "t", "--key", key, value]);
    }
    assert!(server.stop().0.success());
    data
}

/// What `broker verify` says of a directory.
pub fn verify(data: &std::path::Path) -> std::process::Output {
    broker().arg("verify").arg(data).output().expect("it runs")
}

/// What is found in a directory. Other tests start programs meanwhile, which for a moment hold each lock of this one.
pub fn verdict(data: &std::path::Path) -> broker::verify::Verdict {
    loop {
        match broker::verify::verify(&broker::disk::OsDisk, data) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            verdict => return verdict.unwrap(),
        }
    }
}
