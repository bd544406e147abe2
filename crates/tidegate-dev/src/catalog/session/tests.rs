use super::*;

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add_bucket("bucket", crate::catalog::Protocol::S3).unwrap();
    catalog
}

fn session(number: usize, started: Moment) -> ResumableSession {
    ResumableSession {
        id: format!("{number:08}"),
        bucket: "bucket".to_owned(),
        key: "k".to_owned(),
        started,
        attributes: CatalogAttributes::default(),
        generations: Generations::default(),
        expected: Expected::default(),
        state: SessionState::Open,
        pieces: Vec::new(),
        md5: None,
        writer: 0,
    }
}

#[test]
fn a_session_lasts_a_week() {
    let mut catalog = catalog();
    let day = Duration::from_secs(24 * 60 * 60);
    catalog.create_session(session(1, Moment::before(day * 8))).unwrap();
    catalog.create_session(session(2, Moment::before(day * 6))).unwrap();
    assert!(matches!(catalog.session("00000001"), Err(SessionFault::Unknown)));
    assert!(matches!(catalog.claim_session("00000001"), Err(SessionFault::Unknown)));
    assert!(matches!(catalog.cancel_session("00000001"), Err(SessionFault::Unknown)));
    catalog.claim_session("00000002").unwrap();
}

#[test]
fn the_latest_of_ended_sessions_are_remembered_and_open_ones_all() {
    let mut catalog = catalog();
    catalog.create_session(session(0, Moment::now())).unwrap();
    for number in 1..REMEMBERED + 3 * LOOKED_OVER {
        catalog.create_session(session(number, Moment::now())).unwrap();
        catalog.cancel_session(&format!("{number:08}")).unwrap();
    }
    assert!(catalog.sessions.len() <= REMEMBERED + LOOKED_OVER + 1, "{}", catalog.sessions.len());
    assert!(matches!(catalog.session("00000001"), Err(SessionFault::Unknown)));
    catalog.claim_session("00000000").unwrap();
    let last = format!("{:08}", REMEMBERED + 3 * LOOKED_OVER - 1);
    assert!(matches!(catalog.claim_session(&last), Err(SessionFault::Cancelled)));
}

#[test]
fn the_latest_claim_is_the_one_that_counts() {
    let mut catalog = catalog();
    catalog.create_session(session(1, Moment::now())).unwrap();
    let first = catalog.claim_session("00000001").unwrap().writer;
    let second = catalog.claim_session("00000001").unwrap().writer;
    let append = |catalog: &mut Catalog, writer| {
        catalog.append_to_session("00000001", writer, StoredPiece::Void(GRAIN), 7, None)
    };
    assert!(matches!(append(&mut catalog, first), Err(SessionFault::Superseded)));
    append(&mut catalog, second).unwrap();
    assert_eq!(catalog.session("00000001").unwrap().persisted(), GRAIN);
}
