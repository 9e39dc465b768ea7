//! The line `fault`.

use super::fields::Fields;
use super::kinds::{Bad, COUNT, Choice, DURATION, Kind, NUMBER, Plain, RATE, TEXT, one_of, quoted};
use crate::scenario::fault::{Aim, Errno, Fault, FaultKind, Keep, Op, Phase, When};

const OP: Choice<Op> = Choice(&[
    ("any", Op::Any),
    ("open", Op::Open),
    ("create", Op::Create),
    ("read", Op::Read),
    ("write", Op::Write),
    ("truncate", Op::Truncate),
    ("sync", Op::Sync),
    ("sync-dir", Op::SyncDir),
    ("rename", Op::Rename),
    ("remove", Op::Remove),
    ("make-dir", Op::MakeDir),
    ("list", Op::List),
    ("lock", Op::Lock),
]);

/// The names of operations.
pub fn operations() -> impl Iterator<Item = &'static str> {
    OP.0.iter().map(|(name, _)| *name)
}

/// The name of an operation.
pub fn operation_name(op: Op) -> String {
    OP.write(&op)
}

/// The names of errors.
pub fn errors() -> impl Iterator<Item = &'static str> {
    ERRNO.0.iter().map(|(name, _)| *name)
}

const PHASE: Choice<Phase> = Choice(&[
    (Phase::Recovery.name(), Phase::Recovery),
    (Phase::Roll.name(), Phase::Roll),
    (Phase::Stop.name(), Phase::Stop),
]);

const ERRNO: Choice<Errno> = Choice(&[
    ("EIO", Errno::EIO),
    ("ENOSPC", Errno::ENOSPC),
    ("EDQUOT", Errno::EDQUOT),
    ("EINTR", Errno::EINTR),
    ("EMFILE", Errno::EMFILE),
    ("ENFILE", Errno::ENFILE),
    ("EROFS", Errno::EROFS),
    ("EACCES", Errno::EACCES),
    ("ENOENT", Errno::ENOENT),
    ("EINVAL", Errno::EINVAL),
]);

const WHEN: Choice<When> = Choice(&[("before", When::Before), ("after", When::After)]);

/// A word for what survives; or one image exactly, as an exploration writes it: `"image 17"`, `"draw 17"`.
const KEEP: Plain<Keep> = Plain(
    |v| {
        let text = v.as_string().unwrap_or_default();
        let number = |word: &str| text.strip_prefix(word)?.trim().parse().ok();
        let exact = number("image ").map(Keep::Image).or_else(|| number("draw ").map(Keep::Draw));
        match (text, exact) {
            (_, Some(exact)) => Ok(exact),
            ("some", _) => Ok(Keep::Drawn),
            ("nothing", _) => Ok(Keep::Nothing),
            ("all", _) => Ok(Keep::Everything),
            ("names", _) => Ok(Keep::Names),
            ("data", _) => Ok(Keep::Data),
            _ => {
                let words = one_of(vec!["some", "nothing", "all", "names", "data"]);
                let wanted = format!(r#"{}, or "image 5" or "draw 5" in quotes"#, words.wanted);
                Err(Bad { wanted, ..words })
            }
        }
    },
    |keep| match keep {
        Keep::Drawn => "some".to_owned(),
        Keep::Nothing => "nothing".to_owned(),
        Keep::Everything => "all".to_owned(),
        Keep::Names => "names".to_owned(),
        Keep::Data => "data".to_owned(),
        Keep::Image(number) => quoted(&format!("image {number}")),
        Keep::Draw(seed) => quoted(&format!("draw {seed}")),
    },
);

/// So many, or `all`.
const TIMES: Plain<Option<u32>> = Plain(
    |v| match v.as_string() {
        Some("all") => Ok(None),
        _ => COUNT.read(v).map(Some).map_err(|_| Bad {
            wanted: "a whole number, 1 or more, or all".to_owned(),
            options: vec!["all"],
        }),
    },
    |times| times.map_or_else(|| "all".to_owned(), |n| n.to_string()),
);

/// `keep=`
pub fn keep(f: &mut impl Fields, slot: &mut Keep) {
    f.or("keep", &KEEP, slot, Keep::Drawn);
}

/// `fault OP "PATTERN" nth= … KIND`
pub fn fault(f: &mut impl Fields, fault: &mut Fault) {
    f.arg("an operation", &OP, &mut fault.op);
    f.arg("a pattern", &TEXT, &mut fault.pattern);
    aim(f, &mut fault.aim);
    kind(f, &mut fault.kind);
    f.opt("into", &TEXT, &mut fault.into);
    if fault.into.is_some() && !matches!(fault.kind, FaultKind::Misdirect { .. }) {
        f.wrong("`into=` belongs to `misdirect=`".to_owned(), "add `misdirect=0`, or remove `into=`");
    }
    if let Some(into) = fault.into.as_deref().filter(|into| into.contains('*')) {
        f.wrong(
            format!("a write lands in one file, and `{into}` is a pattern"),
            "name one, as in `into=\"orders/1/@last.log\"`",
        );
    }
    f.flag("may-miss", &mut fault.may_miss);
}

fn aim(f: &mut impl Fields, aim: &mut Aim) {
    f.or("nth", &COUNT, &mut aim.nth, 1);
    f.or("times", &TIMES, &mut aim.times, Some(1));
    f.opt("rate", &RATE, &mut aim.rate);
    f.opt("at-byte", &NUMBER, &mut aim.at_byte);
    f.opt("after", &DURATION, &mut aim.after);
    f.opt("during", &PHASE, &mut aim.during);
}

/// The names of kinds; a fault has exactly one.
const KINDS: [&str; 15] = [
    "error",
    "tear",
    "short",
    "full",
    "lost",
    "torn",
    "misdirect",
    "flip",
    "unreadable",
    "drop",
    "writeback-error",
    "read-only",
    "stall",
    "crash",
    "power-loss",
];

/// Each kind has a slot of its own, of which one is filled.
#[derive(Default)]
struct Slots {
    error: Option<Errno>,
    when: When,
    tear: Option<u64>,
    short: Option<u64>,
    full: Option<Option<u64>>,
    lost: bool,
    torn: Option<u64>,
    misdirect: Option<u64>,
    flip: Option<u64>,
    unreadable: Option<u64>,
    drop: bool,
    writeback_error: bool,
    read_only: bool,
    stall: Option<std::time::Duration>,
    crash: Option<Option<u64>>,
    power_loss: Option<Option<u64>>,
    keep: Keep,
}

fn kind(f: &mut impl Fields, kind: &mut FaultKind) {
    let mut slots = spread(*kind);
    f.opt("error", &ERRNO, &mut slots.error);
    f.or("when", &WHEN, &mut slots.when, When::Before);
    f.opt("tear", &NUMBER, &mut slots.tear);
    f.opt("short", &NUMBER, &mut slots.short);
    f.flag_or("full", &NUMBER, &mut slots.full);
    f.flag("lost", &mut slots.lost);
    f.opt("torn", &NUMBER, &mut slots.torn);
    f.opt("misdirect", &NUMBER, &mut slots.misdirect);
    f.opt("flip", &NUMBER, &mut slots.flip);
    f.opt("unreadable", &NUMBER, &mut slots.unreadable);
    f.flag("drop", &mut slots.drop);
    f.flag("writeback-error", &mut slots.writeback_error);
    f.flag("read-only", &mut slots.read_only);
    f.opt("stall", &DURATION, &mut slots.stall);
    f.flag_or("crash", &NUMBER, &mut slots.crash);
    f.flag_or("power-loss", &NUMBER, &mut slots.power_loss);
    keep(f, &mut slots.keep);
    f.count_of(&KINDS, 1, 1);
    if slots.when != When::Before && slots.error.is_none() {
        f.wrong("`when=` belongs to `error=`".to_owned(), "add `error=EIO`, or remove `when=`");
    }
    if slots.keep != Keep::Drawn && slots.power_loss.is_none() {
        f.wrong("`keep=` belongs to `power-loss`".to_owned(), "add `power-loss`, or remove `keep=`");
    }
    *kind = gather(&slots);
}

fn spread(kind: FaultKind) -> Slots {
    let mut slots = Slots::default();
    match kind {
        FaultKind::Error { errno, when } => (slots.error, slots.when) = (Some(errno), when),
        FaultKind::Tear { bytes } => slots.tear = Some(bytes),
        FaultKind::Short { bytes } => slots.short = Some(bytes),
        FaultKind::Full { bytes: 0 } => slots.full = Some(None),
        FaultKind::Full { bytes } => slots.full = Some(Some(bytes)),
        FaultKind::Lost => slots.lost = true,
        FaultKind::Torn { bytes } => slots.torn = Some(bytes),
        FaultKind::Misdirect { at } => slots.misdirect = Some(at),
        FaultKind::Flip { bit } => slots.flip = Some(bit),
        FaultKind::Unreadable { byte } => slots.unreadable = Some(byte),
        FaultKind::Drop => slots.drop = true,
        FaultKind::WritebackError => slots.writeback_error = true,
        FaultKind::ReadOnly => slots.read_only = true,
        FaultKind::Stall { lasts } => slots.stall = Some(lasts),
        FaultKind::Crash { bytes } => slots.crash = Some(bytes),
        FaultKind::PowerLoss { bytes, keep } => (slots.power_loss, slots.keep) = (Some(bytes), keep),
    }
    slots
}

fn gather(slots: &Slots) -> FaultKind {
    match slots {
        Slots { tear: Some(bytes), .. } => FaultKind::Tear { bytes: *bytes },
        Slots { short: Some(bytes), .. } => FaultKind::Short { bytes: *bytes },
        Slots { full: Some(bytes), .. } => FaultKind::Full { bytes: bytes.unwrap_or(0) },
        Slots { lost: true, .. } => FaultKind::Lost,
        Slots { torn: Some(bytes), .. } => FaultKind::Torn { bytes: *bytes },
        Slots { misdirect: Some(at), .. } => FaultKind::Misdirect { at: *at },
        Slots { flip: Some(bit), .. } => FaultKind::Flip { bit: *bit },
        Slots { unreadable: Some(byte), .. } => FaultKind::Unreadable { byte: *byte },
        Slots { drop: true, .. } => FaultKind::Drop,
        Slots { writeback_error: true, .. } => FaultKind::WritebackError,
        Slots { read_only: true, .. } => FaultKind::ReadOnly,
        Slots { stall: Some(lasts), .. } => FaultKind::Stall { lasts: *lasts },
        Slots { crash: Some(bytes), .. } => FaultKind::Crash { bytes: *bytes },
        Slots { power_loss: Some(bytes), keep, .. } => FaultKind::PowerLoss { bytes: *bytes, keep: *keep },
        Slots { error, when, .. } => FaultKind::Error { errno: error.unwrap_or(Errno::EIO), when: *when },
    }
}

/// A fault with nothing filled in; only a reader sees it.
pub fn blank() -> Fault {
    Fault {
        op: Op::Any,
        pattern: String::new(),
        aim: Aim::default(),
        kind: FaultKind::Error { errno: Errno::EIO, when: When::Before },
        into: None,
        may_miss: false,
    }
}
