//! A connection on which requests are sent back to back.

use std::sync::Arc;
use std::time::Duration;

use broker::client::{Connection, Options};
use broker::net::Connector;
use tokio::time::timeout;

use super::ask;
use super::stage::Stage;
use crate::trace::{Answer, Event, Request};
use crate::world::net::{WorldConnector, WorldStream};

/// An answer, and the crash that took it, if one did.
pub(super) type Answered = (Answer, Option<String>);

/// A connection for pipelines.
pub(super) struct Pipe {
    connector: WorldConnector,
    name: Arc<str>,
    /// Whether it asks the oracle's questions.
    probe: bool,
    connection: Option<Connection<WorldStream>>,
}

impl Pipe {
    /// For this client; connects when it needs to.
    pub(super) fn new(connector: WorldConnector, name: Arc<str>) -> Self {
        Self { connector, name, probe: false, connection: None }
    }

    /// For the oracle.
    pub(super) fn oracle(stage: &Stage) -> Self {
        let connector = WorldConnector::new(stage.host.shape.plain());
        Self { connector, name: "oracle".into(), probe: true, connection: None }
    }

    async fn connect(&mut self, options: &Options) -> Result<Connection<WorldStream>, String> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        match timeout(options.connect_timeout, self.connector.connect(&ask::address())).await {
            Ok(Ok(stream)) => Ok(Connection::new(stream, options.frame_bytes)),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("no connection".to_owned()),
        }
    }
}

/// Sends all requests at once, and reads the answers.
pub(super) async fn back_to_back(stage: &Stage, pipe: &mut Pipe, requests: &[Request]) -> Vec<Answered> {
    let crashes = stage.crashes();
    let call = |request: &Request| stage.call(&pipe.name, request.clone(), pipe.probe);
    let ids: Vec<_> = requests.iter().map(call).collect();
    let options = ask::options(stage.net.borrow().timeout);
    let limit = options.request_timeout;
    let lost = |why: String, sent| Answer::Lost { why, sent, told: false };
    let mut connection = pipe.connect(&options).await;
    if let Ok(connection) = &mut connection {
        requests.iter().for_each(|request| ask::send(connection, request));
    }
    let mut broken: Option<Answer> = connection.as_ref().err().map(|why| lost(why.clone(), false));
    let mut answers = Vec::new();
    for (id, request) in ids.into_iter().zip(requests) {
        let answer = match (&broken, &mut connection) {
            (None, Ok(connection)) => match timeout(limit + wait(request), connection.receive()).await {
                Ok(Ok(response)) => ask::read(request, response),
                Ok(Err(e)) => lost(e.to_string(), true),
                Err(_) => lost(format!("no answer within {limit:?}"), true),
            },
            (Some(broken), _) => broken.clone(),
            (None, Err(why)) => lost(why.clone(), false),
        };
        // After an answer that did not come, the next ones cannot be told apart.
        if matches!(&answer, Answer::Lost { told: false, .. }) && broken.is_none() {
            broken = Some(answer.clone());
        }
        remember(stage, request, &answer);
        stage.recorder.add(Event::Answer { id, answer: answer.clone() });
        answers.push(answer);
    }
    if broken.is_none() {
        pipe.connection = connection.ok();
    }
    let crash = (stage.crashes() != crashes).then(|| stage.last_crash().to_string());
    answers.into_iter().map(|answer| (answer, crash.clone())).collect()
}

/// How long the broker may wait before it answers, since it was asked to.
fn wait(request: &Request) -> Duration {
    match request {
        Request::Consume { wait_ms, .. } => Duration::from_millis((*wait_ms).into()),
        _ => Duration::ZERO,
    }
}

/// Keeps what the oracle has to ask about later.
pub(super) fn remember(stage: &Stage, request: &Request, answer: &Answer) {
    let lost = matches!(answer, Answer::Lost { .. });
    match request {
        Request::CreateTopic { topic, partitions, retention_bytes, retention_ms }
            if lost || *answer == Answer::Done =>
        {
            let own = retention_bytes.is_some() || retention_ms.is_some();
            stage.retention.set(stage.retention.get() || own);
            let mut topics = stage.topics.borrow_mut();
            if lost {
                // Where there was one of its name, either may be there.
                let most = topics.entry(topic.clone()).or_default();
                *most = (*most).max(*partitions);
            } else {
                topics.insert(topic.clone(), *partitions);
            }
        }
        Request::DeleteTopic { topic } if *answer == Answer::Done => {
            stage.topics.borrow_mut().remove(topic);
        }
        _ => {}
    }
}
