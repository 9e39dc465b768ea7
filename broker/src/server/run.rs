//! A run of produce requests to one topic: their records become one append for each partition.
//!
//! A thousand pipelined requests of one record cost one write, not a thousand. Each request still is all or nothing for
//! each partition: its records are in one append, which is so. Where an append fails, all requests in it are told.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fnv::FnvHashMap;

use crate::batch::Batch;
use crate::broker::{Broker, Topic};
use crate::disk::Disk;
use crate::error::{Code, Error};
use crate::metrics::{Kind, Metrics};
use crate::partition::{Appended, Partition};
use crate::units::Offset;
use crate::wire;
use crate::wire::proto::{self, response};

/// A run takes no more requests when it has this many bytes or requests: an append is bounded, whatever the pipeline.
const RUN_BYTES: usize = 1 << 20;
const RUN_REQUESTS: usize = 8192;

/// More memory of batches than this, all together, is not kept for the next run, lest a connection hold its largest for ever.
const KEEP_BYTES: usize = 512 << 10;

/// And so are longer lists.
const KEEP_LISTED: usize = 1024;

/// What one queued answer of a request takes in memory, about.
const ANSWER_BYTES: usize = 64;

/// Empty batches that wait for the next run.
#[derive(Default)]
pub(super) struct Batches {
    batches: Vec<Batch>,
    /// The memory that they take.
    bytes: usize,
}

impl Batches {
    fn take(&mut self) -> Batch {
        let batch = self.batches.pop().unwrap_or_default();
        self.bytes -= batch.memory();
        batch
    }

    /// Keeps a batch for the next run, if there is room.
    fn give(&mut self, mut batch: Batch) {
        let bytes = self.bytes + batch.memory();
        if bytes <= KEEP_BYTES {
            batch.clear();
            self.batches.push(batch);
            self.bytes = bytes;
        }
    }
}

/// A run that has been answered: the next one need not allocate.
pub(super) struct Spare<D: Disk>(Mutex<Option<Box<Run<D>>>>);

impl<D: Disk> Default for Spare<D> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<D: Disk> Spare<D> {
    /// An empty run.
    pub fn take(&self) -> Box<Run<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Keeps a run for the next one, if it is not a large one.
    pub fn give(&self, mut run: Box<Run<D>>) {
        let lists =
            [run.requests.capacity(), run.routes.capacity(), run.slices.capacity(), run.parts.capacity()];
        if lists.into_iter().all(|listed| listed <= KEEP_LISTED) {
            run.clear();
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        }
    }
}

/// Consecutive produce requests to one topic, and what came of them.
pub(super) struct Run<D: Disk> {
    topic: Option<Topic<D>>,
    parts: Vec<Part<D>>,
    /// From a partition's number to its place in `parts`, from the second part on.
    places: FnvHashMap<u32, usize>,
    requests: Vec<Request>,
    /// The records of each request, by partition.
    slices: Vec<Slice>,
    /// The partition of each record of the requests that went to several.
    routes: Vec<u32>,
    /// Bytes of the records.
    bytes: usize,
    /// Bytes of the errors.
    told: usize,
}

/// The records for one partition.
struct Part<D: Disk> {
    number: u32,
    partition: Partition<D>,
    batch: Batch,
    /// The place in `slices` of the last request that has records here.
    slice: usize,
    outcome: Option<Result<Appended, Error>>,
}

/// One request: refused before it was appended, or where its records went.
enum Request {
    Refused(Code, String),
    Appended { slices: Range<usize>, routes: Range<usize> },
}

/// A record of a request.
type KeyAndValue<'r> = (Option<&'r [u8]>, &'r [u8]);

/// `count` records in the part at `place`, from the one numbered `first` on.
struct Slice {
    place: usize,
    first: u64,
    count: u32,
}

/// Whether these records can be appended at all.
fn check<'r>(records: impl ExactSizeIterator<Item = KeyAndValue<'r>>, limit: u64) -> Result<(), Error> {
    if records.len() == 0 {
        return Err(Error::InvalidRequest { what: "a produce needs at least one record".into() });
    }
    for (key, value) in records {
        let bytes = (key.map_or(0, <[u8]>::len) + value.len()) as u64;
        if bytes > limit {
            return Err(Error::RecordTooLarge { bytes, limit });
        }
    }
    Ok(())
}

impl<D: Disk> Default for Run<D> {
    fn default() -> Self {
        Self {
            topic: None,
            parts: Vec::new(),
            places: FnvHashMap::default(),
            requests: Vec::new(),
            slices: Vec::new(),
            routes: Vec::new(),
            bytes: 0,
            told: 0,
        }
    }
}

impl<D: Disk> Run<D> {
    fn clear(&mut self) {
        let Self { topic, parts, places, requests, slices, routes, bytes, told } = self;
        (*topic, *bytes, *told) = (None, 0, 0);
        parts.clear();
        places.clear();
        requests.clear();
        slices.clear();
        routes.clear();
    }

    /// Adds the answer to a produce request that is refused.
    pub fn refuse(&mut self, error: &Error) {
        let message = error.to_string();
        self.told += message.len();
        self.requests.push(Request::Refused(error.code(), message));
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a produce to this topic can be added; otherwise the run has to be appended first.
    pub fn takes(&self, topic: &str) -> bool {
        let room = self.bytes.max(self.told) < RUN_BYTES && self.requests.len() < RUN_REQUESTS;
        room && self.topic.as_ref().is_none_or(|mine| mine.name() == topic)
    }

    /// Adds a produce request that the run takes.
    pub fn add<'r>(
        &mut self,
        broker: &Broker<D>,
        batches: &mut Batches,
        topic: &str,
        partition: Option<u32>,
        records: impl ExactSizeIterator<Item = KeyAndValue<'r>> + Clone,
    ) {
        match self.try_add(broker, batches, topic, partition, records) {
            Ok(added) => self.requests.push(added),
            Err(e) => self.refuse(&e),
        }
    }

    fn try_add<'r>(
        &mut self,
        broker: &Broker<D>,
        batches: &mut Batches,
        topic: &str,
        partition: Option<u32>,
        records: impl ExactSizeIterator<Item = KeyAndValue<'r>> + Clone,
    ) -> Result<Request, Error> {
        let topic = match &self.topic {
            Some(topic) => topic.clone(),
            None => self.topic.insert(broker.topic(topic)?).clone(),
        };
        check(records.clone(), broker.settings().max_record_bytes.into())?;
        if let Some(number) = partition {
            topic.partition(number)?;
        }
        // From here on nothing is refused: the request is in the run whole.
        if self.slices.is_empty() {
            // So that no part's last slice is one of this request.
            self.slices.push(Slice { place: 0, first: 0, count: 0 });
        }
        Ok(match partition.or((topic.partition_count() == 1).then_some(0)) {
            Some(number) => self.add_to(&topic, number, batches, records),
            None => self.spread(&topic, batches, records),
        })
    }

    /// Adds the records of a request to one partition.
    fn add_to<'r>(
        &mut self,
        topic: &Topic<D>,
        number: u32,
        batches: &mut Batches,
        records: impl ExactSizeIterator<Item = KeyAndValue<'r>>,
    ) -> Request {
        let (slice, route) = (self.slices.len(), self.routes.len());
        let place = self.place(topic, batches, number);
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let part = &mut self.parts[place];
        self.slices.push(Slice { place, first: part.batch.len() as u64, count });
        let before = part.batch.byte_len();
        records.for_each(|(key, value)| part.batch.push(key, value));
        self.bytes += part.batch.byte_len() - before;
        Request::Appended { slices: slice..slice + 1, routes: route..route }
    }

    /// Adds each record of a request to the partition that its key, or its turn, sends it to.
    fn spread<'r>(
        &mut self,
        topic: &Topic<D>,
        batches: &mut Batches,
        records: impl Iterator<Item = KeyAndValue<'r>>,
    ) -> Request {
        let (first_slice, first_route) = (self.slices.len(), self.routes.len());
        for (key, value) in records {
            let number = topic.route(key);
            let place = self.place(topic, batches, number);
            let part = &mut self.parts[place];
            if part.slice < first_slice {
                part.slice = self.slices.len();
                self.slices.push(Slice { place, first: part.batch.len() as u64, count: 0 });
            }
            self.slices[part.slice].count += 1;
            let before = part.batch.byte_len();
            part.batch.push(key, value);
            self.bytes += part.batch.byte_len() - before;
            self.routes.push(number);
        }
        if self.slices.len() == first_slice + 1 {
            self.routes.truncate(first_route);
        }
        Request::Appended { slices: first_slice..self.slices.len(), routes: first_route..self.routes.len() }
    }

    /// Where the records for this partition, which there is, are gathered.
    fn place(&mut self, topic: &Topic<D>, batches: &mut Batches, number: u32) -> usize {
        let is = |part: Option<&Part<D>>| part.is_some_and(|part| part.number == number);
        if is(self.parts.last()) {
            return self.parts.len() - 1;
        }
        if is(self.parts.first()) {
            return 0;
        }
        if let Some(&place) = self.places.get(&number) {
            return place;
        }
        let partition = topic.partitions()[number as usize].clone();
        let batch = batches.take();
        // A map for one part would cost more than the part.
        if !self.parts.is_empty() {
            self.places.insert(number, self.parts.len());
        }
        self.parts.push(Part { number, partition, batch, slice: 0, outcome: None });
        self.parts.len() - 1
    }

    /// Appends what was gathered; gives the batches back.
    pub async fn append(&mut self, batches: &mut Batches, metrics: &Metrics) {
        metrics.requests(Kind::produce, self.requests.len() as u64);
        for part in &mut self.parts {
            let mut batch = std::mem::take(&mut part.batch);
            let outcome = part.partition.append(&mut batch).await;
            if outcome.is_ok() {
                metrics.appends.inc();
            }
            part.outcome = Some(outcome);
            batches.give(batch);
        }
    }

    /// What was appended and is not durable yet.
    pub fn unsettled(&self) -> impl Iterator<Item = (Partition<D>, Offset)> + '_ {
        self.parts.iter().filter_map(|part| match &part.outcome {
            Some(Ok(appended)) if matches!(part.partition.is_committed(appended.end), Ok(false)) => {
                Some((part.partition.clone(), appended.end))
            }
            _ => None,
        })
    }

    /// How many bytes its answers take in memory, about.
    pub fn answer_bytes(&self) -> usize {
        let lists = self.parts.len() * size_of::<Part<D>>()
            + self.slices.len() * size_of::<Slice>()
            + self.routes.len() * size_of::<u32>();
        self.requests.len() * ANSWER_BYTES + lists + self.told
    }

    /// Whether it is known of every append what became of it. Takes note where one has failed meanwhile.
    pub fn is_settled(&mut self) -> bool {
        self.parts.iter_mut().all(|part| match &part.outcome {
            Some(Ok(appended)) => match part.partition.is_committed(appended.end) {
                Ok(committed) => committed,
                Err(e) => {
                    part.outcome = Some(Err(e));
                    true
                }
            },
            _ => true,
        })
    }

    /// Waits until it is.
    pub async fn settle(&mut self) {
        for part in &mut self.parts {
            if let Some(Ok(appended)) = part.outcome
                && let Err(e) = part.partition.committed(appended.end).await
            {
                part.outcome = Some(Err(e));
            }
        }
    }

    /// Adds the answers to `output`, one frame for each request.
    pub fn encode(&self, output: &mut Vec<u8>, metrics: &Metrics) {
        for request in &self.requests {
            match request {
                Request::Refused(code, message) => {
                    metrics.error(*code);
                    let error = proto::ErrorResponse::new(*code, message.as_str());
                    wire::put(output, &proto::Response::from(error));
                }
                Request::Appended { slices, routes } => {
                    let slices = &self.slices[slices.clone()];
                    if let [slice] = slices
                        && let part = &self.parts[slice.place]
                        && let Some(Ok(appended)) = &part.outcome
                    {
                        wire::put_appended(output, part.number, appended.base.plus(slice.first), slice.count);
                        continue;
                    }
                    let appends = slices.iter().map(|slice| self.partition_append(slice, metrics)).collect();
                    let partitions = self.routes[routes.clone()].to_vec();
                    let produced = proto::ProduceResponse { appends, partitions };
                    wire::put(output, &proto::Response::from(response::Kind::Produce(produced)));
                }
            }
        }
    }

    fn partition_append(&self, slice: &Slice, metrics: &Metrics) -> proto::PartitionAppend {
        let part = &self.parts[slice.place];
        let (base_offset, error) = match &part.outcome {
            Some(Ok(appended)) => (appended.base.plus(slice.first).get(), None),
            Some(Err(e)) => {
                metrics.error(e.code());
                (0, Some(proto::ErrorResponse::from(e)))
            }
            None => unreachable!("a run is appended before it is encoded"),
        };
        proto::PartitionAppend { partition: part.number, base_offset, count: slice.count, error }
    }
}
