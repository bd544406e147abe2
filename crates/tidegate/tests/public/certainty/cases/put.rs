//! Cases of an object in one request.

use tidegate::ErrorKind::{AlreadyExists, Throttled, Unavailable};
use tidegate_dev::{FaultAction, FaultRule};

use super::{Case, Publishing, There, Way, question, unreachable};

pub(super) fn all() -> Vec<Case> {
    use There::{Another, Nothing};
    let it = Publishing("PutObject");
    let case = |what, faults| Case::new(Way::Put, what, faults);
    let failing = || FaultRule::error(it.0, 500, "InternalError");
    vec![
        case("500, once", vec![failing().times(1)]).committed("put x2"),
        case("500, every time", vec![failing()]).not_committed(Unavailable, "put x3, head", Nothing),
        case("500, every time, though it was carried out", vec![it.denies(500, "InternalError")])
            .committed("put x3, head"),
        case("503 of something on the way, every time, though it was carried out", vec![it.denies(503, "")])
            .committed("put x3, head"),
        case("503 of something on the way, though it was carried out", vec![it.denies(503, "").times(1)])
            .create_only()
            .committed("put x2, head"),
        case("SlowDown, every time", vec![FaultRule::error(it.0, 503, "SlowDown")])
            .not_committed(Throttled, "put x3", Nothing),
        case("cut before it was carried out, once", vec![it.cut().times(1)]).committed("put x2"),
        case("cut before it was carried out, every time", vec![it.cut()]).uncertain("put x3, head", Nothing),
        case("cut after it was carried out, once", vec![it.loses().times(1)]).committed("put x2"),
        case("cut after it was carried out, once", vec![it.loses().times(1)])
            .create_only()
            .committed("put x2, head"),
        case("cut after it was carried out, every time", vec![it.loses()]).committed("put x3, head"),
        case("cut after the first byte of the answer", vec![it.does(FaultAction::CutHead).times(1)])
            .committed("put x2"),
        case("cut after the first byte of the answer", vec![it.does(FaultAction::CutHead).times(1)])
            .create_only()
            .committed("put x2, head"),
        case("no answer, not carried out, once", vec![it.hangs().times(1)]).hangs().committed("put x2"),
        case("no answer, not carried out, every time", vec![it.hangs()])
            .hangs()
            .uncertain("put x2, head", Nothing),
        case("no answer, carried out, every time", vec![it.does(FaultAction::HoldAnswer)])
            .hangs()
            .committed("put x2, head"),
        case("another has created it", vec![it.does(FaultAction::Replace)]).create_only().not_committed(
            AlreadyExists,
            "put",
            Another,
        ),
        case(
            "cut before it was carried out, another creates before the second attempt",
            vec![it.cut().times(1), it.does(FaultAction::Replace).skip(1)],
        )
        .create_only()
        .uncertain("put x2, head", Another),
        case(
            "cut after it was carried out, replaced before the second attempt",
            vec![it.loses().times(1), it.does(FaultAction::Replace).skip(1)],
        )
        .create_only()
        .uncertain("put x2, head", Another),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses(), question(FaultAction::Replace).times(1)],
        )
        .uncertain("put x3, head", Another),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses().times(1), question(FaultAction::Replace).times(1)],
        )
        .create_only()
        .uncertain("put x2, head", Another),
        case("cut after it was carried out, unreachable when asked", vec![it.loses(), unreachable()])
            .uncertain("put x3, head x3", There::Ours),
        case(
            "cut after it was carried out, unreachable when asked",
            vec![it.loses().times(1), unreachable()],
        )
        .create_only()
        .uncertain("put x2, head x3", There::Ours),
    ]
}
