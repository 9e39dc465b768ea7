//! `broker produce`, where something between it and the server ends the connection: each line is stored, once.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

use broker::settings::Durability;
use common::failing::{Server, server};
use common::process::{broker, text};
use common::{ok, values};

/// Forwards connections to a server, and can end them for the client alone.
struct Proxy {
    addr: String,
    clients: Arc<Mutex<Vec<TcpStream>>>,
    /// What clients send does not reach the server.
    swallows: Arc<AtomicBool>,
}

impl Proxy {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let (clients, swallows) = (Arc::<Mutex<Vec<TcpStream>>>::default(), Arc::<AtomicBool>::default());
        let (held, swallow, server) = (clients.clone(), swallows.clone(), server.to_owned());
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let to = TcpStream::connect(&server).unwrap();
                let (client_2, to_2) = (client.try_clone().unwrap(), to.try_clone().unwrap());
                held.lock().unwrap().push(client.try_clone().unwrap());
                let (up, never) = (swallow.clone(), AtomicBool::new(false));
                spawn(move || pass(&client, &to, &up));
                spawn(move || pass(&to_2, &client_2, &never));
            }
        });
        Self { addr, clients, swallows }
    }

    /// The clients lose their connections; the server hears nothing of it.
    fn cut(&self) {
        self.clients.lock().unwrap().drain(..).for_each(|client| client.shutdown(Shutdown::Both).unwrap());
    }
}

/// Passes on what comes. At the end of one side, the other stays as it is.
fn pass(mut from: &TcpStream, mut to: &TcpStream, swallows: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Some(n) = from.read(&mut bytes).ok().filter(|n| *n > 0) {
        if !swallows.load(Ordering::SeqCst) {
            let _ = to.write_all(&bytes[..n]);
        }
    }
    sleep(common::LONG);
}

/// A server whose syncs hang, and a way to it that can be cut.
async fn hanging() -> (Server, Proxy) {
    let server = server(Durability::Always).await;
    server.disk.0.sync_hangs.store(true, Ordering::SeqCst);
    let proxy = Proxy::to(&server.addr);
    (server, proxy)
}

fn producer(addr: &str, timeout: &str) -> Child {
    let mut produce = broker();
    produce.args(["produce", "t", "--partition", "0", "--batch", "2", "--addr", addr, "--timeout", timeout]);
    produce.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn produce(addr: &str, timeout: &str, lines: &str) -> Child {
    let mut child = producer(addr, timeout);
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(common::LONG, waited).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn appended(server: &Server, bytes: u64) {
    until("the lines are appended", async || ok(server.client.partitions("t").await)[0].bytes >= bytes).await;
}

async fn ended(child: Child) -> Output {
    tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap()
}

/// What it has said, having done all.
async fn succeeded(child: Child) -> String {
    let output = ended(child).await;
    text(&output);
    String::from_utf8(output.stderr).unwrap()
}

/// A sync is under way, and what it is for cannot be seen until it ends: sent again, the lines would be there twice.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_being_synced_are_not_sent_again() {
    let (server, proxy) = hanging().await;
    let child = produce(&proxy.addr, "10s", "a\nb\na\n");
    appended(&server, 3 * 29).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    let said = succeeded(child).await;
    assert!(said.contains("3 of the lines in flight are not in the log; waiting 10s for them"), "{said}");
    assert!(said.contains("3 of 3 are in the log") && said.ends_with("\n3 lines acknowledged\n"), "{said}");
    assert_eq!(values(&server.client, "t", 0).await, ["a", "b", "a"]);
}

/// What the server never got does not turn up.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_never_arrived_are_sent_again() {
    let (server, proxy) = hanging().await;
    let mut child = producer(&proxy.addr, "1s");
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a\nb\n").unwrap();
    appended(&server, 2 * 29).await;
    proxy.swallows.store(true, Ordering::SeqCst);
    input.write_all(b"c\na\n").unwrap();
    drop(input);
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.cut();
    proxy.swallows.store(false, Ordering::SeqCst);
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    let said = succeeded(child).await;
    assert!(said.contains("2 of 4 are in the log") && said.ends_with("\n4 lines acknowledged\n"), "{said}");
    assert_eq!(values(&server.client, "t", 0).await, ["a", "b", "c", "a"]);
}

/// A line was refused, and then the connection was lost: what was sent behind it is looked up all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_while_it_is_waited_for_is_looked_up() {
    let (server, proxy) = hanging().await;
    let child = produce(&proxy.addr, "1s", &format!("{}\na\nb\n", "x".repeat(2 << 20)));
    appended(&server, 2 * 29).await;
    proxy.cut();
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    let output = ended(child).await;
    let why = common::process::complaint(&output);
    assert!(why.contains("stored: lines 2 to 3\n  sent, and not stored: line 1\n"), "{why}");
    assert!(why.ends_with("--skip 0,2-3 when line 1 is mended, or --skip 3 without it\n"), "{why}");
    assert_eq!(values(&server.client, "t", 0).await, ["a", "b"]);
}
