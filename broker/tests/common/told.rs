//! A server that answers what it is told to.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use broker::wire::{self, proto};
use prost::Message;
use proto::{request, response};

/// For one connection: after how long each request is answered, and with what. Then the connection is closed.
pub type Connection = Vec<(Duration, response::Kind)>;

/// A server that takes these connections one after the other. Gives its address, and in the end what it was asked.
pub fn told(connections: Vec<Connection>) -> (String, JoinHandle<Vec<request::Kind>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let mut asked = Vec::new();
        for answers in connections {
            let (mut stream, _) = listener.accept().unwrap();
            for (after, answer) in answers {
                asked.push(request(&mut stream));
                sleep(after);
                let mut frame = Vec::new();
                wire::put(&mut frame, &proto::Response::from(answer));
                stream.write_all(&frame).unwrap();
            }
        }
        asked
    };
    (addr, std::thread::spawn(serve))
}

pub fn request(stream: &mut TcpStream) -> request::Kind {
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut message = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut message).unwrap();
    proto::Request::decode(&message[..]).unwrap().kind.unwrap()
}

pub fn now(answer: response::Kind) -> (Duration, response::Kind) {
    (Duration::ZERO, answer)
}
