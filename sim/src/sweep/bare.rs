//! turmoil with nothing in it: the same hosts, ticks and simulated time as a run, and no broker, no disk, no oracle. What a
//! sweep costs beside it is what this project adds.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::BROKER;

const PORT: u16 = 9092;

/// What a run looked like from outside.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Hosts besides the broker.
    pub clients: usize,
    /// Simulated time.
    pub simulated: Duration,
    /// Requests, each answered before the next; 0 for hosts that only wait.
    pub requests: u64,
}

/// Simulates it once.
pub fn run(shape: Shape, seed: u64) -> Result<(), String> {
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(7200))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::ZERO)
        .max_message_latency(Duration::ZERO);
    let mut sim = builder.build();
    sim.host(BROKER, answer);
    let ended = Rc::new(Cell::new(false));
    for i in 0..shape.clients {
        let ended = ended.clone();
        sim.client(format!("client{i}"), async move {
            let begin = tokio::time::Instant::now();
            if i == 0 && shape.requests > 0 {
                ask(shape.requests).await?;
            }
            tokio::time::sleep_until(begin + shape.simulated).await;
            ended.set(true);
            Ok(())
        });
    }
    while !sim.step().map_err(|e| e.to_string())? || !ended.get() {}
    Ok(())
}

async fn ask(requests: u64) -> turmoil::Result {
    let mut stream = turmoil::net::TcpStream::connect((BROKER, PORT)).await?;
    let mut answer = [0; 32];
    for _ in 0..requests {
        stream.write_all(&[1; 32]).await?;
        stream.read_exact(&mut answer).await?;
    }
    Ok(())
}

async fn answer() -> turmoil::Result {
    let listener = turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut request = [0; 32];
            while stream.read_exact(&mut request).await.is_ok() && stream.write_all(&request).await.is_ok() {}
        });
    }
}
