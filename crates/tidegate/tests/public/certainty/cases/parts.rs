//! Cases of an object in parts.

use tidegate::ErrorKind::{AlreadyExists, PermissionDenied, SessionLost, Throttled, Timeout, Unavailable};
use tidegate_dev::{FaultAction, FaultRule};

use super::{Case, Publishing, There, Way, question, unreachable};

pub(super) fn all() -> Vec<Case> {
    use There::{Another, Nothing};
    let it = Publishing("CompleteMultipartUpload");
    let case = |what, faults| Case::new(Way::Parts, what, faults);
    let in_200 = |code: &str| it.does(FaultAction::ErrorIn200 { code: code.into() });
    vec![
        case("200 with an error in its body, once", vec![in_200("InternalError").times(1)])
            .committed("complete x2, head"),
        case("200 with an error in its body, every time", vec![in_200("InternalError")]).not_committed(
            Unavailable,
            "complete x3, head, abort, head",
            Nothing,
        ),
        case("200 with a final error in its body", vec![in_200("AccessDenied")]).not_committed(
            PermissionDenied,
            "complete, abort",
            Nothing,
        ),
        case(
            "200 with an error in its body, though it was carried out",
            vec![it.denies(200, "InternalError").times(1)],
        )
        .committed("complete x2, head"),
        case("500, though it was carried out", vec![it.denies(500, "InternalError").times(1)])
            .committed("complete x2, head"),
        case("503 of something on the way, though it was carried out", vec![it.denies(503, "").times(1)])
            .committed("complete x2, head"),
        case("SlowDown, every time", vec![FaultRule::error(it.0, 503, "SlowDown")]).not_committed(
            Throttled,
            "complete x3, abort",
            Nothing,
        ),
        case("cut before it was carried out, once", vec![it.cut().times(1)]).committed("complete x2, head"),
        case("cut before it was carried out, every time", vec![it.cut()]).not_committed(
            Unavailable,
            "complete x3, head, abort, head",
            Nothing,
        ),
        case("cut after it was carried out", vec![it.loses().times(1)]).committed("complete x2, head"),
        case("cut after it was carried out", vec![it.loses().times(1)])
            .create_only()
            .committed("complete x2, head"),
        case("cut after the first byte of the answer", vec![it.does(FaultAction::CutHead).times(1)])
            .committed("complete x2, head"),
        case(
            "cut after the first byte of the answer's body",
            vec![it.does(FaultAction::ResetResponse { after_bytes: 1 }).times(1)],
        )
        .committed("complete x2, head"),
        case("no answer, not carried out, once", vec![it.hangs().times(1)])
            .hangs()
            .committed("complete x2, head"),
        case("no answer, not carried out, every time", vec![it.hangs()]).hangs().not_committed(
            Timeout,
            "complete x2, head, abort, head",
            Nothing,
        ),
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
            "cut before it was carried out, then somebody aborts the session",
            vec![it.cut().times(1), it.does(FaultAction::AbortSessions).skip(1)],
        )
        .uncertain("complete x2, head, abort, head", Nothing),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses().times(1), question(FaultAction::Replace).times(1)],
        )
        .uncertain("complete x2, head, abort, head", Another),
        case(
            "cut after it was carried out, replaced before our question",
            vec![it.loses().times(1), question(FaultAction::Replace).times(1)],
        )
        .create_only()
        .uncertain("complete x2, head, abort, head", Another),
        case(
            "cut after it was carried out, replaced before the second attempt, which is answered 412",
            vec![
                it.loses().times(1),
                it.does(FaultAction::Replace).skip(1),
                FaultRule::error(it.0, 412, "PreconditionFailed").skip(1),
            ],
        )
        .create_only()
        .uncertain("complete x2, head, abort, head", Another),
        case(
            "cut after it was carried out, removed before our question",
            vec![it.loses().times(1), question(FaultAction::Remove).times(1)],
        )
        .uncertain("complete x2, head, abort, head", Nothing),
        case(
            "cut before it was carried out, every time; another writes before our question",
            vec![it.cut(), question(FaultAction::Replace).times(1)],
        )
        .not_committed(Unavailable, "complete x3, head, abort, head, abort", Another),
        case(
            "cut before it was carried out, another creates before the second attempt",
            vec![it.cut().times(1), it.does(FaultAction::Replace).skip(1)],
        )
        .create_only()
        .not_committed(AlreadyExists, "complete x2, head, abort, head, abort", Another),
        case("another has created it", vec![it.does(FaultAction::Replace)]).create_only().not_committed(
            AlreadyExists,
            "complete, abort",
            Another,
        ),
        case(
            "cut after it was carried out, unreachable when asked",
            vec![it.loses().times(1), unreachable()],
        )
        .uncertain("complete x2, head x3, abort", There::Ours),
        case(
            "cut before it was carried out, every time; unreachable when asked",
            vec![it.cut(), unreachable()],
        )
        .uncertain("complete x3, head x3, abort", Nothing),
        case(
            "cut after it was carried out, the question denied",
            vec![it.loses().times(1), FaultRule::error("HeadObject", 403, "AccessDenied")],
        )
        .uncertain("complete x2, head, abort", There::Ours),
        Case {
            sessions: 1,
            ..case(
                "cut before it was carried out, every time; the abort denied",
                vec![it.cut(), FaultRule::error("AbortMultipartUpload", 403, "AccessDenied")],
            )
            .uncertain("complete x3, head, abort x2", Nothing)
        },
    ]
}
