//! What has been done to a partition's log that can cost records, or change them: by a power loss, by the disk, or by the
//! scenario's own hand. None of it ever becomes undone, but for sectors that can be read again.

use std::collections::BTreeMap;

use super::Content;

/// What has been done to a log.
#[derive(Clone, Debug, Default)]
pub struct Harm {
    /// The scenario or the disk has damaged it, or a hole that a power loss left had to stay in it.
    hurt: bool,
    /// The disk has lied about it, about its directory, or about what is noted of it: what it was told to keep may be gone.
    lied: bool,
    /// A write that was meant for another log has landed in it. A record does not say which log it belongs to: where its offset is
    /// the one that is due there, nobody can know better.
    strayed_into: bool,
    /// Bytes of it are no longer what they were: all others that were to be kept are there still.
    rotted: bool,
    /// That happened while the broker ran, and nobody has looked at the files since: which records it has taken is not known yet.
    rot_unseen: bool,
    /// A sector of it cannot be read, or could not when the broker was started for the last time.
    unreadable: bool,
    /// That ever was so. A start goes on behind such a sector and marks the log as damaged: what a power loss has taken of it, or
    /// takes, stays a hole.
    scarred: bool,
    /// A power loss came: offsets that nobody was promised may be holes.
    shaken: bool,
    /// A broker was started on it that could not know of the power loss: what was noted was taken back, or changed by hand.
    unnoted: bool,
    /// A cut of it has failed: a request that was to be taken back may have left its beginning.
    cut_failed: bool,
    /// The scenario has left an index with entries of a segment that has no log, as if that had been taken away.
    orphaned: bool,
    /// Records that the scenario itself has written into it.
    planted: BTreeMap<u64, Content>,
    /// The scenario has put records of it where the broker had not: a log over another one, or under another one's name.
    moved: bool,
}

/// What happens to it.
impl Harm {
    /// The scenario has damaged it, or a hole in it had to stay.
    pub fn hurt(&mut self) {
        self.hurt = true;
    }

    /// The disk did not do what it said it did.
    pub fn lied(&mut self) {
        self.lied = true;
    }

    /// A write that was meant for another log has landed in it.
    pub fn strayed_into(&mut self) {
        self.lied = true;
        self.strayed_into = true;
    }

    /// Bytes of it have changed by themselves.
    pub fn rotted(&mut self) {
        self.rotted = true;
    }

    /// They did while the broker ran.
    pub fn rotted_unseen(&mut self) {
        self.rot_unseen = true;
    }

    /// Which records that has taken is known now.
    pub fn rot_seen(&mut self) {
        self.rot_unseen = false;
    }

    /// A sector of it cannot be read any more.
    pub fn unreadable(&mut self) {
        (self.unreadable, self.scarred) = (true, true);
    }

    /// Every sector of it can be read again.
    pub fn readable(&mut self) {
        self.unreadable = false;
    }

    /// The lights went out.
    pub fn shaken(&mut self) {
        self.shaken = true;
    }

    /// A broker is started on it that does not know whether the lights went out.
    pub fn unnoted(&mut self) {
        self.unnoted |= self.shaken;
    }

    /// It could not be cut. A hole that was to be cut off then stays.
    pub fn cut_failed(&mut self) {
        self.cut_failed = true;
        self.hurt |= self.shaken;
    }

    /// An index speaks of a log that is not there.
    pub fn orphaned(&mut self) {
        self.orphaned = true;
    }

    /// The scenario has written a record into it.
    pub fn planted(&mut self, offset: u64, content: Content) {
        self.planted.insert(offset, content);
    }

    /// The scenario has put a record of it in another place.
    pub fn moved(&mut self) {
        self.moved = true;
    }
}

/// What that explains.
impl Harm {
    /// Records may contradict each other, or what they were is gone: then only a person can say what holds, and until then the
    /// partition may take no writes.
    pub fn at_odds(&self) -> bool {
        self.is_deceptive() || !self.planted.is_empty() || self.moved || self.orphaned
    }

    /// It may hold something else than the broker has written, for good.
    pub fn is_changed(&self) -> bool {
        self.hurt || self.is_deceptive()
    }

    /// What the disk was told to keep, it may not give back.
    pub fn is_unreliable(&self) -> bool {
        self.is_deceptive() || self.unreadable
    }

    /// Something in it may be damaged, or look so.
    pub fn may_be_damaged(&self) -> bool {
        self.hurt || self.is_unreliable()
    }

    /// Records of it may be gone that nobody would miss without a reason.
    pub fn explains_missing_records(&self) -> bool {
        self.hurt || self.at_odds()
    }

    /// Whole stretches of it may be gone, and not single bits.
    pub fn loses_sectors(&self) -> bool {
        self.hurt || self.lied || self.unreadable
    }

    /// Whether it is damaged for good.
    pub fn is_hurt(&self) -> bool {
        self.hurt
    }

    /// The disk may give back something else than what it was given, and not say so.
    pub fn is_deceptive(&self) -> bool {
        self.lied || self.rotted
    }

    /// Whether bytes of it have changed by themselves.
    pub fn is_rotten(&self) -> bool {
        self.rotted
    }

    /// Any record of it may be gone: which ones are, nobody knows.
    pub fn may_have_taken_any(&self) -> bool {
        self.lied || self.unreadable || self.rot_unseen
    }

    /// Whether the disk has lied about it: what it was told to keep may be gone.
    pub fn is_lied_about(&self) -> bool {
        self.lied
    }

    /// Whether records of another log may lie in it as if they were its own.
    pub fn is_strayed_into(&self) -> bool {
        self.strayed_into
    }

    /// Whether a sector of it could not be read at the last start, or cannot be now.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Whether a start may have marked it as damaged, so that a hole in it stays, whatever has left that.
    pub fn is_scarred(&self) -> bool {
        self.scarred
    }

    /// Whether the lights ever went out over it.
    pub fn is_shaken(&self) -> bool {
        self.shaken
    }

    /// Whether a hole in it may have been taken for damage.
    pub fn is_unnoted(&self) -> bool {
        self.unnoted
    }

    /// Whether a request that was to be taken back may have left its beginning.
    pub fn may_keep_a_beginning(&self) -> bool {
        self.cut_failed
    }

    /// Whether the scenario itself has written this there.
    pub fn is_planted(&self, offset: u64, content: &Content) -> bool {
        self.planted.get(&offset) == Some(content)
    }
}
