//! Cases on Google Cloud Storage: an object in one request, in parts, and in chunks, the last of which publishes it.

use tidegate::ErrorKind::{AlreadyExists, SessionLost, Throttled, Timeout, Unavailable};
use tidegate_dev::{FaultAction, FaultRule};

use super::{Case, Publishing, There, Way};

pub(super) fn all() -> Vec<Case> {
    let mut all = puts(Way::GooglePut);
    all.extend(parts());
    all.extend(chunks(Way::GoogleChunks));
    all.extend(puts(Way::GrpcPut));
    all.extend(chunks(Way::GrpcChunks));
    all
}

fn question(way: Way, action: FaultAction) -> FaultRule {
    FaultRule::new(if way.is_grpc() { "storage.v2.GetObject" } else { "storage.objects.get" }, action)
}

fn puts(way: Way) -> Vec<Case> {
    use There::{Another, Nothing};
    let it = Publishing(if way.is_grpc() { "storage.v2.WriteObject" } else { "storage.objects.insert" });
    let case = |what, faults| Case::new(way, what, faults);
    vec![
        case("503, every time", vec![FaultRule::error(it.0, 503, "backendError")])
            .not_committed(Throttled, "put x3", Nothing),
        case("500, every time, though it was carried out", vec![it.denies(500, "backendError")])
            .committed("put x3, head"),
        case("cut before it was carried out, every time", vec![it.cut()]).uncertain("put x3, head", Nothing),
        case("cut after it was carried out, once", vec![it.loses().times(1)]).committed("put x2"),
        case("cut after it was carried out, once", vec![it.loses().times(1)])
            .create_only()
            .committed("put x2, head"),
        case("cut after it was carried out, every time", vec![it.loses()]).committed("put x3, head"),
        case("no answer, carried out, every time", vec![it.does(FaultAction::HoldAnswer)])
            .hangs()
            .committed("put x2, head"),
        case("another has created it", vec![it.does(FaultAction::Replace)]).create_only().not_committed(
            AlreadyExists,
            "put",
            Another,
        ),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses(), question(way, FaultAction::Replace).times(1)],
        )
        .uncertain("put x3, head", Another),
    ]
}

fn parts() -> Vec<Case> {
    use There::{Another, Nothing};
    let it = Publishing("CompleteMultipartUpload");
    let case = |what, faults| Case::new(Way::GoogleParts, what, faults);
    let in_200 = |code: &str| it.does(FaultAction::ErrorIn200 { code: code.into() });
    vec![
        case("200 with an error in its body, once", vec![in_200("InternalError").times(1)])
            .committed("complete x2, head"),
        case("500, though it was carried out", vec![it.denies(500, "InternalError").times(1)])
            .committed("complete x2, head"),
        case("cut before it was carried out, every time", vec![it.cut()]).not_committed(
            Unavailable,
            "complete x3, head, abort, head",
            Nothing,
        ),
        case("cut after it was carried out", vec![it.loses().times(1)]).committed("complete x2, head"),
        case("no answer, carried out", vec![it.does(FaultAction::HoldAnswer)])
            .hangs()
            .committed("complete x2, head"),
        case(
            "something on the way asks twice: NoSuchUpload to the first attempt",
            vec![it.denies(404, "NoSuchUpload").times(1)],
        )
        .committed("complete, head"),
        case("somebody aborts the session before", vec![it.does(FaultAction::AbortSessions)]).not_committed(
            SessionLost,
            "complete, head, abort",
            Nothing,
        ),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses().times(1), question(Way::GoogleParts, FaultAction::Replace).times(1)],
        )
        .uncertain("complete x2, head, abort, head", Another),
    ]
}

fn chunks(way: Way) -> Vec<Case> {
    use There::{Another, Nothing, Ours};
    let (append, query) = match way.is_grpc() {
        true => ("storage.v2.WriteObject", "storage.v2.QueryWriteStatus"),
        false => ("storage.resumable.append", "storage.resumable.query"),
    };
    let it = Publishing(append);
    // The faults skip the first of the two chunks.
    let case = |what, faults: Vec<FaultRule>| {
        let last = |fault: FaultRule| {
            if fault.operation == it.0 { FaultRule { skip: fault.skip + 1, ..fault } } else { fault }
        };
        Case::new(way, what, faults.into_iter().map(last).collect())
    };
    let asked = |action| FaultRule::new(query, action);
    let unreachable = FaultAction::ResetRequest { after_bytes: 0 };
    vec![
        case("503, once", vec![FaultRule::error(it.0, 503, "backendError").times(1)])
            .committed("append, query, append"),
        case("500, though it was carried out", vec![it.denies(500, "backendError").times(1)])
            .committed("append, query"),
        case("503 of something on the way, though it was carried out", vec![it.denies(503, "").times(1)])
            .committed("append, query"),
        case("cut before it was carried out, once", vec![it.cut().times(1)])
            .committed("append, query, append"),
        case("cut before it was carried out, every time", vec![it.cut()]).not_committed(
            Unavailable,
            "append, query, append, query, append, head, cancel, head",
            Nothing,
        ),
        case("cut after it was carried out", vec![it.loses().times(1)]).committed("append, query"),
        case("cut after it was carried out", vec![it.loses().times(1)])
            .create_only()
            .committed("append, query"),
        case(
            "cut after the first byte of the answer's body",
            vec![it.does(FaultAction::ResetResponse { after_bytes: 1 }).times(1)],
        )
        .committed("append, query"),
        case("no answer, not carried out, every time", vec![it.hangs()]).hangs().not_committed(
            Timeout,
            "append, query, append, head, cancel, head",
            Nothing,
        ),
        case("no answer, carried out", vec![it.does(FaultAction::HoldAnswer)])
            .hangs()
            .committed("append, query"),
        case(
            "cut after it was carried out, the session not to be asked",
            vec![it.loses().times(1), asked(unreachable.clone())],
        )
        .committed("append, query x2, head"),
        case(
            "cut before it was carried out, every time; the session not to be asked",
            vec![it.cut(), asked(unreachable)],
        )
        .not_committed(Unavailable, "append, query x2, head, cancel, head", Nothing),
        case(
            "something on the way asks twice: 410 to the first attempt",
            vec![it.denies(410, "gone").times(1)],
        )
        .committed("append, head"),
        case(
            "cut after it was carried out, replaced before the session is asked",
            vec![it.loses().times(1), asked(FaultAction::Replace).times(1)],
        )
        .committed_and_replaced("append, query"),
        case("another has created it", vec![it.does(FaultAction::Replace)]).create_only().not_committed(
            AlreadyExists,
            "append, cancel",
            Another,
        ),
        case(
            "cut after it was carried out, the session and the object not to be asked",
            vec![
                it.loses().times(1),
                asked(FaultAction::ResetRequest { after_bytes: 0 }),
                question(way, FaultAction::ResetRequest { after_bytes: 0 }),
            ],
        )
        .uncertain("append, query x2, head x3, cancel, query", Ours),
    ]
}
